"""At most so many calls at once (requirement F3)."""

from __future__ import annotations

from typing import ClassVar, Literal

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Claim, Free, Key, Lease, Release
from lastcall.rules.identity import OWN, Per, shard_of, unknown
from lastcall.rules.settings import Settings
from lastcall.stop import Stop
from lastcall.tool import Limit, Seconds

AGAIN = 1.0
"""Seconds after which a refused call may be made again."""


class Concurrency(Settings, frozen=True):
    """Refuse a call while *limit* others of the same user, agent, ... run. It is the one refusal that is
    worth repeating: the call may be made again a second later.

    A place is freed by whatever comes of the call, and by itself once its worker may be dead: after the
    tool's `timeout`, else after *ttl* seconds. An agent that is a tool of another holds a place while
    its own calls take theirs.
    """

    name: ClassVar[Literal["concurrency"]] = "concurrency"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"tool", "attempt"})

    limit: Limit
    per: Per = "agent"
    """Whose calls are counted together; no limit where that is not known."""
    ttl: Seconds = 300.0
    """Seconds for which a call of a tool without a `timeout` holds its place at most."""

    @property
    def lasting(self) -> bool:
        return self.per not in OWN

    def takes(self, call: Call) -> tuple[Claim, ...]:
        key = self.key(call)
        return () if key is None else (Lease(key, holder(call), self.limit, self.span(call)),)

    def stop(self, call: Call, claim: Claim, observed: int, now: float) -> Stop:
        return Stop.of(
            call,
            self.name,
            "call",
            now,
            rule=self.name,
            limit=self.limit,
            observed=observed,
            retryable=True,
            retry_after=AGAIN,
        )

    def alert_at(self, call: Call, claim: Claim) -> int | None:
        return None

    def budget(self, call: Call, claim: Claim) -> tuple[str, int | None]:
        return self.shown, self.limit

    def settle(self, call: Call, outcome: Outcome, taken_at: float) -> tuple[Release, ...]:
        key = self.key(call) if call.kind in self.kinds else None
        # A call that waits for a person holds nobody up meanwhile.
        return () if key is None else (Free(key, holder(call)),)

    def overdue(self, call: Call, taken_at: float, now: float) -> str | None:
        """The alert for a call that ran on after its place was free again."""
        if call.kind not in self.kinds or self.key(call) is None:
            return None
        took, span = now - taken_at, self.span(call)
        if took < span:
            return None
        return (
            f"{call.name} took {took:.0f} s and held its place for {span:g} s: more than"
            f" {self.limit} may have run at once; set the tool's timeout to what it takes at most"
        )

    def unplaced(self, call: Call) -> tuple[str, ...]:
        if call.kind not in self.kinds or self.key(call) is not None:
            return ()
        return (unknown(self.shown, self.per),)

    @property
    def shown(self) -> str:
        """The name among what remains."""
        return f"{self.name}/{self.per}"

    def key(self, call: Call) -> Key | None:
        """Where the places of *call* are kept; None when it is not known whose call it is."""
        shard = shard_of(self.per, call)
        return None if shard is None else (shard, self.name)

    def span(self, call: Call) -> float:
        """The seconds for which *call* holds its place at most."""
        return call.policy.timeout or self.ttl


def holder(call: Call) -> str:
    """The name of *call* among those that hold places: an attempt of it has the same, another call never.
    A call that no reply or no id tells apart is known by its order in the turn."""
    where = call.where
    if call.id is None or call.reply is None:
        return f"{where.run} {where.turn} {call.order}"
    return f"{where.run} {call.reply} {call.id} {call.fingerprint}"
