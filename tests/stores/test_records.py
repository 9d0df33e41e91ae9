"""Records as text: what is written is read again, and what cannot be read is said, never taken for new."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Policy
from lastcall.past import Past
from lastcall.rules.failing import Failures
from lastcall.rules.same import Results
from lastcall.snapshot import types_of
from lastcall.stores import UnreadableRecordError
from lastcall.stores.records import (
    COUNTER,
    counter_text,
    decoded,
    encoded,
    field_text,
    key_of,
    shard_of,
    shard_text,
)
from lastcall.turn import Ended, Turn

RUN = ("run", "r1")
TYPES = types_of(Policy().rules)
HALF = "\ud800 half a character"

words = st.text(max_size=12)
parts = st.one_of(st.none(), words, st.integers(-(2**40), 2**40))


@given(st.sampled_from(["run", "thread", "user"]), st.one_of(st.none(), words))
def test_a_shard_is_read_from_its_text(kind, of):
    text = shard_text((kind, of))
    if of is None or of.isprintable():
        assert shard_of(text) == (kind, of)
    text.encode()


@given(st.one_of(st.tuples(), st.tuples(parts), st.tuples(st.tuples(parts, parts))))
def test_a_key_is_read_from_its_text(rest):
    key = (RUN, "failing", *rest)
    field = field_text(key)
    field.encode()
    assert key_of(RUN, field) == key


@pytest.mark.parametrize(
    "state",
    [
        Turn(),
        Turn("t1", 7, "r", 2, 3, "ab", 1, b"\x00\xff" * 9, Ended("ceiling", "turn", "search")),
        Turn("t1", past=Past(b"\x01" * 16, 3, 1), raised={"calls": 5}, asked={"r c": 2}),
    ],
    ids=["new", "ended", "raised"],
)
def test_a_turn_is_read_as_it_was(state):
    key = (RUN, "turn")
    assert decoded(encoded(state, key), key, TYPES) == state


@given(st.integers(0, 9), st.text(), st.one_of(st.none(), st.floats(0, 1e9)))
def test_any_words_of_a_service_are_kept(count, detail, after):
    key = (("thread", "t"), "failing", "ab")
    state = Failures(count, "d", 500, detail, after)
    text = encoded(state, key)
    text.encode()
    assert decoded(text, key, TYPES) == state


def test_half_a_character_is_kept():
    key = (("thread", "t"), "failing", HALF)
    state = Failures(1, "d", 500, HALF, None)
    text = encoded(state, key)
    text.encode()
    assert decoded(text, key, TYPES) == state
    assert key_of(("thread", "t"), field_text(key)) == key


@given(st.one_of(st.tuples(st.integers(0, 2**40), st.integers(-5, 2**50)),
                 st.dictionaries(st.text(max_size=5), st.floats(0, 2e9))))  # fmt: skip
def test_a_counter_is_read_as_it_was(held):
    text = counter_text(held)
    text.encode("utf-8", "surrogatepass")
    assert decoded(text, (RUN, "n"), {"n": COUNTER}) == held


def test_an_operator_can_read_it():
    key = (RUN, "same", ("t1", "91b5d0c2e5f3a0aa"))
    assert field_text(key) == 'same ["t1","91b5d0c2e5f3a0aa"]'
    text = encoded(Results(order=3, row=1, calm=1, open=1), key)
    assert text.startswith("1 {")
    assert json.loads(text[2:])["order"] == 3


def test_a_newer_version_reads_what_an_older_one_wrote():
    """Fields that an older version did not know are at their defaults; those it knew and we do not are
    passed over."""
    older = '1 {"count":2,"digest":"d","gone":true}'
    assert decoded(older, (RUN, "failing", "ab"), TYPES) == Failures(2, "d")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "damaged"),
        ("{}", "damaged"),
        ('1 {"count":', "cannot be read"),
        ('1 {"count":"two"}', "cannot be read"),
        ("1 [1,2]", "cannot be read"),
        ("1 \ufffd\ufffd", "cannot be read"),
        ("2 {}", "newer version of lastcall.*format 2"),
    ],
)
def test_what_cannot_be_read_is_said_and_never_empty(value, said):
    with pytest.raises(UnreadableRecordError, match=said) as caught:
        decoded(value, (RUN, "failing", "ab"), TYPES)
    assert "failing" in str(caught.value)
    assert "run:r1" in str(caught.value)


@pytest.mark.parametrize("value", ["1 {", "1 [1]", '1 "x"', '1 {"a":"soon"}', "1 [null,2]"])
def test_a_damaged_counter_is_said(value):
    with pytest.raises(UnreadableRecordError):
        decoded(value, (RUN, "n"), {"n": COUNTER})


def test_a_state_that_text_cannot_hold_names_its_rule():
    with pytest.raises(TypeError, match="'mine'"):
        encoded(object(), (RUN, "mine"))


def test_a_third_partys_state_is_read_in_its_own_type():
    class Mine(msgspec.Struct, frozen=True):
        seen: tuple[str, ...] = ()

    key = (RUN, "mine", "t")
    assert decoded(encoded(Mine(("a",)), key), key, {"mine": Mine}) == Mine(("a",))
