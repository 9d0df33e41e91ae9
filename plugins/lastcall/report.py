"""What a run did, for people: one incident object with its stops, attempts, results and totals."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from lastcall.call import Call, Outcome
from lastcall.stop import Gathered, Stop

RESULTS = 50
RESULT_SIZE = 16 * 1024
RESULTS_SIZE = 256 * 1024
STOPS = 100
FINISHED = 64
"""Finished runs whose incident can still be asked for."""
RUNNING = 10_000
"""Runs at once; the oldest of more was probably never finished."""


class Totals(BaseModel):
    """Counts of one run, or of one tool in it."""

    model_config = ConfigDict(frozen=True)

    executed: int = 0
    """Calls that were made, each once."""
    attempts: int = 0
    """Bodies that were started: a resumed or retried call starts more than once."""
    refused: int = 0
    failed: int = 0


class Incident(BaseModel):
    """One run, as far as the guard saw it."""

    model_config = ConfigDict(frozen=True)

    version: int = 1
    run: str
    status: str
    """running, finished or stopped; a stopped run did not fail."""
    stopped_by: Stop | None = None
    """The stop that ended the run or its turn, where one did."""
    stops: tuple[Stop, ...] = ()
    """The newest 100 stops, in order, also those of single calls."""
    shadow: tuple[Stop, ...] = ()
    """Stops that rules without `enforce` would have made."""
    alerts: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    gathered: tuple[Gathered, ...] = ()
    """The newest 50 results, in order; larger ones as digests alone."""
    totals: Totals = Totals()
    tools: dict[str, Totals] = Field(default_factory=dict)


class Ledger:
    """Keeps the notes from which incidents are made, in this process, bounded per run and in all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, Notes] = {}
        self._finished: OrderedDict[str, Notes] = OrderedDict()

    def notes(self, call: Call) -> Notes:
        """The notes on the run of *call*, begun when there are none."""
        run = call.where.run or ""
        found = self._running.get(run)
        if found is None:
            with self._lock:
                found = self._running.setdefault(run, Notes())
                oldest = next(iter(self._running)) if len(self._running) > RUNNING else None
            if oldest is not None:
                self.finish(oldest)
        return found

    def finish(self, run: str) -> None:
        """Keep the notes on *run* among the last finished ones."""
        with self._lock:
            notes = self._running.pop(run, None)
            if notes is not None:
                notes.finished = True
                self._finished.pop(run, None)
                self._finished[run] = notes
                while len(self._finished) > FINISHED:
                    self._finished.popitem(last=False)

    def incident(self, run: str) -> Incident | None:
        """What is known of *run*; None when nothing is."""
        with self._lock:
            notes = self._running.get(run) or self._finished.get(run)
        return None if notes is None else notes.incident(run)

    def gathered(self, run: str | None) -> tuple[Gathered, ...]:
        """The results of *run* so far."""
        notes = self._running.get(run or "")
        return () if notes is None else notes.results()


class Notes:
    """Notes on one run. Appending is all that happens while it runs."""

    def __init__(self) -> None:
        self.finished = False
        self.stops: deque[Stop] = deque(maxlen=STOPS)
        self.shadow: deque[Stop] = deque(maxlen=STOPS)
        self.alerts: deque[str] = deque(maxlen=STOPS)
        self.faults: deque[str] = deque(maxlen=STOPS)
        self.ended: Stop | None = None
        self._kept: deque[Kept] = deque(maxlen=RESULTS)
        self._counts: dict[str, Counts] = {}

    def observed(self, call: Call, outcome: Outcome) -> None:
        """One call is over, or waits."""
        counts = self._of(call.name)
        counts.executed += call.kind == "tool"
        counts.attempts += call.kind != "malformed"
        counts.failed += outcome.kind == "error"
        if outcome.kind in ("ok", "error"):
            self._kept.append(kept(call, outcome))

    def stopped(self, stop: Stop) -> None:
        """One stop was made."""
        self.stops.append(stop)
        if not stop.executed:
            name = stop.tool if stop.server is None else f"{stop.server}/{stop.tool}"
            self._of(name).refused += 1
        if stop.ends_run and self.ended is None:
            self.ended = stop

    def results(self) -> tuple[Gathered, ...]:
        """The results, oldest first, within the size limits."""
        shown: list[Gathered] = []
        left = RESULTS_SIZE
        for one in reversed(tuple(self._kept)):
            result = one.result if one.size <= left else None
            left -= 0 if result is None else one.size
            text = result.decode() if isinstance(result, bytes) else result
            shown.append(
                Gathered(
                    tool=one.tool,
                    call_id=one.call_id,
                    fingerprint=one.fingerprint,
                    result=text,
                    digest=one.digest,
                    failed=one.failed,
                )
            )
        return tuple(reversed(shown))

    def incident(self, run: str) -> Incident:
        """The notes as an incident of *run*."""
        status = "stopped" if self.ended else "finished" if self.finished else "running"
        tools = {name: counts.totals() for name, counts in tuple(self._counts.items())}
        return Incident(
            run=run,
            status=status,
            stopped_by=self.ended,
            stops=tuple(self.stops),
            shadow=tuple(self.shadow),
            alerts=tuple(self.alerts),
            faults=tuple(self.faults),
            gathered=self.results(),
            totals=Totals(
                executed=sum(total.executed for total in tools.values()),
                attempts=sum(total.attempts for total in tools.values()),
                refused=sum(total.refused for total in tools.values()),
                failed=sum(total.failed for total in tools.values()),
            ),
            tools=tools,
        )

    def _of(self, tool: str) -> Counts:
        found = self._counts.get(tool)
        return self._counts.setdefault(tool, Counts()) if found is None else found


class Counts(Struct):
    """Totals while they still move."""

    executed: int = 0
    attempts: int = 0
    refused: int = 0
    failed: int = 0

    def totals(self) -> Totals:
        """As they stand."""
        return Totals(
            executed=self.executed,
            attempts=self.attempts,
            refused=self.refused,
            failed=self.failed,
        )


class Kept(Struct, frozen=True, gc=False):
    """What is kept of one call and its result, which may be large or change later."""

    tool: str
    call_id: str | None
    fingerprint: str
    digest: str
    failed: bool
    result: str | bytes | None
    size: int


def kept(call: Call, outcome: Outcome) -> Kept:
    """The result in the form its digest was taken from, where it is not too large."""
    result = outcome.encoded
    size = len(result)
    small = result if size <= RESULT_SIZE else None
    failed = outcome.kind == "error"
    return Kept(call.tool, call.id, call.fingerprint, outcome.digest, failed, small, size)
