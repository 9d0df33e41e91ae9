"""Whose the calls of saved runs are: which fingerprint owns most calls, failures, time and money
(requirement H3)."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from itertools import chain, islice
from typing import Any, Literal

from msgspec import Struct

from lastcall.call import Call
from lastcall.expectation import cut
from lastcall.policy import Policy
from lastcall.prices import UnknownPriceError, of_tool, price_of
from lastcall.recalled import call_of, outcome_of
from lastcall.redaction import Redactor
from lastcall.replay import Replayed, in_replies
from lastcall.timeline import shown, told
from lastcall.transcripts.recorded import RecordedCall, RecordedReply, Transcript

By = Literal["calls", "failures", "cost", "time"]
"""By what owners are ordered."""

TEXT = 200
"""Characters of a call that are kept as its example."""


class Owner(Struct):
    """What one fingerprint owns."""

    fingerprint: str
    loose: str
    """Its loose fingerprint; its own where it is one."""
    call: str
    """Its first call, without secrets."""
    calls: int = 0
    failures: int = 0
    runs: int = 0
    variants: int = 1
    """How many exact fingerprints there are in a loose one."""
    seconds: float | None = None
    """From its calls to the next one of the turn, the model's time included; None: not told."""
    cost: Decimal | None = None
    """What the tool costs by the policy, and its part of what asking for it cost; None: not told."""

    def worth(self, by: By) -> Any:
        """What it is ordered by."""
        found = {
            "calls": self.calls,
            "failures": self.failures,
            "cost": self.cost,
            "time": self.seconds,
        }[by]
        return -1 if found is None else found


class Blocked(Struct):
    """A fingerprint that the guard would have refused first, in so many runs."""

    fingerprint: str
    call: str
    reason: str
    runs: int
    earliest: int
    """The number of the call at which it came first, counted from 1."""


class Ledger:
    """Counts calls by fingerprint; memory grows with the number of fingerprints, not of calls."""

    def __init__(self, policy: Policy, redactor: Redactor | None = None) -> None:
        self.runs = self.calls = self.failures = 0
        self._policy = policy
        self._redactor = Redactor.of_environment() if redactor is None else redactor
        self._owners: dict[str, Owner] = {}
        self._loose: dict[str, Owner] = {}
        self._blocked: dict[tuple[str, str], Blocked] = {}

    def add(self, transcript: Transcript, done: Replayed) -> None:
        """Count one run, of which a replay came to *done*."""
        self.runs += 1
        seen: set[int] = set()
        end, ended = cut(done), None
        costs = {one.reply: asked(one, self._policy) for one in transcript.replies}
        following = chain(islice(transcript.calls, 1, None), (None,))
        sized = in_replies(transcript.calls)
        for index, ((recorded, size), next_one) in enumerate(zip(sized, following, strict=False)):
            asking = costs.get(recorded.reply)
            call = self._count(recorded, next_one, seen, None if asking is None else asking / size)
            if end is not None and index == end.index:
                ended = call
        if end is None or ended is None:
            return
        call = ended
        key = (call.fingerprint, end.reason)
        known = self._blocked.get(key)
        if known is None:
            text = self._owners[call.fingerprint].call
            self._blocked[key] = Blocked(call.fingerprint, text, end.reason, 1, end.index + 1)
        else:
            known.runs += 1
            known.earliest = min(known.earliest, end.index + 1)

    def exact(self, by: By = "calls", top: int | None = None) -> list[Owner]:
        """The owners by exact fingerprint, the greatest first; the *top* first of them."""
        return ordered(self._owners.values(), by)[:top]

    def loose(self, by: By = "calls", top: int | None = None) -> list[Owner]:
        """The same by loose fingerprint: calls that differ in form alone are one."""
        return ordered(self._loose.values(), by)[:top]

    def blocked(self, top: int | None = None) -> list[Blocked]:
        """What the guard would have refused first, in most runs first."""
        found = sorted(self._blocked.values(), key=lambda each: (-each.runs, each.earliest))
        return found[:top]

    def _count(
        self,
        recorded: RecordedCall,
        next_one: RecordedCall | None,
        seen: set[int],
        asking: Decimal | None,
    ) -> Call:
        call = call_of(recorded, self._policy)
        outcome = outcome_of(recorded, call, self._policy)
        failed = outcome.kind == "error" or recorded.malformed
        seconds = spent(recorded, next_one)
        own = None if call.policy.cost is None else of_tool(call.policy.cost, outcome)
        cost = added(own, asking)
        self.calls += 1
        self.failures += failed
        exact = self._owners.get(call.fingerprint)
        if exact is None:
            exact = self._owners[call.fingerprint] = self._owner(call, call.fingerprint)
            if call.near in self._loose:
                self._loose[call.near].variants += 1
        loose = self._loose.get(exact.loose)
        if loose is None:
            loose = self._loose[exact.loose] = self._owner(call, exact.loose)
        for owner in (exact, loose):
            owner.calls += 1
            owner.failures += failed
            owner.seconds = added(owner.seconds, seconds)
            owner.cost = added(owner.cost, cost)
            owner.runs += id(owner) not in seen
            seen.add(id(owner))
        return call

    def _owner(self, call: Call, fingerprint: str) -> Owner:
        args = told(shown(call.args, self._redactor), None)
        text = f"{self._redactor.text(call.name)}({args})"
        return Owner(fingerprint, call.near, text[:TEXT])


def asked(reply: RecordedReply, policy: Policy) -> Decimal | None:
    """What a model message cost; None: not told, or no price is known."""
    if reply.cost is not None or reply.usage is None:
        return reply.cost
    try:
        return price_of(reply.usage, policy.prices)
    except UnknownPriceError:
        return None


def spent(recorded: RecordedCall, next_one: RecordedCall | None) -> float | None:
    """Seconds from a call to the next of its turn; None: not told, or nothing came after it."""
    if next_one is None or next_one.turn != recorded.turn:
        return None
    if recorded.ts is None or next_one.ts is None:
        return None
    return max(next_one.ts - recorded.ts, 0.0)


def added(known: Any, more: Any) -> Any:
    """The sum of what is known of both."""
    return known if more is None else more if known is None else known + more


def ordered(owners: Iterable[Owner], by: By) -> list[Owner]:
    """*owners*, the greatest first; equal ones by calls and then by fingerprint."""
    return sorted(owners, key=lambda one: (one.worth(by), one.calls, one.fingerprint), reverse=True)
