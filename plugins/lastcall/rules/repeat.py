"""One exact call at most so many times in a turn, whatever it brings (requirement A2)."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Part
from lastcall.rules.settings import TOOLS, Settings
from lastcall.stop import Stop
from lastcall.tool import RepeatLimit, ToolPolicy


class Times(Struct, frozen=True, gc=False):
    """How often one fingerprint was executed, and what it brought last."""

    count: int = 0
    digest: str | None = None


class Repeat(Settings, frozen=True):
    """Refuse an exact call that was executed *max_repeats* times; a tool that `polls` starts again at 1
    when its result changed."""

    name: ClassVar[Literal["repeat"]] = "repeat"
    kinds: ClassVar[frozenset[Kind]] = TOOLS
    quiet: ClassVar[bool] = False

    max_repeats: RepeatLimit = None
    """Executions of one fingerprint in a turn. None: rules that look at results decide instead
    (`same`, `failing`, `stale`); 0: equal calls are nobody's business."""

    def limit(self, tool: ToolPolicy) -> int:
        """The limit for calls of *tool*; 0 when there is none."""
        own = tool.max_repeats
        return (self.max_repeats if own is None else own) or 0

    def record(self, tool: ToolPolicy) -> Part | None:
        return "call" if self.limit(tool) else None

    def start(self) -> Times:
        return Times()

    def before(self, state: Times, call: Call, now: float) -> Times | Stop:
        limit = self.limit(call.policy)
        if state.count < limit:
            return replace(state, count=state.count + 1)
        return Stop.of(
            call, "repeat", "call", now, rule=self.name, limit=limit, observed=state.count + 1
        )

    def after(self, state: Times, call: Call, outcome: Outcome, now: float) -> Times:
        if not call.policy.polls or not outcome.known:
            return state
        if state.digest is None or state.digest == outcome.digest:
            return replace(state, digest=outcome.digest)
        return Times(1, outcome.digest)
