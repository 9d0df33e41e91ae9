"""Tokens and money: reserved before, reconciled afterwards, released when nothing was spent."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import ValidationError

from lastcall import Call, Guard, Outcome, Policy, PolicyError, Stopped, ToolPolicy, Usage, Where
from lastcall.contracts import Give, Take
from lastcall.prices import Price
from lastcall.rules import Budget, Limit
from lastcall.stores import open_store
from lastcall.testing import FailingStore, FakeClock, assert_stopped

from .driving import call

NOON = 1_800_000_000.0 - 1_800_000_000.0 % 86_400 + 12 * 3600
ANN = Where(run="r1", turn="t", user="ann", agent="clerk", tenant="acme", thread="th")
DAILY = {"quantity": "money", "per": "user", "window": "day"}
CENT = 1_000_000
"""Units of a cent."""


def policy(*limits, tools=None, prices=None, rule=None, **more):
    budget = Budget(limits=limits, **(rule or {}))
    return Policy(rules=[budget], tools=tools or {}, prices=prices or {}, max_attempts=None, **more)


def counters(guard, *shards):
    """What the counters of the budget hold, by the name of the limit."""
    shards = shards or (("user", "acme/ann"), ("run", "r1"))
    held = {}
    for shard in shards:
        records = guard.store.peek(shard, guard.clock())
        held |= {key[2]: state[1] for key, state in records.items() if key[1] == "budget"}
    return held


def ask(guard, n=0, where=ANN, tool="pay", **fields):
    return guard.decide(Call(tool, n, where, **fields))


class TestMoneyOfTools:
    PAY = {"pay": {"cost": "0.60"}}

    def made(self, most="1.00", tools=None, **limit):
        limits = Limit(most=most, **{**DAILY, **limit})
        return Guard(policy(limits, tools=tools or self.PAY), clock=FakeClock(NOON))

    def test_k44_reserve_before_you_spend(self):
        guard = self.made()
        first = ask(guard, 1)
        stop = assert_stopped(ask(guard, 2).stop, reason="budget", scope="user")
        assert (stop.limit, stop.observed) == (Decimal("1.00"), Decimal("1.20"))
        assert (stop.budget, stop.cause) == ("money/day/user", "money/day/user")
        assert type(stop)(**stop.model_dump(mode="json")) == stop
        assert type(stop).model_validate_json(stop.model_dump_json()) == stop
        assert stop.remaining == {"money/day/user": Decimal("0.40")}
        guard.observe(first.ticket, Outcome(cost=Decimal("0.20")))
        assert counters(guard) == {"money/day/user": 20 * CENT}
        other = replace(ANN, run="r2")
        second = ask(guard, 3, other)
        assert second.ticket is not None
        guard.observe(second.ticket, Outcome("error"))
        assert counters(guard) == {"money/day/user": 20 * CENT}

    @pytest.mark.parametrize(
        ("outcome", "cents"),
        [
            (Outcome(), 60),
            (Outcome(status=200), 60),
            (Outcome("error"), 5),
            (Outcome("error", status=429), 1),
            (Outcome("error", status=500), 5),
            (Outcome("paused"), 0),
            (Outcome("cancelled", started=False), 0),
            (Outcome("cancelled"), 60),
            (Outcome("lost"), 60),
            (Outcome(cost=Decimal("0.75")), 75),
            (Outcome("error", status=429, cost=Decimal(0)), 0),
        ],
    )
    def test_every_outcome_has_its_price(self, outcome, cents):
        guard = self.made(tools={"pay": {"cost": {"ok": "0.60", "429": "0.01", "error": "0.05"}}})
        guard.observe(ask(guard).ticket, outcome)
        assert counters(guard) == {"money/day/user": cents * CENT}

    def test_a_429_costs_its_own_price_though_success_is_cheaper(self):
        guard = self.made(tools={"pay": {"cost": {"ok": "0.10", 429: "0.90"}}})
        ticket = ask(guard).ticket
        assert counters(guard) == {"money/day/user": 90 * CENT}
        guard.observe(ticket, Outcome())
        assert counters(guard) == {"money/day/user": 10 * CENT}

    @pytest.mark.parametrize("outcome", [Outcome("lost"), Outcome("cancelled")])
    def test_what_nobody_knows_is_released_where_that_is_said(self, outcome):
        guard = self.made(on_unknown="release")
        guard.observe(ask(guard).ticket, outcome)
        assert counters(guard) == {"money/day/user": 0}

    def test_a_worker_that_dies_leaves_the_worst_case(self):
        guard = self.made()
        ask(guard, 1)
        assert counters(guard) == {"money/day/user": 60 * CENT}
        assert_stopped(ask(guard, 2, replace(ANN, run="r2")).stop, reason="budget")

    def test_a_cost_above_the_reservation_counts(self):
        guard = self.made()
        guard.observe(ask(guard).ticket, Outcome(cost=Decimal("1.50")))
        assert counters(guard) == {"money/day/user": 150 * CENT}
        assert_stopped(ask(guard, 2, tool="free").stop, reason="budget")

    def test_a_tool_without_a_price_is_free_while_anything_is_left(self):
        guard = self.made()
        for n in range(20):
            guard.observe(ask(guard, n, tool="look").ticket, Outcome())
        assert counters(guard) == {"money/day/user": 0}
        guard.observe(ask(guard, 20, tool="look").ticket, Outcome(cost=Decimal("1.00")))
        stop = assert_stopped(ask(guard, 21, tool="look").stop, reason="budget")
        assert stop.observed == Decimal("1.00000001")

    def test_twenty_refused_calls_leave_nothing_reserved(self):
        limits = Limit(most="1.00", **DAILY), Limit(most=1, per="run", window=None)
        guard = Guard(policy(*limits, tools=self.PAY), clock=FakeClock(NOON))
        guard.observe(ask(guard).ticket, Outcome("error"))
        stops = [ask(guard, n).stop for n in range(20)]
        assert all(stop.reason == "budget" for stop in stops)
        assert counters(guard)["money/day/user"] == 0

    def test_the_reservation_belongs_to_the_window_it_was_made_in(self):
        guard = self.made()
        yesterday = ask(guard, 1).ticket
        guard.clock.tick(86_400)
        today = ask(guard, 2, replace(ANN, run="r2")).ticket
        guard.observe(yesterday, Outcome(cost=Decimal("0.10")))
        assert counters(guard)["money/day/user"] == 60 * CENT
        guard.observe(today, Outcome(cost=Decimal("0.30")))
        assert counters(guard)["money/day/user"] == 30 * CENT

    def test_what_came_on_top_belongs_there_too(self):
        guard = self.made(most="9.00", alert="0.50")
        yesterday = ask(guard, 1).ticket
        guard.clock.tick(86_400)
        guard.observe(yesterday, Outcome(cost=Decimal("5.00")))
        assert ask(guard, 2).ticket.remaining == {"money/day/user": Decimal("8.40")}

    def test_settled_twice_counts_once(self):
        guard = self.made()
        ticket = ask(guard).ticket
        guard.observe(ticket, Outcome(cost=Decimal("0.20")))
        guard.observe(ticket, Outcome(cost=Decimal("0.20")))
        assert counters(guard) == {"money/day/user": 20 * CENT}

    def test_a_run_that_is_over_has_nothing_to_be_given_back_to(self):
        guard = self.made(per="run", window=None)
        ticket = ask(guard).ticket
        guard.finish("r1")
        guard.observe(ticket, Outcome(cost=Decimal("0.90")))
        assert (len(guard.store), guard.report("r1").faults) == (0, ())

    def test_of_some_tools_closes_those_alone(self):
        limit = Limit(most="0.60", **{**DAILY, "tools": ("pay",)})
        guard = Guard(policy(limit, tools=self.PAY), clock=FakeClock(NOON))
        guard.observe(ask(guard, 1).ticket, Outcome())
        stop = assert_stopped(ask(guard, 2).stop, reason="budget", scope="tool")
        assert stop.budget == "money:pay/day/user"
        assert ask(guard, 3, tool="look").stop is None

    def test_it_is_raised_by_an_amount(self):
        guard = self.made(most="0.60")
        guard.observe(ask(guard, 1).ticket, Outcome())
        verdict = ask(guard, 2)
        assert_stopped(verdict.stop, reason="budget")
        guard.raise_limit("r1", Decimal("0.60"), budget="money/day/user")
        guard.observe(ask(guard, 3).ticket, Outcome())
        stop = assert_stopped(ask(guard, 4).stop, reason="budget")
        assert stop.limit == Decimal("1.20")
        for wrong in (0, -1, 0.5, Decimal(0), "much"):
            with pytest.raises(ValueError, match="money"):
                guard.raise_limit("r1", wrong, budget="money/day/user")

    def test_a_person_may_let_it_pass(self):
        guard = self.made(most="0.60")
        guard.observe(ask(guard, 1).ticket, Outcome())
        assert guard.person.pardon(ask(guard, 2)) is None
        assert ask(guard, 3).ticket.remaining == {"money/day/user": Decimal("0.00")}

    def test_one_alert_before_the_wall_whatever_comes_back(self):
        events = []
        limit = Limit(most="10.00", alert=0.8, **DAILY)
        guard = Guard(
            policy(limit, tools={"pay": {"cost": "3.00"}}),
            clock=FakeClock(NOON),
            listeners=[events.append],
        )
        for n in range(8):
            guard.observe(ask(guard, n).ticket, Outcome(cost=Decimal("1.00")))
        assert ask(guard, 8).stop is not None
        alerts = [event for event in events if event.kind == "alert"]
        assert [event.message for event in alerts] == ["money/day/user: 8.00 of 10.00"]
        assert alerts[0].fields()["limit"] == "10.00"


class TestSaidInTheBody:
    def guard(self):
        return Guard(policy(Limit(most="1.00", **DAILY)), clock=FakeClock(NOON))

    def test_by_a_decorated_function(self):
        guard = self.guard()

        @guard.wrap(cost="0.60")
        def pay(n):
            assert guard.spent("0.15")
            assert guard.spent(Decimal("0.05"))

        with guard.within(run="r1", user="ann", tenant="acme"):
            pay(1)
        assert counters(guard) == {"money/day/user": 20 * CENT}

    def test_by_one_that_fails(self):
        guard = self.guard()

        @guard.wrap(cost="0.60")
        def pay(n):
            guard.spent("0.15")
            raise RuntimeError

        with guard.within(run="r1", user="ann", tenant="acme"), pytest.raises(RuntimeError):
            pay(1)
        assert counters(guard) == {"money/day/user": 15 * CENT}

    def test_by_one_inside_another_each_its_own(self):
        guard = self.guard()

        @guard.wrap
        def inner():
            guard.spent("0.10")

        @guard.wrap
        def outer():
            guard.spent("0.01")
            inner()

        with guard.within(run="r1", user="ann", tenant="acme"):
            outer()
            assert counters(guard) == {"money/day/user": 11 * CENT}
            assert guard.report("r1").spent == Decimal("0.11")

    @pytest.mark.asyncio
    async def test_by_a_coroutine_and_by_hand(self):
        guard = self.guard()

        @guard.wrap
        async def pay():
            guard.spent("0.10")

        with guard.within(run="r1", user="ann", tenant="acme"):
            await pay()
            async with guard.calling("pay"):
                guard.spent("0.20")
        assert counters(guard) == {"money/day/user": 30 * CENT}

    def test_outside_a_call_nobody_hears_it(self):
        assert self.guard().spent("1.00") is False

    def test_it_is_never_a_float(self):
        with pytest.raises(ValueError, match="never a float"):
            self.guard().spent(0.5)


class TestMoneyOfModels:
    PRICES = {"m-*": {"input": "2", "output": "10", "cached": "0.5"}}
    USED = Usage("m-1", 1_000, 100, 200)

    def guard(self, *limits, **more):
        return Guard(policy(*limits, prices=self.PRICES, **more), clock=FakeClock(NOON))

    def request(self, guard, outcome=None, where=ANN):
        verdict = guard.decide(Call("model", kind="model", where=where))
        if verdict.ticket is not None:
            guard.observe(verdict.ticket, outcome or Outcome(usage=self.USED))
        return verdict.stop

    def test_costs_what_its_tokens_do(self):
        guard = self.guard(Limit(most="1.00", **DAILY))
        assert self.request(guard) is None
        spent = Decimal("0.0027")
        assert counters(guard) == {"money/day/user": 270_000, "unpriced": 0}
        assert (guard.report("r1").spent, guard.report("r1").incomplete) == (spent, False)

    def test_an_unknown_model_is_an_alert_with_its_cure_and_then_a_stop(self):
        guard = self.guard(Limit(most="1.00", **DAILY))
        odd = Outcome(usage=Usage("odd-model-of-ours", 10, 10))
        assert self.request(guard, odd) is None
        report = guard.report("r1")
        assert '[prices."odd-model-of-ours"]' in report.alerts[0]
        assert (report.incomplete, report.requests.unpriced) == (True, 1)
        stop = assert_stopped(self.request(guard, odd), reason="unpriced", scope="run")
        assert "cost is not known" in stop.text
        assert guard.report("r1").stopped_by.cause == "unpriced"
        # Another run of the user may make one, too; and goes on once the price is known.
        guard.reload(
            policy(Limit(most="1.00", **DAILY), prices={"odd-*": {"input": 1, "output": 1}})
        )
        other = replace(ANN, run="r2")
        assert [self.request(guard, odd, other) for _ in range(3)] == [None] * 3

    def test_r220_unknown_cost_marks_the_spend_incomplete_and_the_cap_on_calls_bounds(self):
        cap = Limit(quantity="requests", per="run", window=None, most=3)
        guard = self.guard(Limit(most="1.00", **DAILY), cap, rule={"on_unpriced": "count"})
        odd = Outcome(usage=Usage("odd-model-of-ours", 10, 10))
        stops = [self.request(guard, odd) for _ in range(4)]
        assert [stop and stop.cause for stop in stops] == [None, None, None, "requests/run"]
        report = guard.report("r1")
        assert (report.spent, report.incomplete, report.requests.unpriced) == (0, True, 3)

    def test_a_limit_that_is_not_applied_stops_nothing(self):
        guard = self.guard(Limit(most="1.00", **DAILY))
        nobody = replace(ANN, user=None)
        assert [self.request(guard, Outcome(), nobody) for _ in range(3)] == [None] * 3

    def test_what_is_reserved_is_the_price_of_what_nobody_knows(self):
        guard = self.guard(Limit(most="1.00", reserve="0.40", **DAILY))
        assert self.request(guard, Outcome()) is None
        assert counters(guard) == {"money/day/user": 40 * CENT}
        assert self.request(guard, Outcome()) is None
        assert_stopped(self.request(guard), reason="budget")

    def test_a_request_that_failed_costs_nothing(self):
        guard = self.guard(Limit(most="1.00", reserve="0.40", **DAILY))
        assert [self.request(guard, Outcome("error")) for _ in range(5)] == [None] * 5
        assert counters(guard) == {"money/day/user": 0}

    def test_requests_at_once_stay_below_the_limit(self):
        guard = self.guard(Limit(most="1.00", reserve="0.40", **DAILY))
        asked = [guard.decide(Call("model", kind="model", where=ANN)) for _ in range(8)]
        assert sum(verdict.ticket is not None for verdict in asked) == 2

    def test_a_finished_run_keeps_nothing_of_a_late_answer(self):
        guard = self.guard(Limit(most="1.00", quantity="money", per="run", window=None, alert=0.5))
        ticket = guard.decide(Call("model", kind="model", where=ANN)).ticket
        guard.finish("r1")
        guard.observe(ticket, Outcome(usage=self.USED))
        assert (len(guard.store), guard.report("r1").faults) == (0, ())


class TestTokens:
    def guard(self, **limit):
        limit = {"quantity": "tokens", "per": "run", "window": None, **limit}
        return Guard(policy(Limit(**limit)), clock=FakeClock(NOON))

    def request(self, guard, outcome=None):
        verdict = guard.decide(Call("model", kind="model", where=ANN))
        if verdict.ticket is not None:
            guard.observe(verdict.ticket, outcome or Outcome(usage=Usage("m", 70, 30)))
        return verdict.stop

    @pytest.mark.parametrize(
        ("quantity", "runs"), [("tokens", 3), ("tokens:input", 5), ("tokens:output", 10)]
    )
    def test_r226_end_the_run_by_name(self, quantity, runs):
        guard = self.guard(quantity=quantity, most=300)
        stops = [self.request(guard) for _ in range(runs + 1)]
        assert [stop and stop.cause for stop in stops] == [None] * runs + [f"{quantity}/run"]
        assert guard.report("r1").stopped_by.cause == f"{quantity}/run"

    def test_are_reserved_where_that_is_said(self):
        guard = self.guard(most=300, reserve=200)
        first = guard.decide(Call("model", kind="model", where=ANN))
        assert_stopped(self.request(guard), reason="budget")
        guard.observe(first.ticket, Outcome(usage=Usage("m", 70, 30)))
        assert counters(guard) == {"tokens/run": 100}

    def test_that_nobody_tells_are_those_reserved(self):
        guard = self.guard(most=300, reserve=200)
        assert self.request(guard, Outcome()) is None
        assert counters(guard) == {"tokens/run": 200}

    def test_one_alert_when_an_amount_steps_over_the_threshold(self):
        guard = self.guard(most=1000, alert=250)
        for _ in range(5):
            self.request(guard)
        assert guard.report("r1").alerts == ("tokens/run: 300 of 1000",)


class TestRetriesAndAttempts:
    def test_retries_are_further_attempts_alone(self):
        limit = Limit(quantity="retries", per="run", window=None, most=2)
        guard = Guard(policy(limit), clock=FakeClock(NOON))
        same = {"id": "c1", "reply": "m1"}
        stops = []
        for _ in range(4):
            verdict = ask(guard, 1, **same)
            stops.append(verdict.stop)
            if verdict.ticket is not None:
                guard.observe(verdict.ticket, Outcome("error"))
        assert [stop and stop.cause for stop in stops] == [None, None, None, "retries/run"]

    def test_attempts_are_calls_and_requests_together(self):
        limit = Limit(quantity="attempts", per="run", window=None, most=2)
        guard = Guard(policy(limit), clock=FakeClock(NOON))
        assert ask(guard, 1).stop is None
        assert guard.decide(Call("model", kind="model", where=ANN)).stop is None
        assert_stopped(ask(guard, 2).stop, reason="budget", scope="run")

    def test_a_call_that_never_began_is_none(self):
        guard = Guard(policy(Limit(most=1)), clock=FakeClock(NOON))
        for n in range(3):
            guard.observe(ask(guard, n).ticket, Outcome("cancelled", started=False))
        assert ask(guard, 3).stop is None


class TestSeconds:
    def guard(self, **limit):
        return Guard(policy(Limit(quantity="seconds", most=100, **limit)), clock=FakeClock(NOON))

    def made(self, guard, n=0, where=ANN):
        verdict = ask(guard, n, where)
        if verdict.ticket is not None:
            guard.observe(verdict.ticket, Outcome(content=n))
        return verdict.stop

    def test_are_those_since_the_first_call_of_the_run(self):
        guard = self.guard()
        assert self.made(guard) is None
        guard.clock.tick(99.9)
        assert self.made(guard, 1) is None
        guard.clock.tick(0.1)
        stop = assert_stopped(self.made(guard, 2), reason="budget", scope="run")
        assert (stop.limit, stop.observed, stop.budget) == (100, 100, "seconds/run")
        assert guard.report("r1").stopped_by.cause == "seconds/run"
        assert self.made(guard, 3, replace(ANN, run="r2")) is None

    def test_turns_of_a_run_share_them_and_requests_begin_them(self):
        guard = self.guard()
        ticket = guard.decide(Call("model", kind="model", where=ANN)).ticket
        guard.observe(ticket, Outcome())
        guard.clock.tick(100)
        assert_stopped(self.made(guard, 1, replace(ANN, turn="t2")), reason="budget")

    def test_what_is_begun_is_told_when_they_are_over(self):
        guard = self.guard()
        assert ask(guard).ticket.until == NOON + 100
        guard.clock.tick(30)
        assert ask(guard, 1).ticket.until == NOON + 100
        guard.raise_limit("r1", 50, budget="seconds/run")
        assert ask(guard, 2).ticket.until == NOON + 150
        assert Guard(Policy()).decide(Call("look", 1, ANN)).ticket.until is None

    def test_are_raised_by_name(self):
        guard = self.guard()
        self.made(guard)
        guard.clock.tick(100)
        assert guard.person.pardon(ask(guard, 1)) is None
        assert self.made(guard, 2) is None
        guard.clock.tick(100)
        stop = assert_stopped(self.made(guard, 3), reason="budget")
        assert stop.limit == 200
        guard.raise_limit("r1", 50, budget="seconds/run")
        assert self.made(guard, 4) is None

    def test_one_alert_before_the_wall(self):
        guard = self.guard(alert=0.8)
        for n in range(10):
            self.made(guard, n)
            guard.clock.tick(11)
        assert guard.report("r1").alerts == ("seconds/run: 88 of 100",)

    def test_a_finished_run_leaves_nothing(self):
        guard = self.guard(alert=0.8)
        ticket = ask(guard).ticket
        guard.clock.tick(90)
        guard.finish("r1")
        guard.observe(ticket, Outcome())
        assert len(guard.store) == 0

    def test_last_over_a_store_elsewhere_and_a_snapshot(self, tmp_path):
        clock = FakeClock(NOON)
        made = policy(Limit(quantity="seconds", most=100, alert=50))
        guards = [
            Guard(made, store=open_store(f"sqlite:///{tmp_path}/{name}.db"), clock=clock)
            for name in ("a", "a", "b")
        ]
        assert self.made(guards[0]) is None
        clock.tick(60)
        assert self.made(guards[1], 1) is None
        guards[2].restore(guards[1].snapshot("r1"))
        clock.tick(40)
        assert_stopped(self.made(guards[2], 2), reason="budget")
        for guard in guards:
            guard.close()

    @pytest.mark.parametrize("settings", [{"per": "user"}, {"window": "day"}, {"reserve": 3}])
    def test_are_those_of_one_run(self, settings):
        with pytest.raises(ValidationError):
            Limit(quantity="seconds", most=1, **settings)


class TestOutage:
    """A reservation is settled where it was made, and once, whatever becomes of the store meanwhile."""

    def made(self, mode):
        store = FailingStore()
        limit = Limit(most="1.00", **DAILY)
        made = policy(limit, tools={"pay": {"cost": "0.60"}}, on_store=mode)
        return Guard(made, store=store, clock=FakeClock(NOON)), store

    def test_that_begins_between_the_two(self):
        guard, store = self.made("open")
        ticket = ask(guard, 1).ticket
        store.fail()
        guard.observe(ticket, Outcome(cost=Decimal("0.20")))
        assert ask(guard, 2, replace(ANN, run="r2")).ticket is not None
        assert guard.report("r1").faults == ()

    def test_that_ends_between_the_two(self):
        guard, store = self.made("open")
        store.fail()
        ticket = ask(guard, 1).ticket
        assert_stopped(ask(guard, 2, replace(ANN, run="r2")).stop, reason="budget")
        store.recover()
        guard.observe(ticket, Outcome(cost=Decimal("0.20")))
        assert guard.report("r1").faults == ()

    def test_closed_refuses_and_reserves_nothing(self):
        guard, store = self.made("closed")
        store.fail()
        assert_stopped(ask(guard, 1).stop, reason="store")
        store.recover()
        assert counters(guard) == {}


class TestSettings:
    @pytest.mark.parametrize("most", [0.5, "much", True, 0, "-1", "inf", "0.000000001", None])
    def test_money_is_never_a_float_nor_nothing(self, most):
        with pytest.raises(ValidationError):
            Limit(most=most, **DAILY)

    def test_the_error_carries_the_cure(self):
        with pytest.raises(ValidationError, match='write it as text: "2.5"'):
            Limit(most=2.5, **DAILY)
        with pytest.raises(PolicyError, match='write it as text: "0.1"'):
            Policy(tools={"a": {"cost": 0.1}})
        with pytest.raises(PolicyError, match='write it as text: "0.1"'):
            Policy(prices={"a": {"input": 0.1, "output": 1}})

    @pytest.mark.parametrize("alert", [1.0, 0.0, -0.5, float("nan"), 0, "x"])
    def test_an_alert_is_an_amount_or_a_share(self, alert):
        with pytest.raises(ValidationError):
            Limit(most=10, alert=alert)

    def test_a_share_is_of_the_limit(self):
        assert Limit(most=10, alert=0.75).alert_count == 8
        assert Limit(most="1.00", alert=0.8, **DAILY).alert_count == 80 * CENT
        assert Limit(most="1.00", alert="0.70", **DAILY).alert_count == 70 * CENT

    def test_only_what_is_settled_is_reserved_and_never_more_than_there_is(self):
        with pytest.raises(ValidationError, match="nothing is reserved of calls"):
            Limit(most=10, reserve=2)
        with pytest.raises(ValidationError, match="would never begin"):
            Limit(most=10, reserve=11, quantity="tokens")

    def test_survives_a_file(self):
        made = Policy(
            tools={"pay": ToolPolicy(cost={"ok": "0.60", 429: "0.01"}), "fax": {"cost": "0.05"}},
            prices={"gpt-*": Price(input="2.50", output=10), "*": {"input": 1, "output": 1}},
        ).replaced(
            Budget(
                limits=(
                    Limit(most="25.00", alert=0.8, reserve="0.10", **DAILY),
                    Limit(quantity="tokens", most=100, alert=70, on_unknown="release"),
                    Limit(quantity="seconds", most=600),
                ),
                on_unpriced="count",
            )
        )
        assert Policy.from_toml(made.to_toml()) == made

    def test_a_give_and_a_take_say_the_same_window(self):
        limit = Limit(most="1.00", alert=0.5, **DAILY)
        asked = call("pay", where=ANN, policy=ToolPolicy(cost="0.60"))
        (taken,) = Budget(limits=(limit,)).takes(asked)
        key = taken.key
        assert taken == Take(key, 60 * CENT, 100 * CENT, 86_400.0)
        settle = Budget(limits=(limit,)).settle
        assert settle(asked, Outcome(cost=Decimal("0.20")), NOON) == (
            Give(key, 40 * CENT, 86_400.0, NOON),
            Take((*key[:2], (limit.name, "spent")), 20 * CENT, None, 86_400.0),
        )


@pytest.mark.parametrize("kept", ["memory", "sqlite"])
def test_k44_on_threads(kept, tmp_path):
    """Of two at once exactly one is admitted, and never is more taken than there is."""
    guard = Guard(
        policy(Limit(most="1.00", **DAILY), tools={"pay": {"cost": "0.60"}}),
        store=f"sqlite:///{tmp_path}/m.db" if kept == "sqlite" else None,
        clock=FakeClock(NOON),
    )
    for repetition in range(100):
        user, barrier, tickets, seen = f"u{repetition}", threading.Barrier(2), [], []

        def look(shard=("user", user), seen=seen):
            seen.extend(counters(guard, shard).values())

        def at_once(name, barrier=barrier, user=user, tickets=tickets, look=look):
            barrier.wait()
            verdict = ask(guard, 0, Where(run=f"{user} {name}", turn="t", user=user))
            tickets.append(verdict.ticket)
            look()

        threads = [threading.Thread(target=at_once, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (won,) = (ticket for ticket in tickets if ticket is not None)
        guard.observe(won, Outcome(cost=Decimal("0.20")))
        look()
        second = ask(guard, 0, Where(run=f"{user} c", turn="t", user=user)).ticket
        look()
        guard.observe(second, Outcome("error"))
        look()
        assert max(seen) <= 100 * CENT
        assert seen[-1] == 20 * CENT
    guard.close()


@pytest.mark.asyncio
async def test_tasks_that_are_called_off_keep_what_may_have_been_spent():
    """Of forty at once as many begin as there is money for, and a cancelled one is charged at its worst."""
    guard = Guard(policy(Limit(most="3.00", **DAILY)), clock=FakeClock(NOON))
    begun, all_of_them, go_on = [], asyncio.Event(), asyncio.Event()

    @guard.wrap(cost="0.60")
    async def pay(n):
        begun.append(n)
        if len(begun) == 5:
            all_of_them.set()
        await go_on.wait()
        guard.spent("0.10")

    async def one(n):
        with guard.within(run=f"r{n}", user="ann", tenant="acme"):
            await pay(n)

    tasks = [asyncio.create_task(one(n)) for n in range(40)]
    await all_of_them.wait()
    tasks[begun[0]].cancel()
    go_on.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(each, Stopped) for each in done) == 35
    assert counters(guard) == {"money/day/user": 100 * CENT}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ok", "error", "cancelled", "unmade", "paused", "lost", "dead", "later"]),
        st.sampled_from(["ann", "bob"]),
        st.integers(0, 60),
        st.integers(0, 50_000),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(steps=STEPS, charge=st.booleans())
@pytest.mark.parametrize("kept", ["memory", "sqlite"])
def test_budgets_never_overspend_and_never_leak(kept, steps, charge, tmp_path_factory):
    """Against plain book-keeping: what is held is what was spent and what is reserved, per user and day."""
    clock = FakeClock(NOON)
    url = f"sqlite:///{tmp_path_factory.mktemp('money')}/m.db" if kept == "sqlite" else "memory://"
    limit = Limit(most="1.00", on_unknown="charge" if charge else "release", **DAILY)
    guard = Guard(
        policy(limit, tools={"pay": {"cost": "0.60"}}), store=open_store(url), clock=clock
    )
    book, later = {}, []

    def settle(kind, ticket, user, day, cents):
        outcome = {
            "ok": Outcome(cost=Decimal(cents) / 100),
            "unmade": Outcome("cancelled", started=False),
        }.get(kind, Outcome(kind if kind != "later" else "error"))
        guard.observe(ticket, outcome)
        spent = {"ok": cents, "cancelled": 60 * charge, "lost": 60 * charge}.get(kind, 0)
        book[user, day] += spent - 60

    for n, (kind, user, cents, seconds) in enumerate(steps):
        clock.tick(seconds)
        day = clock() // 86_400
        fits = book.get((user, day), 0) + 60 <= 100
        ticket = ask(guard, n, Where(run=f"r{n}", turn="t", user=user)).ticket
        assert (ticket is not None) == fits
        if ticket is None:
            continue
        book[user, day] = book.get((user, day), 0) + 60
        if kind == "later":
            later.append((kind, ticket, user, day, cents))
        elif kind != "dead":
            settle(kind, ticket, user, day, cents)
    for each in later:
        settle(*each)
    day = clock() // 86_400
    for user in ("ann", "bob"):
        records = guard.store.peek(("user", user), clock())
        held = sum(count for number, count in records.values() if number == day)
        assert held == book.get((user, day), 0) * CENT
        assert held <= 100 * CENT
    assert guard.report("r0") is None or not guard.report("r0").faults
    guard.close()
