"""A plan that never converges: the agent improves its plan, has it scored, and it is never good enough.

One planner swings between two plans, each of which answers the other's complaint: rule `cycle` sees the same few
calls go round with the same results. The other one has a new plan each time, with a new score, so every call
brings something new and no rule about repeats may touch it: only what it costs can end it, with an alert before
the wall. What it found stays in the incident.

Run: python examples/shapes/never_converging.py
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal

from story import line

from lastcall import Guard, Policy, Stopped
from lastcall.rules import Budget, Limit
from lastcall.testing import FakeClock

NIGHT = 300
"""Rounds until somebody wakes up."""

Planner = Callable[[int], str]


def swinging(number: int) -> str:
    """Fast is too dear, cheap is too slow."""
    return ("send all by courier", "send all by ship")[number % 2]


def wandering(number: int) -> str:
    """A little more of one and a little less of the other."""
    return f"send {number} of 1000 parcels by courier"


def score(plan: str) -> dict[str, str]:
    """What is wrong with *plan*; something always is."""
    known = {"send all by courier": "too dear", "send all by ship": "too slow"}
    return {"verdict": known.get(plan) or f"{int(plan.split()[1]) % 90} points of 99"}


def draft(plan: str) -> str:
    """*plan* in writing."""
    return f"drafted: {plan}"


def improved(planner: Planner, guard: Guard | None) -> tuple[int, str]:
    """Plans that were scored, and how it ended."""
    tools: tuple[Callable[[str], object], ...] = (draft, score)
    if guard:
        tools = (guard.wrap(reads=True)(draft), guard.wrap(reads=True, cost="0.02")(score))
    with guard.within(run="r1") if guard else nullcontext():
        for number in range(NIGHT):
            try:
                for tool in tools:
                    tool(planner(number))
            except Stopped as stopped:
                return number, f"stopped by {stopped.stop.cause}"
    return NIGHT, "somebody woke up"


def main() -> None:
    """Both planners, ungoverned beside governed."""
    for what, planner in (
        ("A planner that swings", swinging),
        ("A planner that wanders", wandering),
    ):
        print(what)
        for who in ("ungoverned", "governed"):
            money = Limit(quantity="money", per="run", window=None, most=Decimal("1.00"), alert=0.8)
            policy = Policy().replaced(Budget(limits=(money,)))
            guard = Guard(policy, clock=FakeClock()) if who == "governed" else None
            scored, ending = improved(planner, guard)
            report = guard.report("r1") if guard else None
            alerts = [f"alert at {alert}" for alert in report.alerts] if report else []
            line(who, f"{scored:>3} plans", "; ".join((*alerts, ending)))


if __name__ == "__main__":
    main()
