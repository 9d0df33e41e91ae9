from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from lastcall import FirstResult, Outcome, Stop, Where
from lastcall.contracts import Noted, Replay
from lastcall.idempotency import kept
from lastcall.rules import Writes
from lastcall.rules.writes import LEASE, NEW, Write

from .driving import CANCELLED, LOST, NOW, PAUSED, call, failed, final, passing, tool

HERE = Where(run="r1", turn="t1", tenant="acme")
ELSEWHERE = Where(run="r2", turn="t2", tenant="acme")
ONCE = tool(writes=True, identity=("invoice",), on_repeat="replay")
AGAIN = tool(writes=True, identity=("invoice",))
KEYED = tool(writes=True, identity=("invoice",), keyed=True)
DAY = 86_400.0

DONE = Outcome(content="paid", kept=kept({"id": "ch_1"}))
TIMEOUT = Outcome("error", "timed out", error="timed out", transport=True)


def pay(params="p1", policy=ONCE, where=HERE, key="acme:pay:1", **fields):
    return call("pay", {}, where=where, policy=policy, key=key, params=params, **fields)


def begun(asked=None, now=NOW, state=NEW):
    said = Writes().before(state, asked or pay(), now)
    assert isinstance(said, Write), said
    return said


def after(outcome, asked=None, now=NOW):
    # A grant tells the call its time.
    granted = replace(asked or pay(), time=now)
    return Writes().after(begun(granted, now), granted, outcome, now)


def reason(state, asked=None, now=NOW, settings=None):
    said = (settings or Writes()).before(state, asked or pay(), now)
    return said.reason if isinstance(said, Stop) else None


class TestWhoIsLookedAt:
    def test_tools_that_write(self):
        assert Writes().record(tool()) is None
        assert Writes().record(tool(reads=True)) is None
        assert Writes().record(tool(writes=True)) == "shared"

    def test_the_record_is_of_the_tenant_and_the_key(self):
        one, other = Where(run="r", tenant="a"), Where(run="r", tenant="b")
        assert Writes().shared(pay(where=one)) != Writes().shared(pay(where=other))
        assert Writes().shared(pay(where=HERE)) == Writes().shared(pay(where=ELSEWHERE))
        assert Writes().shared(pay(key="k1")) != Writes().shared(pay(key="k2"))


class TestAWriteWithoutAKey:
    def test_is_refused(self):
        stop = Writes().before(NEW, pay(key=None), NOW)
        assert (stop.reason, stop.scope, stop.rule, stop.retryable) == (
            "no_key", "call", "writes", False,
        )  # fmt: skip


class TestAWriteThatRuns:
    def test_is_not_made_a_second_time_meanwhile(self):
        stop = Writes().before(begun(), pay(where=ELSEWHERE), NOW + 1)
        assert (stop.reason, stop.retryable, stop.retry_after) == ("in_progress", True, 1.0)

    def test_counts_as_lost_when_its_worker_must_have_died(self):
        assert reason(begun(), now=NOW + LEASE) == "unknown_outcome"
        slow = tool(writes=True, timeout=10.0)
        assert reason(begun(pay(policy=slow)), now=NOW + 9.9) == "in_progress"
        assert reason(begun(pay(policy=slow)), now=NOW + 10) == "unknown_outcome"


class TestAWriteOfUnknownOutcome:
    @pytest.mark.parametrize(
        "outcome", [LOST, CANCELLED, TIMEOUT, passing(504), passing(502), failed("x", 500)], ids=str
    )
    def test_is_not_made_again(self, outcome):
        state = after(outcome)
        assert state.phase == "unknown"
        assert reason(state) == "unknown_outcome"
        assert reason(state, now=NOW + 2 * DAY) == "unknown_outcome"

    def test_is_made_again_under_its_key_where_the_service_takes_one(self):
        state = after(TIMEOUT, pay(policy=KEYED))
        again = begun(pay(policy=KEYED), NOW + 5, state)
        assert (again.phase, again.at) == ("begun", NOW), "keys are kept from the first time on"
        late = pay(policy=KEYED)
        assert reason(state, late, NOW + DAY) == "unknown_outcome", "the key is gone by then"
        assert reason(begun(late), late, NOW + DAY) == "unknown_outcome", "its worker died"

    def test_is_none_where_it_never_began_or_waits_for_a_person(self):
        assert after(replace(CANCELLED, started=False)) is None
        assert after(PAUSED) is None


class TestWhatIsToldLate:
    """The record is somebody else's by then: settled by a person, or made anew under its key."""

    def asked(self, now, where=HERE):
        return pay(policy=KEYED, where=where, time=now)

    @pytest.mark.parametrize(
        "outcome",
        [LOST, TIMEOUT, final(422), final(402), PAUSED, replace(CANCELLED, started=False)],
    )
    def test_takes_nothing_from_those_who_made_it_anew(self, outcome):
        first, again = self.asked(NOW), self.asked(NOW + LEASE, ELSEWHERE)
        runs = begun(again, NOW + LEASE, begun(first))
        assert Writes().after(runs, first, outcome, NOW + LEASE + 1) is runs
        done = Writes().after(runs, again, DONE, NOW + LEASE + 2)
        assert Writes().after(done, first, outcome, NOW + LEASE + 3) is done
        assert Writes().after(NEW, first, outcome, NOW + LEASE) is NEW

    def test_is_kept_where_it_says_that_it_happened(self):
        first = self.asked(NOW)
        for state in (NEW, after(LOST, first)):
            done = Writes().after(state, first, DONE, NOW + LEASE)
            assert (done.phase, done.kept, done.at) == ("done", DONE.kept, NOW)


class TestAWriteThatFailed:
    @pytest.mark.parametrize("outcome", [final(422), final(400), failed("x", 409), passing(429)])
    def test_may_be_corrected_under_its_key(self, outcome):
        assert after(outcome) is None

    def test_is_final_where_the_service_keeps_its_refusal(self):
        state = after(final(402))
        stop = Writes().before(state, pay(), NOW)
        assert (stop.reason, stop.status) == ("terminal", 402)
        assert reason(state, pay("p2")) == "conflict"
        assert Writes(declined=()).after(begun(), pay(time=NOW), final(402), NOW) is None


class TestAWriteThatWasCarriedOut:
    def test_is_answered_by_what_it_brought(self):
        state = after(DONE)
        said = Writes().before(state, pay(where=ELSEWHERE), NOW + 60)
        assert isinstance(said, Replay)
        assert said.replayed == FirstResult('{"id":"ch_1"}', NOW, "r1")
        assert said.replayed.result == {"id": "ch_1"}

    def test_but_not_for_ever_in_one_turn(self):
        state, said = after(DONE), None
        for _ in range(3):
            said = Writes().before(state, pay(), NOW)
            state = said.state
        stop = Writes().before(state, pay(), NOW)
        assert (stop.reason, stop.limit, stop.observed) == ("repeat", 4, 5)
        assert isinstance(Writes().before(state, pay(where=ELSEWHERE), NOW), Replay)

    def test_as_often_as_a_node_is_run_again(self):
        state = after(DONE)
        for _ in range(9):
            said = Writes().before(state, pay(kind="attempt"), NOW)
            assert isinstance(said, Replay)
            assert said.state is state

    def test_is_refused_where_its_result_was_not_kept(self):
        assert reason(after(Outcome(content="paid"))) == "done"

    def test_is_made_again_where_nothing_else_was_said(self):
        state = after(DONE, pay(policy=AGAIN))
        assert begun(pay(policy=AGAIN), NOW, state).phase == "begun"

    def test_under_the_same_key_with_other_parameters_is_a_conflict(self):
        for state in (begun(), after(DONE), after(LOST)):
            for other in (pay("p2"), replace(pay(), tool="mail")):
                stop = Writes().before(state, other, NOW)
                assert (stop.reason, stop.scope, stop.retryable) == ("conflict", "call", False)

    def test_is_protected_for_a_day(self):
        said = Writes().before(after(DONE), pay(), NOW + DAY)
        assert isinstance(said, Noted)
        assert (said.state.phase, said.state.at) == ("begun", NOW + DAY)
        assert said.notice.kind == "alert"
        bare = after(DONE, pay(policy=AGAIN))
        assert begun(pay(policy=AGAIN), NOW + DAY, bare).at == NOW + DAY


class Worlds(RuleBasedStateMachine):
    """Workers that are granted one write, and settle it or die, against what really happened."""

    def __init__(self):
        super().__init__()
        self.state = NEW
        self.now = NOW
        self.open = []
        self.carried_out = 0

    @rule()
    def ask(self):
        asked = pay(kind="attempt", time=self.now)
        said = Writes().before(self.state, asked, self.now)
        if isinstance(said, Write):
            self.state = said
            self.open.append(asked)
        elif isinstance(said, Replay):
            assert self.carried_out == 1

    @rule(
        outcome=st.sampled_from([DONE, LOST, TIMEOUT, CANCELLED, final(422), passing(429), PAUSED]),
        happened=st.booleans(),
    )
    def settle(self, outcome, happened):
        if not self.open:
            return
        asked = self.open.pop()
        sure = {"ok": True, "paused": False}.get(outcome.kind)
        if sure is None and outcome.status is not None:
            sure = False
        self.carried_out += happened if sure is None else sure
        said = Writes().after(self.state, asked, outcome, self.now)
        self.state = NEW if said is None else said

    @rule(happened=st.booleans())
    def die(self, happened):
        if self.open:
            self.open.pop()
            self.carried_out += happened

    @rule(seconds=st.sampled_from([1.0, LEASE, 3600.0]))
    def wait(self, seconds):
        if self.now + seconds < NOW + DAY:
            self.now += seconds

    @invariant()
    def it_was_made_once_at_most(self):
        assert self.carried_out <= 1
        assert len(self.open) <= 1


TestWorlds = Worlds.TestCase
