"""A person instead of a stop: what they say of a call that was refused, and of its run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lastcall.call import Call
from lastcall.contracts import Answer
from lastcall.errand import Errand, Errands, nothing
from lastcall.events import log
from lastcall.fold import ending, pardoning, raised_by
from lastcall.lineup import Lineup, keys_of
from lastcall.money import Amount
from lastcall.reporter import Reporter
from lastcall.stop import Stop
from lastcall.verdict import Verdict

MOST_OWED = 1024
"""Runs of which an end is remembered that no store has kept yet."""


class Person:
    """What people said to one guard. An outage breaks nobody's run: nothing here but `pay` raises what the
    store raises. The twins differ in `await` alone.

    *lineup* finds the rules that look at a call, and *faulted* is the verdict where the guard itself failed.
    """

    def __init__(
        self,
        errands: Errands,
        reporter: Reporter,
        lineup: Callable[[Call], Lineup],
        faulted: Callable[[Call, Exception], Verdict],
    ) -> None:
        self._errands = errands
        self._reporter = reporter
        self._lineup = lineup
        self._faulted = faulted
        self.owed: dict[str, Errand[bool]] = {}
        """The ends, by run, that a person said and the store has not kept yet."""

    def pardon(
        self, verdict: Verdict, more: Amount | None = None, *, asked: int = 1
    ) -> Verdict | None:
        """A person let the call of *verdict* pass: what led to its stops is forgotten, and a budget that
        was spent is raised by *more* (default: by its limit). *asked*: the questions that were put about
        it so far. None: ask again about the call. Otherwise it could not be kept, and this is the verdict."""
        try:
            self._errands.run(self._pardon(verdict, more, asked))
        except Exception as fault:
            return self._unpardoned(verdict.call, fault)
        return None

    async def apardon(
        self, verdict: Verdict, more: Amount | None = None, *, asked: int = 1
    ) -> Verdict | None:
        """`pardon` for an event loop."""
        try:
            await self._errands.arun(self._pardon(verdict, more, asked))
        except Exception as fault:
            return self._unpardoned(verdict.call, fault)
        return None

    def end(self, verdict: Verdict) -> Stop:
        """A person ended the run of the call that *verdict* refused; gives the stop that says so. Until
        the store keeps it this process does. Raises ValueError when nothing was refused."""
        stop = stop_of(verdict)
        errand = ended(verdict.call, stop)
        if not self._errands.done(errand):
            self._owe(errand)
        return self._reporter.ended(verdict.call, stop)

    async def aend(self, verdict: Verdict) -> Stop:
        """`end` for an event loop."""
        stop = stop_of(verdict)
        errand = ended(verdict.call, stop)
        if not await self._errands.adone(errand):
            self._owe(errand)
        return self._reporter.ended(verdict.call, stop)

    def pay(self, run: str | None) -> None:
        """Keep the end of *run* that is owed, before anything else is decided in it. Raises what the store
        raises."""
        errand = self.owed.get(run or "")
        if errand is not None and self._errands.run(errand):
            self.paid(run)

    async def apay(self, run: str | None) -> None:
        """`pay` for an event loop."""
        errand = self.owed.get(run or "")
        if errand is not None and await self._errands.arun(errand):
            self.paid(run)

    def paid(self, run: str | None) -> None:
        """Nothing is owed to *run* any more."""
        if self.owed:
            self.owed.pop(run or "", None)

    def _owe(self, errand: Errand[bool]) -> None:
        if errand.run is not None:
            self.owed[errand.run] = errand
            while len(self.owed) > MOST_OWED:
                self.owed.pop(next(iter(self.owed)), None)

    def _pardon(self, verdict: Verdict, more: Amount | None, asked: int) -> Errand[None]:
        stops = [stop for stop in (verdict.stop, *verdict.also) if stop is not None]
        raised = {
            stop.budget: raised_by(stop.budget, more or stop.limit or 1)
            for stop in stops
            if stop.budget is not None
        }
        call = verdict.call
        lineup = self._lineup(call)
        step = partial(pardoning, call, stops, lineup, raised, asked)
        # It is run and never `done`: what comes of a failure is a verdict.
        return Errand(keys_of(call, lineup), step, nothing, None, "")

    def _unpardoned(self, call: Call, fault: Exception) -> Verdict:
        """A leave that is not kept is none: the rules would go on from what led to the stop."""
        log.warning("a person let %r pass, and that could not be kept: it stays refused", call.name)
        return self._faulted(call, fault)


def stop_of(verdict: Verdict) -> Stop:
    """The stop by which a person ends the run of *verdict*. Raises ValueError when nothing was refused."""
    said = verdict.ending or verdict.stop
    if said is None:
        raise ValueError("nothing was refused, so there is nothing to end")
    return said.model_copy(update={"asked": True, "scope": "run"})


def ended(call: Call, stop: Stop) -> Errand[bool]:
    """End the run of *call* by *stop*; True once that is kept."""
    run = call.where.run
    so = f"a person ended run {run!r}, which this process alone knows until the store answers"
    return Errand([(call.shard, "turn")], partial(ending, call, stop), kept, False, so, run)


def kept(_: None, answer: Answer, __: float) -> bool:
    """Whether it is kept for everybody, and not in this process alone."""
    return answer.standby is None
