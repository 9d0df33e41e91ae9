"""An outage: 60 runs of one call each ask every 5 s, and the service is down for 200 s.

Ungoverned every poll hits a service that is trying to come up. Governed by `breaker`, five failures open the
circuit for all runs; then one trial per 30 s reaches the service, and two good trials in a row close it again.
Nobody has to notice.

Run: python examples/shapes/outage.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from story import HttpError, checked, line

from lastcall import Guard, Policy, Stopped
from lastcall.rules import Breaker
from lastcall.testing import FakeClock, Request, SimulatedProvider

RUNS = 60
EVERY = 5
DOWN = 200
LAST = 240
"""When the last poll is made, in seconds."""


def polled(*, guarded: bool) -> tuple[Counter[int], Counter[int]]:
    """Requests that reached the service, and calls that were answered, by the second of the poll."""
    clock = FakeClock()
    began = clock()
    provider = SimulatedProvider(clock, outages=[(began, began + DOWN)])
    guard = Guard(Policy().replaced(Breaker()), clock=clock)
    reached: Counter[int] = Counter()
    answered: Counter[int] = Counter()

    def ask(run: str) -> dict[str, Any]:
        reached[second] += 1
        return checked(provider.handle(Request(method="GET", path=f"/jobs/{run}")))

    asked: Callable[..., Any] = guard.wrap(dependency="jobs")(ask) if guarded else ask
    for second in range(0, LAST + 1, EVERY):
        for number in range(RUNS):
            run = f"{second}-{number}"
            with guard.within(run=run):
                try:
                    asked(run)
                    answered[second] += 1
                except (HttpError, Stopped):
                    pass
        clock.tick(EVERY)
    return reached, answered


def main() -> None:
    """Both, and how the breaker found its way back."""
    print(f"{RUNS} runs ask every {EVERY} s, and nobody answers for {DOWN} s")
    for guarded, who in ((False, "ungoverned"), (True, "governed")):
        reached, answered = polled(guarded=guarded)
        down = sum(count for second, count in reached.items() if second < DOWN)
        line(who, f"{down:>4} requests", f"meanwhile; the first answer came at {min(answered)} s")
    trials = [str(second) for second, count in reached.items() if second < DOWN and count == 1]
    print(f"  governed, {reached[0]} requests opened the breaker; trials at {', '.join(trials)} s")
    print(f"  it closed by itself: {reached[LAST]} of {RUNS} calls went through at {LAST} s")


if __name__ == "__main__":
    main()
