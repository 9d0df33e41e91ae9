"""A call that got a final answer is not paid for again, in any run, for a while (requirement D7)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Key, Noted, Notice, Part, Take
from lastcall.rules.identity import joined
from lastcall.rules.settings import Settings
from lastcall.stop import Stop
from lastcall.tool import LimitOrNone, Seconds, ToolPolicy

COUNTER: Key = (("quarantines", None), "quarantined")
"""How many calls came into quarantine in the hour."""

HOUR = 3600.0


class Quarantined(Struct, frozen=True, gc=False):
    """One call in quarantine: until when, since when and why."""

    until: float = 0.0
    """Epoch seconds."""
    status: int | None = None
    tool: str = ""
    fingerprint: str = ""
    tenant: str | None = None
    credential: str | None = None
    since: float = 0.0
    run: str | None = None
    """The run that met the answer."""
    count: int = 0
    """How many such answers there were since."""


FREE = Quarantined()


class Quarantine(Settings, frozen=True):
    """Remember a final answer for *seconds*, by tenant, credential and fingerprint, and refuse the same
    call meanwhile, in whichever run and worker it is made. Other calls go on.

    The same call may mean something else for another user: tools that act for one need a `credential`.
    """

    name: ClassVar[Literal["quarantine"]] = "quarantine"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"tool", "attempt"})
    quiet: ClassVar[bool] = True

    seconds: Seconds = 900.0
    alert: LimitOrNone = 20
    """One alert is sent when this many calls came into quarantine within one hour, fleet-wide."""

    @property
    def lasting(self) -> bool:
        return True

    def record(self, tool: ToolPolicy) -> Part:
        return "shared"

    def shared(self, call: Call) -> Key:
        of = joined(call.where.tenant, call.policy.credential, call.fingerprint)
        return (("quarantine", of), self.name)

    def start(self) -> Quarantined:
        return FREE

    def before(self, state: Quarantined, call: Call, now: float) -> Quarantined | Stop | None:
        until = quarantined_until(state, now)
        if until is None:
            return state if state is FREE else None
        return Stop.of(
            call,
            self.name,
            "call",
            now,
            rule=self.name,
            status=state.status,
            retry_after=until - now,
            resets_at=datetime.fromtimestamp(until, UTC),
        )

    def after(
        self, state: Quarantined, call: Call, outcome: Outcome, now: float
    ) -> Quarantined | Noted[Quarantined] | None:
        if outcome.kind == "ok" and outcome.grade is None:
            # Two of them ran at once and the later answer was good: what counts is the last.
            return state if state is FREE else None
        if outcome.grade != "final":
            return state
        until = now + self.seconds
        if quarantined_until(state, now) is not None:
            return replace(
                state,
                until=max(state.until, until),
                status=outcome.status,
                count=state.count + 1,
            )
        where = call.where
        new = Quarantined(
            until,
            outcome.status,
            call.name,
            call.fingerprint,
            where.tenant,
            call.policy.credential,
            now,
            where.run,
            1,
        )
        said = "a final answer" if outcome.status is None else f"HTTP {outcome.status}"
        message = f"refused in every run for {self.seconds:g} s after {said}"
        return Noted(new, Notice("quarantined", message, Take(COUNTER, 1, None, HOUR), self.alert))

    def pardoned(self, state: Quarantined, call: Call) -> Quarantined | None:
        return None


def quarantined_until(state: Quarantined | None, now: float) -> float | None:
    """Until when the call of that record is refused; None when it is not."""
    return None if state is None or state.until <= now else state.until
