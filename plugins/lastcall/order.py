"""The order in which rules are asked (requirement F4): the first that refuses gives the reason."""

from __future__ import annotations

from typing import Any

ORDER = (
    "path", "cooling", "refusals", "malformed", "quarantine", "writes", "terminal", "breaker", "repeat", "failing", "streak", "same",
    "near", "cycle", "stale", "concurrency", "ceiling", "budget",
)  # fmt: skip
"""What is over; then this call's own past, then its tool's, then rows of calls; last what takes something."""


def inserted(rule: Any, lineup: list[Any]) -> None:
    """Put *rule* into *lineup* where it belongs: before the first that is to be asked after it. One of
    somebody else's goes to the end."""
    rank = place(rule)
    at = next((i for i, other in enumerate(lineup) if place(other) > rank), len(lineup))
    lineup.insert(at, rule)


def place(rule: Any) -> int:
    """The rank of a rule."""
    return ORDER.index(rule.name) if rule.name in ORDER else len(ORDER)
