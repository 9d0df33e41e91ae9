"""Calls that do not parse, and calls of tools that do not exist (requirement A15)."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from lastcall.call import Call, Kind
from lastcall.contracts import Part
from lastcall.rules.settings import Settings
from lastcall.stop import Stop
from lastcall.tool import Limit, ToolPolicy


class Unusable(Struct, frozen=True, gc=False):
    """Malformed calls in a row."""

    count: int = 0


class Malformed(Settings, frozen=True):
    """End the turn with the *in_a_row*-th call in a row that nobody could have executed."""

    name: ClassVar[Literal["malformed"]] = "malformed"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"tool", "malformed"})
    quiet: ClassVar[bool] = True

    in_a_row: Limit = 3

    def record(self, tool: ToolPolicy) -> Part:
        return "turn"

    def start(self) -> Unusable:
        return Unusable()

    def before(self, state: Unusable, call: Call, now: float) -> Unusable | Stop:
        if call.kind == "tool":
            return Unusable() if state.count else state
        if state.count + 1 < self.in_a_row:
            return Unusable(state.count + 1)
        return Stop.of(
            call,
            "malformed",
            "turn",
            now,
            rule=self.name,
            limit=self.in_a_row,
            observed=state.count + 1,
        )
