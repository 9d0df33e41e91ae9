"""An equal call that keeps bringing an equal result is no progress (requirement A6)."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Part
from lastcall.rules.settings import TOOLS, Settings
from lastcall.stop import Stop
from lastcall.tool import LimitOrOff, ToolPolicy

DISTINCT = 9
"""Results remembered per call; one that forgets the tenth is still a poll."""


class Results(Struct, frozen=True, gc=False):
    """What one fingerprint brought in this turn. Calls in flight count as equal to the last result."""

    order: int = 0
    """The order of its last call in the turn."""
    row: int = 0
    """Equal calls with an equal raw result, with no other call between."""
    calm: int = 0
    """Equal calls with an equal result, with nothing but reads between."""
    raw: str | None = None
    digest: str | None = None
    """The last result, masked unless nothing volatile was seen in it."""
    seen: tuple[tuple[str, int], ...] = ()
    """How often each result came, newest first."""
    open: int = 0
    """Calls whose outcome is not known yet."""


class Same(Settings, frozen=True):
    """Refuse an equal call after so many equal results; 0 switches a limit off."""

    name: ClassVar[Literal["same"]] = "same"
    kinds: ClassVar[frozenset[Kind]] = TOOLS
    quiet: ClassVar[bool] = False

    in_a_row: LimitOrOff = 3
    """Back to back, with results equal to the byte."""
    in_turn: LimitOrOff = 8
    """Anywhere in the turn, volatile parts of results masked."""
    reads: LimitOrOff = 6
    """The same for a tool declared `reads`."""
    no_write: LimitOrOff = 5
    """The same with nothing but calls declared `reads` between."""

    def record(self, tool: ToolPolicy) -> Part:
        return "call"

    def start(self) -> Results:
        return Results()

    def before(self, state: Results, call: Call, now: float) -> Results | Stop:
        if not state.order:
            return Results(order=call.order, row=1, calm=1, open=1)
        row = state.row if state.order == call.order - 1 else 0
        calm = state.calm if state.order > call.last_write else 0
        most = max((count for _, count in state.seen), default=0) + state.open
        anywhere = self.reads if call.policy.reads else self.in_turn
        for limit, count in ((self.in_a_row, row), (anywhere, most), (self.no_write, calm)):
            if limit and count >= limit:
                return Stop.of(
                    call, "same", "call", now, rule=self.name, limit=limit, observed=count + 1
                )
        return replace(state, order=call.order, row=row + 1, calm=calm + 1, open=state.open + 1)

    def after(self, state: Results, call: Call, outcome: Outcome, now: float) -> Results:
        pending = max(state.open - 1, 0)
        if outcome.kind not in ("ok", "error"):
            return replace(state, open=pending)
        raw = outcome.digest if outcome.known or state.raw is None else state.raw
        if state.raw is None or raw == state.raw:
            digest = (state.raw == raw and state.digest) or raw
            return replace(
                state, raw=raw, digest=digest, seen=counted(state.seen, digest), open=pending
            )
        # Masking costs a hundred times a digest, so it is done only here: seen before, and different.
        digest = raw if call.policy.polls else outcome.like
        calm = state.calm if digest == state.digest else 1 + pending
        return replace(
            state,
            row=1 + pending,
            calm=calm,
            raw=raw,
            digest=digest,
            seen=counted(state.seen, digest),
            open=pending,
        )


def counted(seen: tuple[tuple[str, int], ...], digest: str) -> tuple[tuple[str, int], ...]:
    """*seen* with one more of *digest*, which comes first."""
    if not seen:
        return ((digest, 1),)
    before = next((count for known, count in seen if known == digest), 0)
    others = tuple(pair for pair in seen if pair[0] != digest)
    return ((digest, before + 1), *others)[:DISTINCT]
