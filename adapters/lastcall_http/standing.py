"""Which answers count for a body that sends several requests, one after another or at once.

An answer supersedes those that whoever sent the request knew of. What nobody got past counts, and the worst
of it: requests one after another come to the last, and of several at once none hides another's failure. Of
equal ones at once, one that went well is enough.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from itertools import count
from typing import NamedTuple

from lastcall.body import Body, Seen, whereabouts
from lastcall.call import Outcome
from lastcall_http.flow import Flow, flow_of, goes_on
from lastcall_http.sending import Sending

KEPT = 256
"""Failures of one body that stand at once and are remembered; the oldest of more is forgotten."""

NUMBERS = count(1)

_LOCK = threading.Lock()


class Failure(NamedTuple):
    """One that nobody got past yet."""

    what: Hashable
    """What was asked for."""
    burst: int
    """The first request of those that were on their way together, this one among them."""
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
    """The failures of one body that stand. *home* is the task or thread in which it runs, where that is known."""

    def __init__(self, home: int | None = None) -> None:
        self.home = home
        self.failures: dict[int, Failure] = {}
        """By the numbers of the requests."""
        self.under_way: set[Asked] = set()
        self.burst = 0
        """The first of those under way."""


class Asked:
    """One request of a body: made when it is about to be sent, where it is sent."""

    __slots__ = ("_burst", "_known", "_made_good", "_number", "_standing", "sending")

    def __init__(self, standing: Standing, sending: Sending) -> None:
        self.sending = sending
        self._standing = standing
        self._made_good = False
        """Whether an equal one that was on its way beside it went well."""
        flow, at_home = flow_of(standing), standing.home == whereabouts()
        with _LOCK:
            self._number = next(NUMBERS)
            alone = not standing.under_way
            if alone:
                standing.burst = self._number
            self._burst = standing.burst
            standing.under_way.add(self)
            self._known = {
                number
                for number, failure in standing.failures.items()
                if number in flow.met
                # Once all are over, so is what whoever began them all waited for; one of them knows its own.
                or (alone and (at_home or flow.latest < failure.burst))
                or failure.what == self.what
            }
            met = flow.met & standing.failures.keys()
        goes_on(standing, Flow(self._number, met))

    @property
    def what(self) -> Hashable:
        """What it asks for: equal ones for parts of something ask for each its own."""
        return (self.sending.equal, self.sending.headers.get("range"))

    def answered(self, body: Body, seen: Seen, outcome: Outcome, *, writes: bool) -> None:
        """What it came to, also where that shows later on; *body* is told what counts now."""
        standing, failures = self._standing, self._standing.failures
        failed = outcome.kind == "error"
        with _LOCK:
            if not failed:
                self._makes_good()
            for number in (*self._known, self._number):
                failures.pop(number, None)
            if failed and not self._made_good:
                failures[self._number] = Failure(self.what, self._burst, seen, outcome)
                if len(failures) > KEPT:
                    del failures[next(iter(failures))]
            # Within the lock: what another told meanwhile is not to be told over.
            if failures:
                body.last = worst(failures.values(), writes=writes).seen
            elif not failed:
                body.last = seen
        if failed:
            flow = flow_of(standing)
            goes_on(standing, Flow(flow.latest, flow.met | {self._number}))

    def _makes_good(self) -> None:
        """It went well, and so did what was asked for equally at the same time."""
        # What breaks later on is its own again.
        self._made_good = False
        for other in self._standing.under_way:
            if other is not self and other.what == self.what:
                other._made_good = True  # noqa: SLF001 - one of its own
        self._known |= {
            number for number, each in self._standing.failures.items() if each.what == self.what
        }

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
