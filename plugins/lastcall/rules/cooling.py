"""An agent whose run was stopped cools off before its next one, across restarts (requirement D8)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar, Literal

from msgspec import Struct

from lastcall.call import Call, Kind
from lastcall.contracts import Key, Part
from lastcall.rules.settings import Settings
from lastcall.stop import Scope, Stop
from lastcall.tool import Seconds, ToolPolicy

RUNNING: frozenset[Kind] = frozenset({"tool", "attempt", "model", "malformed"})
"""All that a run does."""

COOLS: frozenset[Scope] = frozenset({"turn", "run", "agent", "all"})
"""How far a stop reaches that is the agent's affair. One for a thread, a user or a tenant holds there by
itself, and is no reason to keep the agent from everybody else."""


class Cooled(Struct, frozen=True, gc=False):
    """What cools off: until when, since when and why."""

    until: float = 0.0
    """Epoch seconds."""
    reason: str | None = None
    run: str | None = None
    """The run that was stopped."""
    since: float = 0.0
    enforced: bool = True
    """False: a rule in the shadow wrote it, so nobody need wait."""


WARM = Cooled()


class Cooling(Settings, frozen=True):
    """After a stop that ends a run, refuse the same agent every other run for *seconds*, or for as long as
    the stop says, if that is longer.

    A stop by a person or by the kill switch cools nothing off: whoever set it lifts it. A tool that
    `streak` closes for passing failures makes its `dependency` cool off too. No call is refused for that;
    it is what `lastcall ready --dependency` reads.
    """

    name: ClassVar[Literal["cooling"]] = "cooling"
    kinds: ClassVar[frozenset[Kind]] = RUNNING
    quiet: ClassVar[bool] = True

    seconds: Seconds = 300.0

    @property
    def lasting(self) -> bool:
        return True

    def record(self, tool: ToolPolicy) -> Part:
        return "shared"

    def shared(self, call: Call) -> Key:
        agent = call.where.agent
        # Without an agent there is nothing to cool off; the record in the run is never written.
        return ((("agent", agent) if agent else call.shard), self.name)

    def start(self) -> Cooled:
        return WARM

    def before(self, state: Cooled, call: Call, now: float) -> Cooled | Stop | None:
        if state.until <= now:
            return state if state is WARM else None
        if state.run == call.where.run:
            # Its own stop says what is over in it.
            return state
        return Stop.of(
            call,
            self.name,
            "agent",
            now,
            rule=self.name,
            retry_after=state.until - now,
            resets_at=datetime.fromtimestamp(state.until, UTC),
        )

    def ended(self, state: Cooled, call: Call, stop: Stop, now: float) -> Cooled:
        own = stop.asked or stop.reason in (self.name, "kill")
        if own or stop.scope not in COOLS or not call.where.agent:
            return state
        return cooled(state, call, stop, now, self)

    def pardoned(self, state: Cooled, call: Call) -> Cooled | None:
        # A person took back the stop that it came from.
        return None if state.run == call.where.run else state

    def beside(self, tool: ToolPolicy) -> tuple[Dependency, ...]:
        if tool.dependency is None:
            return ()
        return (Dependency(seconds=self.seconds, enforce=self.enforce, of=tool.dependency),)


class Dependency(Settings, frozen=True):
    """Comes with `Cooling` for tools that name their dependency: keeps that it cools off, and refuses
    nothing."""

    name: ClassVar[Literal["dependency"]] = "dependency"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"tool", "attempt"})
    quiet: ClassVar[bool] = True

    seconds: Seconds
    of: str

    def record(self, tool: ToolPolicy) -> Part:
        return "shared"

    def shared(self, call: Call) -> Key:
        return (("dependency", self.of), Cooling.name)

    def start(self) -> Cooled:
        return WARM

    def before(self, state: Cooled, call: Call, now: float) -> Cooled:
        return state

    def ended(self, state: Cooled, call: Call, stop: Stop, now: float) -> Cooled:
        # Only the answer that closed the tool; refusals of later calls tell nothing new of the service.
        if stop.rule != "streak" or stop.reason != "failing" or not stop.executed:
            return state
        return cooled(state, call, stop, now, self)


def cooled(state: Cooled, call: Call, stop: Stop, now: float, rule: Cooling | Dependency) -> Cooled:
    """*state* after *stop*; a longer rest that somebody else is at stays."""
    until = now + max(rule.seconds, stop.retry_after or 0.0)
    if until <= state.until:
        return state
    return Cooled(until, stop.reason, call.where.run, now, rule.enforce)


def cooling_until(state: Cooled | None, now: float) -> float | None:
    """Until when the agent or the dependency of that record cools off; None when it does not."""
    if state is None or not state.enforced or state.until <= now:
        return None
    return state.until
