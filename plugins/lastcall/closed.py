"""The tools that no call in the present turn of a run may use any more."""

from __future__ import annotations

from lastcall.contracts import Answer
from lastcall.errand import Errand, reading
from lastcall.turn import Turn


def closed(run: str | None) -> Errand[dict[str, str]]:
    """Those of *run*, each with the reason."""
    so = f"tools that are closed in run {run!r} are offered to its model"
    return Errand([(("run", run), "turn")], reading, why_closed, {}, so, run)


def why_closed(turn: Turn | None, _: Answer, now: float) -> dict[str, str]:
    """Those that are closed *now*."""
    return {} if turn is None else {each.tool: each.why for each in turn.closed if each.holds(now)}
