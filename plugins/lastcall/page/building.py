"""Makes the page of a run, of a transcript and of what its replay came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from lastcall.call import Call
from lastcall.expectation import cut
from lastcall.fingerprint import canonical, encoded
from lastcall.ownership import added, asked
from lastcall.page.findings import Looking
from lastcall.page.folds import folds
from lastcall.page.model import FAILED, WELL, Cut, Lane, Line, RunPage, Saved, tail
from lastcall.policy import Policy
from lastcall.prices import of_tool
from lastcall.recalled import call_of, outcome_of
from lastcall.redaction import AsTheyAre, Redactor
from lastcall.replay import Replayed, ReplayedStop
from lastcall.timeline import shown
from lastcall.transcripts import RecordedCall, Transcript
from lastcall.visible import visible

LISTED = 20_000
"""Calls that a page lists one by one; of a longer run those around the stop."""

LETTERS = "ABCDEFGH"
"""Fingerprints that have a lane and a colour of their own."""

RARE = 200
"""A fingerprint with less than one call in so many has no lane of its own, where there are too many."""

BARS = 600
"""Bars across a lane at most: about one a pixel."""

RESULT, ARGUMENTS = 2048, 8192
"""Characters that are kept of a result, and of the arguments of a call."""

LABEL = 2000
"""Characters that are looked at for the label of a lane."""

READ = 65_536
"""Characters of a result that are looked at."""

ROOM, SHORT = 6_000_000, 160
"""Characters that the results on a page may have together; of those that come then, so many are kept."""


def run_page(
    transcript: Transcript,
    done: Replayed,
    policy: Policy,
    redactor: Redactor | None,
    room: int = ROOM,
) -> RunPage:
    """The page of *transcript*, of which a replay under *policy* came to *done*. Nothing is redacted
    without a *redactor*. *room*: characters that its results may have together."""
    end = cut(done)
    own = _letters(transcript, policy, None if end is None else end.fingerprint)
    first = 0
    if done.calls > LISTED and end is not None:
        # Of a run that is too long, the part around its stop.
        first = max(0, min(end.index - LISTED // 2, done.calls - LISTED))
    building = _Building(transcript, done, policy, redactor, own, first, room)
    for index, recorded in enumerate(transcript.calls):
        building.add(index, recorded)
    return building.page(end)


def _letters(transcript: Transcript, policy: Policy, chosen: str | None) -> dict[str, int]:
    """The fingerprints that have a lane of their own, in order of appearance: the most frequent, and that
    of the stop."""
    counts = Counter(call_of(recorded, policy).fingerprint for recorded in transcript.calls)
    least = max(1, len(transcript.calls) // RARE)
    often = [each for each, times in counts.most_common(len(LETTERS)) if times > least]
    if len(counts) <= len(LETTERS):
        often = list(counts)
    elif chosen is not None and chosen not in often and chosen in counts:
        often = [chosen, *often][: len(LETTERS)]
    order = {each: place for place, each in enumerate(counts)}
    return {each: place for place, each in enumerate(sorted(often, key=order.__getitem__))}


class _Of:
    """A lane while it is counted."""

    def __init__(self) -> None:
        self.calls = self.failed = self.first = self.last = 0
        self.tool = self.fingerprint = self.arguments = ""
        self.answers: Counter[str] = Counter()
        self.bars: dict[int, int] = {}


class _Listed:
    """Texts, each once, by their places."""

    def __init__(self) -> None:
        self.places: dict[Any, int] = {}

    def place(self, one: Any) -> int:
        return self.places.setdefault(one, len(self.places))


class _Building:
    """A page while the calls of its run go by."""

    def __init__(
        self,
        transcript: Transcript,
        done: Replayed,
        policy: Policy,
        redactor: Redactor | None,
        own: Mapping[str, int],
        first: int,
        room: int,
    ) -> None:
        self.transcript, self.done, self.policy = transcript, done, policy
        self.redactor, self.own, self.first, self.room = redactor, own, first, room
        self.bars = max(1, min(done.calls, BARS))
        self.lanes = [_Of() for _ in range(len(own) + 1)]
        self.looking = Looking(cut(done), self.words)
        self.lines: list[Line] = []
        self.tools, self.arguments, self.results, self.answers = (_Listed() for _ in range(4))
        self.stops = {stop.index: stop for stop in reversed(done.stops)}
        self.turns: set[int] = set()
        self.failed = 0
        self.start: float | None = None
        self.end: float | None = None
        self.cut_at: float | None = None
        self.cost: Decimal | None = None
        self.cost_after: Decimal | None = None
        self.untold = False
        self.last_reply: tuple[int, int] | None = None

    def add(self, index: int, recorded: RecordedCall) -> None:
        """Take in the call of that index."""
        call = call_of(recorded, self.policy)
        outcome = outcome_of(recorded, call, self.policy)
        failed = outcome.kind == "error" or recorded.malformed
        after = index >= self.done.executed
        answer = answered(recorded, failed=failed, status=outcome.status)
        self.failed += failed
        self.turns.add(recorded.turn)
        self.timed(recorded, after=after)
        if call.policy.cost is not None:
            self.paid(of_tool(call.policy.cost, outcome), after=after)
        if not after or index == self.done.executed:
            self.last_reply = (recorded.turn, recorded.reply)
        args = self.redacted(recorded.args)
        self.looking.add(call, args, answer)
        place = self.own.get(call.fingerprint, -1)
        self.laned(self.lanes[place], index, call, args, answer, failed=failed)
        if self.first <= index < self.first + LISTED:
            stop = self.stops.get(index)
            self.lines.append(
                Line(
                    place,
                    self.tools.place(self.words(call.name)),
                    self.arguments.place(kept(written(args), ARGUMENTS)),
                    None if recorded.result is None else self.results.place(self.result(recorded)),
                    self.answers.place(answer),
                    failed,
                    recorded.turn + 1,
                    None
                    if recorded.ts is None or self.start is None
                    else round(recorded.ts - self.start, 3),
                    None if stop is None else stop.reason,
                )
            )

    def laned(
        self, lane: _Of, index: int, call: Call, args: Any, answer: str, *, failed: bool
    ) -> None:
        """Count a call in its lane."""
        if not lane.calls:
            lane.first, lane.tool = index + 1, self.words(call.name)
            lane.fingerprint, lane.arguments = call.fingerprint, written(args)[:LABEL]
        lane.calls += 1
        lane.last = index + 1
        lane.failed += failed
        lane.answers[answer] += 1
        bar = index * self.bars // self.done.calls
        lane.bars[bar] = lane.bars.get(bar, 0) | (FAILED if failed else WELL)

    def timed(self, recorded: RecordedCall, *, after: bool) -> None:
        """Note when the call was made."""
        if recorded.ts is None:
            return
        self.start = recorded.ts if self.start is None else self.start
        self.end = max(recorded.ts, self.end or recorded.ts)
        if after and self.cut_at is None:
            self.cut_at = recorded.ts

    def paid(self, cost: Decimal | None, *, after: bool) -> None:
        """Note what something cost."""
        self.cost = added(self.cost, cost)
        if after:
            self.cost_after = added(self.cost_after or Decimal(0), cost)

    def words(self, name: str) -> str:
        """A name without secrets, fit to be shown."""
        return visible(name if self.redactor is None else self.redactor.text(name))

    def redacted(self, args: Any) -> Any:
        """Arguments as values, without secrets."""
        return shown(args, self.redactor or AsTheyAre())

    def result(self, recorded: RecordedCall) -> Cut:
        """The beginning of a result, without secrets."""
        result = recorded.result
        if self.redactor is not None and not isinstance(result, str):
            result = self.redactor.value(result)
        data = encoded(result)
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        length = len(text)
        text = text[:READ]
        if self.redactor is not None and isinstance(recorded.result, str):
            text = self.redactor.text(text)
        one = kept(text, RESULT if self.room > 0 else SHORT)
        self.room -= len(one.text)
        return Cut(one.text, length) if length > READ else one

    def page(self, end: ReplayedStop | None) -> RunPage:
        """All of it."""
        done, lanes = self.done, list(self.own.items())
        made = [
            lane_of(self.lanes[place], LETTERS[place])
            for _, place in lanes
            if self.lanes[place].calls
        ]
        if self.lanes[-1].calls:
            made.append(lane_of(self.lanes[-1], ""))
        seconds = None if self.start is None or self.end is None else self.end - self.start
        return RunPage(
            name=self.words(tail(done.file)),
            file=self.words(done.file),
            run=self.words(done.run),
            format=done.format,
            calls=done.calls,
            failed=self.failed,
            executed=done.executed,
            stop=None if end is None else replace(end, tool=self.words(end.tool)),
            finding=self.looking.finding(),
            saved=self.saved(),
            bars=self.bars,
            lanes=tuple(made),
            first=self.first + 1,
            lines=tuple(self.lines),
            folds=tuple(folds(self.keys(), done.executed - self.first)),
            tools=tuple(self.tools.places),
            arguments=tuple(self.arguments.places),
            results=tuple(self.results.places),
            answers=tuple(self.answers.places),
            turns=len(self.turns),
            seconds=seconds,
            lacks=done.lacks,
            not_judged=done.not_judged,
        )

    def keys(self) -> list[tuple[int, int, int]]:
        """What makes two listed calls equal."""
        return [(line.tool, line.arguments, line.answer) for line in self.lines]

    def saved(self) -> Saved:
        """What is known of it."""
        done = self.done
        used: int | None = None
        for reply in self.transcript.replies:
            after = (
                self.last_reply is not None
                and bool(done.saved)
                and reply.reply > self.last_reply[1]
            )
            cost = asked(reply, self.policy)
            self.untold = self.untold or cost is None
            if cost is not None:
                self.paid(cost, after=after)
            if reply.usage is not None:
                used = (used or 0) + (reply.usage.input + reply.usage.output) * after
        if not done.saved:
            return Saved(0, None, self.cost)
        seconds = None if self.cut_at is None or self.end is None else self.end - self.cut_at
        cost = None if self.cost is None else self.cost_after or Decimal(0)
        return Saved(done.saved, cost, self.cost, used, seconds, self.untold)


def lane_of(of: _Of, letter: str) -> Lane:
    """A lane, counted."""
    return Lane(
        letter,
        of.tool,
        of.fingerprint,
        of.arguments,
        of.calls,
        of.failed,
        tuple(of.answers.most_common(3)),
        tuple(sorted(of.bars.items())),
        of.first,
        of.last,
    )


def answered(recorded: RecordedCall, *, failed: bool, status: int | None) -> str:
    """What came of a call, in a word."""
    if recorded.malformed:
        return "malformed"
    if status is not None:
        return str(status)
    # A recording tells that a call was answered, also with nothing.
    told = recorded.result is not None or (recorded.live and recorded.live.outcome) is not None
    return "failed" if failed else "ok" if told else "not told"


def written(args: Any) -> str:
    """Arguments as text: JSON in one line, or what a model wrote that is none."""
    text = args if isinstance(args, str) else canonical(args).decode("utf-8", "replace")
    return visible(text)


def kept(text: str, most: int) -> Cut:
    """The beginning of *text*, fit to be shown."""
    return Cut(visible(text)) if len(text) <= most else Cut(visible(text[:most]), len(text))
