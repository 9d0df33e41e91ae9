"""429 for ever: others use up the limit of a shared account, and the agent asks until the account is disabled.

The client retries three times, the model asks again whatever it is told, and the provider disables who was
rejected 60 times. Governed, `guard.retrying` waits at least as long as Retry-After asks, a budget bounds the
retries of a run, rule `streak` closes the tool after five such answers, and rule `refusals` ends the run of a
model that does not listen. Where Retry-After is longer than anybody waits, the first answer is the last.

Run: python examples/shapes/rate_limited.py
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import tenacity
from story import HttpError, checked, line

from lastcall import Guard, Policy, Stopped
from lastcall.rules import Budget, Limit
from lastcall.testing import FakeClock, Request, SimulatedProvider

PATIENCE = 60
"""How often the model asks before somebody looks."""

RETRIES = 5
"""Retries that one run may make."""


class Shared:
    """An account that others use too: they are always first in a window of so many seconds."""

    def __init__(self, clock: FakeClock, window: float) -> None:
        self.provider = SimulatedProvider(clock, limit=1, window=window)
        self.requests = 0
        """Ours."""
        self._clock, self._window, self._taken = clock, window, -1

    def ask(self, q: str) -> dict[str, Any]:
        """One request of ours."""
        window = int(self._clock() // self._window)
        if window != self._taken:
            self._taken = window
            self.provider.handle(Request(method="GET", path="/others"))
        self.requests += 1
        return checked(self.provider.handle(Request(method="GET", path=f"/search/{q}")))

    @property
    def state(self) -> str:
        return "account disabled" if self.provider.disabled_at else "account open"


def limited(error: BaseException) -> bool:
    """Whether it was a 429."""
    return isinstance(error, HttpError) and error.status_code == HTTPStatus.TOO_MANY_REQUESTS


def impatient(search: Callable[[str], Any]) -> str:
    """The agent's loop: another question each time, whatever the last one brought; how it ended."""
    for number in range(PATIENCE):
        try:
            search(f"q{number}")
        except HttpError:
            continue
        except Stopped as stopped:
            if stopped.stop.ends_run:
                return f"the run ended by {stopped.stop.cause}"
    return f"the model asked {PATIENCE} times"


def ungoverned(window: float) -> tuple[Shared, str]:
    """Three attempts each, a little apart, as clients do it by themselves."""
    clock = FakeClock()
    account = Shared(clock, window)
    loop = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(3),
        wait=tenacity.wait_fixed(0.5),
        retry=tenacity.retry_if_exception(limited),
        sleep=clock.tick,
        reraise=True,
    )
    return account, impatient(lambda q: loop(account.ask, q))


def governed(window: float) -> tuple[Shared, str]:
    """The same three attempts, each by the guard's leave."""
    clock = FakeClock()
    account = Shared(clock, window)
    retries = Limit(quantity="retries", per="run", window=None, most=RETRIES)
    guard = Guard(Policy().replaced(Budget(limits=(retries,))), clock=clock)
    search = guard.retrying(name="search", sleep=clock.tick, draw=lambda: 0.5)(account.ask)
    with guard.within(run="r1"):
        return account, impatient(search)


def main() -> None:
    """A short Retry-After and a long one, ungoverned beside governed."""
    for window in (10.0, 3600.0):
        print(f"A limit of {window:g} s that others use up")
        for who, agent in (("ungoverned", ungoverned), ("governed", governed)):
            account, ending = agent(window)
            line(who, f"{account.requests:>3} requests", f"{account.state}; {ending}")


if __name__ == "__main__":
    main()
