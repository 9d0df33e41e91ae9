"""How long a run may take by the clock on the wall (requirements B1, B4)."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Key, Noted, Notice, Part
from lastcall.rules.settings import Settings
from lastcall.stop import Stop
from lastcall.tool import LimitOrNone, ToolPolicy


class Since(Struct, frozen=True, gc=False):
    """When the run began, and whether it was told that it takes long."""

    first: float = 0.0
    """Epoch seconds of its first call or request; 0: there was none yet."""
    told: bool = False


class WallClock(Settings, frozen=True):
    """Comes with `Budget` for a limit of seconds: refuses a call or a request once the run has taken so
    long. Nothing that has begun is cut short by it."""

    name: ClassVar[Literal["seconds"]] = "seconds"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"tool", "attempt", "model"})
    quiet: ClassVar[bool] = False

    budget: str
    """The name of the limit."""
    most: int
    alert: LimitOrNone = None

    def record(self, tool: ToolPolicy) -> Part:
        # Of the run, which may have many turns.
        return "shared"

    def shared(self, call: Call) -> Key:
        return (call.shard, self.name)

    def start(self) -> Since:
        return Since()

    def before(self, state: Since, call: Call, now: float) -> Since | Stop | None:
        if not state.first:
            return Since(now)
        most, taken = self.most + call.raised.get(self.budget, 0), now - state.first
        if taken < most:
            return state
        return Stop.of(
            call,
            "budget",
            "run",
            now,
            rule="budget",
            limit=most,
            observed=int(taken),
            budget=self.budget,
        )

    def until(self, state: Since, call: Call) -> float | None:
        return state.first + self.most + call.raised.get(self.budget, 0) if state.first else None

    def after(self, state: Since, call: Call, outcome: Outcome, now: float) -> Since | Noted[Since]:
        if self.alert is None or state.told or not state.first or now - state.first < self.alert:
            return state
        message = f"{self.budget}: {int(now - state.first)} of {self.most}"
        return Noted(replace(state, told=True), Notice("alert", message))
