"""A saved run through the same guard, with a fake runner and the recorded clock (requirement H1)."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from math import inf
from operator import attrgetter

from msgspec import Struct

from lastcall.call import Call, Outcome, Where
from lastcall.guard import Guard
from lastcall.policy import Policy
from lastcall.rehearsal import Rehearsal
from lastcall.relived import Reliving
from lastcall.stop import Scope, Stop
from lastcall.stores.memory import MemoryStore
from lastcall.transcripts.recorded import Aspect, RecordedCall, RecordedReply, Transcript
from lastcall.unjudged import asks, unjudged
from lastcall.verdict import Verdict


class ReplayedStop(Struct, frozen=True):
    """The stop at the call of that index. *refused* is False when the call's answer was the stop."""

    index: int
    reason: str
    scope: Scope
    tool: str
    fingerprint: str
    status: int | None
    refused: bool


class Replayed(Struct, frozen=True):
    """What the guard would have done to one run."""

    file: str
    run: str
    format: str
    calls: int
    executed: int
    """Calls before the first that would have been refused."""
    stops: tuple[ReplayedStop, ...]
    """Those after the first refusal are what would have followed had the run gone on."""
    saved: int
    """Calls from the first refused one on."""
    further: int = 0
    """Stops beyond the first 10,000, which are counted alone."""
    lacks: tuple[Aspect, ...] = ()
    """What the transcript does not tell, sorted."""
    not_judged: tuple[str, ...] = ()
    """Rules, by name and in their order, that did not stop the run, but may have for all that is known:
    the transcript lacks what they look at."""

    @property
    def stopped(self) -> bool:
        """Whether the run would have been cut short: a call refused, or its turn or run ended."""
        return any(stop.refused or stop.scope not in ("call", "tool") for stop in self.stops)


MOST_STOPS = 10_000

OF_REPLY = attrgetter("turn", "reply")
"""What tells the reply of a call from others."""

OPEN = 1_000
"""Turns whose records are kept: most transcripts finish one before the next, some go back and forth."""


class Found:
    """The stops of one run while it is replayed."""

    def __init__(self) -> None:
        self._stops: list[ReplayedStop] = []
        self._further = 0
        self._first: int | None = None
        self._by: set[str | None] = set()

    def add(self, index: int, stop: Stop) -> None:
        """The call of that index met *stop*."""
        self._by.add(stop.rule)
        if len(self._stops) < MOST_STOPS:
            self._stops.append(shown(index, stop))
        else:
            self._further += 1
        if not stop.executed:
            self._first = index if self._first is None else min(self._first, index)

    def replayed(self, transcript: Transcript, blind: Sequence[str]) -> Replayed:
        """What became of *transcript*, of which rules were *blind* to what it lacks."""
        total = len(transcript.calls)
        first = total if self._first is None else self._first
        return Replayed(
            transcript.file,
            transcript.run,
            transcript.format,
            total,
            first,
            tuple(self._stops),
            total - first,
            self._further,
            tuple(sorted(transcript.lacks)),
            tuple(name for name in blind if name not in self._by),
        )


class Replayer:
    """Replays one run after the other; memory grows neither with their number nor with their length."""

    def __init__(self, policy: Policy | None = None) -> None:
        self._guard = Guard(policy, clock=lambda: self._rehearsal.now)
        self._rehearsal = Rehearsal(self._guard)
        self._requests = asks(self._guard.policy)
        self._unjudged: dict[frozenset[Aspect], tuple[str, ...]] = {}

    def replay(self, transcript: Transcript) -> Replayed:
        """What the guard would have done to *transcript*, which is one thread; each of its turns is a
        run of its own."""
        # Nothing is left of another, though that broke off: what is counted beyond one run, for a user
        # perhaps, is no affair of this one, whose clock may be years behind.
        self._rehearsal.begin(MemoryStore(ttl=inf, keep=inf))
        if transcript.calls and transcript.calls[0].live is not None:
            return self._relived(transcript)
        thread = f"{transcript.file}:{transcript.run}"
        replies = deque(transcript.replies if self._requests else ())
        found = Found()
        runs: OrderedDict[str, None] = OrderedDict()
        where, turn, rehearsal = Where(), None, self._rehearsal
        for index, (recorded, size) in enumerate(in_replies(transcript.calls)):
            # Recorded clocks jump; what happened later is never earlier.
            if recorded.ts is not None and recorded.ts > rehearsal.now:
                rehearsal.now = recorded.ts
            if recorded.turn != turn or recorded.agent != where.agent:
                turn = recorded.turn
                run = f"{thread}#{turn}"
                where = Where(run=run, turn=run, thread=thread, agent=recorded.agent)
                runs[run] = None
                runs.move_to_end(run)
                if len(runs) > OPEN:
                    self._guard.finish(runs.popitem(last=False)[0])
            stop = None
            while replies and replies[0].reply <= recorded.reply:
                stop = self._requested(where, replies.popleft()) or stop
            if stop is None:
                verdict = self._judged(recorded, where, size)
                stop = verdict.stop and found_in(verdict)
            if stop is not None:
                found.add(index, stop)
        for run in runs:
            self._guard.finish(run)
        lacks = transcript.lacks - {"errors"} if rehearsal.failed else transcript.lacks
        return found.replayed(transcript, self._blind(lacks))

    def _relived(self, transcript: Transcript) -> Replayed:
        """What the guard would have done to a recording of our own, as it was live."""
        found = Found()
        runs: set[str | None] = set()
        for index, verdict in Reliving(self._guard, self._at).verdicts(transcript):
            runs.add(verdict.call.where.run)
            stop = found_in(verdict)
            if index is not None and stop is not None:
                found.add(index, stop)
        for run in runs:
            self._guard.finish(run or "")
        return found.replayed(transcript, self._blind(transcript.lacks))

    def _blind(self, lacks: frozenset[Aspect]) -> tuple[str, ...]:
        """The rules that cannot judge a run which does not tell *lacks*."""
        known = self._unjudged.get(lacks)
        if known is None:
            known = self._unjudged[lacks] = unjudged(self._guard.policy, lacks)
        return known

    def _at(self, now: float) -> None:
        # Recorded clocks jump; what happened later is never earlier.
        self._rehearsal.now = max(self._rehearsal.now, now)

    def _requested(self, where: Where, reply: RecordedReply) -> Stop | None:
        """The stop of a request to the model, if any."""
        self._at(reply.ts or 0.0)
        verdict = self._guard.decide(Call("model", kind="model", where=where))
        if verdict.ticket is not None:
            outcome = Outcome(usage=reply.usage, cost=reply.cost)
            verdict = self._guard.observe(verdict.ticket, outcome)
        return found_in(verdict)

    def _judged(self, recorded: RecordedCall, where: Where, size: int) -> Verdict:
        """The verdict on one call."""
        return self._rehearsal.judge(recorded, where, size)


def found_in(verdict: Verdict) -> Stop | None:
    """The stop of one call, if any: the one that ends most, where several came together."""
    return verdict.stop and (verdict.ending or verdict.stop)


def in_replies(calls: Sequence[RecordedCall]) -> Iterator[tuple[RecordedCall, int]]:
    """The calls, each with the number of calls in its reply."""
    if isinstance(calls, tuple):
        sizes = Counter(map(OF_REPLY, calls))
        return zip(calls, map(sizes.__getitem__, map(OF_REPLY, calls)), strict=True)
    return in_large_replies(calls)


def in_large_replies(calls: Iterable[RecordedCall]) -> Iterator[tuple[RecordedCall, int]]:
    """The same of more calls than are counted first."""
    # The calls of a reply follow each other there.
    for _, together in groupby(calls, OF_REPLY):
        while some := tuple(islice(together, OPEN)):
            yield from ((call, len(some)) for call in some)


def shown(index: int, stop: Stop) -> ReplayedStop:
    """*stop* as replay reports it."""
    return ReplayedStop(
        index,
        stop.reason,
        stop.scope,
        stop.tool,
        stop.fingerprint,
        stop.status,
        not stop.executed,
    )
