from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Stop, Where
from lastcall.rules import Malformed

from .driving import Drive, call, failed


def broken(n=0, **fields):
    return call("look", f'{{"q": {n}', kind="malformed", **fields)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_last_of_so_many_in_a_row_ends_the_turn(limit):
    drive = Drive(Malformed(in_a_row=limit))
    said = [drive.play(broken(n), failed()) for n in range(limit)]
    assert said[:-1] == [None] * (limit - 1)
    stop = said[-1]
    assert (stop.reason, stop.scope, stop.rule) == ("malformed", "turn", "malformed")
    assert (stop.limit, stop.observed, stop.executed) == (limit, limit, False)


def test_a_usable_call_starts_the_count_again():
    drive = Drive(Malformed())
    assert (
        drive.stops([(each, failed()) for each in (broken(), broken(), call(), broken(), broken())])
        == []
    )
    assert drive.ask(broken()).reason == "malformed"


def test_neither_attempts_nor_model_requests_are_its_business():
    drive = Drive(Malformed())
    between = [call(kind="attempt"), call(kind="model")]
    drive.stops([(each, failed()) for each in (broken(), *between, broken(), *between)])
    assert drive.ask(broken()).observed == 3


def test_a_call_that_somebody_refused_is_no_usable_one():
    drive = Drive(Malformed())
    drive.play(broken(), failed())
    drive.play(broken(), failed())
    refused = call()
    drive.refuse(refused, Stop.of(refused, "same", "call", 0.0, rule="same"))
    assert drive.ask(broken()).reason == "malformed"


def test_the_next_turn_begins_at_zero():
    drive = Drive(Malformed())
    elsewhere = Where(run="run", turn="another")
    steps = [broken(), broken(), broken(where=elsewhere), broken(where=elsewhere)]
    assert drive.stops([(each, failed()) for each in steps]) == []


@given(st.lists(st.booleans(), max_size=30), st.integers(1, 4))
def test_it_agrees_with_plain_counting(usable, limit):
    drive = Drive(Malformed(in_a_row=limit))
    row = 0
    for good in usable:
        stop = drive.play(call() if good else broken())
        row = 0 if good else row + 1
        assert (stop is not None) == (row >= limit)
        if stop is not None:
            break  # the turn is over
