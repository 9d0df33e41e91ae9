"""Calls that only look new: a renamed key, other blanks or case, a fresh request id (requirement A3)."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Part
from lastcall.rules.settings import TOOLS, Settings
from lastcall.stop import Stop
from lastcall.tool import LimitOrOff, ToolPolicy


class Row(Struct, frozen=True, gc=False):
    """Near calls in a row, and what they brought."""

    near: str = ""
    fingerprint: str = ""
    varied: bool = False
    """Whether the exact fingerprints differ; a row of one exact call is the business of others."""
    count: int = 0
    digest: str | None = None
    failing: bool = False


class Near(Settings, frozen=True):
    """Refuse a near repeat after *in_a_row* that failed or brought one result; 0 switches it off."""

    name: ClassVar[Literal["near"]] = "near"
    kinds: ClassVar[frozenset[Kind]] = TOOLS
    quiet: ClassVar[bool] = False

    in_a_row: LimitOrOff = 3

    def record(self, tool: ToolPolicy) -> Part | None:
        return "turn" if self.in_a_row else None

    def start(self) -> Row:
        return Row()

    def before(self, state: Row, call: Call, now: float) -> Row | Stop:
        if call.near != state.near:
            return Row(call.near, call.fingerprint, count=1)
        varied = state.varied or call.fingerprint != state.fingerprint
        if varied and state.count >= self.in_a_row:
            return Stop.of(
                call,
                "near",
                "call",
                now,
                rule=self.name,
                limit=self.in_a_row,
                observed=state.count + 1,
            )
        return replace(state, varied=varied, count=state.count + 1)

    def after(self, state: Row, call: Call, outcome: Outcome, now: float) -> Row:
        if call.near != state.near or not outcome.known:
            return state
        failing = outcome.kind == "error"
        digest = outcome.digest
        if state.digest is None or digest == state.digest or (failing and state.failing):
            return replace(state, digest=digest, failing=failing)
        if outcome.like == state.digest:
            return state
        # A new result: what came before was progress.
        return Row(call.near, call.fingerprint, False, 1, outcome.like, failing)
