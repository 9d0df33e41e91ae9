"""Many calls in a row that bring nothing that the turn had not seen (requirement A6)."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Key
from lastcall.rules.ring import Ring, find, packed
from lastcall.rules.settings import TOOLS, Settings, in_turn
from lastcall.stop import Stop
from lastcall.tool import Limit

MEMORY = 128
"""Calls of a turn that are remembered: two kilobytes."""


class News(Struct, frozen=True):
    """What was seen, and for how many calls in a row nothing was new."""

    ring: Ring = Ring()
    row: int = 0


class Stale(Settings, frozen=True):
    """Refuse a call seen before once *in_a_row* settled calls brought only known results."""

    name: ClassVar[Literal["stale"]] = "stale"
    kinds: ClassVar[frozenset[Kind]] = TOOLS
    quiet: ClassVar[bool] = False

    in_a_row: Limit = 10

    def key(self, call: Call) -> Key | None:
        return in_turn(call, self.name)

    def start(self) -> News:
        return News()

    def before(self, state: News, call: Call, now: float) -> News | Stop:
        if state.row >= self.in_a_row and find(state.ring.pairs, packed(call.fingerprint)) >= 0:
            return Stop.of(
                call,
                "stale",
                "call",
                now,
                rule=self.name,
                limit=self.in_a_row,
                observed=state.row + 1,
            )
        return News(state.ring.taken(call, MEMORY), state.row)

    def refused(self, state: News, call: Call, stop: Stop, now: float) -> News:
        return state

    def after(self, state: News, call: Call, outcome: Outcome, now: float) -> News:
        if outcome.kind not in ("ok", "error"):
            return News(state.ring.dropped(call), state.row)
        ring, known = state.ring.settled(call, outcome)
        return News(ring, state.row + 1 if known else 0)
