"""Text from outside is text, and nothing in it hides."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.visible import cut, one_line, visible

HIDING = "\u202e\u2028\x00\x1b\x7f\x9b\ud800\u200b\U000e0041"
HOSTILE = st.text(st.one_of(st.characters(), st.sampled_from(f"{HIDING}\r\n\t`<&\\")))


@given(HOSTILE)
def test_nothing_hides(text):
    said = visible(text)
    said.encode()
    assert not set(HIDING + "\r") & set(said)
    assert {each for each in said if unicodedata.category(each) == "Cc"} <= {"\n", "\t"}
    assert visible(said) == said


@given(HOSTILE)
def test_a_line_is_one_line(text):
    assert len((one_line(text) + "x").splitlines()) == 1
    assert "\t" not in one_line(text)


@given(st.dictionaries(HOSTILE, HOSTILE))
def test_json_stays_json_of_the_same_value(value):
    said = visible(json.dumps(value, ensure_ascii=False))
    assert json.loads(said) == json.loads(json.dumps(value))
    assert not set(HIDING) & set(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\x1b[31m", r"a\u001b[31m"),
        ("\x9b1m\x7f", r"\u009b1m\u007f"),
        ("a\r\nb\rc\td", "a\nb\\u000dc\td"),
        ("hi\U000e0068", r"hi\udb40\udc68"),
        ("zwölf 🙂 ❤️ 日本", "zwölf 🙂 ❤️ 日本"),
    ],
)
def test_by_its_number(text, said):
    assert visible(text) == said


def test_cut():
    assert (cut("abcd", 4), cut("abcde", 4)) == ("abcd", "abc…")
