"""When to give up, as stop strategies for tenacity."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace
from tenacity import RetryCallState
from tenacity.stop import stop_base

from lastcall.call import Call, Outcome
from lastcall.retrying.budgets import RetryBudget

if TYPE_CHECKING:
    from lastcall.guard import Guard

LOST = Outcome("lost", recorded=False)


class stop_at(stop_base):  # noqa: N801 - as tenacity names its own
    """Give up when the sleep would reach *deadline* (epoch seconds): it is not begun then."""

    def __init__(self, deadline: float, *, clock: Callable[[], float] = time.time) -> None:
        self.deadline = deadline
        self._clock = clock

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Whether the time is too short."""
        return self._clock() + retry_state.upcoming_sleep >= self.deadline


class stop_when_spent(stop_base):  # noqa: N801
    """Give up when *budget* allows no more retries. Being asked takes one, so let it stand last:
    `stop_after_attempt(3) | stop_when_spent(budget)`."""

    def __init__(self, budget: RetryBudget, *, clock: Callable[[], float] = time.time) -> None:
        self._budget = budget
        self._clock = clock

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Whether nothing is left."""
        return not self._budget.take(self._clock())


class stop_if_refused(stop_base):  # noqa: N801
    """Give up when *guard* refuses one more attempt of *call*, which it counts; let it stand last.

    The guard is not told what comes of these attempts. `guard.retrying` does more.
    """

    def __init__(self, guard: Guard, call: Call) -> None:
        self._guard = guard
        self._call = replace(call, kind="attempt")

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Whether it is refused."""
        verdict = self._guard.decide(self._call)
        if verdict.ticket is not None:
            self._guard.observe(verdict.ticket, LOST)
        return verdict.stop is not None


def astop_when_spent(
    budget: RetryBudget, *, clock: Callable[[], float] = time.time
) -> Callable[[RetryCallState], Awaitable[bool]]:
    """`stop_when_spent` for AsyncRetrying and budgets in a store; it does not compose by `|`."""

    async def spent(retry_state: RetryCallState) -> bool:
        return not await budget.atake(clock())

    return spent


def astop_if_refused(guard: Guard, call: Call) -> Callable[[RetryCallState], Awaitable[bool]]:
    """`stop_if_refused` for AsyncRetrying; it does not compose by `|`."""
    again = replace(call, kind="attempt")

    async def refused(retry_state: RetryCallState) -> bool:
        verdict = await guard.adecide(again)
        if verdict.ticket is not None:
            await guard.aobserve(verdict.ticket, LOST)
        return verdict.stop is not None

    return refused
