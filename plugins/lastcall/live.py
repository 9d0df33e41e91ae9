"""Who plays the agent of a saved run that is lived again: its model is asked anew, its tools answer as they did
then (requirement H7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextvars import copy_context
from typing import Any, Protocol

from msgspec import Struct

from lastcall.guard import Guard
from lastcall.tape import Tape

LONG = 300
"""Characters of an error that are shown."""


class UnfinishedError(Exception):
    """Why the agent did not come to an end: a limit of its framework, or a pause for a person."""


class Play(Struct, frozen=True):
    """One turn of a run, as a player is to play it. *most*: how many requests to the model it may make where
    nothing else says so."""

    prompt: str
    """What the user says in it."""
    guard: Guard
    tape: Tape
    most: int
    loop: asyncio.Runner
    thread: str = ""
    """The thread of the run: all of its turns are played in it, one after the other."""
    kept: dict[str, Any] = {}
    """What the player keeps from turn to turn of the run, the conversation so far perhaps; empty at first."""

    def complete(self, work: Awaitable[Any]) -> Any:
        """What *work* comes to."""
        return complete(self.loop, work)


class Player(Protocol):
    """Plays agents of one framework. What it plays passes `play.guard`, and what that lets through is
    answered by `play.tape`: no body of a tool runs.

    Found by entry point in the group `lastcall.live`, whose name is the framework's import name; the class
    is made without arguments.
    """

    def plays(self, agent: object) -> bool:
        """Whether *agent* is one of its framework."""
        ...

    def gaps(self, agent: Any) -> Sequence[tuple[str, str]]:
        """What of *agent* runs for real all the same, each with why: tools of the provider, say."""
        ...

    def play(self, agent: Any, play: Play) -> Any:
        """The agent's last answer in this turn; of the turns before it, it knows what `play.kept` has and what
        it keeps by itself under `play.thread`. Raises Stopped where a stop ended the run, UnfinishedError where a
        limit of the framework or a pause did, and whatever else the agent raises."""
        ...


def complete(loop: asyncio.Runner, work: Awaitable[Any]) -> Any:
    """What *work* comes to in *loop*, which all runs share: clients of models are bound to theirs."""

    async def waited() -> Any:
        return await work

    return loop.run(waited(), context=copy_context())


def in_a_line(error: BaseException) -> str:
    """*error*, short, with what is behind it."""
    cause = error.__cause__
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if cause is not None and str(cause) and str(cause) not in said:
        said += f" (from {type(cause).__name__}: {cause})"
    said = " ".join(said.split())
    return said if len(said) <= LONG else f"{said[:LONG]}..."
