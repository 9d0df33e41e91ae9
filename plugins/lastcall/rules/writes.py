"""A write is made once: under its key, whoever asks for it again (requirements E2, E3, E4 and E6)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, FirstResult, Kind, Outcome
from lastcall.contracts import Key, Noted, Notice, Part, Replay
from lastcall.rules.identity import joined
from lastcall.rules.settings import Settings
from lastcall.stop import Stop
from lastcall.tool import Limit, Seconds, Status, ToolPolicy

Phase = Literal["new", "begun", "done", "unknown", "declined"]

LEASE = 300.0
"""Seconds after which a write that nobody settled counts as one whose worker died, where the tool has no
`timeout`."""

SOON = 1.0
"""Seconds after which an equal write that runs is worth another look."""


class Write(Struct, frozen=True, gc=False):
    """What became of one write."""

    phase: Phase = "new"
    """begun: it runs. done: it was carried out. unknown: nobody knows. declined: the service keeps its
    refusal under the key."""
    tool: str = ""
    params: str = ""
    at: float = 0.0
    """When it was begun first, in epoch seconds; keys are kept from then on."""
    until: float = 0.0
    """When whoever runs it must have settled it."""
    run: str | None = None
    status: int | None = None
    kept: str | None = None
    """What it brought, as JSON; None: that is not kept."""
    turn: str | None = None
    """The run and turn in which it was answered last by what it brought."""
    replays: int = 0
    """How often in that turn."""

    def waits(self, now: float) -> bool:
        """Whether nobody knows what became of it: its answer was lost, or its worker died."""
        return self.phase == "unknown" or (self.phase == "begun" and now >= self.until)


NEW = Write()


class Writes(Settings, frozen=True):
    """Looks at tools declared `writes`, under `Call.key`. A write is refused while an equal one runs
    (`in_progress`), when nobody knows whether it was carried out (`unknown_outcome`), when its key was used
    with other parameters (`conflict`), and without a key (`no_key`). With `on_repeat = "replay"` one that
    was carried out is answered by what it brought.

    A write that failed is forgotten, so that it may be corrected under the same key, but for *declined*.
    """

    name: ClassVar[Literal["writes"]] = "writes"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"tool", "attempt"})
    quiet: ClassVar[bool] = False
    whole: ClassVar[bool] = True

    keep: Seconds = 86_400.0
    """Seconds for which services keep a key; a write under an older one is not protected by it."""
    declined: tuple[Status, ...] = (402,)
    """Refusals that services keep under the key, so that asking again brings the same one."""
    max_replays: Limit = 3
    """How often in one turn a write is answered by what it brought; whoever goes on asking is refused."""

    def record(self, tool: ToolPolicy) -> Part | None:
        return "shared" if tool.writes else None

    def shared(self, call: Call) -> Key:
        # Without a key it is refused, and nothing of it is kept.
        if call.key is None:
            return (call.shard, self.name)
        return (("write", joined(call.where.tenant, call.key)), self.name)

    def start(self) -> Write:
        return NEW

    def before(
        self, state: Write, call: Call, now: float
    ) -> Write | Stop | Noted[Write] | Replay[Write] | None:
        if call.key is None:
            return self._stop("no_key", call, now)
        phase, begun = state.phase, self._begun(state, call, now)
        if phase == "new":
            return begun
        running = phase == "begun" and not state.waits(now)
        if now - state.at >= self.keep and not running:
            if state.waits(now):
                return self._stop("unknown_outcome", call, now)
            if call.policy.on_repeat == "run" and not call.policy.keyed:
                return self._begun(NEW, call, now)
            message = f"its key is older than {self.keep:g} s, so it protects from nothing"
            return Noted(self._begun(NEW, call, now), Notice("alert", message))
        if state.params != call.params or state.tool != call.name:
            return self._stop("conflict", call, now)
        if running:
            left = state.until - now
            return self._stop("in_progress", call, now, retryable=True, retry_after=min(left, SOON))
        if phase in ("begun", "unknown"):
            return begun if call.policy.keyed else self._stop("unknown_outcome", call, now)
        if phase == "declined":
            return self._stop("terminal", call, now, status=state.status)
        if call.policy.on_repeat == "run":
            return begun
        return self._again(state, call, now)

    def after(self, state: Write, call: Call, outcome: Outcome, now: float) -> Write | None:
        well = outcome.kind == "ok" and outcome.grade is None and outcome.started
        if not self._mine(state, call):
            # It was settled otherwise meanwhile, or others make it anew; that it happened is so all the same.
            if well and state.phase in ("new", "unknown"):
                return replace(self._begun(state, call, call.time), phase="done", kept=outcome.kept)
            return state
        if outcome.kind == "paused" or not outcome.started:
            return None
        if well:
            return replace(state, phase="done", kept=outcome.kept, status=None)
        if outcome.kind in ("lost", "cancelled") or outcome.doubtful:
            return replace(state, phase="unknown", status=outcome.status)
        if outcome.status in self.declined:
            return replace(state, phase="declined", status=outcome.status)
        return None

    def _mine(self, state: Write, call: Call) -> bool:
        """Whether *state* is what the grant of *call* made of it."""
        mine = self._begun(state, call, call.time)
        return state.phase == "begun" and (state.run, state.until) == (mine.run, mine.until)

    def _begun(self, state: Write, call: Call, now: float) -> Write:
        return Write(
            "begun",
            call.name,
            call.params,
            state.at or now,
            now + (call.policy.timeout or LEASE),
            call.where.run,
        )

    def _again(self, state: Write, call: Call, now: float) -> Stop | Replay[Write]:
        """The answer to a write that was carried out."""
        if state.kept is None:
            return self._stop("done", call, now)
        replayed = FirstResult(state.kept, state.at, state.run)
        if call.kind == "attempt":
            # A node that is run again from its start asks for nothing new.
            return Replay(state, replayed)
        turn = joined(call.where.run, call.where.turn)
        replays = state.replays + 1 if state.turn == turn else 1
        if replays > self.max_replays:
            limit, observed = self.max_replays + 1, replays + 1
            return self._stop("repeat", call, now, limit=limit, observed=observed)
        return Replay(replace(state, turn=turn, replays=replays), replayed)

    def _stop(self, reason: str, call: Call, now: float, **more: Any) -> Stop:
        return Stop.of(call, reason, "call", now, rule=self.name, key=call.key, **more)
