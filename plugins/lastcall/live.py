"""A saved run lived again by the user's own agent: its model is asked anew, its tools answer as they did then
(requirement H7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextvars import copy_context
from typing import Any, Protocol

from msgspec import Struct

from lastcall.course import Course, Diverged, first_turn
from lastcall.guard import Guard
from lastcall.policy import Policy
from lastcall.replay import MOST_STOPS, Replayed
from lastcall.stop import Stopped
from lastcall.tape import Tape
from lastcall.transcripts.recorded import Transcript

LONG = 300
"""Characters of an error that are shown."""


class UnfinishedError(Exception):
    """Why the agent did not come to an end: a limit of its framework, or a pause for a person."""


class Play(Struct, frozen=True):
    """One run, as a player is to play it. *most*: how many requests to the model it may make where nothing
    else says so."""

    prompt: str
    guard: Guard
    tape: Tape
    most: int
    loop: asyncio.Runner

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
        """The agent's last answer. Raises Stopped where a stop ended the run, UnfinishedError where a
        limit of the framework or a pause did, and whatever else the agent raises."""
        ...


class Lived(Replayed, frozen=True, kw_only=True):
    """How a saved run went when it was lived again: *calls*, *stops* and the rest are those of now."""

    agent: str
    recorded: int
    """Calls of the recorded turn."""
    requests: int
    """Requests that the model was sent."""
    diverged: Diverged | None = None
    """Where it left the recording; None: nowhere, up to where it ended."""
    unrecorded: int = 0
    """Calls of which there is no recording."""
    output: str | None = None
    """The agent's last answer."""
    ended: str | None = None
    """By what else than its own last answer, a failure or a stop of this guard: a limit of its framework, a
    pause for a person, a guard of the agent's own."""
    error: str | None = None
    """What the agent failed with, in one line."""


def lived(
    transcript: Transcript,
    prompt: str,
    name: str,
    agent: Any,
    player: Player,
    policy: Policy,
    loop: asyncio.Runner,
) -> Lived:
    """*transcript* once more by *agent*, which is called *name*, from *prompt* on and under *policy*."""
    calls = tuple(transcript.calls)
    turn, course = first_turn(calls), Course(policy)
    guard = Guard(policy, listeners=[course])
    tape = Tape(calls, guard)
    play = Play(prompt, guard, tape, 2 * len(turn) + 10, loop)
    output = ended = error = None
    stopped = False
    try:
        output = player.play(agent, play)
    except Stopped as by:
        stopped = True
        if not course.stops:
            ended = f"a guard of its own: {by.stop.text}"
    except UnfinishedError as limit:
        ended = str(limit)
    except Exception as fault:
        error = in_a_line(fault)
    finally:
        guard.close()
    stops, made = course.stops, len(course.calls)
    first = min((stop.index for stop in stops if stop.refused), default=made)
    return Lived(
        transcript.file,
        transcript.run,
        transcript.format,
        made,
        min(first, made),
        tuple(stops[:MOST_STOPS]),
        made - min(first, made),
        len(stops[MOST_STOPS:]),
        agent=name,
        recorded=len(turn),
        requests=course.requests,
        diverged=course.diverged(turn, ended=not (stopped or ended or error)),
        unrecorded=tape.unrecorded,
        output=None if output is None else str(output),
        ended=ended,
        error=error,
    )


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
