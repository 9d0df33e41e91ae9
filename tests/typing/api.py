"""The public face as its users type it. Checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal

import httpx
import httpx2
import requests

from lastcall import (
    Call,
    Guard,
    Incident,
    Outcome,
    Policy,
    Stop,
    Stopped,
    ToolPolicy,
    Verdict,
    Where,
)
from lastcall.retrying import Rolling, wait_full_jitter
from lastcall.rules import Budget, Limit
from lastcall_http import AsyncGuardTransport, GuardAdapter, GuardTransport, session

guard = Guard(
    Policy(max_calls=8, max_repeats=2, max_refusals=2, tools={"a": ToolPolicy(reads=True)}),
    listeners=[lambda event: print(event.kind)],
    words=lambda stop: stop.reason,
    scope=lambda: Where(run="r"),
    clock=lambda: 0.0,
)


@guard.wrap
def plain(query: str, limit: int = 10) -> list[str]:
    return [query] * limit


@guard.wrap(reads=True, volatile=["since"])
async def declared(query: str, since: str = "") -> bytes:
    return query.encode()


@guard.retrying(attempts=3, deadline=20.0, reads=True)
def retried(query: str, limit: int = 10) -> list[str]:
    return [query] * limit


@guard.retrying(budget=Rolling(5), wait=wait_full_jitter(cap=5.0))
async def aretried(query: str) -> bytes:
    return query.encode()


found: list[str] = retried("x", limit=3)
later: Awaitable[bytes] = aretried("x")
checked: Callable[..., list[str]] = plain
awaited: Awaitable[bytes] = declared("x")
names: list[str] = plain("x", limit=3)


def loop() -> Stop | None:
    with guard.within(run="r1", user="ann") as where:
        print(where.user)
        try:
            with guard.calling("search", {"q": "x"}, id="c1", reply="1") as call:
                call.result("found", status=200)
        except Stopped as stopped:
            return stopped.stop
    return None


async def decisions() -> None:
    verdict: Verdict = await guard.adecide(Call("search", {"q": 1}))
    if verdict.ticket is not None:
        outcome: Outcome = guard.returned(verdict.ticket, "x", failed=False)
        ending: Stop | None = (await guard.aobserve(verdict.ticket, outcome)).ending
        print(ending)
    incident: Incident | None = guard.report("r1")
    print(incident.totals.executed if incident else 0)


def on_the_wire() -> None:
    with httpx2.Client(transport=GuardTransport(guard)) as new:
        print(new.get("http://x").status_code)
    with httpx.Client(transport=GuardTransport(guard, httpx.HTTPTransport())) as old:
        print(old.get("http://x").status_code)
    both = httpx2.AsyncClient(transport=AsyncGuardTransport(guard, retries=guard.retrying()))
    print(both, httpx.AsyncClient(transport=AsyncGuardTransport(guard, keyed=["POST"])))
    mine: requests.Session = session(guard, dependency=lambda request: "bank")
    mine.mount("https://", GuardAdapter(guard, max_retries=2))


def budgets() -> Policy:
    hourly = Limit(per="user", window="hour", most=100, alert=0.8, tools=["search_*"])
    daily = Limit(quantity="money", per="user", window="day", zone="Europe/Berlin", most="1.00")
    exact = Limit(quantity="money", per="run", window=None, most=Decimal("0.50"), reserve="0.05")
    told = [{"quantity": "retries", "per": "run", "window": False, "most": 4}]
    most: int | Decimal = exact.most
    limits: tuple[Limit, ...] = Budget(limits=[hourly, daily, exact]).limits
    print(most, limits, Budget(limits=(Limit(quantity="seconds", most=60, on_unknown="release"),)))
    return Policy().replaced(Budget(limits=told, on_unpriced="count", enforce=False))
