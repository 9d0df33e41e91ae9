"""One exact call at most so many times in a turn, whatever it brings (requirement A2)."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Key
from lastcall.rules.settings import TOOLS, Settings, in_turn
from lastcall.stop import Stop
from lastcall.tool import LimitOrOff


class Times(Struct, frozen=True):
    """How often one fingerprint was executed, and what it brought last."""

    count: int = 0
    digest: str | None = None


class Repeat(Settings, frozen=True):
    """Refuse an exact call that was executed *max_repeats* times; a tool that `polls` starts again at 1
    when its result changed."""

    name: ClassVar[Literal["repeat"]] = "repeat"
    kinds: ClassVar[frozenset[Kind]] = TOOLS
    quiet: ClassVar[bool] = False

    max_repeats: LimitOrOff | None = None
    """Executions of one fingerprint in a turn. None: rules that look at results decide instead
    (`same`, `failing`, `stale`); 0: equal calls are nobody's business."""

    def limit(self, call: Call) -> int:
        """The limit for *call*'s tool; 0 when there is none."""
        own = call.policy.max_repeats
        return (self.max_repeats if own is None else own) or 0

    def key(self, call: Call) -> Key | None:
        return in_turn(call, self.name, call.fingerprint) if self.limit(call) else None

    def start(self) -> Times:
        return Times()

    def before(self, state: Times, call: Call, now: float) -> Times | Stop:
        limit = self.limit(call)
        if state.count < limit:
            return replace(state, count=state.count + 1)
        return Stop.of(
            call, "repeat", "call", now, rule=self.name, limit=limit, observed=state.count + 1
        )

    def refused(self, state: Times, call: Call, stop: Stop, now: float) -> Times:
        return state

    def after(self, state: Times, call: Call, outcome: Outcome, now: float) -> Times:
        if not call.policy.polls or outcome.kind == "paused":
            return state
        if state.digest is None or state.digest == outcome.digest:
            return replace(state, digest=outcome.digest)
        return Times(1, outcome.digest)
