from __future__ import annotations

import logging

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from msgspec.structs import replace

from lastcall import Call, Guard, MemoryStore, Outcome, Policy, ToolPolicy, Where
from lastcall.rules import Breaker, Budget, Limit
from lastcall.rules.breaker import HEALTHY, Circuit, standing
from lastcall.rules.health import sick
from lastcall.stores import open_store
from lastcall.stores.sqlite import SQLiteStore
from lastcall.testing import assert_stopped

from ..redis_server import RedisServer  # noqa: TID252 - tests are no package of their own
from .driving import (
    CANCELLED,
    HERE,
    LOST,
    NOW,
    PAUSED,
    Drive,
    call,
    failed,
    final,
    ok,
    passing,
    tool,
)

BANK = tool(dependency="bank", credential="ann")
UNREACHED = Outcome("error", "ConnectionError: no", transport=True)


def asked(n=1, run="r", policy=BANK, **fields):
    return call("pay", {"n": n}, Where(run, run), policy, **fields)


def opened(**settings):
    """A breaker that has just opened."""
    drive = Drive(Breaker(**settings))
    for n in range(drive.rule.failures):
        assert drive.play(asked(n), passing()) is None
    return drive


def state(drive):
    (found,) = drive.records.values() or [HEALTHY]
    return found


class TestWhatIsSick:
    @pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
    def test_these_statuses_are(self, status):
        assert sick(failed(status=status)) is True
        assert sick(passing(status)) is True

    @pytest.mark.parametrize(
        "outcome",
        [
            *(ok(), failed(), final(400), final(401), final(404), failed(status=501), passing(425)),
            # A quota that is used up; a page that is known to be a healthy one.
            *(final(429), Outcome("ok", "fine", 503)),
        ],
    )
    def test_an_answer_is_not(self, outcome):
        assert sick(outcome) is False

    def test_a_service_that_is_not_reached_is(self):
        assert sick(UNREACHED) is True
        assert sick(passing(None)) is True

    @pytest.mark.parametrize("outcome", [PAUSED, CANCELLED, LOST], ids=lambda it: it.kind)
    def test_of_what_was_called_off_nobody_knows(self, outcome):
        assert sick(outcome) is None

    def test_what_a_good_looking_answer_holds_counts(self, make_guard):
        guard = make_guard()
        ticket = guard.decide(asked()).ticket
        assert sick(guard.returned(ticket, {"status_code": 503, "error": "Unavailable"})) is True


class TestClosed:
    def test_a_healthy_service_leaves_no_record(self):
        drive = Drive(Breaker(rate=0.5))
        assert drive.stops([(asked(n), ok()) for n in range(30)]) == []
        assert drive.records == {}

    def test_failures_in_a_row_open_it_and_an_answer_between_does_not(self):
        drive = Drive(Breaker())
        for _ in range(3):
            for n in range(4):
                assert drive.play(asked(n), passing()) is None
            assert state(drive).failures == 4
            assert drive.play(asked(), final(400)) is None
            assert drive.records == {}

    @pytest.mark.parametrize("outcome", [PAUSED, CANCELLED, LOST], ids=lambda it: it.kind)
    def test_what_was_called_off_neither_counts_nor_resets(self, outcome):
        drive = Drive(Breaker())
        drive.play(asked(), passing())
        drive.play(asked(), outcome)
        assert state(drive).failures == 1

    def test_half_of_the_last_outcomes_open_it_too(self):
        drive = Drive(Breaker(failures=0, rate=0.5, window=6))
        for outcome in (passing(), ok(), passing(), ok()):
            drive.play(asked(), outcome)
        assert state(drive).phase == "closed"
        drive.play(asked(), passing())
        assert state(drive).phase == "open"
        assert "open after 3 of the last 6" in drive.notices[-1].message

    def test_sick_outcomes_leave_the_window_again(self):
        drive = Drive(Breaker(failures=0, rate=0.5, window=4))
        for _ in range(5):
            for outcome in (passing(), ok(), ok(), ok()):
                drive.play(asked(), outcome)
        assert drive.play(asked(), ok()) is None
        assert drive.records == {}

    def test_a_breaker_that_nothing_opens_is_an_error(self):
        with pytest.raises(ValueError, match="never open"):
            Breaker(failures=0)


class TestOpen:
    def test_refuses_at_once_and_says_when_a_trial_is_made(self):
        drive = opened()
        drive.now += 10
        stop = drive.ask(asked())
        assert (stop.reason, stop.scope, stop.rule) == ("breaker", "tool", "breaker")
        assert (stop.status, stop.dependency, stop.retryable) == (503, "bank", False)
        assert (stop.retry_after, stop.resets_at.timestamp()) == (20.0, NOW + 30)
        assert not stop.ends_run
        assert not stop.executed

    def test_is_kept_with_all_that_an_operator_wants_to_know(self):
        drive = opened()
        assert drive.records == {
            (("dependency", "bank/ann"), "breaker"): Circuit(
                "open", 5, until=NOW + 30, since=NOW, status=503, run="r"
            )
        }

    def test_holds_for_every_run_and_every_call(self):
        drive = opened()
        other = call("refund", None, Where("s", "s"), BANK)
        assert drive.ask(other).reason == "breaker"
        assert drive.ask(replace(other, kind="attempt")).reason == "breaker"

    @pytest.mark.parametrize(
        "policy",
        [
            tool(dependency="bank"),
            tool(dependency="bank", credential="bob"),
            tool(dependency="shop"),
            tool(),
        ],
    )
    def test_does_not_for_other_services_and_credentials(self, policy):
        assert not opened().play(asked(policy=policy))

    def test_a_service_is_what_the_tool_says_else_its_server_else_the_tool(self):
        key = Breaker().shared
        assert key(call("pay", server="s", policy=tool(dependency="bank")))[0][1] == "bank/"
        assert key(call("pay", server="s"))[0][1] == "s/"
        assert key(call("pay"))[0][1] == "pay/"
        assert key(call("pay", policy=tool(dependency="a/b")))[0][1] == "a%2Fb/"

    def test_answers_to_earlier_calls_tell_nothing_new(self):
        drive = Drive(Breaker(failures=2))
        early = [drive.ask(asked(n)) for n in range(4)]
        for each in early[:2]:
            drive.settle(each, passing())
        drive.now += 5
        before = state(drive)
        drive.settle(early[2], passing())
        drive.settle(early[3], ok())
        assert state(drive) == before


class TestHalfOpen:
    @pytest.fixture
    def drive(self):
        drive = opened()
        drive.now += 30
        return drive

    def test_one_trial_at_a_time(self, drive):
        said = [drive.ask(asked(n, f"r{n}")) for n in range(10)]
        assert [isinstance(each, Call) for each in said] == [True] + [False] * 9
        assert {each.reason for each in said[1:]} == {"breaker"}
        assert said[1].retry_after == 30.0

    def test_two_answers_close_it(self, drive):
        for n in range(2):
            assert state(drive).phase == ("half-open" if n else "open")
            assert drive.play(asked(n), ok()) is None
        assert drive.records == {}
        assert [notice.message for notice in drive.notices] == [
            "bank: open after 5 in a row: HTTP 503; refused for 30 s",
            "bank: half-open: one call is tried",
            "bank: half-open: one call is tried",
            "bank: closed",
        ]

    def test_a_sick_trial_opens_it_again(self, drive):
        drive.play(asked(), ok())
        drive.play(asked(), UNREACHED)
        assert state(drive) == Circuit("open", 6, until=NOW + 60, since=NOW, run="r")
        assert "open again: a failed connection or a time-out" in drive.notices[-1].message
        assert drive.ask(asked()).retry_after == 30.0

    @pytest.mark.parametrize("outcome", [PAUSED, CANCELLED, LOST], ids=lambda it: it.kind)
    def test_a_trial_that_says_nothing_gives_its_place_back(self, drive, outcome):
        assert drive.play(asked(), outcome) is None
        assert state(drive).phase == "half-open"
        assert isinstance(drive.ask(asked(2)), Call)

    @pytest.mark.parametrize(("timeout", "seconds"), [(None, 300), (20.0, 20)])
    def test_a_trial_whose_worker_died_too(self, drive, timeout, seconds):
        policy = BANK.model_copy(update={"timeout": timeout})
        late = drive.ask(asked(1, policy=policy))
        drive.now += seconds - 1
        assert drive.ask(asked(2)).retry_after == 1.0
        drive.now += 1
        trial = drive.ask(asked(3))
        assert isinstance(trial, Call)
        drive.settle(late, passing())
        assert state(drive).phase == "half-open"
        drive.settle(trial, passing())
        assert state(drive).phase == "open"

    def test_another_attempt_of_the_trial_is_one_too_many(self, drive):
        drive.ask(asked(id="c", reply="m"))
        assert drive.ask(asked(id="c", reply="m", kind="attempt")).reason == "breaker"

    def test_a_trial_that_another_rule_refuses_holds_nothing(self, make_guard, clock):
        policy = Policy(tools={"pay": BANK}).replaced(
            Breaker(failures=1), Budget(limits=(Limit(per="user", window=None, most=1),))
        )
        guard = make_guard(policy)
        where = Where("r", "r", user="ann")
        made(guard, "r", passing(), where=where)
        clock.tick(30)
        assert_stopped(guard.decide(Call("pay", {"n": 2}, where)).stop, reason="budget")
        assert guard.decide(Call("pay", {"n": 2}, Where("s", "s"))).ticket is not None


class TestRamp:
    @pytest.fixture
    def drive(self):
        drive = opened(ramp=True)
        drive.now += 30
        for n in range(2):
            drive.play(asked(n), ok())
        assert state(drive).phase == "ramp"
        return drive

    def let_through(self, drive, calls, outcome=None):
        """Which of so many calls were let through."""
        passed = []
        for n in range(1, calls + 1):
            said = drive.ask(asked(n, f"r{n}"))
            if isinstance(said, Call):
                passed.append(n)
                drive.settle(said, outcome or ok())
        return passed

    def test_every_tenth_call_then_every_second_then_all(self, drive):
        assert self.let_through(drive, 50) == [10, 20, 30, 40, 50]
        assert state(drive).stage == 1
        assert self.let_through(drive, 10) == [2, 4, 6, 8, 10]
        assert drive.records == {}
        assert self.let_through(drive, 3) == [1, 2, 3]
        assert drive.notices[-1].message == "bank: closed: all calls are let through"

    def test_others_are_refused_for_a_second(self, drive):
        stop = drive.ask(asked())
        assert (stop.reason, stop.scope, stop.rule) == ("ramp", "call", "breaker")
        assert (stop.retryable, stop.retry_after, stop.dependency) == (True, 1.0, "bank")

    def test_a_stage_is_over_by_itself(self, drive):
        drive.now += 29.9
        assert self.let_through(drive, 3) == []
        drive.now += 0.1
        assert self.let_through(drive, 4, PAUSED) == [2, 4]
        drive.now += 30
        assert self.let_through(drive, 3) == [1, 2, 3]
        assert drive.records == {}
        assert drive.notices[-1].message == "bank: closed: all calls are let through"

    def test_an_answer_after_the_last_stage_ends_it(self, drive):
        passed = [said for n in range(10) if isinstance(said := drive.ask(asked(n)), Call)]
        drive.now += 60
        drive.settle(passed[0], ok())
        assert drive.records == {}

    def test_a_sick_outcome_opens_it_again(self, drive):
        assert self.let_through(drive, 10, passing()) == [10]
        assert state(drive).phase == "open"
        assert state(drive).until == drive.now + 30

    def test_calls_from_before_the_outage_do_not(self):
        drive = Drive(Breaker(failures=1, ramp=True))
        early, _ = drive.ask(asked(1)), drive.play(asked(2), passing())
        drive.now += 30
        for n in range(2):
            drive.play(asked(n), ok())
        drive.settle(early, passing())
        assert state(drive).phase == "ramp"

    def test_no_more_calls_are_watched_than_fit(self, drive):
        for n in range(1000):
            drive.ask(asked(n, f"r{n}"))
        assert len(state(drive).watched) == 32

    def test_is_on_where_processes_share_the_store(self, tmp_path, clock):
        assert Breaker(ramp=False).fleetwide() == Breaker(ramp=False)
        policy = Policy().replaced(Breaker(failures=1, successes=1))
        for store, reason in (
            (MemoryStore(), None),
            (SQLiteStore(tmp_path / "lastcall.db"), "ramp"),
        ):
            guard = Guard(policy, store=store, clock=clock)
            made(guard, "r1", passing())
            clock.tick(30)
            made(guard, "r2", ok())
            stop = guard.decide(Call("pay", None, Where("r3", "r3"))).stop
            assert (stop and stop.reason) == reason
            store.close()


def made(guard, run, outcome, n=0, where=None):
    """One call; the verdict of before it, or of its answer."""
    verdict = guard.decide(Call("pay", {"n": n}, where or Where(run, run)))
    return verdict if verdict.ticket is None else guard.observe(verdict.ticket, outcome)


class TestThroughTheGuard:
    POLICY = Policy(tools={"pay": ToolPolicy(dependency="bank")}).replaced(Breaker(failures=3))

    def opened(self, guard):
        for n in range(3):
            made(guard, f"r{n}", passing(), n)
        return guard

    def test_a_run_goes_on_and_is_known_to_be_blocked(self, make_guard):
        guard = self.opened(make_guard(self.POLICY))
        here = Where("run", "run")
        with_result = guard.decide(Call("look", None, here)).ticket
        guard.observe(with_result, ok("found"))
        stop = assert_stopped(guard.decide(Call("pay", None, here)).stop, reason="breaker")
        assert stop.text.startswith(
            "Stopped: pay: the service behind it failed a short while ago, and nothing is sent to it"
            " for now (HTTP 503). Do not call pay again this turn"
        )
        assert [each.result for each in stop.gathered] == ["found"]
        assert guard.closed("run") == {"pay": "breaker, HTTP 503"}
        assert guard.decide(Call("look", {"n": 2}, here)).stop is None
        incident = guard.report("run")
        assert (incident.blocked, incident.status) == (("bank",), "running")
        assert [each.result for each in incident.gathered] == ["found"]

    def test_twenty_calls_take_nothing(self, make_guard):
        spend = Budget(limits=(Limit(per="all", window=None, most=10),))
        guard = self.opened(make_guard(self.POLICY.replaced(spend)))
        for n in range(20):
            stop = assert_stopped(made(guard, f"x{n}", ok(), n).stop, reason="breaker")
            assert stop.remaining["calls/all"] == 7

    def test_reasons_come_in_the_order_of_the_requirements(self, make_guard):
        guard = make_guard(Policy(max_repeats=1).replaced(Breaker(failures=2)))
        here = Where("r", "r")
        made(guard, "r", final(422), 1, here)
        made(guard, "r", ok(), 2, here)
        for n in (3, 4):
            made(guard, "r", passing(), n, here)
        assert made(guard, "r", ok(), 1, here).stop.reason == "terminal"
        assert made(guard, "r", ok(), 2, here).stop.reason == "breaker"

    def test_changes_are_events(self, make_guard, clock, caplog):
        events = []
        guard = make_guard(self.POLICY, listeners=[events.append])
        with caplog.at_level(logging.WARNING, "lastcall"):
            self.opened(guard)
            clock.tick(30)
            for n in range(2):
                made(guard, f"t{n}", ok(), n)
        said = [event.message for event in events if event.kind == "breaker"]
        assert said == [
            "bank: open after 3 in a row: HTTP 503; refused for 30 s",
            "bank: half-open: one call is tried",
            "bank: half-open: one call is tried",
            "bank: closed",
        ]
        assert [record.lastcall["kind"] for record in caplog.records].count("breaker") == 4

    def test_those_who_ignore_a_ramp_are_not_stopped_for_it(self, make_guard, clock):
        policy = Policy().replaced(Breaker(failures=1, successes=1, ramp=True))
        guard = make_guard(policy)
        made(guard, "r", passing())
        clock.tick(30)
        made(guard, "r", ok(), 1)
        said = [made(guard, "s", ok(), n).stop for n in range(9)]
        assert {stop.reason for stop in said} == {"ramp"}
        assert made(guard, "s", ok(), 9).stop is None

    def test_a_person_who_lets_a_call_pass_closes_it(self, make_guard):
        guard = self.opened(make_guard(self.POLICY))
        guard.person.pardon(made(guard, "x", ok()))
        assert made(guard, "x", ok()).stop is None

    def test_in_the_shadow_it_refuses_nothing_and_still_closes(self, make_guard, clock):
        guard = make_guard(self.POLICY.replaced(Breaker(failures=3, enforce=False)))
        self.opened(guard)
        verdict = guard.decide(Call("pay", None, HERE))
        assert [stop.reason for stop in verdict.shadow] == ["breaker"]
        guard.observe(verdict.ticket, ok())
        clock.tick(30)
        for n in range(2):
            made(guard, f"t{n}", ok(), n)
        assert guard.decide(Call("pay", {"n": 9}, HERE)).shadow == ()

    def test_what_is_known_only_after_the_run_is_over_counts(self, make_guard):
        guard = make_guard(self.POLICY)
        tickets = [
            guard.decide(Call("pay", {"n": n}, Where(f"r{n}", "t"))).ticket for n in range(3)
        ]
        for n, ticket in enumerate(tickets):
            guard.finish(f"r{n}")
            guard.observe(ticket, passing())
        assert made(guard, "x", ok()).stop.reason == "breaker"

    def test_a_healthy_service_is_only_read(self, clock):
        class Writes(MemoryStore):
            def update(self, keys, step, now):
                def watched(records):
                    plan = step(records)
                    written.extend(keys[index][1] for index, _ in plan.writes)
                    return plan

                return super().update(keys, watched, now)

        written = []
        guard = Guard(self.POLICY, store=Writes(), clock=clock)
        for n in range(20):
            made(guard, f"r{n}", ok(), n)
        assert "breaker" not in written
        assert "turn" in written


@pytest.fixture(scope="module")
def redis_url():
    server = RedisServer().start()
    yield server.url
    server.stop()


class TestAnOutage:
    """Down for 200 s, polled every 5 s by 60 runs of one call each (requirement D5)."""

    @pytest.fixture(params=["memory", "sqlite", "redis"])
    def guards(self, request, tmp_path, clock):
        policy = Policy(tools={"pay": ToolPolicy(dependency="bank")}).replaced(Breaker())
        if request.param == "memory":
            yield [Guard(policy, clock=clock)] * 2
            return
        url = f"sqlite:///{tmp_path}/lastcall.db"
        if request.param == "redis":
            url = request.getfixturevalue("redis_url")
        made = [Guard(policy, store=open_store(url), clock=clock) for _ in range(2)]
        yield made
        for guard in made:
            guard.close()

    def test_sees_one_trial_per_time_out_and_is_noticed_to_be_over(self, guards, clock):
        began, reached, runs = clock(), [], 0
        for tick in range(0, 400, 5):
            clock.tick(began + tick - clock())
            down = tick < 200
            for run in range(60):
                runs += 1
                guard = guards[run % 2]
                with guard.within(run=f"{tick}-{run}"):
                    verdict = guard.decide(Call("pay", {"n": runs}))
                    if verdict.ticket is not None:
                        reached.append(tick)
                        guard.observe(verdict.ticket, passing() if down else ok())
        outage = [tick for tick in reached if tick < 200]
        # Five to find out, then one each 30 s.
        assert outage == [0] * 5 + [30, 60, 90, 120, 150, 180]
        assert reached[len(outage)] == 210
        assert reached[-60:] == [395] * 60


KINDS = {"ok": ok(), "no": final(400), "sick": passing(), "off": CANCELLED}


class Polling(RuleBasedStateMachine):
    """One service beside a plain model: when is a call let through?"""

    def __init__(self):
        super().__init__()
        self.drive = Drive(Breaker(failures=3, wait=10, successes=2, ttl=25))
        self.row = 0
        self.open_until = None
        self.trial = None
        self.given_up = 0
        self.good = 0
        self.flying = []
        self.number = 0

    def free(self, now):
        if self.open_until is None:
            return True
        return now >= self.open_until and (self.trial is None or now >= self.given_up)

    @rule()
    def ask(self):
        now = self.drive.now
        self.number += 1
        said = self.drive.ask(asked(self.number, f"r{self.number}"))
        assert isinstance(said, Call) == self.free(now)
        if not isinstance(said, Call):
            return
        self.flying.append((self.number, said))
        if self.open_until is not None:
            self.trial, self.given_up = self.number, now + 25

    @rule(kind=st.sampled_from(sorted(KINDS)), at=st.integers(0, 9))
    def answer(self, kind, at):
        if not self.flying:
            return
        number, placed = self.flying.pop(at % len(self.flying))
        self.drive.settle(placed, KINDS[kind])
        now = self.drive.now
        if self.open_until is None:
            if kind != "off":
                self.row = self.row + 1 if kind == "sick" else 0
            if self.row == 3:
                self.open(now)
        elif number == self.trial:
            self.trial = None
            if kind == "sick":
                self.open(now)
            elif kind != "off":
                self.good += 1
                if self.good == 2:
                    self.open_until = None

    def open(self, now):
        self.open_until, self.row, self.good, self.trial = now + 10, 0, 0, None

    @rule(seconds=st.integers(1, 12))
    def wait(self, seconds):
        self.drive.now += seconds


TestPolling = Polling.TestCase


def test_what_an_operator_is_told():
    assert standing(None, NOW) is None
    assert standing(Circuit(failures=2), NOW) is None
    assert standing(Circuit("open", until=NOW + 1), NOW).phase == "open"
    assert standing(Circuit("open", until=NOW), NOW).phase == "half-open"
    assert standing(Circuit("ramp", until=NOW), NOW).stage == 1
    assert standing(Circuit("ramp", until=NOW - 30), NOW) is None
