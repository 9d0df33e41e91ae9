"""Which answers count for a body that sends several requests, one after another or at once.

An answer supersedes those that whoever sent the request knew of. What nobody got past counts, and the worst
of it: requests one after another come to the last, and of several at once none hides another's failure.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from contextvars import ContextVar
from itertools import count
from typing import NamedTuple

from lastcall.body import Body, Seen
from lastcall.call import Outcome
from lastcall_http.sending import Sending

KEPT = 256
"""Failures of one body that stand at once and are remembered; the oldest of more is forgotten."""

NUMBERS = count(1)

_LOCK = threading.Lock()


class Flow(NamedTuple):
    """What one task or thread sent before, or whoever began it had sent by then."""

    latest: int = 0
    """The number of its last request; 0: none."""
    met: frozenset[int] = frozenset()
    """The numbers of its requests that failed."""


FLOW: ContextVar[Flow] = ContextVar("lastcall_http_flow", default=Flow())  # noqa: B039 - frozen


class Failure(NamedTuple):
    """One that nobody got past yet."""

    equal: Hashable
    """What was asked for."""
    burst: int
    """The request by which it began that something was on its way, this one among others."""
    seen: Seen
    outcome: Outcome


RANKS = {"final": 2, None: 1, "passing": 0}
"""How bad each grade of failure is."""


def worst(failures: Iterable[Failure], *, writes: bool) -> Failure:
    """For a tool that writes what may have been made; then what is final, and of the rest what asks for the
    longest wait."""

    def badness(failure: Failure) -> tuple[bool, int, float, int]:
        outcome = failure.outcome
        wait = outcome.retry_after or 0.0
        return (writes and outcome.doubtful, RANKS[outcome.grade], wait, -(outcome.status or 0))

    return max(failures, key=badness)


class Standing:
    """The failures of one body that stand."""

    def __init__(self) -> None:
        self.failures: dict[int, Failure] = {}
        self.under_way: set[Asked] = set()
        self.burst = 0
        """The request since which something is on its way."""


class Asked:
    """One request of a body: made when it is about to be sent, where it is sent."""

    __slots__ = ("_burst", "_known", "_number", "_standing", "sending")

    def __init__(self, standing: Standing, sending: Sending) -> None:
        self.sending = sending
        self._standing = standing
        flow, failures = FLOW.get(), standing.failures
        with _LOCK:
            self._number = next(NUMBERS)
            alone = not standing.under_way
            if alone:
                standing.burst = self._number
            self._burst = standing.burst
            self._known = [
                number
                for number, failure in failures.items()
                if number in flow.met
                # Whoever was busy beside it goes on with something of their own.
                or (alone and flow.latest < failure.burst)
                or failure.equal == sending.equal
            ]
            standing.under_way.add(self)
            met = frozenset(number for number in flow.met if number in failures)
        FLOW.set(Flow(self._number, met))

    def answered(self, body: Body, seen: Seen, outcome: Outcome, *, writes: bool) -> None:
        """What it came to, also where that shows later on; *body* is told what counts now."""
        failures = self._standing.failures
        failed = outcome.kind == "error"
        with _LOCK:
            for number in (*self._known, self._number):
                failures.pop(number, None)
            if failed:
                equal = self.sending.equal
                failures[self._number] = Failure(equal, self._burst, seen, outcome)
                if len(failures) > KEPT:
                    del failures[next(iter(failures))]
            # Within the lock: what another told meanwhile is not to be told over.
            body.last = worst(failures.values(), writes=writes).seen if failures else seen
        if failed:
            flow = FLOW.get()
            FLOW.set(Flow(flow.latest, flow.met | {self._number}))

    def is_over(self) -> None:
        """Nothing more is waited for; a second time nothing happens."""
        with _LOCK:
            self._standing.under_way.discard(self)

    def has_rivals(self) -> bool:
        """Whether a request to the same place that says something else is on its way."""
        mine = self.sending
        with _LOCK:
            return any(
                other.sending.place == mine.place and other.sending.equal != mine.equal
                for other in self._standing.under_way
            )
