from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import ValidationError

from lastcall import Call, Guard, MemoryStore, Outcome, Policy, Where
from lastcall.rules import Budget, Limit
from lastcall.testing import FakeClock, assert_stopped

from .driving import Count, call, failed, ok

HOUR = 3600.0
NOON = 1_800_000_000.0 - 1_800_000_000.0 % 86_400 + 12 * HOUR
ANN = Where(run="r1", turn="t", user="ann", agent="clerk", tenant="acme", thread="th")


def budget(most=2, **limit):
    return Budget(limits=(Limit(most=most, **limit),))


class TestOneLimit:
    def test_is_granted_and_no_more(self):
        count = Count(budget(), NOON)
        assert [count.play(call("look", n, where=ANN)) for n in range(2)] == [None, None]
        count.now += 600
        stop = count.play(call("look", 2, where=ANN))
        assert (stop.reason, stop.scope, stop.rule) == ("budget", "agent", "budget")
        assert (stop.limit, stop.observed, stop.executed) == (2, 3, False)
        assert stop.budget == "calls/hour/agent"
        assert (stop.retryable, stop.retry_after) == (False, 3000.0)
        assert stop.resets_at == datetime.fromtimestamp(NOON + HOUR, UTC)

    @pytest.mark.parametrize(
        ("window", "seconds"),
        [("minute", 60), ("hour", 3600), ("day", 86_400), (90, 90), (0.5, 0.5)],
    )
    def test_begins_anew_with_its_window(self, window, seconds):
        start = NOON - NOON % seconds
        count = Count(budget(1, window=window), start)
        assert count.play(call(where=ANN)) is None
        count.now = start + seconds * 0.99
        stop = count.play(call(where=ANN))
        assert stop.resets_at.timestamp() == start + seconds
        count.now = start + seconds
        assert count.play(call(where=ANN)) is None

    def test_without_a_window_never_does(self):
        count = Count(budget(1, window=None), NOON)
        assert count.play(call(where=ANN)) is None
        count.now += 1e9
        stop = count.play(call(where=ANN))
        assert (stop.retry_after, stop.resets_at) == (None, None)
        assert stop.budget == "calls/agent"

    @pytest.mark.parametrize(
        ("per", "other"),
        [
            ("run", {"run": "r2"}),
            ("thread", {"thread": "other"}),
            ("agent", {"agent": "other"}),
            ("user", {"user": "bob"}),
            ("user", {"tenant": "other"}),
            ("tenant", {"tenant": "other"}),
            ("all", None),
        ],
    )
    def test_is_of_whom_it_says(self, per, other):
        count = Count(budget(1, per=per), NOON)
        assert count.play(call(where=ANN)) is None
        stop = count.play(call(where=ANN))
        assert (stop.scope, stop.budget) == (per, f"calls/hour/{per}")
        if other is not None:
            assert count.play(call(where=replace(ANN, **other))) is None

    def test_is_not_reset_by_a_new_run_thread_or_turn(self):
        count = Count(budget(1, per="user"), NOON)
        assert count.play(call(where=ANN)) is None
        again = replace(ANN, run="r2", turn="t2", thread="th2", agent="other")
        assert count.play(call(where=again)) is not None

    @pytest.mark.parametrize("per", ["thread", "agent", "user", "tenant"])
    def test_of_somebody_unknown_is_shared_with_nobody(self, per):
        nobody = call(where=Where(run="r", turn="t"))
        assert budget(per=per).takes(nobody) == ()
        (said,) = budget(per=per).unplaced(nobody)
        assert f"calls/hour/{per}" in said
        assert f"within({per}=" in said
        assert budget(per=per).unplaced(call(where=ANN)) == ()

    def test_an_outcome_gives_nothing_back(self):
        for outcome in (ok(), failed(), Outcome("paused")):
            assert budget().settle(call(where=ANN), outcome, NOON) == ()

    def test_counts_every_attempt(self):
        count = Count(budget(2), NOON)
        assert count.play(call(where=ANN)) is None
        assert count.play(call(where=ANN, kind="attempt")) is None
        assert count.play(call(where=ANN, kind="attempt")) is not None

    @pytest.mark.parametrize(
        ("quantity", "kinds"), [("calls", {"tool", "attempt"}), ("requests", {"model"})]
    )
    def test_counts_its_quantity(self, quantity, kinds):
        for kind in ("tool", "attempt", "model", "malformed"):
            taken = budget(quantity=quantity).takes(call(where=ANN, kind=kind))
            assert (len(taken) == 1) == (kind in kinds)

    def test_of_some_tools_closes_those_alone(self):
        count = Count(budget(1, tools=("search_*", "fetch")), NOON)
        assert count.play(call("search_web", where=ANN)) is None
        stop = count.play(call("fetch", where=ANN))
        assert (stop.scope, stop.budget) == ("tool", "calls:search_*,fetch/hour/agent")
        assert [count.play(call("look", where=ANN)) for _ in range(9)] == [None] * 9

    def test_a_tool_is_known_by_its_server_too(self):
        count = Count(budget(1, tools=("git/*",)), NOON)
        assert count.play(call("push", where=ANN, server="git")) is None
        assert count.play(call("push", where=ANN, server="git")) is not None
        assert count.play(call("push", where=ANN)) is None


class TestSeveral:
    def test_all_of_them_or_none(self):
        both = Budget(limits=(Limit(per="user", most=5), Limit(per="tenant", most=2)))
        count = Count(both, NOON)
        stops = [count.play(call(where=ANN)) for _ in range(4)]
        assert [stop and stop.scope for stop in stops] == [None, None, "tenant", "tenant"]
        assert sorted(count.counters.values()) == [2, 2]

    def test_the_first_that_is_used_up_gives_the_reason(self):
        both = Budget(limits=(Limit(per="user", most=1), Limit(per="tenant", most=1)))
        count = Count(both, NOON)
        count.play(call(where=ANN))
        assert count.play(call(where=ANN)).scope == "user"

    def test_of_one_name_are_refused(self):
        with pytest.raises(ValidationError, match="two limits named 'calls/hour/agent'"):
            Budget(limits=(Limit(most=1), Limit(most=2)))

    @given(
        st.lists(
            st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 40)),
            max_size=60,
        ),
        st.integers(1, 4),
        st.integers(1, 6),
    )
    def test_agree_with_plain_counting(self, steps, of_user, of_all):
        rule = Budget(
            limits=(
                Limit(per="user", most=of_user, window=60),
                Limit(per="all", most=of_all, window=100, tools=("x",)),
            )
        )
        count, ran = Count(rule, NOON), []
        for user, tool, seconds in steps:
            count.now += seconds
            now = count.now
            mine = sum(each == user and at // 60 == now // 60 for each, _, at in ran)
            all_ = sum(each == "x" and at // 100 == now // 100 for _, each, at in ran)
            fits = mine < of_user and (tool != "x" or all_ < of_all)
            where = Where(run="r", turn="t", user=user)
            assert (count.play(call(tool, where=where)) is None) == fits
            if fits:
                ran.append((user, tool, now))


class TestSettings:
    @pytest.mark.parametrize("window", [True, 0, -1, "week", float("inf"), float("nan"), "60"])
    def test_a_window_that_cannot_be_is_refused(self, window):
        with pytest.raises(ValidationError):
            Limit(most=1, window=window)

    def test_false_takes_the_window_away_as_in_a_file(self):
        assert Limit(most=1, window=False) == Limit(most=1, window=None)

    @pytest.mark.parametrize("most", [True, 0, -1, 1.5, "3"])
    def test_a_limit_is_a_whole_number_from_one(self, most):
        with pytest.raises(ValidationError):
            Limit(most=most)

    @pytest.mark.parametrize(
        "settings", [{"per": "turn"}, {"quantity": "time"}, {"moost": 3}, {"tools": ("",)}]
    )
    def test_an_unknown_setting_is_refused(self, settings):
        with pytest.raises(ValidationError):
            Limit(most=1, **settings)

    def test_only_calls_are_those_of_a_tool(self):
        with pytest.raises(ValidationError, match="tools make no requests"):
            Limit(most=1, quantity="requests", tools=("look",))

    def test_names_say_quantity_window_and_whom(self):
        names = [
            Limit(most=1).name,
            Limit(most=1, quantity="requests", per="run", window=None).name,
            Limit(most=1, per="user", window=90).name,
            Limit(most=1, per="all", window="day", tools=("a", "b*")).name,
        ]
        assert names == [
            "calls/hour/agent",
            "requests/run",
            "calls/90s/user",
            "calls:a,b*/day/all",
        ]

    def test_a_name_once_asked_for_changes_no_equality(self):
        one, two = Limit(most=1), Limit(most=1)
        assert one.name
        assert (one == two, hash(one) == hash(two)) == (True, True)
        assert one.model_dump() == two.model_dump()


class TestThroughTheGuard:
    def policy(self, *limits, **settings):
        return Policy(**settings).replaced(Budget(limits=limits))

    def made(self, guard, n, where=ANN, **fields):
        verdict = guard.decide(Call("look", n, where, **fields))
        if verdict.ticket is not None:
            guard.observe(verdict.ticket, Outcome(content=n))
        return verdict.stop

    def test_what_is_left_is_told(self, make_guard):
        guard = make_guard(self.policy(Limit(per="user", most=2)))
        ticket = guard.decide(Call("look", 1, ANN)).ticket
        assert ticket.remaining == {"calls": 199, "calls/hour/user": 1}

    def test_a_run_that_it_ended_goes_on_after_the_reset(self):
        clock = FakeClock(NOON)
        guard = Guard(self.policy(Limit(per="user", most=2)), clock=clock)
        assert [self.made(guard, n) for n in range(2)] == [None, None]
        stop = assert_stopped(self.made(guard, 2), reason="budget", scope="user")
        assert (stop.ends_run, stop.retry_after) == (True, HOUR)
        clock.tick(600)
        again = assert_stopped(self.made(guard, 3), reason="budget", scope="user")
        assert (again.budget, again.retry_after) == ("calls/hour/user", 3000.0)
        assert again.resets_at == stop.resets_at
        assert "holds until 2027-01-15 13:00:00 UTC" in again.text
        assert_stopped(guard.decide(Call("llm", None, ANN, kind="model")).stop, reason="budget")
        clock.tick(3000)
        assert guard.decide(Call("llm", None, ANN, kind="model")).stop is None
        assert [self.made(guard, n) for n in (4, 5)] == [None, None]
        assert_stopped(self.made(guard, 6), reason="budget", scope="user")

    def test_another_run_of_the_user_is_refused_and_another_user_is_not(self, make_guard):
        guard = make_guard(self.policy(Limit(per="user", most=1)))
        assert self.made(guard, 1) is None
        assert_stopped(self.made(guard, 2, replace(ANN, run="r2")), scope="user")
        assert self.made(guard, 2, replace(ANN, run="r3", user="bob")) is None

    def test_it_is_raised_by_name_for_that_run(self, make_guard):
        guard = make_guard(self.policy(Limit(per="user", most=1)))
        assert self.made(guard, 1) is None
        assert_stopped(self.made(guard, 2), reason="budget")
        guard.raise_limit("r1", 2, budget="calls/hour/user")
        assert [self.made(guard, n) for n in (3, 4)] == [None, None]
        stop = assert_stopped(self.made(guard, 5), reason="budget")
        assert (stop.limit, stop.observed) == (3, 4)
        other = assert_stopped(self.made(guard, 5, replace(ANN, run="r2")), reason="budget")
        assert other.limit == 1

    def test_a_person_may_let_it_pass(self, make_guard):
        guard = make_guard(self.policy(Limit(per="run", most=1)))
        self.made(guard, 1)
        verdict = guard.decide(Call("look", 2, ANN))
        guard.person.pardon(verdict, 3)
        assert [self.made(guard, n) for n in (3, 4, 5)] == [None] * 3
        assert_stopped(self.made(guard, 6), reason="budget", scope="run")

    def test_for_some_tools_it_closes_the_tool_until_the_reset(self):
        clock = FakeClock(NOON)
        guard = Guard(self.policy(Limit(per="user", most=1, tools=("look",))), clock=clock)
        assert self.made(guard, 1) is None
        stop = assert_stopped(self.made(guard, 2), reason="budget", scope="tool")
        assert not stop.ends_run
        assert guard.closed("r1") == {"look": "budget"}
        assert guard.decide(Call("seek", 1, ANN)).stop is None
        clock.tick(HOUR)
        assert guard.closed("r1") == {}
        assert self.made(guard, 3) is None
        assert_stopped(self.made(guard, 4), scope="tool")
        assert guard.closed("r1") == {"look": "budget"}

    def test_one_alert_at_its_threshold_in_each_window(self):
        clock, events = FakeClock(NOON), []
        guard = Guard(
            self.policy(Limit(per="user", most=5, alert=2)),
            clock=clock,
            listeners=[events.append],
        )
        for n in range(4):
            self.made(guard, n)
        clock.tick(HOUR)
        for n in range(4, 8):
            self.made(guard, n)
        alerts = [event.message for event in events if event.kind == "alert"]
        assert alerts == ["calls/hour/user: 2 of 5"] * 2

    def test_who_is_not_known_is_told_once_for_each_limit(self, make_guard):
        events = []
        limits = (Limit(per="user", most=1), Limit(per="tenant", most=1))
        guard = make_guard(self.policy(*limits), listeners=[events.append])
        for n in range(4):
            assert self.made(guard, n, Where(run=f"r{n}", turn="t")) is None
        alerts = [event.message for event in events if event.kind == "alert"]
        assert [limit.name in said for limit, said in zip(limits, alerts, strict=True)] == [
            True
        ] * 2

    def test_requests_are_bounded_in_one_line(self, make_guard):
        guard = make_guard(self.policy(Limit(quantity="requests", per="run", window=None, most=2)))
        asks = [guard.decide(Call("llm", None, ANN, kind="model")) for _ in range(3)]
        assert [ask.stop is None for ask in asks] == [True, True, False]
        stop = assert_stopped(asks[2].stop, reason="budget", scope="run")
        assert (stop.budget, stop.resets_at) == ("requests/run", None)
        assert_stopped(self.made(guard, 1), reason="budget", scope="run")

    def test_in_the_shadow_it_refuses_nothing(self, make_guard):
        policy = Policy().replaced(Budget(limits=(Limit(most=1),), enforce=False))
        guard = make_guard(policy)
        verdicts = [guard.decide(Call("look", n, ANN)) for n in range(3)]
        assert [len(verdict.shadow) for verdict in verdicts] == [0, 1, 1]

    def test_a_refused_call_of_the_ceiling_spends_nothing(self, make_guard):
        guard = make_guard(self.policy(Limit(per="user", most=3), max_calls=1))
        stops = [self.made(guard, n) for n in range(5)]
        assert [stop and stop.reason for stop in stops] == [None, *["ceiling"] * 4]
        assert stops[-1].remaining == {"calls": 0, "calls/hour/user": 2}

    def test_guards_that_share_a_store_share_the_limit(self, make_guard):
        store = MemoryStore()
        guards = [make_guard(self.policy(Limit(most=10)), store=store) for _ in range(2)]
        stops = [self.made(guards[n % 2], n, replace(ANN, run=f"r{n}")) for n in range(14)]
        assert [stop is None for stop in stops] == [True] * 10 + [False] * 4
