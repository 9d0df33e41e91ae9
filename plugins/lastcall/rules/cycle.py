"""The same few calls round and round, with the same results each time (requirement G4)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Key
from lastcall.rules.ring import HALF, PAIR, Ring, packed
from lastcall.rules.settings import TOOLS, Settings, in_turn
from lastcall.stop import Stop


class Cycle(Settings, frozen=True):
    """Refuse the call that would begin another round after *rounds* equal ones of 2 to *longest* calls."""

    name: ClassVar[Literal["cycle"]] = "cycle"
    kinds: ClassVar[frozenset[Kind]] = TOOLS
    quiet: ClassVar[bool] = False

    rounds: Annotated[StrictInt, Field(ge=2)] = 3
    longest: Annotated[StrictInt, Field(ge=2, le=64)] = 12

    def key(self, call: Call) -> Key | None:
        return in_turn(call, self.name)

    def start(self) -> Ring:
        return Ring()

    def before(self, state: Ring, call: Call, now: float) -> Ring | Stop:
        period = self.period(state, packed(call.fingerprint))
        if period:
            return Stop.of(
                call,
                "cycle",
                "call",
                now,
                rule=self.name,
                limit=self.rounds,
                observed=self.rounds + 1,
            )
        return state.taken(call, self.rounds * self.longest)

    def refused(self, state: Ring, call: Call, stop: Stop, now: float) -> Ring:
        return state

    def after(self, state: Ring, call: Call, outcome: Outcome, now: float) -> Ring:
        known = outcome.kind in ("ok", "error")
        return state.filled(call, outcome) if known else state.dropped(call)

    def period(self, state: Ring, print_: bytes) -> int:
        """The length of the cycle that a call would go on with; 0 when there is none."""
        pairs = state.pairs
        if print_ not in pairs:
            return 0
        for period in range(2, min(self.longest, len(state) // self.rounds) + 1):
            width = period * PAIR
            if pairs[-width : HALF - width or None] != print_:
                continue
            last = pairs[-width:]
            # One call over and over is the `same` rule's business, which looks closer.
            if pairs.endswith(last * self.rounds) and last != last[:PAIR] * period:
                return period
        return 0
