"""Folds one rule over calls and outcomes: no store, no clock, no guard, no loop."""

from __future__ import annotations

from msgspec.structs import replace

from lastcall import Call, Outcome, Stop, ToolPolicy, Where
from lastcall.contracts import Halt, Noted
from lastcall.past import NOTHING
from lastcall.stores.tallies import claimed, released
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
    return Outcome(content=content).digest


def tool(**settings):
    return ToolPolicy(**settings)


class Drive:
    """One rule and its records. Places calls in their turn by the plain meaning of the fields."""

    def __init__(self, rule, now=NOW):
        self.rule = rule
        self.now = now
        self.notices = []
        self.records = {}
        self.granted = []
        self.pasts = {}

    def key(self, asked):
        """The name of the record for a call; None when the rule has no business with it."""
        part = self.rule.record(asked.policy) if asked.kind in self.rule.kinds else None
        where = asked.where
        turn = (where.run, where.turn)
        if part == "shared":
            return self.rule.shared(asked)
        return {
            None: None,
            "none": (),
            "turn": turn,
            "agent": (*turn, where.agent),
            "tool": (*turn, asked.name),
            "call": (*turn, asked.fingerprint),
            "thread": (where.thread or where.run, asked.fingerprint),
        }[part]

    def state(self, key):
        return self.records.get(key, self.rule.start())

    def placed(self, asked):
        turn = (asked.where.run, asked.where.turn)
        calls = [each for each in self.granted if (each.where.run, each.where.turn) == turn]
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
            past=self.pasts.get(turn, NOTHING),
        )

    def ask(self, asked):
        """The placed call when it may be made, else the stop."""
        rule, asked = self.rule, self.placed(asked)
        key = self.key(asked)
        silent = rule.quiet and asked.kind == "tool" and key not in self.records
        if key is not None and not silent:
            said = rule.before(self.state(key), asked, self.now)
            if isinstance(said, Stop):
                self.refuse(asked, said)
                return said
            self._write(key, said)
        if asked.kind == "tool":
            self.granted.append(asked)
            self.pasts[asked.where.run, asked.where.turn] = asked.past.taken(asked)
        return asked

    def settle(self, placed, outcome):
        """The stop that the answer is; None when it is none."""
        if placed.kind == "tool":
            turn = (placed.where.run, placed.where.turn)
            self.pasts[turn] = self.pasts[turn].settled(placed, outcome)
        key = self.key(placed)
        well = outcome.kind == "ok" and outcome.grade is None
        if key is None or (self.rule.quiet and well and key not in self.records):
            return None
        return self._write(key, self.rule.after(self.state(key), placed, outcome, self.now))

    def refuse(self, asked, stop):
        """Somebody refused *asked*; the stop that this leads to."""
        key = self.key(asked)
        if key is None:
            return None
        return self._write(key, self.rule.refused(self.state(key), asked, stop, self.now))

    def ended(self, asked, stop):
        """*stop* of *asked* ended what was running."""
        key = self.key(asked)
        self._write(key, self.rule.ended(self.state(key), asked, stop, self.now))

    def play(self, asked, outcome=OK):
        """The stop that a whole call meets, before it or as its answer; None when it meets none."""
        said = self.ask(asked)
        return said if isinstance(said, Stop) else self.settle(said, outcome)

    def stops(self, steps):
        """The indices of the calls that a stop met."""
        return [index for index, (asked, outcome) in enumerate(steps) if self.play(asked, outcome)]

    def _write(self, key, said):
        stop = None
        if isinstance(said, Halt):
            said, stop = said.state, said.stop
        if isinstance(said, Noted):
            self.notices.append(said.notice)
            said = said.state
        if said is None:
            self.records.pop(key, None)
        else:
            self.records[key] = said
        return stop


class Count:
    """A tally and its counters, by the reference of stores."""

    def __init__(self, tally, now=NOW):
        self.tally = tally
        self.now = now
        self.held = {}

    @property
    def counters(self):
        return {key: held[1] for key, held in self.held.items()}

    def play(self, asked):
        """The stop that a call meets; None when all that it takes is granted."""
        claims = self.tally.takes(asked)
        answer, writes = claimed(claims, self.held.get, self.now)
        self.held |= dict(writes)
        if answer.refused is None:
            return None
        claim, counted = claims[answer.refused], answer.observed[answer.refused]
        return self.tally.stop(asked, claim, counted + 1, self.now)

    def settle(self, asked, outcome=OK, taken_at=NOW):
        """A call is over."""
        releases = self.tally.settle(asked, outcome, taken_at)
        self.held |= dict(released(releases, self.held.get, self.now))
