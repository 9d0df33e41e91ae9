from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Where
from lastcall.rules import Near

from .driving import CANCELLED, LOST, PAUSED, Drive, call, failed, ok, tool

NAMES = ("q", "query", "text", "term", "needle", "key")


def looks(count, value="x"):
    """Near calls of different fingerprints: the key is renamed each time."""
    return [call("look", {name: value}) for name in NAMES[:count]]


def test_what_makes_calls_near():
    first = call("look", {"q": "Ann  Lee", "ids": [1, 2]})
    for other in (
        {"query": "Ann  Lee", "ids": [1, 2]},
        {"q": " ann lee ", "ids": [1, 2]},
        {"q": "Ann  Lee", "ids": [2, 1]},
        {"q": "Ann  Lee", "ids": [1, 2], "request_id": "f00"},
    ):
        assert call("look", other).near == first.near
        assert call("look", other).fingerprint != first.fingerprint
    assert call("look", {"q": "Bob", "ids": [1, 2]}).near != first.near
    assert call("seek", {"q": "Ann  Lee", "ids": [1, 2]}).near != first.near


class TestWithOneResult:
    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_one_more_than_the_limit_is_refused(self, limit):
        drive = Drive(Near(in_a_row=limit))
        steps = [(asked, ok()) for asked in looks(limit + 2)]
        assert drive.stops(steps) == [limit, limit + 1]
        stop = drive.ask(looks(6)[5])
        assert (stop.reason, stop.scope, stop.rule) == ("near", "call", "near")
        assert (stop.limit, stop.observed, stop.executed) == (limit, limit + 1, False)

    def test_the_default_refuses_the_fourth(self):
        assert Drive(Near()).stops([(asked, ok()) for asked in looks(4)]) == [3]

    def test_a_new_result_counts_nothing(self):
        drive = Drive(Near())
        steps = [(asked, ok(n)) for n, asked in enumerate(looks(6))]
        assert drive.stops(steps) == []

    def test_a_new_result_starts_again(self):
        drive = Drive(Near())
        steps = list(zip(looks(6), map(ok, "aabbb"), strict=False))
        assert drive.stops(steps) == []
        assert drive.ask(looks(6)[5]).observed == 4

    def test_volatile_parts_of_results_are_no_news(self):
        # The first result is kept raw, so one more call may run than of results equal to the byte.
        drive = Drive(Near())
        times = [ok(f"none found at 2024-01-01T00:00:0{n}Z") for n in range(6)]
        assert drive.stops(list(zip(looks(6), times, strict=True))) == [4, 5]

    def test_a_row_is_varied_by_the_calls_since_the_new_result(self):
        first, second, *_ = looks(2)
        drive = Drive(Near(in_a_row=2))
        steps = [(first, ok("a")), (second, ok("b")), (first, ok("b"))]
        assert drive.stops(steps) == []
        assert drive.ask(first).reason == "near"
        # A row of one exact call that began after the new result is the business of others.
        drive = Drive(Near(in_a_row=2))
        assert drive.stops([(first, ok("a")), *[(second, ok("b"))] * 4]) == []


class TestFailing:
    def test_alike_or_not_counts(self):
        drive = Drive(Near())
        steps = [(asked, failed(f"error {n * 7}")) for n, asked in enumerate(looks(4))]
        assert drive.stops(steps) == [3]

    def test_a_success_after_failures_starts_again(self):
        drive = Drive(Near())
        outcomes = [failed("a"), failed("b"), ok("found"), ok("found"), ok("found")]
        assert drive.stops(list(zip(looks(6), outcomes, strict=False))) == []
        assert drive.ask(looks(6)[5]) is not None


def test_a_row_of_one_exact_call_is_the_business_of_others():
    drive = Drive(Near())
    assert drive.stops([(call(), ok())] * 20) == []


def test_an_exact_row_that_is_varied_at_last_counts_whole():
    drive = Drive(Near())
    first, other, *_ = looks(2)
    assert drive.stops([(first, ok())] * 3) == []
    assert drive.ask(other).reason == "near"


def test_another_call_between_starts_again():
    drive = Drive(Near())
    a, b, c, d, e, f = looks(6)
    steps = [a, b, c, call("other"), d, e, f]
    assert drive.stops([(asked, ok()) for asked in steps]) == []


def test_two_writes_whose_values_differ_are_never_near():
    writes = tool(writes=True)
    drive = Drive(Near())
    texts = ["Ann", "ann", " ann", "ANN", "ann  "]
    assert drive.stops([(call("say", {"t": t}, policy=writes), ok()) for t in texts]) == []


def test_a_write_with_a_renamed_key_is():
    writes = tool(writes=True)
    drive = Drive(Near())
    steps = [(call("say", {name: "hello"}, policy=writes), ok()) for name in NAMES]
    assert drive.stops(steps) == [3, 4, 5]


def test_volatile_arguments_do_not_make_a_call_new():
    policy = tool(volatile=["since"])
    drive = Drive(Near())
    steps = [
        (call("look", {name: "x", "since": n}, policy=policy), ok()) for n, name in enumerate(NAMES)
    ]
    assert drive.stops(steps) == [3, 4, 5]


def test_calls_in_flight_count():
    drive = Drive(Near())
    for asked in looks(3):
        drive.ask(asked)
    assert drive.ask(looks(4)[3]).reason == "near"


def test_an_outcome_that_comes_after_the_row_is_over_changes_nothing():
    drive = Drive(Near())
    first, *others = looks(4)
    late = drive.ask(first)
    drive.play(call("other"), ok("else"))
    for asked in others:
        drive.play(asked, ok("a"))
    drive.settle(late, ok("a"))
    assert drive.ask(looks(5)[4]) is not None


@pytest.mark.parametrize("outcome", [PAUSED, CANCELLED, LOST], ids=lambda o: o.kind)
def test_what_brought_no_result_is_no_new_one(outcome):
    drive = Drive(Near())
    outcomes = [ok(), outcome, ok(), ok()]
    assert drive.stops(list(zip(looks(4), outcomes, strict=True))) == [3]


def test_zero_switches_it_off_and_keeps_no_record():
    drive = Drive(Near(in_a_row=0))
    assert drive.stops([(asked, ok()) for asked in looks(6)]) == []
    assert drive.records == {}


def test_the_next_turn_begins_at_zero():
    drive = Drive(Near())
    drive.stops([(asked, ok()) for asked in looks(3)])
    elsewhere = Where(run="run", turn="another")
    assert drive.play(call("look", {"key": "x"}, where=elsewhere)) is None


@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES[:3]), st.sampled_from("ab"), st.sampled_from("yz!?")),
        max_size=40,
    ),
    st.integers(1, 4),
)
def test_it_agrees_with_plain_counting(steps, limit):
    drive = Drive(Near(in_a_row=limit))
    row = []  # of one value, as far as it brought nothing new: (key, result)
    value = None
    for key, of, result in steps:
        asked = call("look", {key: of})
        said = drive.play(asked, failed(result) if result in "!?" else ok(result))
        if of != value:
            row, value = [], of
        varied = any(each != key for each, _ in row) or len({each for each, _ in row}) > 1
        assert (said is not None) == (varied and len(row) >= limit)
        if said is not None:
            continue
        if row and not alike(row[-1][1], result):
            row = []
        row.append((key, result))


def alike(one, other):
    return one == other or (one in "!?" and other in "!?")
