"""A final status closes the call it answered (requirement A4)."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Halt, Part
from lastcall.rules.settings import Settings
from lastcall.stop import Stop
from lastcall.tool import ToolPolicy


class Answer(Struct, frozen=True, gc=False):
    """The final answer a call got."""

    final: bool = False
    """Whether it got one; a status need not be known for that."""
    status: int | None = None
    detail: str | None = None


OPEN = Answer()


class Terminal(Settings, frozen=True):
    """Turn the first final answer into a stop, and refuse the same call from then on in the turn."""

    name: ClassVar[Literal["terminal"]] = "terminal"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"tool", "attempt"})
    quiet: ClassVar[bool] = True

    closes: Literal["call", "turn"] = "call"
    """What the first final answer closes. A turn is for the on-call guard: 15 of 188 healthy API runs
    met a 4xx and went on to succeed."""

    def record(self, tool: ToolPolicy) -> Part:
        return "call"

    def start(self) -> Answer:
        return OPEN

    def before(self, state: Answer, call: Call, now: float) -> Answer | Stop:
        if not state.final:
            return state
        return self.stop(call, state, now, executed=False)

    def after(
        self, state: Answer, call: Call, outcome: Outcome, now: float
    ) -> Answer | Halt[Answer]:
        if outcome.kind == "ok":
            # Two of them ran at once and the later answer was good: what counts is the last.
            return OPEN if state.final else state
        if outcome.grade != "final":
            return state
        answer = Answer(True, outcome.status, outcome.error)
        return Halt(answer, self.stop(call, answer, now, executed=True))

    def pardoned(self, state: Answer, call: Call) -> Answer | None:
        # The same answer may stand behind another rule's stop, in quarantine: who lets the call pass
        # means both.
        return None

    def stop(self, call: Call, answer: Answer, now: float, *, executed: bool) -> Stop:
        return Stop.of(
            call,
            "terminal",
            self.closes,
            now,
            rule=self.name,
            status=answer.status,
            detail=answer.detail,
            executed=executed,
        )
