from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Where
from lastcall.rules import Same

from .driving import CANCELLED, LOST, PAUSED, Drive, call, failed, ok, tool

READS = tool(reads=True)
OFF = {"in_a_row": 0, "in_turn": 0, "reads": 0, "no_write": 0}


def between(*others, policy=READS):
    """Calls with other arguments, each new."""
    return [(call("other", n, policy=policy), ok(n)) for n in others]


class TestBackToBack:
    @pytest.mark.parametrize("limit", [1, 2, 3, 4])
    def test_one_more_than_the_limit_is_refused(self, limit):
        drive = Drive(Same(in_a_row=limit))
        assert drive.stops([(call(), ok())] * (limit + 2)) == [limit, limit + 1]
        stop = drive.ask(call())
        assert (stop.reason, stop.scope, stop.rule) == ("same", "call", "same")
        assert (stop.limit, stop.observed, stop.executed) == (limit, limit + 1, False)

    def test_the_default_refuses_the_fourth(self):
        assert Drive(Same()).stops([(call(), ok())] * 4) == [3]

    def test_a_changed_result_starts_again(self):
        drive = Drive(Same(**OFF | {"in_a_row": 3}))
        steps = [(call(), ok(letter)) for letter in "aabbabbb"]
        assert drive.stops(steps) == []
        assert drive.ask(call()).observed == 4

    def test_wants_results_equal_to_the_byte(self):
        drive = Drive(Same(**OFF | {"in_a_row": 3}))
        times = [ok(f"waiting at 2024-01-01T00:00:{n:02}Z") for n in range(20)]
        assert drive.stops([(call(), each) for each in times]) == []

    def test_another_call_between_starts_again(self):
        drive = Drive(Same(**OFF | {"in_a_row": 3}))
        row = [(call(), ok())] * 3
        assert drive.stops([*row, *between(1), *row, *between(2), *row]) == []

    def test_zero_switches_it_off(self):
        assert Drive(Same(**OFF)).stops([(call(), ok())] * 50) == []


class TestAnywhereInTheTurn:
    @pytest.mark.parametrize("limit", [2, 8])
    def test_one_more_than_the_limit_is_refused(self, limit):
        drive = Drive(Same(**OFF | {"in_turn": limit}))
        steps = [(call(), ok())]
        for n in range(limit):
            steps += [*between(n, policy=tool(writes=True)), (call(), ok())]
        assert drive.stops(steps) == [len(steps) - 1]
        assert drive.ask(call()).limit == limit

    def test_the_default_refuses_the_ninth(self):
        steps = []
        for n in range(10):
            steps += [*between(n, policy=tool(writes=True)), (call(), ok())]
        assert Drive(Same()).stops(steps)[0] == 2 * 9 - 1

    def test_the_default_refuses_the_seventh_of_a_tool_that_reads(self):
        steps = []
        for n in range(8):
            steps += [*between(n, policy=tool(writes=True)), (call(policy=READS), ok())]
        assert Drive(Same()).stops(steps)[0] == 2 * 7 - 1

    def test_each_result_is_counted_by_itself(self):
        drive = Drive(Same(**OFF | {"in_turn": 3}))
        steps = [(call(), ok(letter)) for letter in "abcabca"]
        assert drive.stops(steps) == []
        assert drive.ask(call()).observed == 4

    def test_a_result_that_comes_back_is_remembered(self):
        drive = Drive(Same(**OFF | {"in_turn": 3}))
        assert drive.stops([(call(), ok(letter)) for letter in "aabbbc"]) == [5]

    def test_only_so_many_different_results_are_remembered(self):
        drive = Drive(Same(**OFF | {"in_turn": 2}))
        steps = [(call(), ok(n)) for n in [*range(10), *range(10)]]
        assert drive.stops(steps) == []
        assert all(len(state.seen) <= 9 for state in drive.records.values())


class TestWithNoWriteBetween:
    def test_the_default_refuses_the_sixth(self):
        steps = []
        for n in range(7):
            steps += [*between(n), (call(), ok())]
        assert Drive(Same()).stops(steps)[0] == 2 * 6 - 1

    @pytest.mark.parametrize("policy", [tool(writes=True), tool()], ids=["writes", "undeclared"])
    def test_a_call_that_may_have_written_starts_again(self, policy):
        drive = Drive(Same(**OFF | {"no_write": 2}))
        steps = []
        for n in range(5):
            steps += [(call(), ok()), *between(-n - 1), (call(), ok()), *between(n, policy=policy)]
        assert drive.stops(steps) == []

    def test_an_equal_call_is_no_write_of_its_own(self):
        writes = call("write", policy=tool(writes=True))
        drive = Drive(Same(**OFF | {"no_write": 2}))
        assert drive.stops([(writes, ok())] * 3) == [2]

    def test_volatile_parts_of_results_are_no_change(self):
        # The first result is kept raw (masking a result seen once would cost every call), so of
        # results that differ in volatile parts one more runs.
        drive = Drive(Same(**OFF | {"no_write": 5}))
        times = [ok(f"waiting at 2024-01-01T00:00:{n:02}Z") for n in range(8)]
        assert drive.stops([(call(), each) for each in times]) == [6, 7]

    def test_of_a_tool_that_polls_they_are(self):
        drive = Drive(Same(**OFF | {"no_write": 5}))
        times = [ok(f"waiting at 2024-01-01T00:00:{n:02}Z") for n in range(20)]
        assert drive.stops([(call(policy=tool(polls=True)), each) for each in times]) == []

    def test_a_changed_result_starts_again(self):
        drive = Drive(Same(**OFF | {"no_write": 3}))
        assert drive.stops([(call(), ok(letter)) for letter in "aabbabbb"]) == []
        assert drive.ask(call()).observed == 4


class TestCallsInFlight:
    def test_count_as_equal(self):
        drive = Drive(Same())
        for _ in range(3):
            drive.ask(call())
        assert drive.ask(call()).reason == "same"

    @pytest.mark.parametrize("limit", ["in_a_row", "in_turn", "no_write"])
    def test_count_for_every_limit(self, limit):
        drive = Drive(Same(**OFF | {limit: 2}))
        drive.ask(call())
        drive.ask(call())
        assert drive.ask(call()).limit == 2

    def test_once_settled_alike_they_counted_once_each(self):
        drive = Drive(Same())
        first, second = drive.ask(call()), drive.ask(call())
        drive.settle(first, ok())
        drive.settle(second, ok())
        assert drive.play(call(), ok()) is None
        assert drive.ask(call()).observed == 4

    @pytest.mark.parametrize("limit", ["in_a_row", "no_write"])
    def test_a_new_result_starts_again_with_those_still_in_flight(self, limit):
        drive = Drive(Same(**OFF | {limit: 3}))
        drive.play(call(), ok("a"))
        first, second = drive.ask(call()), drive.ask(call())
        drive.settle(first, ok("b"))
        drive.settle(second, ok("b"))
        assert drive.play(call(), ok("b")) is None
        assert drive.ask(call()).observed == 4

    @pytest.mark.parametrize("outcome", [PAUSED, CANCELLED, LOST], ids=lambda o: o.kind)
    def test_what_brought_no_result_is_in_flight_no_more(self, outcome):
        drive = Drive(Same(**OFF | {"in_turn": 2}))
        assert drive.stops([(call(), outcome)] * 9) == []
        assert drive.stops([(call(), ok())] * 3) == [2]


def test_a_failure_is_a_result_too():
    assert Drive(Same()).stops([(call(), failed("boom"))] * 4) == [3]


def test_other_arguments_are_another_call():
    assert Drive(Same()).stops([(call("look", n), ok()) for n in range(30)]) == []


def test_the_next_turn_begins_at_zero():
    drive = Drive(Same())
    drive.stops([(call(), ok())] * 3)
    assert drive.play(call(where=Where(run="run", turn="another"))) is None


# Steps: which call, what it brings, whether the call's tool is declared to read.
STEPS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.booleans()), max_size=60
)


@given(STEPS, st.sampled_from([{"in_a_row": 3}, {"in_turn": 4, "reads": 2}, {"no_write": 4}]))
def test_it_agrees_with_plain_counting(steps, limits):
    drive = Drive(Same(**OFF | limits))
    ran = []
    for name, result, _ in steps:
        # A tool is declared once: `a` reads or not, as the first step says; `b` never does.
        reads = name == "a" and steps[0][2]
        stop = drive.play(call(name, policy=tool(reads=reads)), ok(result))
        assert (stop is not None) == (naive(ran, name, reads, limits) is not None)
        if stop is None:
            ran.append((name, result, reads))


def naive(ran, name, reads, limits):
    """The limit that the next call of *name* is over, by looking at everything that ran."""
    mine = [result for each, result, _ in ran if each == name]
    row = tail(ran, lambda step: step[0] == name and step[1] == mine[-1])
    calm = [step for step in since_write(ran, name) if step[0] == name]
    most = max(map(mine.count, mine), default=0)
    counts = {
        "in_a_row": row,
        "reads" if reads else "in_turn": most,
        "no_write": tail(calm, lambda step: step[1] == mine[-1]),
    }
    return next((key for key in counts if limits.get(key) and counts[key] >= limits[key]), None)


def tail(steps, good):
    """How many of the last steps in a row are good."""
    count = 0
    for step in reversed(steps):
        if not good(step):
            break
        count += 1
    return count


def since_write(ran, name):
    """What ran after the last call of another name that was not declared to read."""
    writes = [at for at, (each, _, reads) in enumerate(ran) if each != name and not reads]
    return ran[writes[-1] + 1 :] if writes else ran
