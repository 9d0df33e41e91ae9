"""K05 Odd values: each is fingerprinted, equals itself, and differs from its neighbours."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel

from lastcall import Call, Policy
from lastcall.testing import assert_stopped

from .playing import Body, stop_of


class Order(BaseModel):
    id: int
    lines: list[str] = []


APART = [
    [{}, []],
    [True, 1, "1"],
    [None, "None"],
    [b"text", "text"],
]
FRESH = {
    "a set": lambda: {"x", "y", "z"},
    "a datetime": lambda: datetime(2024, 1, 1, 12, tzinfo=UTC),
    "NaN": lambda: float("nan"),
    "a list of dicts": lambda: [{"a": 1}, {"b": [2, {"c": None}]}],
    "a pydantic object": lambda: Order(id=1, lines=["x"]),
    "bytes": lambda: b"\x00\xff",
}


def fingerprint(value):
    return Call("look", {"value": value}).fingerprint


@pytest.mark.parametrize("values", APART, ids=repr)
def test_members_of_a_pair_or_triple_differ(values):
    for one, other in itertools.combinations(values, 2):
        assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize("make", [*FRESH.values(), *(lambda v=v: v for vs in APART for v in vs)])
def test_a_value_equals_itself_the_second_time(make):
    assert fingerprint(make()) == fingerprint(make())


def test_a_set_equals_itself_in_another_insertion_order():
    one, other = set(), set()
    # Enough members that the order of insertion shows in the order of iteration.
    for number in range(0, 80, 8):
        one.add(number)
    for number in range(72, -1, -8):
        other.add(number)
    assert list(one) != list(other)
    assert fingerprint(one) == fingerprint(other)


def test_one_and_one_point_nought_are_one_number():
    # Left open by the case; the table of decisions: JSON has one number.
    assert fingerprint(1) == fingerprint(1.0)


def test_a_second_identical_bytes_call_has_count_two(make_guard):
    guard, body = make_guard(Policy(max_repeats=1)), Body()
    look = guard.wrap(body)
    with guard.within(run="r"):
        assert stop_of(look, value=b"\x00\xff") is None
        stop = assert_stopped(stop_of(look, value=b"\x00\xff"), reason="repeat")
    assert stop.observed == 2
    assert body.runs == 1


@pytest.mark.parametrize("make", FRESH.values(), ids=FRESH)
def test_none_of_them_is_an_exception_or_an_exemption(make_guard, make):
    guard, body = make_guard(Policy(max_repeats=1)), Body()
    look = guard.wrap(body)
    with guard.within(run="r"):
        assert stop_of(look, value=make()) is None
        assert_stopped(stop_of(look, value=make()), reason="repeat")
    assert body.runs == 1
    assert guard.report("r").faults == ()
