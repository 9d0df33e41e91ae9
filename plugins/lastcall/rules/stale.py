"""Many calls in a row that bring nothing that the turn had not seen (requirement A6)."""

from __future__ import annotations

from typing import ClassVar, Literal

from lastcall.call import Call, Kind
from lastcall.contracts import Part
from lastcall.rules.settings import TOOLS, Settings
from lastcall.stop import Stop
from lastcall.tool import Limit, ToolPolicy


class Stale(Settings, frozen=True):
    """Refuse a call seen before once *in_a_row* settled calls brought only known results.

    It keeps no record: the turn's past is enough.
    """

    name: ClassVar[Literal["stale"]] = "stale"
    kinds: ClassVar[frozenset[Kind]] = TOOLS
    quiet: ClassVar[bool] = False
    familiar: ClassVar[bool] = True

    in_a_row: Limit = 10

    def record(self, tool: ToolPolicy) -> Part:
        return "none"

    def start(self) -> None:
        return None

    def before(self, state: None, call: Call, now: float) -> Stop | None:
        stale = call.past.stale
        if stale < self.in_a_row or not call.past.holds(call):
            return None
        return Stop.of(
            call, "stale", "call", now, rule=self.name, limit=self.in_a_row, observed=stale + 1
        )
