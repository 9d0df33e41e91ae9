"""Expectations of saved runs, as a file says them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.expectation import (
    CLEAN,
    Expectation,
    ExpectationError,
    Expectations,
    beside,
    cut,
    meant,
)
from lastcall.replay import Replayed, ReplayedStop

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
rules = st.lists(text, max_size=3).map(tuple)
one = st.builds(
    Expectation,
    expect=st.just("stop"),
    reason=st.none() | text,
    tool=st.none() | text,
    by_call=st.none() | st.integers(1, 10**6),
    unjudged=rules,
) | st.builds(Expectation, expect=st.just("clean"), unjudged=rules)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("expected") / "x.expect.toml"


@given(
    told=st.builds(
        Expectations,
        policy=st.none() | text.filter(bool),
        every=one,
        runs=st.dictionaries(text, one, max_size=3),
    )
)
def test_what_is_written_is_read_back(file, told):
    told.write(file)
    assert Expectations.read(file) == told


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"runs = 3", b"runs = {a = 1}", b"expect = 1", b'policy = ""']
)
def test_what_cannot_be_is_an_error_that_names_the_file(file, content):
    file.write_bytes(content)
    with pytest.raises(ExpectationError, match=r"x\.expect\.toml: "):
        Expectations.read(file)


def test_an_empty_file_expects_a_clean_run(file):
    file.write_text("")
    assert Expectations.read(file).of("any") == CLEAN


@pytest.mark.parametrize(
    ("transcript", "wanted"),
    [
        ("a.transcript.jsonl", "a.expect.toml"),
        ("a.b.transcript.jsonl.gz", "a.b.expect.toml"),
        ("a.jsonl", "a.expect.toml"),
    ],
)
def test_which_file_belongs_to_a_transcript(transcript, wanted):
    assert beside(Path("runs", transcript)) == Path("runs", wanted)


def test_which_transcripts_a_file_belongs_to(tmp_path):
    for name in ("a.transcript.jsonl", "a.transcript.json", "ab.transcript.jsonl", "a.expect.toml"):
        (tmp_path / name).touch()
    found = meant(tmp_path / "a.expect.toml")
    assert [path.name for path in found] == ["a.transcript.json", "a.transcript.jsonl"]
    for other in ("ab.transcript.jsonl", "none.expect.toml"):
        assert meant(tmp_path / other) == [tmp_path / other]


def done(*stops):
    return Replayed("f", "r", "jsonl", 9, 9, stops, 0)


def stop(index, scope="call", *, refused=True):
    return ReplayedStop(index, "same", scope, "look", "f" * 16, None, refused)


def test_a_run_is_cut_short_by_a_refusal_or_by_what_ends_more_than_a_tool():
    assert cut(done(stop(1, refused=False), stop(2, "tool", refused=False))) is None
    assert cut(done(stop(1, refused=False), stop(3), stop(4))).index == 3
    assert cut(done(stop(1, refused=False), stop(2, "turn", refused=False))).index == 2


def test_what_it_came_to_is_what_is_expected_from_then_on():
    for came in (done(), done(stop(3)), done(stop(2, "turn", refused=False))):
        assert Expectation.of(came).missed(came) is None
