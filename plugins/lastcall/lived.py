"""A saved run lived again by the user's own agent, one turn after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from msgspec import Struct

from lastcall.course import Course, Diverged
from lastcall.guard import Guard
from lastcall.live import Play, Player, UnfinishedError, in_a_line
from lastcall.policy import Policy
from lastcall.replay import MOST_STOPS, Replayed
from lastcall.stop import Stopped
from lastcall.tape import Tape
from lastcall.transcripts.recorded import RecordedCall, Transcript
from lastcall.transcripts.said import Said

TURN = frozenset({"call", "tool", "dependency", "turn", "run"})
"""Scopes of stops after which the user may go on in the next turn, which is another run."""


class LivedTurn(Struct, frozen=True):
    """How one turn went. *turn*: its number, as the recorded calls have it; the other fields are those of `Lived`,
    for this turn, with indexes of calls that count from the beginning of the run."""

    turn: int
    calls: int
    recorded: int
    requests: int
    diverged: Diverged | None = None
    stopped: bool = False
    """Whether a stop ended it."""
    output: str | None = None
    ended: str | None = None
    error: str | None = None


class NotLived(Struct, frozen=True):
    """How many turns of a run were not lived, as far as it is told how many it has, and why."""

    turns: int
    why: str


class Lived(Replayed, frozen=True, kw_only=True):
    """How a saved run went when it was lived again: *calls*, *stops* and the rest are those of now."""

    agent: str
    recorded: int
    """Recorded calls of the turns that were lived."""
    requests: int
    """Requests that the model was sent."""
    diverged: Diverged | None = None
    """Where it left the recording; None: nowhere, up to where it ended."""
    unrecorded: int = 0
    """Calls of which there is no recording."""
    output: str | None = None
    """The agent's last answer, in the last turn that was lived."""
    ended: str | None = None
    """By what else than its own last answer, a failure or a stop of this guard that turn ended: a limit of its
    framework, a pause for a person, a guard of the agent's own."""
    error: str | None = None
    """What the agent failed with, in one line."""
    turns: tuple[LivedTurn, ...] = ()
    """The turns that were lived, in their order."""
    not_lived: NotLived | None = None
    """The turns that were not; None where all were."""


def lived(
    transcript: Transcript,
    said: Said,
    name: str,
    agent: Any,
    player: Player,
    policy: Policy,
    loop: asyncio.Runner,
) -> Lived:
    """*transcript* once more by *agent*, which is called *name*, by the words that the user *said*, and under
    *policy*. All turns are one thread of the guard; a turn that ends in any other way than by its last answer
    or by a stop of its own ends the run."""
    calls = tuple(transcript.calls)
    course = Course(policy)
    guard = Guard(policy, listeners=[course])
    tape = Tape(calls, guard)
    thread, kept = f"live-{uuid4().hex}", dict[str, Any]()
    turns: list[LivedTurn] = []
    over = None
    try:
        for number, words in said.turns:
            recorded = tuple(call for call in calls if call.turn == number)
            play = Play(words, guard, tape, 2 * len(recorded) + 10, loop, thread, kept)
            tape.begin(number)
            turn, why = _turn(number, agent, player, play, course, recorded)
            turns.append(turn)
            if why is not None:
                over = f"{why} in turn {len(turns)}"
                break
    finally:
        guard.close()
    stops, made = course.stops, len(course.calls)
    first = min((stop.index for stop in stops if stop.refused), default=made)
    last = turns[-1] if turns else LivedTurn(0, 0, 0, 0)
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
        recorded=sum(turn.recorded for turn in turns),
        requests=course.requests,
        diverged=next((turn.diverged for turn in turns if turn.diverged is not None), None),
        unrecorded=tape.unrecorded,
        output=last.output,
        ended=last.ended,
        error=last.error,
        turns=tuple(turns),
        not_lived=_rest(said, len(turns), over),
    )


def _turn(
    number: int,
    agent: Any,
    player: Player,
    play: Play,
    course: Course,
    recorded: Sequence[RecordedCall],
) -> tuple[LivedTurn, str | None]:
    """How the turn of that *number* went, and why none comes after it, if so."""
    calls, requests, stops = len(course.calls), course.requests, len(course.stops)
    output = ended = error = why = None
    stopped = False
    try:
        output = player.play(agent, play)
    except Stopped as by:
        stopped = True
        if len(course.stops) == stops:
            ended = f"a guard of its own: {by.stop.text}"
            why = _wide(by.stop.scope)
    except UnfinishedError as limit:
        ended = str(limit)
        why = "the agent came to no end"
    except Exception as fault:
        error = in_a_line(fault)
        why = "the agent failed"
    for stop in course.stops[stops:]:
        why = why or _wide(stop.scope)
    left = course.diverged(recorded, ended=not (stopped or ended or error), since=calls)
    turn = LivedTurn(
        number,
        len(course.calls) - calls,
        len(recorded),
        course.requests - requests,
        left,
        stopped,
        None if output is None else str(output),
        ended,
        error,
    )
    return turn, why


def _wide(scope: str) -> str | None:
    return None if scope in TURN else f"a stop of scope {scope} ended it"


def _rest(said: Said, lived: int, over: str | None) -> NotLived | None:
    """What was not lived of all that was *said*, of which so many turns were *lived*."""
    missing = max(said.known, len(said.turns)) - lived
    if missing <= 0:
        return None
    return NotLived(missing, over or said.why or "what the user said then is not known")
