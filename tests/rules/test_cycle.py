from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Where
from lastcall.rules import Cycle

from .driving import CANCELLED, LOST, PAUSED, Drive, call, failed, ok


def steps(word, *, results=None):
    """A call for each letter; a letter's result is its own unless *results* says otherwise."""
    return [
        (call("step", letter), ok(letter if results is None else results[n]))
        for n, letter in enumerate(word)
    ]


class TestOneRoundTooMany:
    @pytest.mark.parametrize("period", range(2, 13))
    def test_is_refused_at_its_start(self, period):
        word = "abcdefghijkl"[:period]
        drive = Drive(Cycle())
        assert drive.stops(steps(word * 3)) == []
        stop = drive.ask(call("step", "a"))
        assert (stop.reason, stop.scope, stop.rule) == ("cycle", "call", "cycle")
        assert (stop.limit, stop.observed, stop.executed) == (3, 4, False)

    @pytest.mark.parametrize("rounds", [2, 4])
    def test_the_number_of_rounds_is_a_setting(self, rounds):
        drive = Drive(Cycle(rounds=rounds))
        assert drive.stops(steps("ab" * (rounds + 1))) == [2 * rounds]

    def test_the_longest_is_a_setting(self):
        assert Drive(Cycle(longest=3)).stops(steps("abcd" * 9)) == []
        assert Drive(Cycle(longest=3)).stops(steps("abc" * 4)) == [9]

    def test_longer_than_twelve_is_no_cycle(self):
        assert Drive(Cycle()).stops(steps("abcdefghijklm" * 9)) == []

    def test_may_hold_a_call_more_than_once(self):
        assert Drive(Cycle()).stops(steps("aab" * 3 + "a")) == [9]

    def test_may_begin_anywhere(self):
        assert Drive(Cycle()).stops(steps("xyz" + "ab" * 4)) == [9]

    def test_is_refused_as_often_as_it_is_asked(self):
        drive = Drive(Cycle())
        drive.stops(steps("ab" * 3))
        assert [drive.ask(call("step", "a")).reason for _ in range(3)] == ["cycle"] * 3

    def test_anything_else_is_free(self):
        drive = Drive(Cycle())
        drive.stops(steps("ab" * 3))
        assert drive.stops(steps("bxab")) == []


def test_results_that_change_from_round_to_round_are_progress():
    results = [n // 2 for n in range(40)]
    assert Drive(Cycle()).stops(steps("ab" * 20, results=results)) == []


def test_one_changed_result_starts_the_rounds_again():
    results = list("ababaX" + "ab" * 4)
    assert Drive(Cycle()).stops(steps("ab" * 7, results=results)) == [12]


def test_one_call_over_and_over_is_the_business_of_another_rule():
    assert Drive(Cycle()).stops(steps("a" * 60)) == []


def test_failures_are_results():
    drive = Drive(Cycle())
    round_ = [(call("step", "a"), failed("boom")), (call("step", "b"), ok())]
    assert drive.stops(round_ * 4) == [6]


def test_a_cycle_across_tools_is_one():
    drive = Drive(Cycle())
    assert drive.stops([(call("look"), ok()), (call("seek"), ok())] * 4) == [6]


def test_the_next_turn_begins_at_zero():
    drive = Drive(Cycle())
    drive.stops(steps("ab" * 3))
    assert drive.play(call("step", "a", where=Where(run="run", turn="another"))) is None


class TestCallsInFlight:
    def test_count_as_equal(self):
        drive = Drive(Cycle())
        drive.stops(steps("ab" * 2))
        flying = [drive.ask(call("step", letter)) for letter in "ab"]
        assert drive.ask(call("step", "a")).reason == "cycle"
        for placed in flying:
            drive.settle(placed, ok("new"))
        # Their results were new, so the rounds start again.
        assert drive.ask(call("step", "a")) is not None
        assert drive.play(call("step", "a"), ok("a")) is None

    def test_may_settle_in_any_order(self):
        drive = Drive(Cycle())
        for _ in range(3):
            a, b = drive.ask(call("step", "a")), drive.ask(call("step", "b"))
            drive.settle(b, ok("b"))
            drive.settle(a, ok("a"))
        assert drive.ask(call("step", "a")).reason == "cycle"

    @pytest.mark.parametrize("outcome", [PAUSED, CANCELLED, LOST], ids=lambda o: o.kind)
    def test_what_brought_no_result_counts_as_before(self, outcome):
        drive = Drive(Cycle())
        drive.stops(steps("abab"))
        drive.play(call("step", "a"), outcome)
        drive.play(call("step", "b"), ok("b"))
        assert drive.ask(call("step", "a")).reason == "cycle"


def over(pairs, asked, rounds=3, longest=12):
    """Whether *asked* begins one round too many, by looking at every window of the past."""
    for period in range(2, longest + 1):
        window = pairs[-period:]
        if len(pairs) < period * rounds or len(set(window)) == 1:
            continue
        if pairs[-period * rounds :] == window * rounds and window[0][0] == asked:
            return True
    return False


def first_refusal(word):
    drive = Drive(Cycle())
    return next(iter(drive.stops(steps(word))), None)


@given(st.permutations("abcdefghijkl"), st.integers(2, 12))
def test_any_word_of_different_calls_is_refused_exactly_at_the_fourth_round(letters, length):
    word = "".join(letters[:length])
    assert first_refusal(word * 4) == 3 * length


@given(st.text("abc", min_size=2, max_size=12).filter(lambda word: len(set(word)) > 1))
def test_any_other_word_is_refused_where_plain_looking_finds_a_cycle(word):
    # A word may hold a shorter cycle, so it may be refused before its own fourth round, never after.
    text = word * 4
    expected = next(
        at for at in range(len(text)) if over([*zip(text[:at], text[:at], strict=True)], text[at])
    )
    assert expected <= 3 * len(word)
    assert first_refusal(text) == expected


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xy")), max_size=80))
def test_random_calls_are_refused_exactly_where_there_is_a_cycle(past):
    drive = Drive(Cycle())
    ran = []
    for name, result in past:
        stop = drive.play(call("step", name), ok(result))
        assert (stop is not None) == over(ran, name)
        if stop is None:
            ran.append((name, result))


@given(st.integers(0, 2**40))
def test_words_without_any_threefold_repetition_are_never_refused(start):
    # The Thue-Morse word holds no factor three times in a row, wherever one begins to read.
    word = ["ab"[(start + n).bit_count() % 2] for n in range(200)]
    assert Drive(Cycle()).stops(steps(word)) == []
