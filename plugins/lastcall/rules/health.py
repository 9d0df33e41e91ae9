"""What an outcome says of the service that it came from (requirement D2)."""

# ruff: noqa: PLR2004 - a status is its own best name

from __future__ import annotations

from lastcall.call import Outcome

SICK = frozenset((408, 429, 500, 502, 503, 504))
"""Statuses of a service that is not well. A 400 or a 401 is an answer, and so is a 501."""


def sick(outcome: Outcome) -> bool | None:
    """True: the service is not well. False: it answered, whatever it said. None: there is no telling,
    since the call was called off, waits, or got lost."""
    if outcome.kind not in ("ok", "error"):
        return None
    if outcome.kind == "ok" and outcome.grade is None:
        return False
    # What can never succeed (a quota that is used up) is no illness, whatever its status.
    if outcome.grade == "final":
        return False
    if outcome.status is not None and outcome.status >= 400:
        return outcome.status in SICK
    return outcome.transport or outcome.grade == "passing"
