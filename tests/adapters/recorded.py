"""A recorded run as an agent of any framework can live it again: what its model says, turn by turn, and what
its tools answer. What a guard does to it is told in the same words of replay and of life."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from lastcall import Policy, Stop
from lastcall.events import Event
from lastcall.replay import Replayer
from lastcall.transcripts import RecordedCall, Transcript, read
from lastcall.verdict import WIDTH

FORMATS = ("tau-bench-traj", "tau2-results", "openai-chat-messages")
"""Formats of which an agent can live enough runs again."""

POLICIES = {
    "default": Policy(),
    "strict": Policy.strict(),
    "short": Policy(max_calls=3, max_repeats=1),
    "patient": Policy(max_repeats=1, max_refusals=4),
    "each tool twice": Policy(tools={"*": {"max_calls": 2}}),
    "503 is final": Policy(terminal_statuses=[503]),
}
EACH = 4
"""Runs of each format, for each policy."""


class Asked(NamedTuple):
    """A call that a recorded reply asks for. *number* counts the calls of the run from 0."""

    number: int
    id: str
    call: RecordedCall


Reply = tuple[Asked, ...]
Turn = tuple[Reply, ...]


class Met(NamedTuple):
    """The stop that a call met: the widest, where several came together."""

    number: int
    tool: str
    fingerprint: str
    reason: str
    scope: str
    status: int | None
    refused: bool
    """False: the tool had answered, and its answer was the stop."""


class Ended(NamedTuple):
    """What ended a turn before its model was done."""

    tool: str
    reason: str
    scope: str
    status: int | None


class Course(NamedTuple):
    """How a turn went, up to where it ended."""

    executed: tuple[int, ...] = ()
    met: tuple[Met, ...] = ()
    ended: Ended | None = None


def runs(corpus: Path, *formats: str, loops: bool = False) -> Iterator[Transcript]:
    """The runs of these formats that an agent can live again, in the order of the index; with *loops*
    those reviewed as stuck loops."""
    for line in (corpus / "index.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["format"] in formats and (row["reviewed_loop"] or not loops):
            run = run_in(corpus / row["file"])
            if whole(run):
                yield run


@cache
def run_in(file: Path) -> Transcript:
    """The one run of *file*."""
    (run,) = read(file)
    assert isinstance(run, Transcript), run
    return run


def whole(run: Transcript) -> bool:
    """Whether an agent can live it again. No framework hands a malformed call to a tool, and an answer
    that was not recorded would have to be made up."""
    return not any(call.malformed or call.result is None for call in run.calls)


def turns_of(run: Transcript) -> list[Turn]:
    """The replies of a run by turn. Those without calls are left out: no guard sees them. A call without
    an id is given one, as a framework would do."""
    asked = [Asked(n, call.id or f"call-{n}", call) for n, call in enumerate(run.calls)]
    return [
        tuple(tuple(reply) for _, reply in groupby(turn, lambda each: each.call.reply))
        for _, turn in groupby(asked, lambda each: each.call.turn)
    ]


@cache
def chosen(corpus: Path, name: str) -> tuple[Transcript, ...]:
    """The first runs of each format on which the policy says something else than a looser one; for the
    default also every reviewed loop, and the first of each format, whatever they are."""
    policy, looser = POLICIES[name], Policy() if name != "default" else Policy.permissive()
    found = list(runs(corpus, *FORMATS, loops=True)) if name == "default" else []
    for kind in FORMATS:
        if name == "default":
            found += islice(runs(corpus, kind), EACH)
        stopped = (
            run for run in runs(corpus, kind) if replayed(run, policy) != replayed(run, looser)
        )
        found += islice(stopped, EACH)
    return tuple({run.file: run for run in found}.values())


@cache
def expected(corpus: Path, name: str) -> dict[str, list[Course]]:
    """What replay says of the chosen runs, by the run's file."""
    return {run.file: replayed(run, POLICIES[name]) for run in chosen(corpus, name)}


def replayed(run: Transcript, policy: Policy) -> list[Course]:
    """What replay says of each turn, up to the reply whose stop ends it: an agent asks for nothing after
    that, where replay goes on to tell what would have followed."""
    stops = {stop.index: stop for stop in Replayer(policy).replay(run).stops}
    return [_told(turn, stops) for turn in turns_of(run)]


def _told(turn, stops) -> Course:
    executed, met, ended = [], [], None
    for reply in turn:
        for number, _, call in reply:
            stop = stops.get(number)
            if stop is None or not stop.refused:
                executed.append(number)
            if stop is not None:
                why = stop.reason, stop.scope, stop.status
                met.append(Met(number, call.tool, stop.fingerprint, *why, stop.refused))
                if ended is None and stop.scope not in ("call", "tool"):
                    ended = Ended(stop.tool, *why)
        if ended is not None:
            break
    return Course(tuple(executed), tuple(met), ended)


class Lived(NamedTuple):
    """How a turn went, and which of its calls the model was told a stop for."""

    course: Course
    told: tuple[int, ...]
    unanswered: tuple[str, ...]


Lives = Mapping[str, tuple[tuple[Course, Lived], ...]]
"""What replay tells and what was lived, turn by turn, by the run's file."""


def differing(found: Lives, of: Callable[[Course], Any]) -> dict[tuple[str, int], tuple[Any, Any]]:
    """The turns in which replay and life differ in what *of* takes from a course."""
    return {
        (file, at): (of(replay), of(life.course))
        for file, turns in found.items()
        for at, (replay, life) in enumerate(turns)
        if of(replay) != of(life.course)
    }


class Recording:
    """A run while an agent lives it again: its model asks for `reply`, its tools for `answer`, and its
    guard tells `listen`. It sees one call at a time, in the order of the replies."""

    def __init__(self, run: Transcript) -> None:
        self.turns = turns_of(run)
        self.shells = {call.tool: call.shell for call in run.calls}
        """The tools by name, and whether each prints what other programs say."""
        self._due: deque[Reply] = deque()
        self._reply: Reply = ()
        self._executed: list[int] = []
        self._stops: dict[int, list[tuple[str, Stop]]] = {}

    def begin(self, turn: Turn) -> None:
        """The user speaks."""
        self._due = deque(turn)
        self._reply, self._executed, self._stops = (), [], {}

    def reply(self) -> Reply:
        """What the model says now; nothing when the turn is over."""
        self._reply = self._due.popleft() if self._due else ()
        return self._reply

    def answer(self, call_id: str) -> RecordedCall:
        """The call of that id, with what its tool is to answer. The tool's body runs now."""
        asked = self._asked(call_id)
        self._executed.append(asked.number)
        return asked.call

    def listen(self, event: Event) -> None:
        """Keeps the stops of calls; a request to the model, which has no id, is told of by its end."""
        if event.stop is not None and event.call_id is not None:
            number = self._asked(event.call_id).number
            self._stops.setdefault(number, []).append((event.kind, event.stop))

    def course(self, ended: Stop | None) -> Course:
        """How the turn went, where *ended* is the stop with which the agent came back."""
        met = tuple(_met(number, *told) for number, told in sorted(self._stops.items()))
        over = None if ended is None else Ended(ended.tool, ended.reason, ended.scope, ended.status)
        return Course(tuple(self._executed), met, over)

    def _asked(self, call_id: str) -> Asked:
        # Models use an id again in a later reply, so it is looked for in the one at hand.
        (asked,) = (each for each in self._reply if each.id == call_id)
        return asked


def _met(number: int, *told: tuple[str, Stop]) -> Met:
    wide = [stop for _, stop in told if stop.ends_run]
    kind, first = told[0]
    stop = max(wide, key=lambda each: WIDTH.index(each.scope), default=first)
    why = stop.reason, stop.scope, stop.status
    return Met(number, stop.tool, stop.fingerprint, *why, kind == "refused")
