from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Where
from lastcall.rules import Repeat

from .driving import CANCELLED, LOST, PAUSED, Drive, call, failed, ok, tool

POLLS = tool(polls=True)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_an_exact_call_runs_so_many_times_whatever_it_brings(limit):
    drive = Drive(Repeat(max_repeats=limit))
    steps = [(call("look", {"q": "x"}), ok(f"result {n}")) for n in range(limit + 2)]
    assert drive.stops(steps) == [limit, limit + 1]
    stop = drive.ask(call("look", {"q": "x"}))
    assert (stop.reason, stop.scope, stop.rule) == ("repeat", "call", "repeat")
    assert (stop.limit, stop.observed, stop.executed) == (limit, limit + 1, False)


def test_calls_with_other_arguments_or_of_other_tools_are_other_calls():
    drive = Drive(Repeat(max_repeats=1))
    steps = [
        (call("look", {"q": "x"}), ok()),
        (call("look", {"q": "y"}), ok()),
        (call("seek", {"q": "x"}), ok()),
        (call("look", {"q": "x"}, server="other"), ok()),
    ]
    assert drive.stops(steps) == []


def test_it_need_not_be_back_to_back():
    drive = Drive(Repeat(max_repeats=2))
    steps = [(call("look", name), ok()) for name in "abacadae"]
    assert drive.stops(steps) == [4, 6]


def test_the_next_turn_begins_at_zero():
    drive = Drive(Repeat(max_repeats=1))
    assert drive.play(call()) is None
    assert drive.play(call(where=Where(run="run", turn="another"))) is None


@pytest.mark.parametrize("off", [0, None])
def test_zero_and_none_have_no_limit_and_keep_no_record(off):
    drive = Drive(Repeat(max_repeats=off))
    assert drive.stops([(call(), ok())] * 10) == []
    assert drive.records == {}


class TestOfOneTool:
    @pytest.mark.parametrize("of_policy", [None, 0, 1, 4])
    def test_its_own_limit_wins(self, of_policy):
        drive = Drive(Repeat(max_repeats=of_policy))
        asked = call(policy=tool(max_repeats=3))
        assert drive.stops([(asked, ok())] * 4) == [3]

    def test_its_own_zero_switches_it_off(self):
        drive = Drive(Repeat(max_repeats=1))
        assert drive.stops([(call(policy=tool(max_repeats=0)), ok())] * 9) == []


class TestCallsInFlight:
    def test_count(self):
        drive = Drive(Repeat(max_repeats=2))
        first, second = drive.ask(call()), drive.ask(call())
        assert drive.ask(call()).reason == "repeat"
        drive.settle(first, ok())
        drive.settle(second, ok())
        assert drive.ask(call()).observed == 3

    @pytest.mark.parametrize("outcome", [failed(), PAUSED, CANCELLED, LOST], ids=lambda o: o.kind)
    def test_whatever_comes_of_it_an_execution_counts(self, outcome):
        drive = Drive(Repeat(max_repeats=2))
        assert drive.stops([(call(), outcome)] * 3) == [2]


class TestPolling:
    def test_a_changed_result_starts_again_at_one(self):
        drive = Drive(Repeat(max_repeats=2))
        asked = call(policy=POLLS)
        steps = [(asked, ok(f"{n} percent")) for n in range(20)]
        assert drive.stops(steps) == []
        # The last of them was one; one more with its result, and the next is refused.
        assert drive.play(asked, ok("19 percent")) is None
        assert drive.ask(asked).observed == 3

    def test_unchanged_results_count_up(self):
        drive = Drive(Repeat(max_repeats=5))
        assert drive.stops([(call(policy=POLLS), ok("waiting"))] * 7) == [5, 6]

    def test_results_are_compared_raw(self):
        drive = Drive(Repeat(max_repeats=2))
        asked = call(policy=POLLS)
        times = [ok(f"still waiting at 2024-01-01T00:00:{n:02}Z") for n in range(9)]
        assert drive.stops([(asked, outcome) for outcome in times]) == []

    @pytest.mark.parametrize("outcome", [PAUSED, CANCELLED, LOST], ids=lambda o: o.kind)
    def test_no_result_is_no_changed_result(self, outcome):
        drive = Drive(Repeat(max_repeats=4))
        asked = call(policy=POLLS)
        steps = [(asked, ok("waiting")), (asked, outcome)] * 3
        assert drive.stops(steps) == [4, 5]

    def test_a_tool_that_does_not_poll_has_no_such_mercy(self):
        drive = Drive(Repeat(max_repeats=2))
        assert drive.stops([(call(), ok(n)) for n in range(4)]) == [2, 3]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2])), max_size=40),
    st.integers(1, 4),
    st.booleans(),
)
def test_it_agrees_with_plain_counting(steps, limit, polls):
    drive = Drive(Repeat(max_repeats=limit))
    counts, last = {}, {}
    for name, result in steps:
        stop = drive.play(call(name, policy=tool(polls=polls)), ok(result))
        assert (stop is not None) == (counts.get(name, 0) >= limit)
        if stop is None:
            changed = polls and last.get(name, result) != result
            counts[name] = 1 if changed else counts.get(name, 0) + 1
            last[name] = result
