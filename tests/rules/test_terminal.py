from __future__ import annotations

import pytest

from lastcall import Outcome, Where
from lastcall.rules import Terminal

from .driving import CANCELLED, LOST, PAUSED, Drive, call, failed, final, ok, passing

OTHER_TURN = Where(run="run", turn="another")


def test_the_first_final_answer_is_a_stop_that_says_the_body_ran():
    stop = Drive(Terminal()).play(call("book", {"n": 1}, id="c1"), final(422, "n is missing"))
    assert (stop.reason, stop.scope, stop.rule) == ("terminal", "call", "terminal")
    assert (stop.status, stop.executed, stop.detail) == (422, True, "n is missing")
    assert (stop.call_id, stop.retryable) == ("c1", False)


def test_from_then_on_the_same_call_is_refused():
    drive = Drive(Terminal())
    drive.play(call("book", {"n": 1}), final(404, "no such book"))
    for _ in range(3):
        stop = drive.ask(call("book", {"n": 1}))
        assert (stop.reason, stop.status, stop.executed) == ("terminal", 404, False)
        assert stop.detail == "no such book"


def test_other_calls_are_free():
    drive = Drive(Terminal())
    drive.play(call("book", {"n": 1}), final())
    assert drive.play(call("book", {"n": 2})) is None
    assert drive.play(call("cancel", {"n": 1})) is None


def test_the_next_turn_is_free():
    drive = Drive(Terminal())
    drive.play(call(), final())
    assert drive.play(call(where=OTHER_TURN)) is None


@pytest.mark.parametrize(
    "outcome", [ok(), failed(), passing(), PAUSED, CANCELLED, LOST], ids=lambda o: o.grade or o.kind
)
def test_nothing_else_closes_a_call(outcome):
    drive = Drive(Terminal())
    assert drive.stops([(call(), outcome)] * 5) == []


def test_a_final_answer_without_a_status_closes_the_call_too():
    drive = Drive(Terminal())
    assert drive.play(call(), Outcome("error", grade="final")).status is None
    assert drive.ask(call()).reason == "terminal"


def test_a_call_in_flight_when_its_twin_is_answered_gets_its_own_stop():
    drive = Drive(Terminal())
    first, second = drive.ask(call()), drive.ask(call())
    assert drive.settle(first, final()).executed
    assert drive.settle(second, final()).executed
    assert drive.ask(call()).executed is False


def test_a_pause_after_a_final_answer_opens_nothing():
    drive = Drive(Terminal())
    first, second = drive.ask(call()), drive.ask(call())
    drive.settle(first, final())
    assert drive.settle(second, PAUSED) is None
    assert drive.ask(call()).reason == "terminal"


def test_it_may_close_the_turn():
    drive = Drive(Terminal(closes="turn"))
    stop = drive.play(call(), final(401))
    assert (stop.scope, stop.ends_run, stop.status) == ("turn", True, 401)


def test_a_further_attempt_of_a_closed_call_is_refused():
    drive = Drive(Terminal())
    drive.play(call(), final())
    assert drive.ask(call(kind="attempt")).reason == "terminal"
