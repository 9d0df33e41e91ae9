"""Retry storm: every layer tries three times, so one question becomes 27 requests to a service that is down.

The layers are tenacity loops, as an HTTP client, an SDK and a tool would each bring their own. Governed,
`guard.retrying` is the one layer that retries: another inside it makes a single attempt, and a warning names
both. A budget for retries then bounds what a thousand questions cost.

Run: python examples/shapes/retry_storm.py
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import tenacity
from story import HttpError, checked, line

from lastcall import Event, Guard, Stopped
from lastcall.retrying import RetryBudget, Share
from lastcall.testing import FakeClock, Request, SimulatedProvider

QUESTIONS = 1000

LAYERS = ("client", "sdk", "tool", "agent")
"""From the inside out."""


ALERTS: list[str] = []
"""What the guard warns of."""


def listen(event: Event) -> None:
    """Keep alerts."""
    if event.kind == "alert" and event.message:
        ALERTS.append(event.message)


Ask = Callable[[], dict[str, Any]]


def dead(clock: FakeClock) -> tuple[SimulatedProvider, Ask]:
    """A service that answers 503 for ever, and the one function that asks it."""
    provider = SimulatedProvider(clock, outages=[(0.0, float("inf"))])
    return provider, lambda: checked(provider.handle(Request(method="GET", path="/rates")))


def ungoverned(clock: FakeClock, ask: Ask) -> Ask:
    """*ask* behind one more loop of three attempts that knows nothing of the others."""
    loop = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(3),
        wait=tenacity.wait_random_exponential(max=60),
        sleep=clock.tick,
        reraise=True,
    )
    return partial(loop, ask)


def governed(
    clock: FakeClock, ask: Ask, guard: Guard, name: str, budget: RetryBudget | None = None
) -> Ask:
    """*ask* behind one more loop of three attempts that asks the guard before each."""

    # Many retries a minute are an alert; this story means to make many.
    @guard.retrying(name=name, budget=budget, sleep=clock.tick, alert=None)
    def asked() -> dict[str, Any]:
        return ask()

    return asked


def layers(count: int, *, guarded: bool) -> int:
    """Requests at the service for one question that passes so many layers."""
    clock = FakeClock()
    guard = Guard(clock=clock, listeners=[listen])
    provider, ask = dead(clock)
    for name in LAYERS[:count]:
        ask = governed(clock, ask, guard, name) if guarded else ungoverned(clock, ask)
    with guard.within(run="one question"), suppress(HttpError):
        ask()
    return provider.requests


def crowd(budget: RetryBudget | None, *, guarded: bool) -> int:
    """Requests at the service for a thousand questions in a row."""
    clock = FakeClock()
    guard = Guard(clock=clock)
    provider, ask = dead(clock)
    ask = governed(clock, ask, guard, "rates", budget) if guarded else ungoverned(clock, ask)
    for number in range(QUESTIONS):
        with guard.within(run=f"question {number}"), suppress(HttpError, Stopped):
            ask()
    return provider.requests


def main() -> None:
    """The multiplication, then the crowd."""
    print("One question, layers of three attempts, and a service that is down")
    for count in (3, 4):
        for guarded, label in ((False, "ungoverned"), (True, "governed")):
            requests = layers(count, guarded=guarded)
            line(f"{label}, {count} layers", f"{requests:>5} requests")
    print(f"  the guard warns: {ALERTS[0]}")
    print(f"{QUESTIONS} questions, one layer")
    line("ungoverned", f"{crowd(None, guarded=False):>5} requests")
    budget = Share(0.1)
    sent = crowd(budget, guarded=True)
    line(
        "governed, a budget of Share(0.1)", f"{sent:>5} requests", f"{budget.retried} were retries"
    )


if __name__ == "__main__":
    main()
