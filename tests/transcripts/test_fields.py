"""Times, statuses, arguments and content, whatever JSON they come as."""

from __future__ import annotations

from typing import Any

import pytest

from lastcall.transcripts.fields import arguments, http, literal, printed, seconds, text, words


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (1_700_000_000, 1_700_000_000.0),
        (1_700_000_000.5, 1_700_000_000.5),
        (1_700_000_000_500, 1_700_000_000.5),
        (1_700_000_000_500_000, 1_700_000_000.5),
        ("1700000000500000000", 1_700_000_000.5),
        ("2023-11-14T22:13:20Z", 1_700_000_000.0),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000.0),
        ("2023-11-14T22:13:20", 1_700_000_000.0),
        ("yesterday", None),
        ("", None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        (None, None),
    ],
)
def test_a_time_is_seconds_since_1970(value: Any, known: Any) -> None:
    assert seconds(value) == known


@pytest.mark.parametrize(
    ("value", "known"),
    [(404, 404), ("404", 404), (0, None), (1404, None), ("1404", None), ("ok", None), (True, None)],
)
def test_a_status_lies_between_100_and_599(value: Any, known: Any) -> None:
    assert http(value) == known


@pytest.mark.parametrize(
    ("value", "args", "broken"),
    [
        ('{"a": 1}', {"a": 1}, False),
        ({"a": 1}, {"a": 1}, False),
        (None, {}, False),
        ("", {}, False),
        ("null", {}, False),
        ('{"a": ', '{"a": ', True),
        ("[1]", "[1]", True),
        ([1], [1], True),
    ],
)
def test_arguments_that_are_no_object_are_malformed_and_kept(
    value: Any, args: Any, broken: bool
) -> None:
    assert arguments(value) == (args, broken)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("plain", "plain"),
        (["a", {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "image", "data": "x"}], [{"type": "image", "data": "x"}]),
        ([], []),
        (None, None),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_text_blocks_are_joined_and_others_kept(content: Any, said: Any) -> None:
    assert words(content) == said


def test_ids_may_be_numbers_but_not_truths() -> None:
    assert [text(value) for value in ("a", 7, "", None, True, 1.5)] == ["a", "7", *[None] * 4]


@pytest.mark.parametrize("value", ["{[1]: 2}", "{{}}", "{'a': ", "(" * 200, "\ud800", "a text"])
def test_text_that_python_would_not_read_stays_text(value: str) -> None:
    assert literal(value) == value
    assert printed(value) is None
