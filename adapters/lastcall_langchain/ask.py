"""A person instead of a stop: LangGraph's interrupt, before a call is refused (requirement I8).

An answer is `"go_on"` (or True), `{"raise": 50}` for so many calls more, or `"end"` (or False).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from typing import Any

from lastcall import Call, Guard, Outcome, Stop, ToolPolicy, Verdict
from lastcall_langchain.places import PLAIN, around, run_of

OWN = frozenset({"call", "tool", "turn", "run", "thread"})
"""What a person who talks with one agent may decide; beyond it others are concerned."""

FAULTS = frozenset({"attempts", "fault", "in_progress", "kill", "no_key", "store"})
"""Reasons that no leave of a person takes away."""

GO_ON, END, RAISE = "go_on", "end", "raise"


def leave(guard: Guard, call: Call, declared: ToolPolicy = PLAIN, *, wait: bool = False) -> Verdict:
    """The guard's verdict on *call*, or that of a person in its place, where the policy wants one asked.
    *wait* as for `Guard.decide`.

    Raises GraphInterrupt while a person is waited for; the node is run again with the answer.
    """
    asking = Asking(guard)
    while True:
        verdict = guard.decide(call, declared, wait=wait)
        try:
            asking.catch_up(verdict)
        except BaseException:
            if verdict.ticket is not None:
                guard.observe(verdict.ticket, Outcome("paused"))
            raise
        if verdict.ticket is not None or verdict.replay is not None:
            return verdict
        decision, more = asking.person(verdict)
        if decision == END:
            return Verdict(verdict.call, None, guard.person.end(verdict))
        stands = guard.person.pardon(verdict, more, asked=asking.questions) if decision else verdict
        if stands is not None:
            return stands


async def aleave(
    guard: Guard, call: Call, declared: ToolPolicy = PLAIN, *, wait: bool = False
) -> Verdict:
    """`leave` for an event loop."""
    asking = Asking(guard)
    while True:
        verdict = await guard.adecide(call, declared, wait=wait)
        try:
            asking.catch_up(verdict)
        except BaseException:
            if verdict.ticket is not None:
                await guard.aobserve(verdict.ticket, Outcome("paused"))
            raise
        if verdict.ticket is not None or verdict.replay is not None:
            return verdict
        decision, more = asking.person(verdict)
        if decision == END:
            return Verdict(verdict.call, None, await guard.person.aend(verdict))
        stands = (
            await guard.person.apardon(verdict, more, asked=asking.questions)
            if decision
            else verdict
        )
        if stands is not None:
            return stands


class Asking:
    """Questions about one call in one run of its node.

    LangGraph hands answers out in the order of the questions, from the first one each time a node is
    run again, so questions that were answered before are put again: what follows may be the tool's own.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.questions = 0

    def catch_up(self, verdict: Verdict) -> None:
        """Put every question anew that the call of *verdict* was let pass by in earlier runs of the node."""
        while self.questions < verdict.call.asked:
            self._put({"question": "This call was let pass before; is it still to be made?"})

    def person(self, verdict: Verdict) -> tuple[str | None, int | Decimal | None]:
        """What a person decides about the call that *verdict* refuses, and by how much a limit is raised;
        None where there is nobody to ask, and the refusal stands."""
        stop = verdict.ending or verdict.stop
        if self._guard.policy.on_stop != "ask" or stop is None or not askable(stop):
            return None, None
        wrong: str | None = None
        while True:
            answer = self._put(question(stop, wrong))
            decision, more = read(answer)
            if decision is not None:
                return decision, more
            wrong = f"{answer!r} is no answer"

    def _put(self, value: Any) -> Any:
        with waiting():
            answer = interrupt(value)
        self.questions += 1
        return answer


def askable(stop: Stop) -> bool:
    """Whether a person may decide about *stop*, and the graph around can wait for one."""
    if stop.asked or stop.scope not in OWN or stop.reason in FAULTS:
        return False
    # LangGraph has no public word for it; without a checkpointer nobody could answer.
    given = around().get("configurable") or {}
    return (
        given.get("__pregel_checkpointer") is not None
        and given.get("__pregel_scratchpad") is not None
    )


def question(stop: Stop, wrong: str | None) -> dict[str, Any]:
    """What the person is shown: the value of the interrupt."""
    # What is asked travels as JSON, which has no amounts of money but as text.
    limit = str(stop.limit) if isinstance(stop.limit, Decimal) else stop.limit
    answers: list[Any] = [GO_ON, {RAISE: limit or 1}, END]
    asked = {"lastcall": stop.model_dump(mode="json"), "question": stop.text, "answers": answers}
    return asked if wrong is None else {**asked, "wrong": wrong}


def read(answer: Any) -> tuple[str | None, int | Decimal | None]:
    """The decision in an answer, None when there is none, and by how much a limit is raised."""
    if answer is True or answer == GO_ON:
        return GO_ON, None
    if answer is False or answer == END:
        return END, None
    if isinstance(answer, Mapping) and answer.keys() == {RAISE}:
        more = amount(answer[RAISE])
        if more is not None and more > 0:
            return RAISE, more
    return None, None


def amount(value: Any) -> int | Decimal | None:
    """*value*, a whole number or an amount of money as text; None for anything else."""
    if isinstance(value, str):
        try:
            value = Decimal(value)
        except InvalidOperation:
            return None
    if isinstance(value, Decimal):
        return value if value.is_finite() else None
    return value if type(value) is int else None


def interrupt(value: Any) -> Any:
    """LangGraph's interrupt; langchain-core alone has none."""
    from langgraph.types import interrupt as pause  # noqa: PLC0415

    return pause(value)


@contextmanager
def waiting() -> Iterator[None]:
    """Mark the run as one that waits, when it does: nobody else may tell."""
    try:
        yield
    except BaseException:
        run = run_of()
        if run is not None:
            run.root.paused = True
        raise
