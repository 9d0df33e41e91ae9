"""Plays a plain function `agent(prompt, tools)`: a loop of the user's own, without a framework."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from lastcall.guard import Guard
from lastcall.live import Play
from lastcall.tape import Tape


class RecordedTools(Mapping[str, Callable[..., Any]]):
    """The tools by name: functions that take arguments by name, are guarded, and answer from the recording.

    Those of the recording are listed; any other name gives a tool as well, of which there is no recording.
    They are coroutine functions where *awaited*. A stop is raised, as by `guard.wrap`.
    """

    def __init__(self, guard: Guard, tape: Tape, *, awaited: bool) -> None:
        self._guard = guard
        self._tape = tape
        self._awaited = awaited

    def __getitem__(self, name: str) -> Callable[..., Any]:
        def call(**args: Any) -> Any:
            with self._guard.calling(name, args) as calling:
                return calling.result(self._answer())

        async def acall(**args: Any) -> Any:
            async with self._guard.calling(name, args) as calling:
                return calling.result(self._answer())

        made: Callable[..., Any] = acall if self._awaited else call
        made.__name__ = name
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._tape.names)

    def __len__(self) -> int:
        return len(self._tape.names)

    def _answer(self) -> Any:
        answer = self._tape.answer()
        if answer.failure is not None:
            raise answer.failure
        return answer.content


class FunctionPlayer:
    """Plays functions, also coroutine functions."""

    def plays(self, agent: object) -> bool:
        """Whether it is a function at all."""
        return callable(agent)

    def gaps(self, agent: Any) -> Sequence[tuple[str, str]]:  # noqa: ARG002 - the contract's
        """Nothing is known of what it does beside its tools."""
        return ()

    def play(self, agent: Any, play: Play) -> Any:
        """What the function returns. It is called once a turn, with the words of that turn; what it remembers
        of those before is its own affair."""
        awaited = inspect.iscoroutinefunction(agent) or inspect.iscoroutinefunction(
            getattr(agent, "__call__", None)  # noqa: B004 - of an object, to look at
        )
        tools = RecordedTools(play.guard, play.tape, awaited=awaited)
        with play.guard.within(run=f"live-{uuid4().hex}", thread=play.thread):
            said = agent(play.prompt, tools)
            return play.complete(said) if inspect.isawaitable(said) else said
