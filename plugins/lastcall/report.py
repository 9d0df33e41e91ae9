"""Notes on what runs did, from which an incident is made for whoever asks."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct

from lastcall.call import Call, Outcome
from lastcall.stop import Gathered, Stop, legible

if TYPE_CHECKING:
    from lastcall.incident import Incident

RESULTS = 50
RESULT_SIZE = 16 * 1024
RESULTS_SIZE = 256 * 1024
STOPS = 100
FINISHED = 64
"""Finished runs whose incident can still be asked for."""
RUNNING = 10_000
"""Runs at once; the oldest of more was probably never finished."""


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

    def noted(self, call: Call) -> Notes:
        """The notes on the run of *call*, which was decided before: the run may be over by now."""
        run = call.where.run or ""
        return self._running.get(run) or self._finished.get(run) or self.notes(call)

    def finish(self, run: str) -> None:
        """Keep the notes on *run* among the last finished ones."""
        with self._lock:
            notes = self._running.pop(run, None)
            if notes is not None:
                notes.finished = True
                notes.unshow()
                self._finished.pop(run, None)
                self._finished[run] = notes
                while len(self._finished) > FINISHED:
                    self._finished.popitem(last=False)

    def incident(self, run: str) -> Incident | None:
        """What is known of *run*; None when nothing is."""
        with self._lock:
            notes = self._running.get(run) or self._finished.get(run)
        return None if notes is None else notes.incident(run)


class Notes:
    """Notes on one run."""

    def __init__(self) -> None:
        self.finished = False
        self.stops: deque[Stop] = deque(maxlen=STOPS)
        self.shadow: deque[Stop] = deque(maxlen=STOPS)
        self.alerts: deque[str] = deque(maxlen=STOPS)
        self.faults: deque[str] = deque(maxlen=STOPS)
        self.ended: Stop | None = None
        self._lock = threading.Lock()
        self._kept: deque[Kept] = deque()
        self._held = 0
        """Bytes of the results in it."""
        self._counts: dict[tuple[str, str, str], int] = {}
        """Calls by tool, kind, and what they came to."""
        self._asked: dict[str, int] = {}
        self._hosted: dict[str, int | None] = {}
        self._spent: Decimal | None = None
        self._incomplete = False
        self._blocked: dict[str, None] = {}

    def observed(self, call: Call, outcome: Outcome) -> None:
        """One call is over, or waits."""
        kind = outcome.kind
        result = kept(call, outcome) if kind == "ok" or kind == "error" else None  # noqa: PLR1714 - faster
        of = (call.name, call.kind, kind)
        with self._lock:
            self._counts[of] = self._counts.get(of, 0) + 1
            if result is not None:
                self._keep(result)

    def cost(self, call: Call, outcome: Outcome) -> None:
        """One call is over, or waits, under a limit of money."""
        with self._lock:
            self._spent = (self._spent or Decimal(0)) + (outcome.cost or 0)
            self._incomplete = self._incomplete or outcome.cost is None
        if call.kind == "model" and outcome.cost is None and outcome.kind != "cancelled":
            self._request(unpriced=1)

    def refused(self, call: Call) -> None:
        """One call, or request to a model, was refused."""
        if call.kind == "model":
            self._request(refused=1)
        else:
            of = (call.name, call.kind, "refused")
            with self._lock:
                self._counts[of] = self._counts.get(of, 0) + 1

    def answered(self, outcome: Outcome) -> None:
        """One request to a model is over."""
        if outcome.kind == "cancelled":
            return
        usage = outcome.usage
        self._request(made=1, failed=int(outcome.kind == "error"))
        if usage is None:
            self._request(untold=1)
        else:
            self._request(
                input_tokens=usage.input,
                output_tokens=usage.output,
                cached_tokens=usage.cached,
                reasoning_tokens=usage.reasoning,
            )
        with self._lock:
            for tool, calls in outcome.hosted.items():
                before = self._hosted.get(tool)
                known = [each for each in (before, calls) if each is not None]
                self._hosted[tool] = sum(known) if known else None

    def stopped(self, stop: Stop) -> None:
        """One stop was made."""
        self.stops.append(stop)
        if stop.reason == "breaker" and stop.dependency is not None:
            self._blocked[stop.dependency] = None
        if stop.ends_run and self.ended is None:
            self.ended = stop

    def unshow(self) -> None:
        """Nothing is shown again and again from now on."""
        for one in self._kept:
            one.shown = None

    def results(self) -> tuple[Gathered, ...]:
        """The results, oldest first."""
        with self._lock:
            kept = tuple(self._kept)
        return tuple(one.gathered() for one in kept)

    def incident(self, run: str) -> Incident:
        """The notes as an incident of *run*."""
        # Most processes never ask for one, and its models take a while to make.
        from lastcall.incident import Incident, Requests, Totals, totals_of  # noqa: PLC0415

        status = "stopped" if self.ended else "finished" if self.finished else "running"
        with self._lock:
            tools = totals_of(self._counts)
        return Incident(
            run=legible(run) or "",
            status=status,
            stopped_by=self.ended,
            spent=self._spent,
            incomplete=self._incomplete,
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
            requests=Requests(**self._asked),
            hosted=dict(self._hosted),
            blocked=tuple(self._blocked),
        )

    def _request(self, **more: int) -> None:
        with self._lock:
            for name, amount in more.items():
                self._asked[name] = self._asked.get(name, 0) + amount

    def _keep(self, one: Kept) -> None:
        """Keep *one*, and forget the oldest of what is too much."""
        if len(self._kept) == RESULTS:
            self._held -= self._kept.popleft().size
        self._kept.append(one)
        self._held += one.size
        if self._held > RESULTS_SIZE:
            self._shed()

    def _shed(self) -> None:
        """Forget the oldest results until the rest is not too much."""
        for old in self._kept:
            if self._held <= RESULTS_SIZE:
                break
            self._held -= old.size
            old.forget()


class Kept(Struct, gc=False):
    """What is kept of one call and its result, which may be large or change later."""

    tool: str
    call_id: str | None
    fingerprint: str
    digest: str
    failed: bool
    result: str | bytes | None
    size: int
    shown: Gathered | None = None
    """As it was shown before: a model that ignores refusals is shown the same again and again."""

    def forget(self) -> None:
        """Keep the digest alone."""
        self.result, self.size, self.shown = None, 0, None

    def gathered(self) -> Gathered:
        """As it is shown."""
        shown = self.shown
        if shown is None:
            shown = self.shown = self._shown()
        return shown

    def _shown(self) -> Gathered:
        result = self.result
        return Gathered(
            tool=legible(self.tool) or "",
            call_id=legible(self.call_id),
            fingerprint=self.fingerprint,
            result=result.decode() if isinstance(result, bytes) else legible(result),
            digest=self.digest,
            failed=self.failed,
        )


def kept(call: Call, outcome: Outcome) -> Kept:
    """The result in the form its digest was taken from, where it is not too large."""
    content = outcome.content
    result = content if type(content) is str else outcome.encoded
    size = len(result)
    if size <= RESULT_SIZE and isinstance(result, str) and not result.isascii():
        size = len(result.encode("utf-8", "replace"))
    failed = outcome.kind == "error"
    one = Kept(call.tool, call.id, call.fingerprint, outcome.digest, failed, result, size)
    if size > RESULT_SIZE:
        one.forget()
    return one
