"""K15 The message says how long: the turn, and no longer."""

from __future__ import annotations

import re

import pytest

from lastcall import Policy
from lastcall.testing import assert_stopped

from .playing import Body, Run, stop_of


def test_the_text_names_the_turn_and_makes_no_lasting_claim(make_guard):
    run = Run(make_guard(Policy(max_calls=2)))
    for n in range(2):
        run.call("look", n)
    text = assert_stopped(run.call("look", 2), scope="turn").text
    assert "turn" in text
    assert not re.search(
        r"\b(never|always|permanent\w*|any ?more|no longer|for ?ever)\b", text, re.IGNORECASE
    )


@pytest.mark.parametrize("second", [{"run": "r", "turn": "2"}, {"run": "r2", "turn": "2"}])
def test_in_the_next_turn_of_the_thread_the_call_executes(make_guard, second):
    guard = make_guard(Policy(max_calls=2))
    body = Body()
    look = guard.wrap(body)
    with guard.within(thread="th", run="r"):
        with guard.within(turn="1"):
            stops = [stop_of(look, n=n) for n in range(3)]
        assert [stop is None for stop in stops] == [True, True, False]
        with guard.within(**second):
            # Count 1: this one and one more.
            assert [stop_of(look, n=n) is None for n in range(3)] == [True, True, False]
    assert body.runs == 4


def test_a_function_of_the_user_replaces_the_text(make_guard):
    guard = make_guard(Policy(max_calls=1), words=lambda stop: f"Genug: {stop.tool}, {stop.scope}.")
    run = Run(guard)
    run.call("look", 1)
    assert run.call("look", 2).text == "Genug: look, turn."
