"""Single requests in the body of a call, as transports ask about them and tell what became of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lastcall.call import Call, Outcome
from lastcall.contracts import Clock, Store
from lastcall.hosts import Trip, Word
from lastcall.reporter import Reporter
from lastcall.stop import Stop
from lastcall.stores.standby import Standby
from lastcall.verdict import Verdict


class Wire:
    """What one guard says of requests. None of it raises. The twins differ in `await` alone."""

    def __init__(
        self,
        records: Callable[[], Store | Standby],
        clock: Clock,
        reporter: Reporter,
        faulted: Callable[[Call, Exception], Verdict],
    ) -> None:
        self._records = records
        self._clock = clock
        self._reporter = reporter
        self._faulted = faulted

    def may_send(self, trip: Trip) -> Stop | None:
        """Ask the breaker of the host that a request goes to. The stop, when it is not to be sent."""
        try:
            step = partial(trip.before, now := self._clock())
            word, _ = self._records().update([trip.rule.shared(trip.call)], step, now)
        except Exception as fault:
            return self._faulted(trip.call, fault).stop
        return self._worded(trip, word)

    async def amay_send(self, trip: Trip) -> Stop | None:
        """`may_send` for an event loop."""
        try:
            step = partial(trip.before, now := self._clock())
            word, _ = await self._records().aupdate([trip.rule.shared(trip.call)], step, now)
        except Exception as fault:
            return self._faulted(trip.call, fault).stop
        return self._worded(trip, word)

    def sent(self, trip: Trip, outcome: Outcome) -> None:
        """Tell that breaker what came of it."""
        try:
            step = partial(trip.after, outcome, now := self._clock())
            word, _ = self._records().update([trip.rule.shared(trip.call)], step, now)
            self._worded(trip, word)
        except Exception as fault:
            self._reporter.fault(trip.call, fault)

    async def asent(self, trip: Trip, outcome: Outcome) -> None:
        """`sent` for an event loop."""
        try:
            step = partial(trip.after, outcome, now := self._clock())
            word, _ = await self._records().aupdate([trip.rule.shared(trip.call)], step, now)
            self._worded(trip, word)
        except Exception as fault:
            self._reporter.fault(trip.call, fault)

    def replayed(self, call: Call, message: str) -> None:
        """A service answered a request of *call* by what it kept under its key."""
        self._reporter.noticed(call, "replayed", message)

    def _worded(self, trip: Trip, word: Word) -> Stop | None:
        if word.notice is not None:
            self._reporter.noticed(trip.call, word.notice.kind, word.notice.message)
        if word.stop is None:
            return None
        if not trip.enforce:
            self._reporter.shadowed(trip.call, (word.stop,))
            return None
        return self._reporter.refused(trip.call, (word.stop,)).stop
