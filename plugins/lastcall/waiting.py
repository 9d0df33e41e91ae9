"""What adapters have the guard keep, or look up, beside decisions: a person instead of a stop, tools that are
closed, runs that are paused. Each is an errand to the store; the guard runs it, in an event loop or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from lastcall.call import Call
from lastcall.contracts import Answer, Clock, Key, Plan, Step, Store
from lastcall.fold import ending, pardoning
from lastcall.lineup import Lineup, keys_of
from lastcall.reporter import Reporter
from lastcall.snapshot import PAUSED, Pause
from lastcall.stop import Stop
from lastcall.stores.standby import Standby
from lastcall.turn import Turn

T = TypeVar("T")

MOST_OWED = 1024
"""Runs of which an end is remembered that no store has kept yet."""

UNREAD = Pause("")
"""Nobody knows whether a run waits there: the store could not be asked."""


@dataclass(frozen=True, slots=True)
class Errand(Generic[T]):
    """A *step* on the records of *keys*. *read* makes what is wanted of what that gives, what the store says
    and the time; where the store fails it is *otherwise*, and the log says *so*."""

    keys: Sequence[Key]
    step: Step[Any]
    read: Callable[[Any, Answer, float], T]
    otherwise: T
    so: str
    run: str | None = None
    thread: str | None = None


class Waiting:
    """Runs errands. An outage breaks nobody's run: nothing here but `pay` raises what the store raises. The
    twins differ in `await` alone."""

    def __init__(
        self, records: Callable[[], Store | Standby], clock: Clock, reporter: Reporter
    ) -> None:
        self._records = records
        self._clock = clock
        self._reporter = reporter
        self.owed: dict[str, Errand[bool]] = {}
        """The ends, by run, that a person said and the store has not kept yet."""

    def done(self, errand: Errand[T]) -> T:
        """What comes of *errand*."""
        try:
            now = self._clock()
            found, answer = self._records().update(errand.keys, errand.step, now)
            return errand.read(found, answer, now)
        except Exception as fault:
            return self._failed(errand, fault)

    async def adone(self, errand: Errand[T]) -> T:
        """`done` for an event loop."""
        try:
            now = self._clock()
            found, answer = await self._records().aupdate(errand.keys, errand.step, now)
            return errand.read(found, answer, now)
        except Exception as fault:
            return self._failed(errand, fault)

    def owe(self, errand: Errand[bool]) -> None:
        """Have *errand*, the end of a run, done before anything else is decided in that run."""
        if errand.run is not None:
            self.owed[errand.run] = errand
            while len(self.owed) > MOST_OWED:
                self.owed.pop(next(iter(self.owed)), None)

    def pay(self, run: str | None) -> None:
        """Do what is owed to *run*. Raises what the store raises."""
        errand = self.owed.get(run or "")
        if errand is not None:
            _, answer = self._records().update(errand.keys, errand.step, self._clock())
            if answer.standby is None:
                self.paid(run)

    async def apay(self, run: str | None) -> None:
        """`pay` for an event loop."""
        errand = self.owed.get(run or "")
        if errand is not None:
            _, answer = await self._records().aupdate(errand.keys, errand.step, self._clock())
            if answer.standby is None:
                self.paid(run)

    def paid(self, run: str | None) -> None:
        """Nothing is owed to *run* any more."""
        if self.owed:
            self.owed.pop(run or "", None)

    def _failed(self, errand: Errand[T], fault: Exception) -> T:
        self._reporter.failed(errand.so, fault, run=errand.run, thread=errand.thread)
        return errand.otherwise


def pardon(
    call: Call, stops: Sequence[Stop], lineup: Lineup, raised: Mapping[str, int], asked: int
) -> tuple[Sequence[Key], Step[None]]:
    """Forget what led to *stops*, and raise limits by *raised*."""
    step = partial(pardoning, call, stops, lineup, raised, asked)
    return keys_of(call, lineup), step


def end(call: Call, stop: Stop) -> Errand[bool]:
    """End the run of *call* by *stop*; True once that is kept."""
    run = call.where.run
    so = f"a person ended run {run!r}, which this process alone knows until the store answers"
    return Errand([(call.shard, "turn")], partial(ending, call, stop), kept, False, so, run)


def closed(run: str | None) -> Errand[dict[str, str]]:
    """The tools that are closed in the present turn of *run*, each with the reason."""
    so = f"tools that are closed in run {run!r} are offered to its model"
    return Errand([(("run", run), "turn")], reading, why_closed, {}, so, run)


def pause(run: str, thread: str, graph: str | None, note: str) -> Errand[None]:
    """Keep that *run* waits in *thread*."""
    so = f"another process that resumes thread {thread!r} will not know run {run!r}"
    step = partial(writing, Pause(run, note))
    return Errand([paused_key(thread, graph)], step, nothing, None, so, run, thread)


def paused(thread: str, graph: str | None) -> Errand[Pause | None]:
    """The run that waits in *thread*."""
    so = f"it is not known which run waits in thread {thread!r}"
    return Errand([paused_key(thread, graph)], reading, as_found, UNREAD, so, None, thread)


def resumed(thread: str, graph: str | None) -> Errand[None]:
    """Keep that no run waits in *thread*."""
    so = f"a run that is over seems to wait in thread {thread!r}"
    step = partial(writing, None)
    return Errand([paused_key(thread, graph)], step, nothing, None, so, None, thread)


def paused_key(thread: str, graph: str | None) -> Key:
    """The record that names the run which waits in *thread*."""
    return (("thread", thread), PAUSED, graph)


def reading(records: Sequence[Any]) -> Plan[Any]:
    """The one record, and nothing written."""
    return Plan(records[0])


def writing(state: Any, records: Sequence[Any]) -> Plan[None]:
    """*state* in place of the one record."""
    return Plan(None, () if records[0] == state else [(0, state)])


def as_found(found: Any, answer: Answer, _: float) -> Any:
    """The record itself."""
    # What this process alone does not know, the store may.
    return UNREAD if found is None and answer.standby is not None else found


def nothing(_: Any, __: Answer, ___: float) -> None:
    """Nothing is wanted."""


def kept(_: Any, answer: Answer, __: float) -> bool:
    """Whether it is kept for everybody, and not in this process alone."""
    return answer.standby is None


def why_closed(turn: Turn | None, _: Answer, now: float) -> dict[str, str]:
    """The tools that are closed, each with the reason."""
    return {} if turn is None else {each.tool: each.why for each in turn.closed if each.holds(now)}
