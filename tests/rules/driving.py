"""Folds one rule over calls and outcomes: no store, no clock, no guard."""

from __future__ import annotations

from msgspec.structs import replace

from lastcall import Call, Outcome, Stop, ToolPolicy, Where
from lastcall.contracts import Halt
from lastcall.fingerprint import raw
from lastcall.tool import PLAIN

HERE = Where(run="run", turn="turn")
NOW = 1_700_000_000.0

OK = Outcome(content="ok")
PAUSED = Outcome("paused")
CANCELLED = Outcome("cancelled", "CancelledError")
LOST = Outcome("lost")


def call(tool="look", args=None, /, where=HERE, policy=PLAIN, **fields):
    return Call(tool, args, where, policy=policy, **fields)


def ok(content="ok"):
    return Outcome(content=content)


def failed(error="boom", status=None, grade=None, retry_after=None):
    return Outcome("error", error, status, grade, error, retry_after)


def final(status=422, error="no such field"):
    return failed(error, status, "final")


def passing(status=503, error="busy", retry_after=None):
    return failed(error, status, "passing", retry_after)


def digest(content):
    """What the rules know a plain result by."""
    return raw(content)


def tool(**settings):
    return ToolPolicy(**settings)


class Drive:
    """One rule and its records. Places calls in their turn by the plain meaning of the fields."""

    def __init__(self, rule):
        self.rule = rule
        self.records = {}
        self.granted = []

    def placed(self, asked):
        calls = [each for each in self.granted if each.where.turn == asked.where.turn]
        writes = [
            order
            for order, each in enumerate(calls, 1)
            if not each.policy.reads and each.fingerprint != asked.fingerprint
        ]
        return replace(
            asked,
            order=len(calls) + 1,
            last_write=writes[-1] if writes else 0,
            last_reply=calls[-1].reply if calls else None,
        )

    def ask(self, asked):
        """The placed call when it may be made, else the stop."""
        rule = self.rule
        asked = self.placed(asked)
        key = rule.key(asked) if asked.kind in rule.kinds else None
        if key is not None and (key in self.records or not rule.quiet):
            said = rule.before(self.records.get(key, rule.start()), asked, NOW)
            if isinstance(said, Stop):
                self.refuse(asked, said)
                return said
            self.records[key] = said
        if asked.kind == "tool":
            self.granted.append(asked)
        return asked

    def settle(self, placed, outcome):
        """The stop that the answer is; None when it is none."""
        return self._told(placed, lambda state: self.rule.after(state, placed, outcome, NOW))

    def refuse(self, asked, stop):
        """Somebody refused *asked*; the stop that this leads to."""
        return self._told(asked, lambda state: self.rule.refused(state, asked, stop, NOW))

    def play(self, asked, outcome=OK):
        """The stop that a whole call meets, before it or as its answer; None when it meets none."""
        said = self.ask(asked)
        return said if isinstance(said, Stop) else self.settle(said, outcome)

    def stops(self, steps):
        """The indices of the calls that a stop met."""
        return [index for index, (asked, outcome) in enumerate(steps) if self.play(asked, outcome)]

    def _told(self, asked, say):
        key = self.rule.key(asked) if asked.kind in self.rule.kinds else None
        if key is None:
            return None
        said = say(self.records.get(key, self.rule.start()))
        stop = None
        if isinstance(said, Halt):
            said, stop = said.state, said.stop
        self.records[key] = said
        return stop


class Count:
    """A tally and its counters."""

    def __init__(self, tally):
        self.tally = tally
        self.counters = {}

    def play(self, asked):
        claims = self.tally.takes(asked)
        for claim in claims:
            held = self.counters.get(claim.key, 0)
            if claim.limit is not None and held + claim.amount > claim.limit:
                return self.tally.stop(asked, claim, held + claim.amount, NOW)
        for claim in claims:
            self.counters[claim.key] = self.counters.get(claim.key, 0) + claim.amount
        return None
