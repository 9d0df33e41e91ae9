"""Duplicate writes: the charge was made, its answer was lost, and whoever asks again pays twice.

Three experiments with one lost answer (no key, a fresh key for each attempt, the key of the operation), then a
charge that the model wrote wrongly and corrects, then a model that plans the same charge anew three steps later.
Governed, `writes=True` gives the call a key (`lastcall.idempotency.operation_key`), and rule `writes` answers a
repeat by the first result without asking the service.

Run: python examples/shapes/duplicate_writes.py
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from story import HttpError, checked, line, said

from lastcall import Guard, Stopped
from lastcall.idempotency import operation_key
from lastcall.testing import FakeClock, LostAnswerError, Request, SimulatedProvider

CHARGE = {"invoice": "inv-7", "amount": 20}

Key = Callable[[dict[str, Any]], str | None]


def by_operation(body: dict[str, Any]) -> str | None:
    """The same key whenever the same invoice is meant."""
    return operation_key("pay", body, tenant="acme", identity=["invoice"])


def amount_missing(body: Any) -> str | None:
    """How the service validates a charge."""
    return None if isinstance(body.get("amount"), int) else "amount is a whole number"


def lost_answer(key: Key) -> tuple[int, str]:
    """Charges after one lost answer and one attempt more, and what the second was told."""
    provider = SimulatedProvider(FakeClock())
    provider.lose_answers(1)
    with suppress(LostAnswerError):
        provider.handle(Request(CHARGE, key(CHARGE)))
    again = provider.handle(Request(CHARGE, key(CHARGE)))
    return len(provider.charges), f"the second attempt got {again.body['id']}"


def corrected() -> tuple[int, str]:
    """A malformed write, then the right one under the same key: a 422 is kept by no service."""
    provider = SimulatedProvider(FakeClock(), invalid=amount_missing)
    seen = []
    for amount in ("twenty", 20):
        body = {"invoice": "inv-7", "amount": amount}
        seen.append(provider.handle(Request(body, by_operation(body))).status)
    return len(provider.charges), f"answered {seen[0]}, then {seen[1]}"


def planned_anew(*, guarded: bool) -> tuple[int, str]:
    """The model writes the charge wrongly, corrects it, and charges once more three steps later."""
    clock = FakeClock()
    provider = SimulatedProvider(clock, invalid=amount_missing)
    guard = Guard(clock=clock)

    def pay(invoice: str, amount: Any) -> dict[str, Any]:
        body = {"invoice": invoice, "amount": amount}
        return checked(provider.handle(Request(body, by_operation(body) if guarded else None)))

    def look(at: str) -> str:
        return f"{at}: nothing new"

    tools: dict[str, Callable[..., Any]] = {"pay": pay, "look": look}
    if guarded:
        once = guard.wrap(writes=True, identity=["invoice"], on_repeat="replay")
        tools = {"pay": once(pay), "look": guard.wrap(reads=True)(look)}
    plan: list[tuple[str, dict[str, Any]]] = [
        ("pay", {"invoice": "inv-7", "amount": "twenty"}),
        ("pay", CHARGE),
        *(("look", {"at": place}) for place in ("mail", "ledger", "calendar")),
        ("pay", CHARGE),
    ]
    told = []
    with guard.within(run="r1", tenant="acme"):
        for name, arguments in plan:
            try:
                answer = tools[name](**arguments)
            except HttpError as error:
                answer = str(error)
            except Stopped as stopped:
                answer = said(stopped)
            told.append(answer)
    requests = f"{provider.requests} requests"
    return len(provider.charges), f"{requests}; the last answer was {told[-1]['id']}"


def main() -> None:
    """Each experiment with its charges; one is right."""
    fresh = count(1)
    experiments = [
        ("ungoverned, no key", lost_answer(lambda _: None)),
        ("ungoverned, a fresh key each time", lost_answer(lambda _: f"key-{next(fresh)}")),
        ("operation_key", lost_answer(by_operation)),
        ("operation_key, a 422 is corrected", corrected()),
        ("ungoverned, the plan is made anew", planned_anew(guarded=False)),
        ("governed, the plan is made anew", planned_anew(guarded=True)),
    ]
    print("One invoice, to be charged once")
    for who, (charges, ending) in experiments:
        line(who, f"{charges} charge{'s' if charges > 1 else ''}", ending)


if __name__ == "__main__":
    main()
