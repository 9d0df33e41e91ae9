from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Where
from lastcall.past import SIZE
from lastcall.rules import Stale

from .driving import CANCELLED, LOST, PAUSED, Drive, call, failed, ok


def steps(word, results=None):
    return [
        (call("look", letter), ok(letter if results is None else results[n]))
        for n, letter in enumerate(word)
    ]


@pytest.mark.parametrize("limit", [1, 4, 10])
def test_after_so_many_calls_without_news_a_known_call_is_refused(limit):
    drive = Drive(Stale(in_a_row=limit))
    # Three that are new, then nothing new.
    word = "abc" + ("acbbca" * limit)[:limit]
    assert drive.stops(steps(word)) == []
    stop = drive.ask(call("look", "b"))
    assert (stop.reason, stop.scope, stop.rule) == ("stale", "call", "stale")
    assert (stop.limit, stop.observed, stop.executed) == (limit, limit + 1, False)


def test_the_default_is_ten():
    assert Drive(Stale()).stops(steps("ab" + "abba" * 5))[0] == 12


def test_a_new_call_is_free_and_starts_again():
    drive = Drive(Stale(in_a_row=3))
    assert drive.stops(steps("abaab")) == []
    assert drive.ask(call("look", "a")).reason == "stale"
    assert drive.play(call("look", "new")) is None
    assert drive.stops(steps("aba")) == []
    assert drive.ask(call("look", "a")).reason == "stale"


def test_a_new_result_of_a_known_call_starts_again():
    drive = Drive(Stale(in_a_row=3))
    assert drive.stops(steps("ababab", results="ab1a" + "ba")) == []
    assert drive.stops(steps("aba", results="aba")) != []


def test_failures_are_results():
    drive = Drive(Stale(in_a_row=2))
    assert drive.stops([(call(), failed("boom"))] * 4) == [3]


@pytest.mark.parametrize("outcome", [PAUSED, CANCELLED, LOST], ids=lambda o: o.kind)
def test_what_brought_no_result_is_neither_new_nor_known(outcome):
    drive = Drive(Stale(in_a_row=2))
    asked = call("look", "a")
    assert drive.stops([(asked, ok("a")), *[(asked, outcome)] * 9, (asked, ok("a"))]) == []
    assert drive.play(asked, ok("a")) is None
    assert drive.ask(asked).observed == 3


def test_calls_in_flight_are_counted_when_they_settle():
    drive = Drive(Stale(in_a_row=2))
    drive.play(call("look", "a"), ok("a"))
    flying = [drive.ask(call("look", "a")) for _ in range(3)]
    assert drive.settle(flying[0], ok("a")) is None
    assert drive.settle(flying[1], ok("a")) is None
    assert drive.ask(call("look", "a")).reason == "stale"
    drive.settle(flying[2], ok("news"))
    assert drive.play(call("look", "a"), ok("a")) is None


def test_the_next_turn_begins_at_zero():
    drive = Drive(Stale(in_a_row=1))
    drive.stops(steps("aa"))
    assert drive.play(call("look", "a", where=Where(run="run", turn="another"))) is None


def test_what_is_older_than_its_memory_is_new():
    drive = Drive(Stale(in_a_row=1))
    drive.play(call("look", -1), ok("old"))
    for n in range(SIZE):
        drive.play(call("look", n), ok(n))
    assert drive.play(call("look", -1), ok("old")) is None
    assert drive.play(call("look", -1), ok("old")) is None
    assert drive.ask(call("look", -1)).reason == "stale"
    assert drive.records == {}


@given(
    st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("xyz")), max_size=60),
    st.integers(1, 6),
)
def test_it_agrees_with_plain_looking(past, limit):
    drive = Drive(Stale(in_a_row=limit))
    ran, row = [], 0
    for name, result in past:
        stop = drive.play(call("look", name), ok(result))
        known_call = any(name == each for each, _ in ran)
        assert (stop is not None) == (row >= limit and known_call)
        if stop is None:
            row = row + 1 if (name, result) in ran else 0
            ran.append((name, result))
