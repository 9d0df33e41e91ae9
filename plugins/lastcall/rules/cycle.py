"""The same few calls round and round, with the same results each time (requirement G4)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt

from lastcall.call import Call, Kind
from lastcall.contracts import Part
from lastcall.past import HALF, PAIR
from lastcall.rules.settings import TOOLS, Settings
from lastcall.stop import Stop
from lastcall.tool import ToolPolicy


class Cycle(Settings, frozen=True):
    """Refuse the call that would begin another round after *rounds* equal ones of 2 to *longest* calls.

    It keeps no record: the turn's past is enough.
    """

    name: ClassVar[Literal["cycle"]] = "cycle"
    kinds: ClassVar[frozenset[Kind]] = TOOLS
    quiet: ClassVar[bool] = False
    familiar: ClassVar[bool] = True

    rounds: Annotated[StrictInt, Field(ge=2, le=10)] = 3
    longest: Annotated[StrictInt, Field(ge=2, le=12)] = 12

    def record(self, tool: ToolPolicy) -> Part:
        return "none"

    def start(self) -> None:
        return None

    def before(self, state: None, call: Call, now: float) -> Stop | None:
        if not self.period(call.past.pairs, call.packed):
            return None
        return Stop.of(
            call,
            "cycle",
            "call",
            now,
            rule=self.name,
            limit=self.rounds,
            observed=self.rounds + 1,
        )

    def period(self, pairs: bytes, print_: bytes) -> int:
        """The length of the cycle that a call would go on with; 0 when there is none."""
        if print_ not in pairs:
            return 0
        longest = min(self.longest, len(pairs) // PAIR // self.rounds)
        for period in range(2, longest + 1):
            width = period * PAIR
            if pairs[-width : HALF - width] != print_:
                continue
            last = pairs[-width:]
            # One call over and over is the `same` rule's business, which looks closer.
            calls = {last[at : at + HALF] for at in range(0, width, PAIR)}
            if pairs.endswith(last * self.rounds) and len(calls) > 1:
                return period
        return 0
