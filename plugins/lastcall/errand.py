"""What the guard has a store keep, or looks up there, beside decisions: in an event loop or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lastcall.contracts import Answer, Clock, Key, Plan, Step, Store
from lastcall.reporter import Reporter
from lastcall.stores.standby import Standby

T = TypeVar("T")


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


class Errands:
    """Runs errands for one guard. The twins differ in `await` alone."""

    def __init__(
        self, records: Callable[[], Store | Standby], clock: Clock, reporter: Reporter
    ) -> None:
        self._records = records
        self._clock = clock
        self._reporter = reporter

    def run(self, errand: Errand[T]) -> T:
        """What comes of *errand*. Raises what the store raises."""
        now = self._clock()
        found, answer = self._records().update(errand.keys, errand.step, now)
        return errand.read(found, answer, now)

    async def arun(self, errand: Errand[T]) -> T:
        """`run` for an event loop."""
        now = self._clock()
        found, answer = await self._records().aupdate(errand.keys, errand.step, now)
        return errand.read(found, answer, now)

    def done(self, errand: Errand[T]) -> T:
        """The same, and nobody's run is broken by an outage: it raises nothing."""
        try:
            return self.run(errand)
        except Exception as fault:
            return self._failed(errand, fault)

    async def adone(self, errand: Errand[T]) -> T:
        """`done` for an event loop."""
        try:
            return await self.arun(errand)
        except Exception as fault:
            return self._failed(errand, fault)

    def _failed(self, errand: Errand[T], fault: Exception) -> T:
        self._reporter.failed(errand.so, fault, run=errand.run, thread=errand.thread)
        return errand.otherwise


def reading(records: Sequence[Any]) -> Plan[Any]:
    """A step: the one record, and nothing written."""
    return Plan(records[0])


def nothing(_: Any, __: Answer, ___: float) -> None:
    """Nothing is wanted of what an errand gives."""
