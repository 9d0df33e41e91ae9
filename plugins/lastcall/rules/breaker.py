"""A service that is down is left alone until a trial call says that it is back (requirements D1 to D6)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal, Self

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, model_validator

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Key, Noted, Notice, Part
from lastcall.rules.concurrency import holder
from lastcall.rules.health import sick
from lastcall.rules.identity import joined
from lastcall.rules.settings import Settings
from lastcall.stop import Stop
from lastcall.tool import Limit, LimitOrOff, Seconds, ToolPolicy, unset

Phase = Literal["closed", "open", "half-open", "ramp"]

EVERY = (10, 2)
"""While it recovers, every so-manieth call is let through, by stage."""

STAGE = 30.0
"""Seconds after which a stage is over by itself."""

ENOUGH = 5
"""Calls that were let through and answered, after which it is over too."""

AGAIN = 1.0
"""Seconds after which a call that the ramp refused may be made again."""

WATCHED = 32
"""Calls let through while it recovers whose outcomes are waited for at once."""

Share = Annotated[Annotated[StrictFloat, Field(gt=0, le=1)] | None, BeforeValidator(unset)]
"""A part of the whole, more than 0 and at most 1; None, and `false` in a file, is none."""


class Circuit(Struct, frozen=True, gc=False):
    """How one service does. There is a record only while something is wrong with it."""

    phase: Phase = "closed"
    failures: int = 0
    """Sick outcomes in a row; of an open one also those of trials."""
    recent: int = 0
    """The last outcomes as bits, the latest lowest, 1 for a sick one."""
    until: float = 0.0
    """Open: when a trial may be made. Ramp: when the stage is over. Epoch seconds."""
    since: float = 0.0
    """When it opened, at first."""
    good: int = 0
    """Trials, or calls of the stage, that were answered."""
    stage: int = 0
    seen: int = 0
    """Calls of the stage that were let through or refused."""
    watched: tuple[tuple[str, float], ...] = ()
    """The trial under way, or the calls of the ramp, each with the time at which its worker is given up."""
    status: int | None = None
    """Of the last sick outcome."""
    run: str | None = None
    """The run that met it."""

    def without(self, name: str) -> Circuit:
        """That call is over."""
        return replace(self, watched=tuple(each for each in self.watched if each[0] != name))

    def watching(self, name: str) -> bool:
        """Whether that call was let through to see how the service does."""
        return any(each[0] == name for each in self.watched)


HEALTHY = Circuit()


class Breaker(Settings, frozen=True):
    """After *failures* sick outcomes in a row refuse all calls of one service for *wait* seconds. Then one
    call at a time is let through, until *successes* in a row were answered or one was sick again.

    A service is the tool's `dependency`, else its server, else the tool itself, under one `credential`.
    Sick are failed connections, time-outs, 408, 429, 500, 502, 503 and 504; every other answer is one.
    """

    name: ClassVar[Literal["breaker"]] = "breaker"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"tool", "attempt"})
    quiet: ClassVar[bool] = True

    failures: LimitOrOff = 5
    """Sick outcomes in a row that open it; 0: *rate* alone does."""
    wait: Seconds = 30.0
    """Seconds from its opening to the first trial, and from a trial that failed to the next."""
    successes: Limit = 2
    rate: Share = None
    """It opens too when this part of the last *window* outcomes was sick (0.5: half of them). What came
    before the first sick one counts as well."""
    window: Annotated[StrictInt, Field(ge=2, le=60)] = 20
    ramp: StrictBool | Literal["shared"] = "shared"
    """Whether calls come back by and by once it has closed: every 10th, then every 2nd, each until 5 of
    those let through were answered or 30 s passed. shared: where several processes share the store."""
    ttl: Seconds = 300.0
    """Seconds after which a trial of a tool without a `timeout` is given up: its worker may be dead."""

    @model_validator(mode="after")
    def _opens(self) -> Self:
        if not self.failures and self.rate is None:
            raise ValueError("without failures and without a rate it would never open")
        return self

    @property
    def lasting(self) -> bool:
        return True

    def fleetwide(self) -> Breaker:
        return self if self.ramp != "shared" else self.model_copy(update={"ramp": True})

    def record(self, tool: ToolPolicy) -> Part:
        return "shared"

    def shared(self, call: Call) -> Key:
        return (("dependency", joined(dependency(call), call.policy.credential)), self.name)

    def start(self) -> Circuit:
        return HEALTHY

    def before(
        self, state: Circuit, call: Call, now: float
    ) -> Circuit | Stop | Noted[Circuit] | None:
        if state.phase == "closed":
            return state
        if state.phase == "ramp":
            return self.ramped(state, call, now)
        if state.phase == "open" and now < state.until:
            return self.stop(state, call, state.until, now)
        trial = next((until for _, until in state.watched if until > now), None)
        if trial is not None:
            # Another attempt of the trial too: the service has not answered the first one yet, or was sick.
            return self.stop(state, call, min(trial, now + self.wait), now)
        tried = replace(state, phase="half-open", watched=((holder(call), now + self.span(call)),))
        return Noted(tried, self.notice(call, "half-open: one call is tried"))

    def ramped(
        self, state: Circuit, call: Call, now: float
    ) -> Circuit | Stop | Noted[Circuit] | None:
        """What becomes of a call while the service recovers."""
        at = recovered(state, now)
        if at is None:
            return Noted(None, self.notice(call, "closed: all calls are let through"))
        if (at.seen + 1) % EVERY[at.stage]:
            return Stop.of(
                call,
                "ramp",
                "call",
                now,
                rule=self.name,
                status=state.status,
                dependency=dependency(call),
                retryable=True,
                retry_after=AGAIN,
            )
        watched = (*at.without(holder(call)).watched, (holder(call), now + self.span(call)))
        return replace(at, seen=at.seen + 1, watched=watched[-WATCHED:])

    def refused(self, state: Circuit, call: Call, stop: Stop, now: float) -> Circuit:
        if stop.rule != self.name or stop.reason != "ramp":
            return state
        at = recovered(state, now) or state
        return replace(at, seen=at.seen + 1)

    def after(
        self, state: Circuit, call: Call, outcome: Outcome, now: float
    ) -> Circuit | Noted[Circuit] | None:
        ill = sick(outcome)
        if state.phase == "closed":
            return state if ill is None else self.counted(state, call, outcome, now, ill=ill)
        name = holder(call)
        if state.phase == "open" or not state.watching(name):
            # It was let through before the service fell ill, and its answer says nothing of now.
            return state
        if ill:
            return self.opened(state, call, outcome, now, "open again")
        rest = state.without(name)
        if ill is None:
            return rest
        return self.answered(replace(rest, good=rest.good + 1), call, now)

    def counted(
        self, state: Circuit, call: Call, outcome: Outcome, now: float, *, ill: bool
    ) -> Circuit | Noted[Circuit] | None:
        """The record of a closed one with one more outcome."""
        if not ill and state is HEALTHY:
            return state
        failures = state.failures + 1 if ill else 0
        recent = (state.recent << 1 | ill) & ((1 << self.window) - 1) if self.rate else 0
        counted = replace(state, failures=failures, recent=recent)
        if self.failures and failures >= self.failures:
            return self.opened(counted, call, outcome, now, f"open after {failures} in a row")
        share = recent.bit_count() / self.window
        if self.rate is not None and share >= self.rate:
            why = f"open after {recent.bit_count()} of the last {self.window}"
            return self.opened(counted, call, outcome, now, why)
        return counted if failures or recent else None

    def answered(self, state: Circuit, call: Call, now: float) -> Circuit | Noted[Circuit] | None:
        """A call that was let through to see how the service does was answered."""
        if state.phase == "half-open":
            if state.good < self.successes:
                return state
            if self.ramp is not True:
                return Noted(None, self.notice(call, "closed"))
            ramp = Circuit(
                "ramp", until=now + STAGE, since=state.since, status=state.status, run=state.run
            )
            return Noted(ramp, self.notice(call, "closed: calls come back by and by"))
        at = recovered(state, now)
        if at is not None and at.good >= ENOUGH:
            at = staged(at, now + STAGE)
        if at is None:
            return Noted(None, self.notice(call, "closed: all calls are let through"))
        return at

    def opened(
        self, state: Circuit, call: Call, outcome: Outcome, now: float, why: str
    ) -> Noted[Circuit]:
        """It opens, by the outcome of *call*."""
        since = now if state.phase == "closed" else state.since
        status = outcome.status
        circuit = Circuit(
            "open",
            state.failures if state.phase == "closed" else state.failures + 1,
            until=now + self.wait,
            since=since,
            status=status,
            run=call.where.run,
        )
        said = "a failed connection or a time-out" if status is None else f"HTTP {status}"
        return Noted(circuit, self.notice(call, f"{why}: {said}; refused for {self.wait:g} s"))

    def notice(self, call: Call, said: str) -> Notice:
        """The event of a change of state."""
        return Notice("breaker", f"{dependency(call)}: {said}")

    def stop(self, state: Circuit, call: Call, until: float, now: float) -> Stop:
        return Stop.of(
            call,
            self.name,
            "tool",
            now,
            rule=self.name,
            status=state.status,
            dependency=dependency(call),
            retry_after=until - now,
            resets_at=datetime.fromtimestamp(until, UTC),
        )

    def span(self, call: Call) -> float:
        """The seconds after which the worker of *call* is given up."""
        return call.policy.timeout or self.ttl


def dependency(call: Call) -> str:
    """The service behind *call*."""
    return call.policy.dependency or call.server or call.tool


def staged(state: Circuit, until: float) -> Circuit | None:
    """The next stage of the ramp, which is over *until* then; None after the last. Calls of the one before
    are watched on."""
    if state.stage + 1 >= len(EVERY):
        return None
    return replace(state, stage=state.stage + 1, until=until, good=0, seen=0)


def recovered(state: Circuit, now: float) -> Circuit | None:
    """The ramp at *now*, as stages end by themselves; None once it is over."""
    at: Circuit | None = state
    while at is not None and at.until <= now:
        at = staged(at, at.until + STAGE)
    return at


def standing(state: Circuit | None, now: float) -> Circuit | None:
    """The record as it stands at *now*; None when all calls are let through."""
    if state is None or state.phase == "closed":
        return None
    if state.phase == "ramp":
        return recovered(state, now)
    if state.phase == "open" and state.until <= now:
        # Nobody came by yet to try it.
        return replace(state, phase="half-open")
    return state
