"""A model that ignores refusals is not left to it (requirement A9)."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Kind
from lastcall.contracts import Halt, Part
from lastcall.rules.settings import Settings
from lastcall.stop import Stop
from lastcall.tool import Limit, ToolPolicy

BRIEF = frozenset({"concurrency", "in_progress", "ramp"})
"""Refusals that are worth repeating, so a model that does so ignores nothing."""


class Rounds(Struct, frozen=True, gc=False):
    """Refusal rounds in a row, and how the reply at hand stands. Nothing is written while nothing is
    refused."""

    rounds: int = 0
    reply: str | None = None
    refused: int = 0
    executed: bool = False
    tool: str | None = None
    """The tool of the last refusal, and the status behind it."""
    status: int | None = None

    def closed(self) -> Rounds:
        """With the reply at hand counted: a mixed one neither adds nor resets."""
        rounds = self.rounds
        if self.refused and not self.executed:
            rounds += 1
        elif self.executed and not self.refused:
            rounds = 0
        return Rounds(rounds, tool=self.tool, status=self.status)


class Refusals(Settings, frozen=True):
    """End the run after *max_refusals* replies in a row of which at least one call was refused and none
    was executed. A call of which the reply is not known is a reply of its own."""

    name: ClassVar[Literal["refusals"]] = "refusals"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"tool", "attempt", "model"})
    quiet: ClassVar[bool] = True

    max_refusals: Limit = 2

    def record(self, tool: ToolPolicy) -> Part:
        return "agent"

    def start(self) -> Rounds:
        return Rounds()

    def before(self, state: Rounds, call: Call, now: float) -> Rounds | Stop:
        at = self.at(state, call)
        if at.rounds >= self.max_refusals:
            return self.stop(call, at, at.rounds, now)
        if call.kind == "model" or not (at.rounds or at.refused):
            return at
        return replace(at, executed=True)

    def refused(self, state: Rounds, call: Call, stop: Stop, now: float) -> Rounds | Halt[Rounds]:
        # Where a refusal ends what is running, nobody is left who could ignore it.
        if call.kind == "model" or stop.ends_run or stop.reason in BRIEF:
            return state
        at = self.at(state, call)
        executed = at.executed or (call.reply is not None and call.reply == call.last_reply)
        at = replace(
            at, refused=at.refused + 1, executed=executed, tool=call.tool, status=stop.status
        )
        whole = call.reply is None or (call.size is not None and at.refused >= call.size)
        rounds = at.closed().rounds
        if whole and rounds >= self.max_refusals:
            return Halt(at, self.stop(call, at, rounds, now))
        return at

    def at(self, state: Rounds, call: Call) -> Rounds:
        """The state with the reply of *call* at hand. A request to the model begins a new one."""
        if call.kind != "model" and call.reply is not None and call.reply == state.reply:
            return state
        if not (state.refused or state.executed):
            return state if call.reply == state.reply else replace(state, reply=call.reply)
        return replace(state.closed(), reply=call.reply)

    def stop(self, call: Call, state: Rounds, rounds: int, now: float) -> Stop:
        return Stop.of(
            call,
            self.name,
            "run",
            now,
            rule=self.name,
            # A request to the model is no call of a tool; it was the last refused one that led here.
            tool=state.tool or call.tool if call.kind == "model" else call.tool,
            status=state.status,
            limit=self.max_refusals,
            observed=rounds,
        )
