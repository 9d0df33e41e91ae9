from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Where
from lastcall.rules import Failing

from .driving import CANCELLED, LOST, PAUSED, Drive, call, failed, ok, passing


@pytest.mark.parametrize("times", [1, 3, 4])
def test_a_call_may_fail_alike_so_many_times(times):
    drive = Drive(Failing(times=times))
    assert drive.stops([(call(), failed())] * (times + 2)) == [times, times + 1]


def test_a_passing_status_gets_two_retries():
    drive = Drive(Failing())
    assert drive.stops([(call(), passing(503, retry_after=n)) for n in (9, 8, 7)]) == []
    stop = drive.ask(call())
    assert (stop.reason, stop.scope, stop.rule) == ("failing", "call", "failing")
    assert (stop.status, stop.detail, stop.retry_after) == (503, "busy", 7)
    assert (stop.limit, stop.observed, stop.executed) == (3, 4, False)


def test_another_error_starts_the_count_again():
    drive = Drive(Failing())
    steps = [failed("a"), failed("a"), failed("b"), failed("b"), failed("b")]
    assert drive.stops([(call(), outcome) for outcome in steps]) == []
    assert drive.ask(call()).detail == "b"


def test_the_stop_tells_of_the_error_it_counted():
    drive = Drive(Failing())
    drive.play(call(), passing(500, "first"))
    for _ in range(3):
        drive.play(call(), passing(503, "second"))
    stop = drive.ask(call())
    assert (stop.status, stop.detail) == (503, "second")


def test_errors_that_differ_in_an_id_alone_are_one():
    drive = Drive(Failing())
    errors = [failed(f"request 3f2b8c1e-5d47-4a6b-9c1d-{n:012d} timed out") for n in range(4)]
    assert drive.stops([(call(), error) for error in errors]) == [3]


def test_a_success_starts_the_count_again():
    drive = Drive(Failing())
    steps = [failed(), failed(), ok(), failed(), failed(), failed()]
    assert drive.stops([(call(), outcome) for outcome in steps]) == []
    assert drive.ask(call()) is not None


@pytest.mark.parametrize("outcome", [PAUSED, CANCELLED, LOST], ids=lambda o: o.kind)
def test_what_is_neither_success_nor_failure_changes_nothing(outcome):
    drive = Drive(Failing())
    assert drive.stops([(call(), outcome)] * 9) == []
    steps = [failed(), outcome, failed(), outcome, failed()]
    assert drive.stops([(call(), each) for each in steps]) == []
    assert drive.ask(call()).observed == 4


def test_other_arguments_are_another_call():
    drive = Drive(Failing())
    assert drive.stops([(call("look", n % 2), failed()) for n in range(6)]) == []


def test_a_call_in_flight_has_not_failed_yet():
    drive = Drive(Failing())
    flying = [drive.ask(call()) for _ in range(4)]
    for each in flying:
        drive.settle(each, failed())
    assert drive.ask(call()).observed == 5


class TestItsScope:
    def test_is_the_thread_where_it_is_known(self):
        drive = Drive(Failing())
        for turn in "123":
            assert drive.play(call(where=Where(turn, turn, "thread")), failed()) is None
        assert drive.ask(call(where=Where("4", "4", "thread"))).reason == "failing"
        assert drive.play(call(where=Where("4", "4", "another"))) is None

    def test_is_the_run_where_it_is_not(self):
        drive = Drive(Failing())
        for turn in "123":
            assert drive.play(call(where=Where("run", turn)), failed()) is None
        assert drive.ask(call(where=Where("run", "4"))).reason == "failing"
        assert drive.play(call(where=Where("another", "4"))) is None


@given(st.lists(st.sampled_from("ab."), max_size=40), st.integers(1, 4))
def test_it_agrees_with_plain_counting(letters, times):
    drive = Drive(Failing(times=times))
    history = ""
    for letter in letters:
        stop = drive.play(call(), ok() if letter == "." else failed(letter))
        row = (
            len(history) - len(history.rstrip(history[-1:])) if history[-1:] not in ("", ".") else 0
        )
        assert (stop is not None) == (row >= times)
        if stop is None:
            history += letter
