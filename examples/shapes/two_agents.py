"""Two agents that defer to each other: billing asks legal, legal asks billing, and each waits for the other.

Every agent is a tool of the other, so nothing returns: the stack, and the bill, grow until a recursion limit of
the framework ends it with an error. Governed, calls that have not returned count as equal ones, so the third
round is the last (rule `cycle`). However the question is worded, an agent that is asked while it waits for another
may ask nobody (rule `path`), nor may it where each agent has one call at a time (rule `concurrency`). The
innermost agent is told, answers with what it has, and all the others return.

Run: python examples/shapes/two_agents.py
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from story import line

from lastcall import Guard, Policy, Stopped
from lastcall.rules import Concurrency, Path
from lastcall.testing import FakeClock

DEEPEST = 100
"""The framework's recursion limit."""

OTHER = {"billing": "legal", "legal": "billing"}

Words = Callable[[int], str]


class TooDeepError(RecursionError):
    """What frameworks raise in the end; whatever was found is lost."""


def same(_: int) -> str:
    return "May we refund invoice 7?"


def anew(number: int) -> str:
    return f"May we refund invoice 7? (asked by {number} colleagues before)"


def within(guard: Guard, name: str) -> AbstractContextManager[Any]:
    """The agent *name*, below those that are at work already."""
    here = guard.here()
    return guard.within(agent=name, path=(*(here.path if here else ()), name))


def asked(words: Words, guard: Guard | None) -> tuple[int, str]:
    """Agents that were started for one question, and how it ended."""
    started = 0
    stops: list[str] = []

    def agent(name: str, question: str) -> str:
        """One agent: it always thinks that the other one knows."""
        nonlocal started
        if started == DEEPEST:
            raise TooDeepError("recursion limit reached")
        started += 1
        with within(guard, name) if guard else nullcontext():
            try:
                return f"{OTHER[name]} says: {tools[OTHER[name]](words(started))}"
            except Stopped as stopped:
                stops.append(stopped.stop.reason)
                return "nobody can say"

    tools: dict[str, Callable[[str], Any]] = {
        "billing": lambda question: agent("billing", question),
        "legal": lambda question: agent("legal", question),
    }
    if guard:
        tools = {name: guard.wrap(name=f"ask_{name}")(tool) for name, tool in tools.items()}
    with guard.within(run="r1") if guard else nullcontext():
        try:
            answer = agent("billing", words(0))
        except TooDeepError as error:
            return started, f"{error}, no answer"
    return started, f"stopped by {stops[0]}; {answer.rpartition(': ')[2]}"


def main() -> None:
    """The same words and others, ungoverned beside governed."""
    for what, words in (("The same question each time", same), ("Another wording each time", anew)):
        print(what)
        for who, policy in (
            ("ungoverned", None),
            ("governed, the defaults", Policy()),
            ("governed, by the path of agents", Policy().replaced(Path())),
            (
                "governed, one call for each agent",
                Policy().replaced(Concurrency(limit=1, per="agent")),
            ),
        ):
            guard = Guard(policy, clock=FakeClock()) if policy else None
            started, ending = asked(words, guard)
            line(who, f"{started:>3} agents", ending)


if __name__ == "__main__":
    main()
