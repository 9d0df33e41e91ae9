from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from msgspec.structs import replace

from lastcall import Call, Outcome, Policy, Where
from lastcall.rules import Ceiling, Concurrency
from lastcall.rules.concurrency import holder
from lastcall.testing import assert_stopped

from .driving import CANCELLED, LOST, NOW, PAUSED, Count, call, failed, ok, tool

ANN = Where(run="r1", turn="t", user="ann", agent="clerk", tenant="acme", thread="th")


def asked(n, where=ANN, **fields):
    return call("look", n, where=where, id=f"c{n}", reply="1", **fields)


def test_as_many_as_the_limit_run_at_once():
    count = Count(Concurrency(limit=2))
    assert [count.play(asked(n)) for n in (1, 2)] == [None, None]
    stop = count.play(asked(3))
    assert (stop.reason, stop.scope, stop.rule) == ("concurrency", "call", "concurrency")
    assert (stop.limit, stop.observed, stop.executed) == (2, 3, False)
    assert (stop.retryable, stop.retry_after, stop.resets_at) == (True, 1.0, None)


@pytest.mark.parametrize(
    "outcome", [ok(), failed(), PAUSED, CANCELLED, LOST], ids=lambda each: each.kind
)
def test_whatever_comes_of_a_call_frees_its_place(outcome):
    count = Count(Concurrency(limit=1))
    count.play(asked(1))
    assert count.play(asked(2)) is not None
    count.settle(asked(1), outcome)
    assert count.play(asked(2)) is None


@pytest.mark.parametrize(
    ("per", "other"),
    [
        ("run", {"run": "r2"}),
        ("thread", {"thread": "other"}),
        ("agent", {"agent": "other"}),
        ("user", {"user": "bob"}),
        ("user", {"tenant": "other"}),
        ("tenant", {"tenant": "other"}),
    ],
)
def test_others_have_places_of_their_own(per, other):
    count = Count(Concurrency(limit=1, per=per))
    assert count.play(asked(1)) is None
    assert count.play(asked(2, replace(ANN, **other))) is None
    assert count.play(asked(3)) is not None


def test_per_all_means_everybody():
    count = Count(Concurrency(limit=1, per="all"))
    assert count.play(asked(1)) is None
    assert count.play(asked(2, Where(run="r2", turn="t", user="bob"))) is not None


@pytest.mark.parametrize("per", ["thread", "agent", "user", "tenant"])
def test_strangers_share_nothing(per):
    concurrency = Concurrency(limit=1, per=per)
    unknown = asked(1, Where(run="r", turn="t"))
    assert concurrency.takes(unknown) == ()
    assert concurrency.settle(unknown, ok(), NOW) == ()
    assert concurrency.overdue(unknown, NOW, NOW + 1e6) is None
    (said,) = concurrency.unplaced(unknown)
    assert f"within({per}=" in said
    assert concurrency.unplaced(asked(1)) == ()


def test_a_user_is_one_of_a_tenant():
    of = [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), (None, "a/b/c"), ("a", "b")]
    keys = {
        Concurrency(limit=1, per="user").key(asked(1, Where(run="r", user=user, tenant=tenant)))
        for tenant, user in of
    }
    assert len(keys) == len(of)
    alone = asked(1, Where(run="r", user="ann"))
    assert Concurrency(limit=1, per="user").key(alone) == (("user", "ann"), "concurrency")


class TestTheLease:
    def test_is_free_again_after_its_time(self):
        count = Count(Concurrency(limit=1, ttl=10))
        count.play(asked(1))
        count.now += 9.9
        assert count.play(asked(2)) is not None
        count.now += 0.1
        assert count.play(asked(2)) is None

    def test_lasts_300_seconds(self):
        (lease,) = Concurrency(limit=1).takes(asked(1))
        assert lease.ttl == 300.0

    def test_lasts_as_long_as_the_tools_own_timeout(self):
        (lease,) = Concurrency(limit=1).takes(asked(1, policy=tool(timeout=7)))
        assert lease.ttl == 7.0

    def test_is_renewed_by_an_attempt_of_the_same_call(self):
        count = Count(Concurrency(limit=1, ttl=10))
        count.play(asked(1))
        count.now += 9
        assert count.play(asked(1, kind="attempt")) is None
        count.now += 9
        assert count.play(asked(2)) is not None

    def test_a_body_that_outlives_it_is_worth_an_alert(self):
        concurrency, late = Concurrency(limit=1), asked(1, policy=tool(timeout=7))
        assert concurrency.overdue(late, NOW, NOW + 6.9) is None
        said = concurrency.overdue(late, NOW, NOW + 7)
        assert "look took 7 s" in said
        assert "7 s" in said.partition("held")[2]


class TestTheHolder:
    def test_is_the_call_and_every_attempt_of_it(self):
        assert holder(asked(1)) == holder(asked(1, kind="attempt"))

    def test_tells_calls_apart(self):
        several = [
            asked(1),
            asked(2),
            asked(1, replace(ANN, run="r2")),
            call("look", 1, where=ANN, id="c1", reply="2"),
            call("look", 2, where=ANN, id="c1", reply="1"),
            call("seek", 1, where=ANN, id="c1", reply="1"),
            *(call("look", 1, where=ANN, order=n) for n in (1, 2)),
            call("look", 1, where=replace(ANN, turn="t2"), order=1),
            call("look", 1, where=ANN, id="c1", order=3),
        ]
        assert len({holder(each) for each in several}) == len(several)


class TestThroughTheGuard:
    def decide(self, guard, n, where=ANN, **fields):
        return guard.decide(Call("look", n, where, **fields))

    def test_calls_without_ids_hold_places_of_their_own(self, make_guard):
        guard = make_guard(Policy().replaced(Concurrency(limit=2)))
        verdicts = [self.decide(guard, 1) for _ in range(3)]
        assert [verdict.stop is None for verdict in verdicts] == [True, True, False]
        assert verdicts[0].ticket.remaining == {"concurrency/agent": 1, "calls": 199}
        assert verdicts[2].stop.remaining == {"concurrency/agent": 0, "calls": 198}
        guard.observe(verdicts[0].ticket, Outcome(content="ok"))
        assert self.decide(guard, 2).stop is None

    def test_a_refused_call_is_not_counted(self, make_guard):
        guard = make_guard(Policy(max_calls=2).replaced(Concurrency(limit=1)))
        first = self.decide(guard, 1)
        for _ in range(5):
            assert_stopped(self.decide(guard, 2).stop, reason="concurrency")
        guard.observe(first.ticket, Outcome(content="ok"))
        assert self.decide(guard, 2).stop is None

    def test_asking_again_and_again_ends_nothing(self, make_guard):
        guard = make_guard(Policy(max_refusals=1).replaced(Concurrency(limit=1)))
        held = self.decide(guard, 0, id="c0", reply="0")
        for n in range(1, 6):
            verdict = self.decide(guard, n, id=f"c{n}", reply=str(n), size=1)
            assert verdict.ending is None
            assert verdict.stop.text.endswith("The same call may be made again in 1 seconds.")
        guard.observe(held.ticket, Outcome(content="ok"))
        assert self.decide(guard, 9, id="c9", reply="9", size=1).stop is None

    def test_another_stop_says_what_is_left_all_the_same(self, make_guard):
        guard = make_guard(Policy().replaced(Concurrency(limit=3)))
        where = replace(ANN, run="r9")
        for _ in range(3):
            ticket = self.decide(guard, 1, where).ticket
            guard.observe(ticket, Outcome(content="same"))
        stop = assert_stopped(self.decide(guard, 1, where).stop, reason="same")
        assert stop.remaining == {"calls": 197}

    def test_in_the_shadow_it_refuses_nothing(self, make_guard):
        guard = make_guard(Policy().replaced(Concurrency(limit=1, enforce=False)))
        verdicts = [self.decide(guard, n) for n in range(3)]
        assert all(verdict.ticket for verdict in verdicts)
        assert [len(verdict.shadow) for verdict in verdicts] == [0, 1, 1]
        assert verdicts[1].shadow[0].reason == "concurrency"

    def test_a_late_body_is_an_alert_in_events_and_report(self, make_guard, clock):
        events = []
        policy = Policy(tools={"look": {"timeout": 5}}).replaced(Concurrency(limit=1))
        guard = make_guard(policy, listeners=[events.append])
        for wait in (4, 6):
            ticket = self.decide(guard, wait).ticket
            clock.tick(wait)
            guard.observe(ticket, Outcome(content="ok"))
        alerts = [event for event in events if event.kind == "alert"]
        assert [event.tool for event in alerts] == ["look"]
        assert "look took 6 s" in alerts[0].message
        assert guard.report("r1").alerts == (alerts[0].message,)

    def test_who_is_not_known_is_told_once(self, make_guard):
        events = []
        policy = Policy().replaced(Concurrency(limit=1, per="user"))
        guard = make_guard(policy, listeners=[events.append])
        for n in range(3):
            assert self.decide(guard, n, Where(run=f"r{n}", turn="t")).stop is None
        alerts = [event.message for event in events if event.kind == "alert"]
        assert len(alerts) == 1
        assert "concurrency/user" in alerts[0]
        assert "within(user=" in alerts[0]

    def test_without_the_rule_the_decision_claims_what_it_always_did(self):
        assert [rule.name for rule in Policy().rules if hasattr(rule, "takes")] == ["ceiling"]
        assert isinstance(Policy().rules[-1], Ceiling)


class Places(RuleBasedStateMachine):
    """Calls of two agents begin, end and are forgotten; a plain list says who may run."""

    def __init__(self):
        super().__init__()
        self.count = Count(Concurrency(limit=2, ttl=10))
        self.made = 0
        self.until = {"a": {}, "b": {}}

    running = Bundle("running")

    @rule(target=running, agent=st.sampled_from("ab"))
    def begin(self, agent):
        self.made += 1
        return self.start(asked(self.made, Where(run="r", turn="t", agent=agent)))

    @rule(one=running)
    def attempt(self, one):
        self.start(one)

    def start(self, one):
        alive = self.until[one.where.agent]
        others = [n for n, until in alive.items() if until > self.count.now and n != one.args]
        stop = self.count.play(one)
        assert (stop is None) == (len(others) < 2)
        if stop is None:
            alive[one.args] = self.count.now + 10
        return one

    @rule(one=consumes(running), outcome=st.sampled_from([ok(), failed(), PAUSED, LOST]))
    def end(self, one, outcome):
        self.count.settle(one, outcome)
        self.until[one.where.agent].pop(one.args, None)

    @rule(one=consumes(running))
    def die(self, one):
        pass

    @rule(seconds=st.integers(1, 12))
    def wait(self, seconds):
        self.count.now += seconds

    @invariant()
    def never_more_than_the_limit(self):
        for held in self.count.held.values():
            assert sum(until > self.count.now for until in held.values()) <= 2


TestPlaces = Places.TestCase
