from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Where
from lastcall.rules import Streak

from .driving import CANCELLED, LOST, PAUSED, Drive, call, failed, final, ok, passing, tool


def new(n, **fields):
    return call("look", {"n": n}, **fields)


def test_the_third_final_answer_in_a_row_closes_the_tool():
    drive = Drive(Streak())
    assert drive.play(new(1), final(404)) is None
    assert drive.play(new(2), final(400)) is None
    stop = drive.play(new(3), final(422, "no such field"))
    assert (stop.reason, stop.scope, stop.rule) == ("terminal", "tool", "streak")
    assert (stop.status, stop.detail, stop.executed) == (422, "no such field", True)
    assert (stop.limit, stop.observed) == (3, 3)
    stop = drive.ask(new(4))
    assert (stop.reason, stop.scope, stop.executed) == ("terminal", "tool", False)
    assert (stop.limit, stop.observed, stop.status) == (3, 4, 422)


def test_the_fifth_passing_answer_in_a_row_closes_the_tool():
    drive = Drive(Streak())
    assert drive.stops([(new(n), passing()) for n in range(4)]) == []
    stop = drive.play(new(5), passing(429, "slow down", retry_after=30))
    assert (stop.reason, stop.scope, stop.rule) == ("failing", "tool", "streak")
    assert (stop.status, stop.retry_after, stop.retryable) == (429, 30, False)
    assert (stop.limit, stop.observed, stop.executed) == (5, 5, True)
    stop = drive.ask(new(6))
    assert (stop.reason, stop.observed, stop.executed) == ("failing", 6, False)
    assert stop.retry_after == 30


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_the_limits_are_exact(limit):
    for grade, outcome in (("final", final()), ("passing", passing())):
        drive = Drive(Streak(**{grade: limit}))
        steps = [(new(n), outcome) for n in range(limit + 1)]
        assert drive.stops(steps) == [limit - 1, limit]


@pytest.mark.parametrize("outcome", [ok(), failed("ordinary")], ids=["success", "ordinary failure"])
def test_anything_else_starts_again(outcome):
    drive = Drive(Streak())
    outcomes = [final(), final(), outcome, final(), final(), outcome, final(), final()]
    assert drive.stops([(new(n), each) for n, each in enumerate(outcomes)]) == []
    outcomes = [*[passing()] * 4, outcome, *[passing()] * 4]
    drive = Drive(Streak())
    assert drive.stops([(new(n), each) for n, each in enumerate(outcomes)]) == []


def test_one_grade_starts_the_other_again():
    drive = Drive(Streak())
    outcomes = [*[final(), final(), passing()] * 4, *[passing()] * 3]
    assert drive.stops([(new(n), each) for n, each in enumerate(outcomes)]) == []


@pytest.mark.parametrize("outcome", [PAUSED, CANCELLED, LOST], ids=lambda o: o.kind)
def test_what_is_neither_success_nor_failure_changes_nothing(outcome):
    drive = Drive(Streak())
    outcomes = [final(), outcome, final(), outcome, final()]
    assert drive.stops([(new(n), each) for n, each in enumerate(outcomes)]) == [4]


def test_the_arguments_do_not_matter_and_the_tool_does():
    drive = Drive(Streak())
    drive.stops([(call("look", n), final()) for n in range(3)])
    assert drive.ask(call("look", "quite another")).scope == "tool"
    assert drive.play(call("seek")) is None
    assert drive.play(call("look", server="another")) is None


def test_a_tool_marked_shell_is_never_closed():
    drive = Drive(Streak())
    assert drive.stops([(new(n, policy=tool(shell=True)), final()) for n in range(20)]) == []


def test_calls_in_flight_when_it_closes_may_end():
    drive = Drive(Streak())
    flying = [drive.ask(new(n)) for n in range(5)]
    said = [drive.settle(each, final()) for each in flying]
    assert [stop is not None for stop in said] == [False, False, True, True, True]
    assert drive.ask(new(6)).executed is False


def test_a_success_in_flight_opens_it_again():
    drive = Drive(Streak())
    flying = [drive.ask(new(n)) for n in range(4)]
    for each in flying[:3]:
        drive.settle(each, final())
    drive.settle(flying[3], ok())
    assert drive.play(new(5)) is None


@pytest.mark.parametrize("outcome", [final(), passing()], ids=["final", "passing"])
def test_zero_switches_a_limit_off(outcome):
    drive = Drive(Streak(final=0, passing=0))
    assert drive.stops([(new(n), outcome) for n in range(20)]) == []


def test_the_next_turn_begins_at_zero():
    drive = Drive(Streak())
    drive.stops([(new(n), final()) for n in range(3)])
    assert drive.play(new(4, where=Where(run="run", turn="another"))) is None


@given(st.lists(st.sampled_from("fpx."), max_size=40), st.integers(1, 3), st.integers(1, 5))
def test_it_agrees_with_plain_counting(letters, most_final, most_passing):
    drive = Drive(Streak(final=most_final, passing=most_passing))
    outcomes = {"f": final(), "p": passing(), "x": failed(), ".": ok()}
    so_far = ""
    for n, letter in enumerate(letters):
        so_far += letter
        closes = so_far.endswith("f" * most_final) or so_far.endswith("p" * most_passing)
        assert (drive.play(new(n), outcomes[letter]) is not None) == closes
        if closes:
            assert drive.ask(new(-1)).executed is False
            break
