from __future__ import annotations

import asyncio
import copy
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import (
    Call,
    Guard,
    MemoryStore,
    Outcome,
    Policy,
    Stopped,
    Switch,
    ToolPolicy,
    UnscopedError,
    Where,
)
from lastcall.rules import Ceiling, Same
from lastcall.testing import assert_stopped

HERE = Where(run="r", turn="t")


class Unprocessable(Exception):
    status_code = 422


def asked(guard, n=0, tool="search", **fields):
    return guard.decide(Call(tool, {"n": n}, HERE, **fields))


def made(guard, n=0, result="ok", tool="search", **fields):
    verdict = asked(guard, n, tool, **fields)
    if verdict.ticket is None:
        return verdict
    return guard.observe(verdict.ticket, guard.returned(verdict.ticket, result))


class TestDecide:
    def test_a_call_that_no_rule_minds_gets_a_ticket(self, make_guard):
        verdict = asked(make_guard())
        assert verdict.ticket is not None
        assert verdict.stop is None

    def test_a_refused_call_gets_a_stop_that_says_everything(self, make_guard, clock):
        guard = make_guard(Policy(max_calls=1))
        where = Where("r", "t", "th", "writer", "ann", "acme", ("lead", "writer"))
        first = guard.decide(Call("search", {"n": 1}, where, id="c1", reply="1"))
        guard.observe(first.ticket, Outcome(content="found"))
        stop = guard.decide(Call("search", {"n": 2}, where, id="c2", reply="2", server="s")).stop
        assert_stopped(stop, reason="ceiling", scope="turn")
        assert (stop.tool, stop.server, stop.call_id) == ("search", "s", "c2")
        assert (stop.limit, stop.observed, stop.remaining) == (1, 2, {"calls": 0})
        assert (stop.run, stop.turn, stop.thread) == ("r", "t", "th")
        assert (stop.agent, stop.user, stop.tenant) == ("writer", "ann", "acme")
        assert stop.path == ("lead", "writer")
        assert (stop.executed, stop.retryable, stop.rule) == (False, False, "ceiling")
        assert stop.time.timestamp() == clock()
        assert [(one.tool, one.call_id, one.result) for one in stop.gathered] == [
            ("search", "c1", "found")
        ]
        assert "turn" in stop.text

    def test_a_stop_survives_json(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        made(guard, 1)
        stop = asked(guard, 2).stop
        assert type(stop).model_validate_json(stop.model_dump_json()) == stop

    def test_the_async_twin_says_the_same(self, make_guard):
        async def run(guard):
            words = []
            for n in (1, 1, 1, 1, 2):
                verdict = await guard.adecide(Call("search", {"n": n}, HERE))
                if verdict.ticket:
                    outcome = guard.returned(verdict.ticket, "same")
                    verdict = await guard.aobserve(verdict.ticket, outcome)
                words.append(verdict.stop and verdict.stop.reason)
            return words

        guard = make_guard()
        expected = [
            v.stop and v.stop.reason for v in (made(guard, n, "same") for n in (1, 1, 1, 1, 2))
        ]
        assert asyncio.run(run(make_guard())) == expected == [None, None, None, "same", None]

    def test_a_refusal_takes_nothing(self, make_guard):
        guard = make_guard(Policy(max_calls=5))
        for _ in range(3):
            made(guard, 1, "same")
        before = dict(guard.store.peek(("run", "r"), 0.0))
        assert made(guard, 1, "same").stop
        after = guard.store.peek(("run", "r"), 0.0)
        assert {key: after[key] for key in before if key[1] == "ceiling"} == {
            key: before[key] for key in before if key[1] == "ceiling"
        }

    def test_a_turn_that_ended_refuses_every_tool(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        made(guard, 1)
        assert asked(guard, 2).stop.reason == "ceiling"
        assert_stopped(asked(guard, 3, "another").stop, reason="ceiling", scope="turn")

    def test_the_next_turn_begins_at_zero(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        made(guard, 1)
        assert asked(guard, 2).stop
        later = Call("search", {"n": 2}, Where(run="r", turn="t2"))
        assert guard.decide(later).ticket

    def test_two_runs_never_meet(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        for run in "ab":
            assert guard.decide(Call("search", {}, Where(run=run, turn="t"))).ticket

    def test_a_model_request_is_asked_about_too(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        model = Call("model", None, HERE, kind="model")
        assert guard.decide(model).ticket
        made(guard, 1)
        asked(guard, 2)
        assert_stopped(guard.decide(model).stop, reason="ceiling", scope="turn")


class TestObserve:
    def test_the_first_final_answer_is_a_stop(self, make_guard):
        verdict = made(make_guard(), result={"status_code": 422, "error": "no such date"})
        stop = assert_stopped(verdict.stop, reason="terminal", scope="call", status=422)
        assert stop.executed
        assert "no such date" in stop.text

    def test_settling_twice_counts_once(self, make_guard):
        guard = make_guard()
        ticket = asked(guard).ticket
        for _ in range(3):
            guard.observe(ticket, Outcome(content="x"))
        assert guard.report("r").totals.executed == 1

    def test_a_cancelled_call_is_no_failure(self, make_guard):
        guard = make_guard()
        for _ in range(3):
            ticket = asked(guard).ticket
            guard.observe(ticket, guard.raised(ticket, asyncio.CancelledError()))
        assert guard.report("r").totals.failed == 0

    def test_the_widest_stop_comes_first(self, make_guard):
        guard = make_guard()
        verdicts = [made(guard, n, {"status_code": 422, "error": "no"}) for n in range(3)]
        assert verdicts[2].stop.scope == "tool"
        assert [stop.scope for stop in verdicts[2].also] == ["call"]


class TestShadow:
    def test_a_policy_that_does_not_enforce_refuses_nothing_and_reports_all(self, make_guard):
        events = []
        guard = make_guard(Policy(max_calls=2, enforce=False), listeners=[events.append])
        verdicts = [made(guard, 1, "same") for _ in range(6)]
        assert all(verdict.stop is None for verdict in verdicts)
        reasons = [event.reason for event in events if event.kind == "shadow"]
        assert "ceiling" in reasons
        assert "same" in reasons
        assert guard.report("r").totals.executed == 6
        assert guard.report("r").status == "running"

    def test_one_rule_of_it_can_be_a_shadow(self, make_guard):
        guard = make_guard(Policy(max_calls=5).replaced(Same(enforce=False)))
        verdicts = [asked(guard, 1) for _ in range(6)]
        assert [stop.reason for stop in verdicts[3].shadow] == ["same"]
        assert verdicts[5].stop.reason == "ceiling"

    def test_a_tally_can_be_a_shadow(self, make_guard):
        guard = make_guard(Policy().replaced(Ceiling(calls=2, enforce=False)))
        verdicts = [asked(guard, n) for n in range(4)]
        assert [bool(verdict.shadow) for verdict in verdicts] == [False, False, True, True]
        assert all(verdict.ticket for verdict in verdicts)

    def test_a_final_answer_is_no_stop_in_the_shadow(self, make_guard):
        verdict = made(make_guard(Policy(enforce=False)), result={"status_code": 422, "error": "x"})
        assert verdict.stop is None
        assert verdict.shadow[0].status == 422


class TestScopes:
    def test_within_a_run_calls_add_up(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        with guard.within(run="r1"):
            with guard.calling("a", {}) as call:
                call.result(1)
            with pytest.raises(Stopped), guard.calling("b", {}):
                pass

    def test_leaving_the_outermost_scope_finishes_the_run(self, make_guard):
        guard = make_guard()
        with guard.within(run="r1"):
            with guard.within(agent="inner"), guard.calling("a", {}):
                pass
            assert len(guard.store) > 0
        assert len(guard.store) == 0
        assert guard.report("r1").status == "finished"

    def test_a_block_without_a_run_is_a_run_of_its_own(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        for user in ("ann", "bob"):
            with guard.within(user=user) as where, guard.calling("a", {}):
                assert where.user == user
                assert where.run

    def test_a_run_entered_from_two_threads_is_finished_by_the_last(self, make_guard):
        guard = make_guard(Policy(max_calls=6))
        started = []

        def work(n):
            with guard.within(run="r1"):
                try:
                    with guard.calling("a", {"n": n}):
                        started.append(n)
                except Stopped:
                    pass

        with guard.within(run="r1"), ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert len(started) == 6
        assert len(guard.store) == 0

    def test_turns_of_a_run_begin_at_zero(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        with guard.within(run="r"):
            for turn in ("t1", "t2"):
                with guard.within(turn=turn), guard.calling("a", {}):
                    pass

    def test_an_unknown_field_is_named(self, make_guard):
        with pytest.raises(TypeError, match="no scope 'usr'"), make_guard().within(usr="ann"):
            pass

    def test_outside_any_run_each_call_is_its_own_and_one_warning_says_so(self, make_guard, caplog):
        guard = make_guard(Policy(max_calls=1))
        with caplog.at_level(logging.WARNING, "lastcall"):
            for n in range(5):
                with guard.calling("a", {"n": n}):
                    pass
        assert [record.message for record in caplog.records if "within" in record.message] == [
            caplog.records[0].message
        ]
        assert len(guard.store) == 0

    def test_outside_any_run_can_be_an_error(self, make_guard):
        guard = make_guard(Policy(on_unscoped="error"))
        with pytest.raises(UnscopedError, match="guard.within"), guard.calling("a", {}):
            pass

    def test_a_scope_function_is_asked(self, make_guard):
        guard = make_guard(Policy(max_calls=1), scope=lambda: Where(run="mine", user="ann"))
        with guard.calling("a", {}):
            assert guard.here().user == "ann"
        with pytest.raises(Stopped):
            guard.calling("a", {}).__enter__()

    def test_what_is_set_by_hand_wins(self, make_guard):
        guard = make_guard(scope=lambda: Where(run="theirs", user="theirs"))
        with guard.within(user="ann"):
            where = guard.here()
        assert (where.run, where.user) == ("theirs", "ann")


class TestWrap:
    def test_a_refused_call_does_not_reach_the_body(self, make_guard):
        guard, ran = make_guard(Policy(max_calls=2)), []

        @guard.wrap
        def search(q):
            ran.append(q)

        with guard.within(run="r"):
            search("a")
            search("b")
            with pytest.raises(Stopped) as stopped:
                search("c")
        assert ran == ["a", "b"]
        assert_stopped(stopped.value, reason="ceiling")

    def test_a_final_answer_raises_after_the_body_with_its_cause(self, make_guard):
        guard = make_guard()

        @guard.wrap
        def remind(due):
            raise Unprocessable(f"{due} is no date")

        with guard.within(run="r"), pytest.raises(Stopped) as stopped:
            remind("soon")
        assert isinstance(stopped.value.__cause__, Unprocessable)
        assert stopped.value.stop.executed

    def test_an_ordinary_error_passes_unchanged(self, make_guard):
        guard = make_guard()
        error = ValueError("as it was")

        @guard.wrap
        def fail():
            raise error

        with guard.within(run="r"), pytest.raises(ValueError) as raised:
            fail()
        assert raised.value is error
        assert raised.value.__cause__ is None

    def test_what_the_function_returns_is_the_same_object(self, make_guard):
        guard, value = make_guard(), object()
        with guard.within(run="r"):
            assert guard.wrap(lambda: value)() is value

    def test_generators_are_refused_with_advice(self, make_guard):
        def stream():
            yield 1

        async def astream():
            yield 1

        for fn in (stream, astream):
            with pytest.raises(TypeError, match="generator"):
                make_guard().wrap(fn)

    def test_what_is_no_function_is_refused(self, make_guard):
        with pytest.raises(TypeError, match="takes a function"):
            make_guard().wrap(3)

    def test_an_unknown_setting_is_an_error_where_it_is_made(self, make_guard):
        with pytest.raises(ValueError, match="pols"):
            make_guard().wrap(pols=True)(len)

    def test_wrapping_twice_counts_once(self, make_guard):
        guard = make_guard(Policy(max_calls=2))
        twice = guard.wrap(guard.wrap(lambda q: q))
        with guard.within(run="r"):
            assert [twice(1), twice(2)] == [1, 2]

    def test_a_plain_function_that_returns_an_awaitable_is_settled_when_it_is_there(
        self, make_guard
    ):
        guard = make_guard()

        async def body(q):
            return {"status_code": 422, "error": "no"}

        fn = guard.wrap(lambda q: body(q))

        async def run():
            with guard.within(run="r"):
                with pytest.raises(Stopped):
                    await fn(1)

        asyncio.run(run())
        assert guard.report("r").totals.failed == 1

    def test_declared_settings_are_used_and_the_policy_wins(self, make_guard):
        guard = make_guard(Policy(tools={"b": {"max_calls": 2}}))
        one = guard.wrap(name="a", max_calls=1)(lambda: None)
        two = guard.wrap(name="b", max_calls=1)(lambda: None)
        with guard.within(run="r"):
            one(), two(), two()
            for fn in (one, two):
                with pytest.raises(Stopped) as stopped:
                    fn()
                assert stopped.value.stop.scope == "tool"

    def test_a_volatile_argument_tells_no_calls_apart(self, make_guard):
        guard = make_guard(Policy(max_repeats=2))
        fn = guard.wrap(volatile=["since"])(lambda q, since: None)
        with guard.within(run="r"):
            fn("a", since=1)
            fn("a", since=2)
            with pytest.raises(Stopped):
                fn("a", since=3)

    def test_positional_and_named_arguments_are_one_call(self, make_guard):
        guard = make_guard(Policy(max_repeats=2))
        fn = guard.wrap(lambda q, limit=10: None)
        with guard.within(run="r"):
            fn("a", 5)
            fn(limit=5, q="a")
            with pytest.raises(Stopped):
                fn("a", limit=5)

    def test_a_methods_self_is_no_argument(self, make_guard):
        guard = make_guard(Policy(max_repeats=1))

        class Client:
            def __init__(self, n):
                self.n = n

            @guard.wrap
            def get(self, path):
                return self.n

        with guard.within(run="r"):
            assert Client(1).get("/") == 1
            with pytest.raises(Stopped):
                Client(2).get("/")

    def test_recursion_counts_each_call(self, make_guard):
        guard = make_guard(Policy(max_calls=3))

        @guard.wrap
        def down(n):
            return down(n - 1) if n else "end"

        with guard.within(run="r"), pytest.raises(Stopped):
            down(5)


class TestCalling:
    def test_async_with_serves_as_well(self, make_guard):
        guard = make_guard(Policy(max_calls=1))

        async def run():
            with guard.within(run="r"):
                async with guard.acalling("a", {}) as call:
                    call.result("x")
                with pytest.raises(Stopped):
                    async with guard.calling("a", {}):
                        pass

        asyncio.run(run())

    def test_a_status_known_beside_the_answer_counts(self, make_guard):
        guard = make_guard()
        with guard.within(run="r"), pytest.raises(Stopped) as stopped:
            with guard.calling("a", {}) as call:
                call.result("gone", status=410)
        assert_stopped(stopped.value, reason="terminal", status=410)

    def test_no_result_counts_as_unchanged(self, make_guard):
        guard = make_guard()
        with guard.within(run="r"):
            for _ in range(3):
                with guard.calling("a", {}):
                    pass
            with pytest.raises(Stopped), guard.calling("a", {}):
                pass

    def test_a_stop_inside_is_not_wrapped_in_another(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        with guard.within(run="r"), pytest.raises(Stopped) as stopped:
            with guard.calling("outer", {}):
                with guard.calling("inner", {}):
                    pass
        assert stopped.value.stop.tool == "inner"


class TestFaults:
    class Broken(MemoryStore):
        def update(self, keys, step, now):
            raise OSError("disk on fire")

    def test_closed_refuses_and_says_so(self, make_guard):
        events = []
        guard = make_guard(store=self.Broken(), listeners=[events.append])
        verdict = asked(guard)
        assert_stopped(verdict.stop, reason="fault", scope="call")
        # What an exception says may quote arguments; the event names its kind alone.
        assert [event.message for event in events if event.kind == "fault"] == ["OSError"]
        assert guard.report("r").faults == ("OSError: disk on fire",)

    def test_open_lets_the_call_pass_and_says_so(self, make_guard):
        guard = make_guard(Policy(on_fault="open"), store=self.Broken())
        verdict = asked(guard)
        assert verdict.ticket
        guard.observe(verdict.ticket, Outcome())
        assert guard.report("r").faults

    def test_open_knows_a_switch_that_was_put_in_later(self, make_guard, tmp_path):
        guard = make_guard(Policy(on_fault="open"), overrides=lambda _: 1 / 0)
        assert asked(guard).ticket
        guard.switch = Switch(tmp_path / "switch.json")
        guard.switch.kill(all=True)
        assert guard.switch.check(Call("search"))
        assert_stopped(asked(guard).stop, reason="kill")

    def test_a_fault_while_settling_breaks_nothing(self, make_guard):
        guard = make_guard()
        ticket = asked(guard).ticket
        guard.store = self.Broken()
        assert guard.observe(ticket, Outcome()).stop is None
        assert guard.report("r").faults

    def test_a_rule_that_raises_is_a_fault(self, make_guard):
        class Bad(Same):
            def before(self, state, call, now):
                raise ZeroDivisionError

        assert asked(make_guard(Policy(rules=[Bad()]))).stop.reason == "fault"

    def test_a_scope_that_raises_is_a_fault(self, make_guard):
        def scope():
            raise RuntimeError("no scope today")

        guard = make_guard(scope=scope)
        assert guard.decide(Call("a", {})).stop.reason == "fault"

    def test_a_listener_that_raises_breaks_nothing(self, make_guard, caplog):
        def listener(event):
            raise RuntimeError("sink is down")

        guard = make_guard(listeners=[listener])
        assert made(guard).stop is None
        assert "a listener failed" in caplog.text

    def test_a_text_function_that_raises_is_replaced(self, make_guard):
        def text(stop):
            raise RuntimeError

        guard = make_guard(Policy(max_calls=1), words=text)
        made(guard, 1)
        assert "budget" in asked(guard, 2).stop.text


class TestEvents:
    def test_every_attempt_is_one_event(self, make_guard):
        events = []
        guard = make_guard(Policy(max_calls=2), listeners=[events.append])
        for n in range(3):
            made(guard, n, "x")
        kinds = [(event.kind, event.verdict, dict(event.remaining)) for event in events]
        assert kinds == [
            ("attempt", "allowed", {"calls": 1}),
            ("attempt", "allowed", {"calls": 0}),
            ("refused", "refused", {"calls": 0}),
        ]

    def test_an_event_holds_neither_arguments_nor_results(self, make_guard):
        events = []
        guard = make_guard(listeners=[events.append])
        verdict = guard.decide(Call("a", {"q": "secret-argument"}, HERE))
        guard.observe(verdict.ticket, Outcome(content="secret-result"))
        assert "secret" not in repr([event.fields() for event in events])

    def test_an_event_does_not_quote_what_the_service_quoted(self, make_guard):
        events = []
        guard = make_guard(listeners=[events.append])
        answer = {"status": 422, "error": "ann@example.com is no address"}
        assert "ann@example.com" in made(guard, 1, answer).stop.text
        assert "ann@" not in repr([event.fields() for event in events]) + repr(events)
        assert "ann@example.com" in guard.report("r").stops[0].detail

    def test_an_alert_comes_once(self, make_guard):
        events = []
        policy = Policy().replaced(Ceiling(calls=10, alert=3))
        guard = make_guard(policy, listeners=[events.append])
        for n in range(6):
            made(guard, n)
        alerts = [event for event in events if event.kind == "alert"]
        assert [(event.observed, event.limit) for event in alerts] == [(3, 10)]


class TestReport:
    def test_it_holds_the_stops_the_results_and_the_totals(self, make_guard):
        guard = make_guard(Policy(max_calls=3))
        for n in range(5):
            made(guard, n, f"result {n}")
        incident = guard.report("r")
        assert incident.status == "stopped"
        assert incident.stopped_by.reason == "ceiling"
        assert [one.result for one in incident.gathered] == ["result 0", "result 1", "result 2"]
        assert (incident.totals.executed, incident.totals.refused) == (3, 2)
        assert incident.tools["search"].executed == 3

    def test_a_large_result_is_kept_as_a_digest(self, make_guard):
        guard = make_guard()
        made(guard, 1, "x" * 20_000)
        (one,) = guard.report("r").gathered
        assert one.result is None
        assert one.digest

    def test_nothing_is_known_of_a_run_that_never_was(self, make_guard):
        assert make_guard().report("never") is None

    def test_finished_runs_leave_nothing_in_the_store_and_few_notes(self, make_guard):
        guard = make_guard()
        for n in range(500):
            with guard.within(run=f"r{n}"):
                for m in range(3):
                    with guard.calling("a", {"m": m}):
                        pass
        assert len(guard.store) == 0
        assert guard.report("r0") is None
        assert guard.report("r499").totals.executed == 3


class TestSnapshot:
    def test_the_counts_go_on_in_another_guard(self, make_guard):
        one, other = make_guard(), make_guard()
        for _ in range(3):
            made(one, 1, "same")
        other.restore(one.snapshot("r"))
        assert made(other, 1, "same").stop.reason == "same"

    def test_two_restores_of_one_snapshot_are_apart(self, make_guard):
        one = make_guard(Policy(max_calls=2))
        made(one, 1)
        snapshot = one.snapshot("r")
        for _ in range(2):
            other = make_guard(Policy(max_calls=2))
            other.restore(snapshot)
            assert [made(other, n).stop is None for n in (2, 3)] == [True, False]

    @given(st.binary(max_size=40))
    def test_anything_else_is_a_clear_error(self, junk):
        with pytest.raises(ValueError, match="snapshot"):
            Guard().restore(junk)


def test_copies_of_a_guard_are_the_guard(make_guard):
    guard = make_guard()
    assert copy.copy(guard) is guard
    assert copy.deepcopy({"guard": guard})["guard"] is guard


def test_a_ceiling_is_exact_under_threads(make_guard):
    for _ in range(20):
        guard, barrier, started = make_guard(Policy(max_calls=10)), threading.Barrier(8), []

        def work(n, guard=guard, barrier=barrier, started=started):
            barrier.wait()
            for m in range(4):
                verdict = guard.decide(Call("a", {"n": n, "m": m}, HERE, reply="1", size=32))
                if verdict.ticket:
                    started.append((n, m))
                    guard.observe(verdict.ticket, Outcome(content=m))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert len(started) == 10
        totals = guard.report("r").totals
        assert (totals.executed, totals.attempts, totals.refused) == (10, 10, 22)


def test_totals_are_exact_under_threads(make_guard):
    guard, before = make_guard(Policy.permissive()), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:

        def work(n):
            for m in range(300):
                ticket = guard.decide(Call("a", {"n": n, "m": m}, HERE)).ticket
                guard.observe(ticket, Outcome("error" if m % 3 else "ok", content=m))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
    finally:
        sys.setswitchinterval(before)
    totals = guard.report("r").totals
    assert (totals.executed, totals.failed) == (1200, 800)


def test_one_tool_policy_may_serve_many_names(make_guard):
    guard = make_guard(Policy(tools={"get_*": ToolPolicy(max_calls=1)}))
    for tool in ("get_a", "get_b"):
        assert made(guard, 1, tool=tool).stop is None
        assert asked(guard, 2, tool).stop.scope == "tool"


class TestBatches:
    def test_the_first_that_arrive_run(self, make_guard):
        guard = make_guard(Policy(max_calls=6))
        verdicts = [asked(guard, n, reply="1", size=8) for n in range(8)]
        assert [bool(verdict.ticket) for verdict in verdicts] == [True] * 6 + [False] * 2

    def test_all_or_none_refuses_a_reply_that_does_not_fit(self, make_guard):
        guard = make_guard(Policy(max_calls=6, batch="all-or-none"))
        verdicts = [asked(guard, n, reply="1", size=8) for n in range(8)]
        assert not any(verdict.ticket for verdict in verdicts)
        assert (verdicts[0].stop.limit, verdicts[0].stop.remaining) == (6, {"calls": 6})

    def test_all_or_none_grants_a_reply_that_fits_to_the_last(self, make_guard):
        guard = make_guard(Policy(max_calls=6, batch="all-or-none"))
        made(guard, 0, reply="1", size=1)
        verdicts = [asked(guard, n, reply="2", size=5) for n in range(1, 6)]
        assert all(verdict.ticket for verdict in verdicts)
        assert asked(guard, 6, reply="3", size=1).stop

    def test_without_a_known_size_the_first_run(self, make_guard):
        guard = make_guard(Policy(max_calls=2, batch="all-or-none"))
        verdicts = [asked(guard, n, reply="1") for n in range(3)]
        assert [bool(verdict.ticket) for verdict in verdicts] == [True, True, False]


def test_a_refusal_by_a_rule_says_what_is_left(make_guard):
    guard = make_guard(Policy(max_calls=10))
    verdicts = [made(guard, 1, "same") for _ in range(4)]
    assert verdicts[3].stop.reason == "same"
    assert verdicts[3].stop.remaining == {"calls": 7}


def test_a_result_that_changes_later_is_kept_as_it_was(make_guard):
    guard, result = make_guard(), {"n": 1}
    made(guard, 1, result)
    result["n"] = 2
    assert [one.result for one in guard.report("r").gathered] == ['{"n":1}']


def test_an_attempt_of_a_call_seen_before_is_no_further_call(make_guard):
    guard = make_guard(Policy(max_calls=1))
    for kind in ("paused", "ok"):
        verdict = asked(guard, 1, id="c1", reply="1")
        guard.observe(verdict.ticket, Outcome(kind))
    assert (guard.report("r").totals.executed, guard.report("r").totals.attempts) == (1, 2)
    assert asked(guard, 2, id="c2", reply="2").stop.reason == "ceiling"


def test_two_functions_of_one_name_that_say_different_things_have_said_nothing(make_guard):
    guard = make_guard()
    guard.wrap(name="a", reads=True)(lambda: None)
    assert guard.declared("a").reads
    guard.wrap(name="a", polls=True)(lambda: None)
    assert guard.declared("a") == ToolPolicy()


@pytest.mark.parametrize(
    "policy", [Policy.permissive(), Policy(enforce=False), Policy(max_attempts=9)]
)
def test_attempts_are_as_many_as_the_policy_says(make_guard, policy):
    guard = make_guard(policy)
    for _ in range(9):
        ticket = asked(guard, 1, id="c1", reply="1").ticket
        guard.observe(ticket, Outcome("paused"))
    assert guard.report("r").totals.attempts == 9
