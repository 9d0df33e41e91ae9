from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lastcall import Call, MemoryStore, Outcome, Policy, Stop, ToolPolicy, Where
from lastcall.rules import Budget, Cooling, Limit, Quarantine
from lastcall.rules.cooling import Cooled, Dependency, cooling_until
from lastcall.testing import assert_stopped

from .driving import NOW, Drive, call

ONE = Where(run="r1", turn="t", agent="clerk", user="ann")
TWO = Where(run="r2", turn="t", agent="clerk", user="bob")
KEY = (("agent", "clerk"), "cooling")


def stop(of, scope="run", reason="refusals", rule="refusals", **fields):
    return Stop.of(of, reason, scope, NOW, rule=rule, **fields)


def ended(drive, where=ONE, **fields):
    asked = call("look", where=where)
    drive.ended(asked, stop(asked, **fields))


class TestAfterAStop:
    def test_other_runs_of_the_agent_wait(self):
        drive = Drive(Cooling())
        ended(drive)
        drive.now += 100
        said = drive.ask(call("look", where=TWO))
        assert (said.reason, said.scope, said.rule) == ("cooling", "agent", "cooling")
        assert (said.retryable, said.retry_after) == (False, 200.0)
        assert said.resets_at.timestamp() == NOW + 300
        drive.now += 200
        assert isinstance(drive.ask(call("look", where=TWO)), Call)
        assert drive.records == {}

    def test_the_run_itself_is_told_by_its_own_stop(self):
        drive = Drive(Cooling())
        ended(drive)
        assert isinstance(drive.ask(call("look", where=replace(ONE, turn="t2"))), Call)

    def test_other_agents_go_on(self):
        drive = Drive(Cooling())
        ended(drive)
        assert isinstance(drive.ask(call("look", where=replace(TWO, agent="other"))), Call)
        assert isinstance(drive.ask(call("look", where=replace(TWO, agent=None))), Call)

    @pytest.mark.parametrize("kind", ["tool", "attempt", "model", "malformed"])
    def test_nothing_of_another_run_starts(self, kind):
        drive = Drive(Cooling())
        ended(drive)
        assert drive.ask(call("look", where=TWO, kind=kind)).reason == "cooling"

    def test_it_is_kept_with_all_that_an_operator_wants_to_know(self):
        drive = Drive(Cooling(seconds=60))
        ended(drive, reason="cycle")
        assert drive.records == {KEY: Cooled(NOW + 60, "cycle", "r1", NOW, True)}

    def test_a_stop_that_holds_longer_is_waited_for(self):
        drive = Drive(Cooling())
        ended(drive, reason="budget", scope="agent", retry_after=1000.0)
        assert drive.records[KEY].until == NOW + 1000
        ended(drive, where=TWO)
        assert drive.records[KEY].until == NOW + 1000
        drive.now += 900
        ended(drive, where=TWO)
        assert (drive.records[KEY].until, drive.records[KEY].run) == (NOW + 1200, "r2")


@pytest.mark.parametrize("scope", ["turn", "run", "agent", "all"])
def test_what_ends_a_run_cools_off(scope):
    drive = Drive(Cooling())
    ended(drive, scope=scope)
    assert drive.records[KEY].until


@pytest.mark.parametrize(
    "fields",
    [
        {"scope": "call"},
        {"scope": "tool"},
        {"asked": True},
        {"reason": "kill"},
        {"reason": "cooling", "scope": "agent"},
        {"reason": "budget", "scope": "user"},
        {"reason": "budget", "scope": "tenant"},
        {"reason": "budget", "scope": "thread"},
    ],
    ids=str,
)
def test_what_is_no_affair_of_the_agent_does_not(fields):
    drive = Drive(Cooling())
    ended(drive, **fields)
    assert all(state.until == 0 for state in drive.records.values())


def test_without_an_agent_nothing_cools_off():
    drive = Drive(Cooling())
    ended(drive, where=replace(ONE, agent=None))
    assert all(state.until == 0 for state in drive.records.values())


def test_whoever_only_looks_on_keeps_nobody_waiting():
    drive = Drive(Cooling(enforce=False))
    ended(drive)
    assert drive.records[KEY].until == NOW + 300
    assert cooling_until(drive.records[KEY], NOW) is None


def test_until_when_is_read_by_a_function():
    state = Cooled(NOW + 10, "cycle", "r1", NOW)
    assert cooling_until(state, NOW + 9) == NOW + 10
    assert cooling_until(state, NOW + 10) is None
    assert cooling_until(None, NOW) is None
    assert cooling_until(Cooled(), NOW) is None


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 90), st.integers(0, 200)), max_size=20
    )
)
def test_a_longer_rest_is_cut_short_by_nobody(steps):
    drive, until = Drive(Cooling(seconds=60)), 0.0
    for run, wait, retry_after in steps:
        drive.now += wait
        where = replace(ONE, run=run)
        ended(drive, where=where, retry_after=float(retry_after))
        until = max(until, drive.now + max(60, retry_after))
        assert drive.records[KEY].until == until


class TestADependency:
    TOOL = ToolPolicy(dependency="crm")

    def drive(self, **settings):
        (rule,) = Cooling(**settings).beside(self.TOOL)
        return Drive(rule)

    def ended(self, drive, **fields):
        asked = call("look", where=ONE, policy=self.TOOL)
        made = {"scope": "tool", "reason": "failing", "rule": "streak", "executed": True}
        drive.ended(asked, stop(asked, **(made | fields)))

    def test_cools_off_when_passing_failures_close_a_tool(self):
        drive = self.drive(seconds=60)
        self.ended(drive)
        key = (("dependency", "crm"), "cooling")
        assert drive.records == {key: Cooled(NOW + 60, "failing", "r1", NOW, True)}

    def test_for_as_long_as_the_service_asks(self):
        drive = self.drive()
        self.ended(drive, retry_after=1000.0)
        (state,) = drive.records.values()
        assert state.until == NOW + 1000

    @pytest.mark.parametrize(
        "fields", [{"executed": False}, {"reason": "terminal"}, {"rule": "failing"}], ids=str
    )
    def test_nothing_else_makes_it(self, fields):
        drive = self.drive()
        self.ended(drive, **fields)
        assert all(state.until == 0 for state in drive.records.values())

    def test_calls_are_not_refused_by_it(self):
        drive = self.drive()
        self.ended(drive)
        assert isinstance(drive.ask(call("look", where=TWO, policy=self.TOOL)), Call)

    def test_a_tool_without_one_has_none(self):
        assert Cooling().beside(ToolPolicy()) == ()
        assert isinstance(Cooling(enforce=False).beside(self.TOOL)[0], Dependency)


class TestThroughTheGuard:
    """The fold asks in the same step of the store, whatever road a stop came by."""

    def policy(self, **settings):
        return Policy(**settings).replaced(Cooling())

    def made(self, guard, n, where=ONE, outcome=None, **fields):
        verdict = guard.decide(Call("look", n, where, **fields))
        if verdict.ticket is not None:
            verdict = guard.observe(verdict.ticket, outcome or Outcome(content=str(n)))
        return verdict

    def cooled(self, guard, agent="clerk"):
        return guard.store.peek(("agent", agent), guard.clock()).get(KEY)

    def test_a_ceiling(self, make_guard):
        store = MemoryStore()
        guard = make_guard(self.policy(max_calls=2), store=store)
        for n in range(2):
            assert self.made(guard, n).stop is None
        assert self.cooled(guard) is None
        assert_stopped(self.made(guard, 3).stop, reason="ceiling")
        assert self.cooled(guard).reason == "ceiling"
        restarted = make_guard(self.policy(max_calls=2), store=store)
        said = assert_stopped(self.made(restarted, 1, TWO).stop, reason="cooling", scope="agent")
        assert said.ends_run
        assert "the agent rests" in said.text

    def test_a_stop_of_a_rule(self, make_guard):
        guard = make_guard(self.policy())
        for _ in range(3):
            self.made(guard, 1, kind="malformed", outcome=Outcome("error", "no", error="no"))
        assert self.cooled(guard).reason == "malformed"

    def test_a_stop_that_an_answer_led_to(self, make_guard):
        guard = make_guard(Policy.strict().replaced(Cooling()))
        assert_stopped(
            self.made(guard, 1, outcome=Outcome("error", "no", 422, "final", "no")).stop,
            scope="turn",
        )
        assert self.cooled(guard).reason == "terminal"

    def test_refusals_that_were_ignored(self, make_guard):
        guard = make_guard(self.policy(max_refusals=1, max_repeats=1))
        self.made(guard, 1, id="c1", reply="1", size=1)
        verdict = self.made(guard, 1, id="c2", reply="2", size=1)
        assert verdict.ending.reason == "refusals"
        assert self.cooled(guard).reason == "refusals"

    def test_it_lifts_by_itself_and_the_run_goes_on(self, make_guard, clock):
        guard = make_guard(self.policy(max_calls=1))
        self.made(guard, 1)
        self.made(guard, 2)
        assert_stopped(self.made(guard, 1, TWO).stop, reason="cooling")
        clock.tick(299)
        again = assert_stopped(self.made(guard, 1, TWO).stop, reason="cooling")
        assert again.retry_after == 1.0
        clock.tick(1)
        assert self.made(guard, 1, TWO).stop is None
        assert self.cooled(guard) is None

    def test_being_refused_by_it_makes_it_no_longer(self, make_guard, clock):
        guard = make_guard(self.policy(max_calls=1))
        self.made(guard, 1)
        self.made(guard, 2)
        until = self.cooled(guard).until
        for n in range(5):
            clock.tick(10)
            self.made(guard, n, replace(TWO, run=f"other{n}"))
            self.made(guard, n)
        assert self.cooled(guard).until == until

    def test_a_person_who_ends_a_run_cools_nothing_off(self, make_guard):
        guard = make_guard(self.policy(max_repeats=1))
        self.made(guard, 1)
        guard.person.end(self.made(guard, 1))
        assert self.cooled(guard) is None

    def test_a_person_who_lets_it_go_on_warms_it_up(self, make_guard):
        guard = make_guard(self.policy(max_calls=1))
        self.made(guard, 1)
        guard.person.pardon(self.made(guard, 2))
        assert self.cooled(guard) is None

    def test_a_person_who_lets_another_run_pass_does_too(self, make_guard):
        guard = make_guard(self.policy(max_calls=1))
        self.made(guard, 1)
        self.made(guard, 2)
        guard.person.pardon(self.made(guard, 1, TWO))
        assert self.made(guard, 1, TWO).stop is None

    def test_another_stop_that_is_taken_back_leaves_it(self, make_guard):
        store = MemoryStore()
        guard = make_guard(self.policy(max_calls=1), store=store)
        self.made(guard, 1)
        self.made(guard, 2)
        onlooker = make_guard(Policy(max_calls=1).replaced(Cooling(enforce=False)), store=store)
        self.made(onlooker, 1, TWO)
        verdict = self.made(onlooker, 2, TWO)
        assert_stopped(verdict.stop, reason="ceiling")
        onlooker.person.pardon(verdict)
        assert self.cooled(guard).run == "r1"

    def test_a_budget_of_one_user_keeps_the_agent_from_nobody_else(self, make_guard):
        policy = self.policy().replaced(Budget(limits=(Limit(per="user", most=1),)))
        guard = make_guard(policy)
        self.made(guard, 1)
        assert_stopped(self.made(guard, 2).stop, reason="budget")
        assert self.made(guard, 1, TWO).stop is None

    def test_a_closed_tool_lets_its_dependency_cool_off(self, make_guard):
        guard = make_guard(self.policy(tools={"look": {"dependency": "crm"}}))
        busy = Outcome("error", "busy", 503, "passing", "busy", 700.0)
        stops = [self.made(guard, n, outcome=busy).stop for n in range(5)]
        assert_stopped(stops[-1], reason="failing", scope="tool")
        now = guard.clock()
        records = guard.store.peek(("dependency", "crm"), now)
        assert cooling_until(records[("dependency", "crm"), "cooling"], now) == now + 700
        assert self.cooled(guard) is None
        assert self.made(guard, 9, TWO).stop is None

    def test_in_the_shadow_nothing_is_refused(self, make_guard):
        guard = make_guard(Policy(max_calls=1).replaced(Cooling(enforce=False)))
        self.made(guard, 1)
        self.made(guard, 2)
        verdict = guard.decide(Call("look", 1, TWO))
        assert verdict.ticket is not None
        assert [stop.reason for stop in verdict.shadow] == ["cooling"]

    def test_good_runs_leave_nothing_behind(self, make_guard):
        guard = make_guard(self.policy().replaced(Quarantine()))
        for n in range(50):
            self.made(guard, n)
        guard.finish("r1")
        assert len(guard.store) == 0
