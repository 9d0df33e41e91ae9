from __future__ import annotations

import logging

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from msgspec.structs import replace

from lastcall import Call, MemoryStore, Outcome, Policy, Where
from lastcall.contracts import Take
from lastcall.rules import Quarantine
from lastcall.rules.quarantine import COUNTER, Quarantined, quarantined_until
from lastcall.testing import assert_stopped

from .driving import CANCELLED, LOST, NOW, PAUSED, Drive, call, failed, final, ok, passing, tool

ANN = Where(run="r1", turn="t", user="ann", agent="clerk", tenant="acme")
BOB = Where(run="r2", turn="t", user="bob", agent="clerk", tenant="acme")
KEYED = tool(credential="crm")


def booked(n=1, where=ANN, policy=KEYED, **fields):
    return call("book", {"n": n}, where=where, policy=policy, **fields)


class TestAFinalAnswer:
    def test_closes_the_same_call_in_every_run_for_a_while(self):
        drive = Drive(Quarantine())
        assert drive.play(booked(), final(422)) is None
        drive.now += 600
        stop = drive.ask(booked(where=BOB))
        assert (stop.reason, stop.scope, stop.rule) == ("quarantine", "call", "quarantine")
        assert (stop.status, stop.executed, stop.retryable) == (422, False, False)
        assert (stop.retry_after, stop.resets_at.timestamp()) == (300.0, NOW + 900)
        drive.now += 300
        assert drive.play(booked(where=BOB)) is None
        assert drive.records == {}

    def test_is_kept_with_all_that_an_operator_wants_to_know(self):
        drive = Drive(Quarantine(seconds=60))
        asked = booked()
        drive.play(asked, final(404))
        key, state = drive.records.popitem()
        assert key == (("quarantine", f"acme/crm/{asked.fingerprint}"), "quarantine")
        assert state == Quarantined(
            NOW + 60, 404, "book", asked.fingerprint, "acme", "crm", NOW, "r1", 1
        )
        assert quarantined_until(state, NOW + 59) == NOW + 60
        assert quarantined_until(state, NOW + 60) is None
        assert quarantined_until(None, NOW) is None

    def test_is_a_notice_once(self):
        drive = Drive(Quarantine(alert=7))
        first, second = drive.ask(booked()), drive.ask(booked(where=BOB))
        drive.settle(first, final(422))
        drive.now += 1
        drive.settle(second, final(409))
        (notice,) = drive.notices
        assert (notice.kind, notice.alert) == ("quarantined", 7)
        assert notice.message == "refused in every run for 900 s after HTTP 422"
        assert notice.count == Take(COUNTER, 1, None, 3600.0)
        (state,) = drive.records.values()
        assert (state.count, state.status, state.since, state.until) == (2, 409, NOW, NOW + 901)

    def test_after_the_time_is_over_is_a_new_one(self):
        drive = Drive(Quarantine())
        for _ in range(2):
            drive.play(booked(), final())
            drive.now += 900
        assert len(drive.notices) == 2

    def test_without_a_status_counts_too(self):
        drive = Drive(Quarantine())
        drive.play(booked(), Outcome("error", grade="final"))
        assert drive.notices[0].message == "refused in every run for 900 s after a final answer"
        assert drive.ask(booked()).status is None

    def test_of_an_attempt_counts_too(self):
        drive = Drive(Quarantine())
        drive.play(booked(kind="attempt"), final())
        assert drive.ask(booked(kind="attempt")).reason == "quarantine"


@pytest.mark.parametrize(
    "outcome", [ok(), failed(), passing(), PAUSED, CANCELLED, LOST], ids=lambda o: o.grade or o.kind
)
class TestAnythingElse:
    def test_closes_nothing(self, outcome):
        drive = Drive(Quarantine())
        assert drive.stops([(booked(), outcome)] * 4) == []
        assert all(state.until == 0 for state in drive.records.values())

    def test_but_a_success_leaves_it_closed(self, outcome):
        drive = Drive(Quarantine())
        first, second = drive.ask(booked()), drive.ask(booked())
        drive.settle(first, final())
        drive.settle(second, outcome)
        closed = not isinstance(drive.ask(booked()), Call)
        assert closed == (outcome.kind != "ok")


class TestOthersAreFree:
    @pytest.mark.parametrize(
        "other",
        [
            booked(2),
            booked(where=replace(BOB, tenant="other")),
            booked(where=replace(BOB, tenant=None)),
            booked(policy=tool(credential="other")),
            booked(policy=tool()),
            call("cancel", {"n": 1}, where=ANN, policy=KEYED),
            booked(server="other"),
        ],
    )
    def test_of_other_arguments_tenants_credentials_and_tools(self, other):
        drive = Drive(Quarantine())
        drive.play(booked(), final())
        assert drive.play(other) is None

    def test_names_with_slashes_do_not_run_together(self):
        one = booked(where=replace(ANN, tenant="a/b"), policy=tool(credential="c"))
        two = booked(where=replace(ANN, tenant="a"), policy=tool(credential="b/c"))
        assert Quarantine().shared(one) != Quarantine().shared(two)


class TestThroughTheGuard:
    POLICY = Policy(tools={"book": {"credential": "crm"}}).replaced(Quarantine(alert=2))

    def made(self, guard, where, n=1, outcome=None, **fields):
        verdict = guard.decide(Call("book", {"n": n}, where, **fields))
        if verdict.ticket is not None:
            outcome = outcome or Outcome("error", "no", 422, "final", "no")
            verdict = guard.observe(verdict.ticket, outcome)
        return verdict

    def test_another_worker_does_not_pay_for_it_again(self, make_guard):
        store = MemoryStore()
        one, two = (make_guard(self.POLICY, store=store) for _ in range(2))
        assert_stopped(self.made(one, ANN).stop, reason="terminal")
        one.finish("r1")
        stop = assert_stopped(self.made(two, BOB).stop, reason="quarantine", status=422)
        assert stop.text.startswith(
            "Stopped: book: this exact call was answered with a final status"
        )
        assert "(HTTP 422)" in stop.text
        assert self.made(two, BOB, 2, Outcome(content="booked")).stop is None

    def test_what_is_known_only_after_the_run_is_over_is_kept(self, make_guard):
        guard = make_guard(self.POLICY)
        ticket = guard.decide(Call("book", {"n": 1}, ANN)).ticket
        guard.finish("r1")
        guard.observe(ticket, Outcome("error", "no", 422, "final", "no"))
        assert guard.store.peek(("run", "r1"), NOW) == {}
        assert_stopped(guard.decide(Call("book", {"n": 1}, BOB)).stop, reason="quarantine")

    def test_growth_is_an_event_each_and_an_alert_at_the_threshold(self, make_guard, clock, caplog):
        events, store = [], MemoryStore()
        workers = [
            make_guard(self.POLICY, store=store, listeners=[events.append]) for _ in range(2)
        ]
        with caplog.at_level(logging.WARNING, "lastcall"):
            for n in range(4):
                self.made(workers[n % 2], replace(ANN, run=f"r{n}"), n)
        kinds = [event.kind for event in events if event.kind in ("quarantined", "alert")]
        assert kinds == ["quarantined", "quarantined", "alert", "quarantined", "quarantined"]
        alert = next(event for event in events if event.kind == "alert")
        assert (alert.message, alert.limit) == ("quarantined: 2 within 3600 s", 2)
        assert [record.lastcall["kind"] for record in caplog.records].count("quarantined") == 4

    def test_a_person_who_lets_the_call_pass_clears_it(self, make_guard):
        guard = make_guard(self.POLICY)
        self.made(guard, ANN)
        verdict = self.made(guard, ANN)
        assert_stopped(verdict.stop, reason="quarantine")
        guard.person.pardon(verdict)
        assert self.made(guard, ANN, outcome=Outcome(content="booked")).stop is None
        assert self.made(guard, BOB, outcome=Outcome(content="booked")).stop is None

    def test_so_does_one_who_takes_the_first_stop_back(self, make_guard):
        guard = make_guard(self.POLICY)
        guard.person.pardon(self.made(guard, ANN))
        assert self.made(guard, ANN, outcome=Outcome(content="booked")).stop is None

    def test_in_the_shadow_it_refuses_nothing(self, make_guard):
        guard = make_guard(Policy().replaced(Quarantine(enforce=False)))
        self.made(guard, ANN)
        verdict = guard.decide(Call("book", {"n": 1}, BOB))
        assert verdict.ticket is not None
        assert [stop.reason for stop in verdict.shadow] == ["quarantine"]

    def test_good_calls_leave_nothing_behind(self, make_guard):
        guard = make_guard(self.POLICY)
        for n in range(50):
            self.made(guard, ANN, n, Outcome(content="booked"))
        guard.finish("r1")
        assert len(guard.store) == 0


class Paying(RuleBasedStateMachine):
    """Two workers make two calls; a plain table says which may be made."""

    def __init__(self):
        super().__init__()
        self.drive = Drive(Quarantine(seconds=10))
        self.until = {}
        self.flying = []

    @rule(n=st.integers(1, 2), where=st.sampled_from([ANN, BOB]))
    def ask(self, n, where):
        said = self.drive.ask(booked(n, where))
        free = self.until.get(n, 0) <= self.drive.now
        assert isinstance(said, Call) == free
        if free:
            self.flying.append((n, said))
            self.until.pop(n, None)

    @rule(outcome=st.sampled_from([ok(), final(), failed(), PAUSED]), at=st.integers(0, 9))
    def answer(self, outcome, at):
        if not self.flying:
            return
        n, asked = self.flying.pop(at % len(self.flying))
        self.drive.settle(asked, outcome)
        if outcome.grade == "final":
            self.until[n] = self.drive.now + 10
        elif outcome.kind == "ok":
            self.until.pop(n, None)

    @rule(seconds=st.integers(1, 8))
    def wait(self, seconds):
        self.drive.now += seconds


TestPaying = Paying.TestCase
