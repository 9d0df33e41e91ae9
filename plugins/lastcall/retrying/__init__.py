"""Retrying, on tenacity (requirement C): one layer, with jitter, a floor, a deadline and a budget.

`guard.retrying(...)` is ready-made. The strategies compose with tenacity's own.
"""

from lastcall.retrying.budgets import Bucket, RetryBudget, Rolling, Share
from lastcall.retrying.outcomes import passing, retry_if_passing
from lastcall.retrying.ready import Retries
from lastcall.retrying.stops import (
    astop_if_refused,
    astop_when_spent,
    stop_at,
    stop_if_refused,
    stop_when_spent,
)
from lastcall.retrying.waits import wait_at_least, wait_decorrelated, wait_full_jitter

__all__ = [
    "Bucket",
    "Retries",
    "RetryBudget",
    "Rolling",
    "Share",
    "astop_if_refused",
    "astop_when_spent",
    "passing",
    "retry_if_passing",
    "stop_at",
    "stop_if_refused",
    "stop_when_spent",
    "wait_at_least",
    "wait_decorrelated",
    "wait_full_jitter",
]
