"""The store cannot be reached: what becomes of calls is the policy's word, and it is seen (J4)."""

from __future__ import annotations

import asyncio
import logging
from typing import get_args

import pytest

from lastcall import Call, Guard, MemoryStore, Outcome, Policy, Where
from lastcall.stores import StoreError
from lastcall.stores.standby import PAUSE, Standby
from lastcall.switch import Switch
from lastcall.testing import FailingStore, FakeClock, Trouble

HERE = Where("r", "t", "thread")


@pytest.fixture
def store():
    return FailingStore()


@pytest.fixture(params=["sync", "async"])
def face(request):
    return request.param


@pytest.fixture
def make(store, clock, face):
    def make(**policy):
        events = []
        guard = Guard(Policy(**policy), store=store, clock=clock, listeners=[events.append])
        if guard._standby is not None:
            guard._standby._monotonic = clock
        return Played(guard, events, face)

    return make


class Played:
    """A guard, driven through one of its faces."""

    def __init__(self, guard, events, face):
        self.guard = guard
        self.events = events
        self.face = face

    def decide(self, n, reply=None, kind="tool", where=HERE):
        call = Call("t", {"n": n}, where, id=f"c{n}", kind=kind, reply=reply or f"r{n}")
        if self.face == "sync":
            return self.guard.decide(call)
        return asyncio.run(self.guard.adecide(call))

    def observe(self, verdict, outcome=None):
        outcome = outcome or Outcome(content="x")
        if self.face == "sync":
            return self.guard.observe(verdict.ticket, outcome)
        return asyncio.run(self.guard.aobserve(verdict.ticket, outcome))

    def call(self, n):
        verdict = self.decide(n)
        if verdict.ticket:
            self.observe(verdict)
        return verdict


@pytest.mark.parametrize("trouble", get_args(Trouble))
def test_closed_refuses_and_says_why(make, store, trouble):
    played = make()
    store.fail(trouble)
    verdict = played.decide(1)
    assert verdict.stop.reason == "store"
    assert verdict.stop.scope == "call"
    assert not verdict.stop.executed
    assert "store" in verdict.stop.text
    assert [event.kind for event in played.events] == ["fault", "refused"]


def test_no_exception_reaches_the_agent(make, store):
    played = make()
    granted = played.decide(1)
    store.fail()
    assert played.observe(granted).stop is None
    guard = played.guard
    guard.finish("r")
    assert guard.report("r") is not None


def test_it_goes_on_by_itself_when_the_store_is_back(make, store):
    played = make(max_calls=3)
    played.call(1)
    store.fail()
    assert played.call(2).stop
    store.recover()
    assert [played.call(n).stop is None for n in (3, 4, 5)] == [True, True, False]


def test_a_model_that_goes_on_while_nothing_can_be_decided_is_not_left_to_it(make, store):
    """Refusal rounds cannot be counted in a store that is not there, so they are counted here."""
    played = make()
    store.fail()
    scopes = [played.decide(n, reply=f"r{n // 2}").stop.scope for n in range(8)]
    assert scopes == ["call"] * 4 + ["run"] * 4
    assert played.decide(9, kind="model").stop.scope == "run"
    store.recover()
    assert played.decide(10, reply="r10").stop is None
    store.fail()
    assert played.decide(11, reply="r11").stop.scope == "call", "it begins anew"


def test_a_run_that_is_over_is_not_held_against_the_next_of_its_name(make, store):
    played = make()
    store.fail()
    assert [played.decide(n).stop.scope for n in range(3)][-1] == "run"
    played.guard.finish("r")
    assert played.decide(9).stop.scope == "call"


def test_without_that_rule_nothing_ends_by_itself(make, store):
    played = make(rules=[])
    store.fail()
    assert {played.decide(n).stop.scope for n in range(9)} == {"call"}


def test_shadow_mode_refuses_nothing(make, store):
    played = make(enforce=False)
    store.fail()
    assert played.decide(1).ticket is not None


def test_open_goes_on_counting_from_what_was_known(make, store):
    played = make(max_calls=4, on_store="open")
    for n in (1, 2):
        played.call(n)
    store.fail()
    verdicts = [played.call(n) for n in (3, 4, 5)]
    assert [verdict.stop is None for verdict in verdicts] == [True, True, False]
    assert verdicts[2].stop.reason == "ceiling"
    assert {event.standby for event in played.events[-3:]} == {"open"}


def test_open_keeps_what_single_calls_had_come_to(make, store):
    """Not only counts: a call that was answered by a 422 stays closed."""
    played = make(on_store="open")
    verdict = played.decide(1)
    played.observe(verdict, Outcome("error", "no", 422, "final"))
    store.fail()
    again = Call("t", {"n": 1}, HERE, id="other", reply="r2")
    assert played.guard.decide(again).stop.reason == "terminal"


@pytest.mark.parametrize("mode", ["open", "last-known"])
def test_a_damaged_record_is_no_outage(make, store, mode):
    """Neither is it made up for by a beginning from nothing, nor do others pay for it."""
    played = make(on_store=mode)
    played.call(1)
    store.fail("damaged")
    assert played.decide(2).stop.reason == "store"
    store.recover()
    played.call(3)
    assert played.events[-1].standby is None
    assert store.tries == 1


def test_a_run_that_is_over_is_forgotten_here_too(make, store):
    played = make(on_store="open", max_calls=1)
    played.call(1)
    played.guard.finish("r")
    assert not len(played.guard._standby.here)
    store.fail()
    assert played.call(2).stop is None


def test_whom_another_policy_leaves_in_the_shadow_is_not_refused(store, clock):
    shadow = Policy(enforce=False)
    of = {"ann": shadow}
    guard = Guard(store=store, clock=clock, overrides=lambda where: of.get(where.user))
    store.fail()
    assert guard.decide(Call("t", {}, Where("r", "t", user="ann"))).stop is None
    assert guard.decide(Call("t", {}, Where("r2", "t", user="bob"))).stop.reason == "store"


@pytest.mark.parametrize("overrides", [lambda where: 1 / 0, lambda where: "strict"])
def test_what_gives_no_policy_refuses(store, clock, overrides):
    guard = Guard(store=store, clock=clock, overrides=overrides)
    assert guard.decide(Call("t", {}, Where("r", "t"))).stop.reason == "fault"


def test_open_serves_those_of_whom_nothing_is_known(make, store):
    played = make(max_calls=1, on_store="open")
    store.fail()
    assert played.call(1).stop is None
    assert played.call(2).stop.reason == "ceiling"


def test_last_known_serves_for_so_long_and_then_refuses(make, store, clock):
    played = make(on_store="last-known", max_staleness=10.0)
    played.call(1)
    store.fail()
    clock.tick(10)
    verdict = played.call(2)
    assert verdict.stop is None
    assert played.events[-1].standby == "last-known"
    clock.tick(1)
    assert played.call(3).stop.reason == "store"


def test_last_known_refuses_when_nothing_ever_was(make, store):
    played = make(on_store="last-known")
    store.fail()
    assert played.call(1).stop.reason == "store"


def test_a_store_that_failed_is_left_alone_for_a_moment(make, store, clock):
    """Every try may take its whole time-out."""
    played = make(on_store="open")
    store.fail()
    for n in range(5):
        played.call(n)
    assert store.tries == 1
    clock.tick(PAUSE)
    played.call(6)
    assert store.tries == 2
    store.recover()
    clock.tick(PAUSE)
    assert played.call(7).ticket.standby is None


def test_what_was_granted_without_the_store_is_settled_without_it(make, store, clock):
    played = make(on_store="open", rules=[Policy(max_calls=2).rules[-1]])
    store.fail()
    granted = played.decide(1)
    store.recover()
    clock.tick(PAUSE)
    assert played.observe(granted).stop is None
    assert store.peek(("run", "r"), clock()) == {}, "the store was never told of it"


def test_the_log_says_when_it_begins_and_ends_and_not_in_between(make, store, clock, caplog):
    caplog.set_level(logging.WARNING, "lastcall")
    played = make(on_store="open")
    store.fail()
    for n in range(3):
        played.call(n)
        clock.tick(PAUSE)
    store.recover()
    played.call(4)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "counting in this process alone (open)" in said[0]
    assert "answers again" in said[1]


def test_a_refused_claim_is_known_too():
    clock = FakeClock()
    store = FailingStore()
    guard = Guard(Policy(max_calls=1, on_store="open"), store=store, clock=clock)
    for n in (1, 2):
        guard.decide(Call("t", {"n": n}, HERE, id=f"c{n}", reply=f"r{n}"))
    store.fail()
    stop = guard.decide(Call("t", {"n": 3}, HERE, id="c3", reply="r3")).stop
    assert stop.reason == "ceiling"
    assert guard._standby.here.peek(("run", "r"), clock())


def test_a_policy_may_change_its_mind(make, store, clock):
    played = make()
    assert played.guard._standby is None
    played.guard.reload(Policy(on_store="open"))
    store.fail()
    assert played.call(1).stop is None
    played.guard.reload(Policy(on_store="last-known", max_staleness=1.0))
    assert played.guard._standby.mode == "last-known"
    played.guard.reload(Policy())
    assert played.call(2).stop.reason == "store"


class SharedStore(FailingStore):
    """One that other processes see, so that the kill switch in it is honoured."""

    shared = True


@pytest.mark.parametrize(
    ("policy", "later", "reason"),
    [
        ({"on_store": "open"}, 3600.0, None),
        ({"on_store": "last-known"}, 29.0, None),
        ({"on_store": "last-known"}, 31.0, "kill"),
        ({"on_store": "last-known", "max_staleness": 300.0}, 299.0, None),
        ({"on_store": "closed"}, 29.0, "store"),
        ({"on_store": "closed"}, 31.0, "kill"),
    ],
)
def test_the_switch_in_the_store_closes_nothing_that_the_policy_wants_open(
    clock, policy, later, reason
):
    """R222. Nobody asked for that switch by name; one that was given has its own time."""
    store = SharedStore()
    guard = Guard(Policy(**policy), store=store, clock=clock)
    if guard._standby is not None:
        guard._standby._monotonic = clock
    asked = lambda n: guard.decide(Call("t", {"n": n}, HERE, id=f"c{n}", reply=f"r{n}")).stop
    assert asked(1) is None
    store.fail()
    clock.tick(later)
    stop = asked(2)
    assert (stop and stop.reason) == reason


def test_open_is_open_from_the_first_call_on(clock):
    store = SharedStore()
    store.fail()
    guard = Guard(Policy(max_calls=1, on_store="open"), store=store, clock=clock)
    asked = lambda n: guard.decide(Call("t", {"n": n}, HERE, id=f"c{n}", reply=f"r{n}")).stop
    assert asked(1) is None
    assert asked(2).reason == "ceiling", "and counted here"
    guard.reload(Policy())
    clock.tick(2)
    assert asked(3).reason == "kill", "closed again, and the switch was never read"


def test_a_switch_that_is_given_keeps_its_own_time(clock, tmp_path):
    switch = Switch(tmp_path / "gone" / "switch.json", clock=clock)
    guard = Guard(Policy(on_store="open"), store=SharedStore(), switch=switch, clock=clock)
    assert guard.switch.max_staleness == 30.0
    call = Call("t", {}, HERE, id="c", reply="r")
    assert guard.decide(call).stop.reason == "kill"


def test_in_memory_there_is_nothing_to_stand_by_for(clock):
    assert Guard(Policy(on_store="open"), clock=clock)._standby is None


def test_the_step_of_standby_is_the_stores():
    store = MemoryStore()
    standby = Standby(store, "open")
    from lastcall.contracts import Plan

    key = (("run", "r"), "a")
    standby.update((key,), lambda _: Plan(None, [(0, (1,))]), 0.0)
    assert store.peek(("run", "r"), 0.0) == standby.here.peek(("run", "r"), 0.0) == {key: (1,)}
    standby.update((key,), lambda _: Plan(None, [(0, None)]), 0.0)
    assert store.peek(("run", "r"), 0.0) == standby.here.peek(("run", "r"), 0.0) == {}


def test_trouble_that_is_none_is_refused():
    with pytest.raises(ValueError, match="no trouble 'tired'"):
        FailingStore().fail("tired")


def test_what_people_ask_for_says_so_when_it_cannot_be_done(make, store):
    played = make()
    store.fail()
    with pytest.raises(StoreError):
        played.guard.raise_limit("r", 5)
    with pytest.raises(StoreError):
        played.guard.snapshot("r")
