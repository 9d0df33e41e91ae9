"""What an attempt came to, as the guard reads it (requirement C4)."""

from __future__ import annotations

import time
from collections.abc import Callable

from tenacity import RetryCallState
from tenacity.retry import retry_base

from lastcall import status
from lastcall.call import Outcome
from lastcall.retrying.budgets import RetryBudget
from lastcall.stop import Stopped
from lastcall.tool import PLAIN, ToolPolicy


def outcome_of(
    state: RetryCallState, policy: ToolPolicy = PLAIN, *, now: float | None = None
) -> Outcome:
    """The outcome of the latest attempt. *now* is what a date in Retry-After counts from where the answer
    has no date of its own."""
    done = state.outcome
    if done is None:
        return Outcome(recorded=False)
    error = done.exception()
    if error is not None:
        return status.raised(error, policy, now=now)
    return status.returned(done.result(), policy, now=now)


def passing(outcome: Outcome) -> bool:
    """Whether the same request may succeed a little later: a service that was not reached, 408, 425, 429,
    500, 502, 503 and 504, and what a policy calls passing."""
    return outcome.kind == "error" and (outcome.transport or outcome.grade == "passing")


class retry_if_passing(retry_base):  # noqa: N801 - as tenacity names its own
    """Retry what failed in passing, by exception or by value, and never what a guard stopped. *budget* is
    told of every attempt. Composes with tenacity's own by `|` and `&`."""

    def __init__(
        self,
        policy: ToolPolicy = PLAIN,
        *,
        budget: RetryBudget | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._policy = policy
        self._budget = budget
        self._clock = clock

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Whether to try again."""
        done = retry_state.outcome
        if done is not None and isinstance(done.exception(), Stopped):
            return False
        outcome = outcome_of(retry_state, self._policy)
        if self._budget is not None:
            self._budget.told(self._clock(), ok=outcome.kind == "ok")
        return passing(outcome)
