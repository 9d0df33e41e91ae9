"""How long to wait before a retry (requirements C2 and C3), as wait strategies for tenacity.

What the service itself asks for by Retry-After is a floor under all of them.
"""

from __future__ import annotations

import random
import time
from abc import abstractmethod
from collections.abc import Callable

from tenacity import RetryCallState
from tenacity.wait import wait_base

from lastcall.retrying.outcomes import outcome_of

Draw = Callable[[], float]
"""A number from 0 up to 1, each as likely as any other."""

CAP = 60.0
"""Seconds that our own jitter waits at most. A floor is never shortened."""

SCATTER = 1.0
"""Seconds over which those who were given one floor are spread above it."""

HIGHEST = 64
"""The exponent beyond which nothing grows: 2 ** 1024 is no float any more."""


def full_jitter(attempt: int, base: float, cap: float, draw: Draw) -> float:
    """Seconds before the retry of that number, from 0: a random part of base * 2 ** attempt, or of *cap*."""
    return draw() * min(cap, base * 2.0 ** min(attempt, HIGHEST))


def decorrelated(previous: float, base: float, cap: float, draw: Draw) -> float:
    """Seconds before a retry: between *base* and three times the *previous* wait, and at most *cap*."""
    highest = max(base, 3.0 * previous)
    return min(cap, base + draw() * (highest - base))


class _Wait(wait_base):
    """With the floor under what `own` says."""

    def __init__(self, draw: Draw, clock: Callable[[], float]) -> None:
        self._draw = draw
        self._clock = clock

    @abstractmethod
    def own(self, state: RetryCallState) -> float:
        """What would be waited without a floor."""
        ...

    def __call__(self, retry_state: RetryCallState) -> float:
        """Seconds to wait."""
        own = self.own(retry_state)
        floor = outcome_of(retry_state, now=self._clock()).retry_after
        return own if floor is None else max(own, floor + self._draw() * SCATTER)


class _Jitter(_Wait):
    """Of *base* seconds or more, and of *cap* at most."""

    def __init__(
        self,
        base: float = 0.5,
        cap: float = CAP,
        *,
        draw: Draw = random.random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(draw, clock)
        self._base = base
        self._cap = cap


class wait_full_jitter(_Jitter):  # noqa: N801 - as tenacity names its own
    """A random part of *base* * 2 ** n seconds before the n-th retry (from 0), of *cap* at most."""

    def own(self, state: RetryCallState) -> float:
        """See `full_jitter`."""
        return full_jitter(state.attempt_number - 1, self._base, self._cap, self._draw)


class wait_decorrelated(_Jitter):  # noqa: N801
    """Between *base* seconds and three times the wait before, *cap* at most."""

    def own(self, state: RetryCallState) -> float:
        """See `decorrelated`."""
        return decorrelated(state.upcoming_sleep, self._base, self._cap, self._draw)


class wait_at_least(_Wait):  # noqa: N801
    """What *wait* says, and never less than the service asks for."""

    def __init__(
        self,
        wait: Callable[[RetryCallState], float],
        *,
        draw: Draw = random.random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(draw, clock)
        self._wait = wait

    def own(self, state: RetryCallState) -> float:
        """What the other one says."""
        return self._wait(state)


def floored(
    wait: Callable[[RetryCallState], float], draw: Draw, clock: Callable[[], float]
) -> Callable[[RetryCallState], float]:
    """*wait* with the floor under it."""
    return wait if isinstance(wait, _Wait) else wait_at_least(wait, draw=draw, clock=clock)
