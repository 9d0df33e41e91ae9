"""An open breaker and a daily budget of money: what is refused must not hold any of it.

The service is down and its gateway charges for failed requests too. Ungoverned every call is paid for. Governed,
five failures are paid for and open the breaker; the twenty calls that it refuses then are in one step with the
budget, so they reserve nothing, and nobody has to give anything back.

Run: python examples/shapes/open_breaker.py
"""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

from story import HttpError, checked, line

from lastcall import Guard, Policy, Stopped
from lastcall.rules import Breaker, Budget, Limit
from lastcall.testing import FakeClock, Request, SimulatedProvider

PRICE = Decimal("0.0600")
"""Of any request, answered or not."""
DAILY = Decimal("3.0000")
BEFORE, THEN = 5, 20
"""Calls that find out, and calls after that."""


def ungoverned() -> Decimal:
    """What all the calls cost."""
    provider = SimulatedProvider(FakeClock(), outages=[(0.0, float("inf"))])
    for number in range(BEFORE + THEN):
        with suppress(HttpError):
            checked(provider.handle(Request({"parcel": number})))
    return provider.requests * PRICE


def governed() -> tuple[Decimal, Decimal, int]:
    """What they cost, what is still reserved after them, and how many the breaker refused."""
    clock = FakeClock()
    provider = SimulatedProvider(clock, outages=[(0.0, float("inf"))])
    money = Limit(quantity="money", per="user", window="day", most=DAILY)
    guard = Guard(Policy().replaced(Breaker(), Budget(limits=(money,))), clock=clock)

    @guard.wrap(dependency="parcels", cost={"ok": PRICE, "error": PRICE})
    def send(parcel: int) -> dict[str, Any]:
        return checked(provider.handle(Request({"parcel": parcel})))

    spent, left, refused = Decimal(0), DAILY, 0
    for number in range(BEFORE + THEN):
        run = f"parcel {number}"
        with guard.within(run=run, user="ann"):
            try:
                send(number)
            except HttpError:
                pass
            except Stopped as stopped:
                refused += stopped.stop.reason == "breaker"
                left = Decimal(stopped.stop.remaining[money.name])
        report = guard.report(run)
        spent += report.spent if report and report.spent else Decimal(0)
    return spent, DAILY - left - spent, refused


def main() -> None:
    """What was paid for a service that never answered."""
    print(f"{BEFORE + THEN} calls at {PRICE} to a service that is down; {DAILY} a day")
    line("ungoverned", f"{ungoverned():.4f} spent")
    spent, reserved, refused = governed()
    line("governed", f"{spent:.4f} spent", f"{refused} calls refused, {reserved:.4f} reserved")


if __name__ == "__main__":
    main()
