"""A tool that answers nothing but failures is closed for the turn, whatever its arguments are."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Halt, Part
from lastcall.rules.settings import TOOLS, Settings
from lastcall.stop import Stop
from lastcall.tool import LimitOrOff, ToolPolicy


class Health(Struct, frozen=True, gc=False):
    """The failures of one tool in a row, by grade, and the last of them."""

    final: int = 0
    passing: int = 0
    status: int | None = None
    detail: str | None = None
    retry_after: float | None = None


WELL = Health()


class Streak(Settings, frozen=True):
    """Close a tool for the turn after *final* final answers or *passing* passing ones in a row; 0
    switches one off. A tool marked `shell` is never closed: it prints other programs' failures."""

    name: ClassVar[Literal["streak"]] = "streak"
    kinds: ClassVar[frozenset[Kind]] = TOOLS
    quiet: ClassVar[bool] = True

    final: LimitOrOff = 3
    passing: LimitOrOff = 5

    def record(self, tool: ToolPolicy) -> Part | None:
        return None if tool.shell else "tool"

    def start(self) -> Health:
        return WELL

    def before(self, state: Health, call: Call, now: float) -> Health | Stop:
        return state if self.grade(state) is None else self.stop(state, call, now, executed=False)

    def after(
        self, state: Health, call: Call, outcome: Outcome, now: float
    ) -> Health | Halt[Health]:
        if outcome.kind not in ("ok", "error"):
            return state
        grade = outcome.grade
        if grade is None:
            return WELL if state.final or state.passing else state
        health = Health(
            state.final + 1 if grade == "final" else 0,
            state.passing + 1 if grade == "passing" else 0,
            outcome.status,
            outcome.error,
            outcome.retry_after,
        )
        if self.grade(health) is None:
            return health
        return Halt(health, self.stop(health, call, now, executed=True))

    def grade(self, state: Health) -> Literal["final", "passing"] | None:
        """The kind of failure that has closed the tool; None while it is open."""
        if self.final and state.final >= self.final:
            return "final"
        if self.passing and state.passing >= self.passing:
            return "passing"
        return None

    def stop(self, state: Health, call: Call, now: float, *, executed: bool) -> Stop:
        final = self.grade(state) == "final"
        limit = self.final if final else self.passing
        return Stop.of(
            call,
            "terminal" if final else "failing",
            "tool",
            now,
            rule=self.name,
            status=state.status,
            detail=state.detail,
            retry_after=state.retry_after,
            limit=limit,
            observed=limit if executed else limit + 1,
            executed=executed,
        )
