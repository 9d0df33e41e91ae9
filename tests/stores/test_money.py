"""Reservations on every store: what is taken before and afterwards, and what goes back."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lastcall import Call, Guard, Outcome, Policy, Usage, Where
from lastcall.rules import Budget, Limit
from lastcall.testing import FakeClock, assert_stopped

ANN = Where(run="r1", turn="t", user="ann")
DAILY = {"quantity": "money", "per": "user", "window": "day"}


@pytest.fixture
def guard(store):
    limits = (
        Limit(most="1.00", alert=0.5, **DAILY),
        Limit(quantity="tokens", per="run", window=None, most=1000, reserve=400),
        Limit(quantity="seconds", most=100),
    )
    policy = Policy(
        rules=[Budget(limits=limits)],
        tools={"pay": {"cost": "0.60"}},
        prices={"m": {"input": 1000, "output": 1000}},
    )
    return Guard(policy, store=store, clock=FakeClock())


def pay(guard, n, **where):
    return guard.decide(Call("pay", n, Where(**{"run": "r1", "turn": "t", "user": "ann"} | where)))


def ask(guard, outcome):
    verdict = guard.decide(Call("model", kind="model", where=ANN))
    if verdict.ticket is not None:
        guard.observe(verdict.ticket, outcome)
    return verdict.stop


def test_k44(guard):
    first = pay(guard, 1)
    stop = assert_stopped(pay(guard, 2, run="r2").stop, reason="budget", scope="user")
    assert (stop.limit, stop.observed) == (Decimal("1.00"), Decimal("1.20"))
    again = pay(guard, 3, run="r2").stop
    assert (again.limit, again.budget) == (Decimal("1.00"), "money/day/user")
    guard.observe(first.ticket, Outcome(cost=Decimal("0.20")))
    second = pay(guard, 4, run="r3")
    assert second.ticket.remaining["money/day/user"] == Decimal("0.20")
    guard.observe(second.ticket, Outcome("error"))
    assert pay(guard, 5, run="r3").ticket.remaining["money/day/user"] == Decimal("0.20")


def test_what_came_on_top_counts_and_is_told_of_once(guard):
    for n in range(2):
        guard.observe(pay(guard, n).ticket, Outcome(cost=Decimal("0.20")))
    guard.observe(pay(guard, 2).ticket, Outcome(cost=Decimal("0.90")))
    stop = assert_stopped(pay(guard, 3, run="r2").stop, reason="budget")
    assert stop.observed == Decimal("1.90")
    assert guard.report("r1").alerts == ("money/day/user: 1.30 of 1.00",)
    assert guard.report("r1").faults == ()


def test_tokens_and_prices_of_requests(guard):
    assert ask(guard, Outcome(usage=Usage("m", 100, 50))) is None
    assert guard.report("r1").spent == Decimal("0.15")
    assert ask(guard, Outcome(usage=Usage("odd-one", 100, 50))) is None
    assert_stopped(ask(guard, Outcome()), reason="unpriced", scope="run")
    assert guard.report("r1").faults == ()


def test_seconds(guard):
    assert ask(guard, Outcome("error")) is None
    guard.clock.tick(100)
    assert_stopped(ask(guard, Outcome("error")), reason="budget", scope="run")


def test_a_run_that_is_over_keeps_nothing_of_what_comes_late(guard):
    tickets = [
        guard.decide(Call("model", kind="model", where=ANN)).ticket,
        pay(guard, 1, user=None).ticket,
    ]
    guard.finish("r1")
    guard.observe(tickets[0], Outcome(usage=Usage("m", 900, 500)))
    guard.observe(tickets[1], Outcome())
    assert guard.report("r1").faults == ()
    assert guard.store.peek(("run", "r1"), guard.clock()) == {}


def test_the_last_unit_of_a_fortune_is_counted(store):
    limit = Limit(most="90000000", **DAILY)
    tools = {"pay": {"cost": "89999999.99999999"}, "tip": {"cost": "0.00000001"}}
    policy = Policy(rules=[Budget(limits=(limit,))], tools=tools)
    guard = Guard(policy, store=store, clock=FakeClock())
    guard.observe(pay(guard, 1).ticket, Outcome())
    tip = [guard.decide(Call("tip", n, Where(run=f"r{n}", turn="t", user="ann"))) for n in range(2)]
    assert tip[0].ticket.remaining == {"money/day/user": 0}
    assert tip[1].stop.observed == Decimal("90000000.00000001")
