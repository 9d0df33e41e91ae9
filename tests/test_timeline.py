"""A run as text: every line fits, the beginning and the stop are there, secrets are not."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from lastcall import Outcome, Policy, Where
from lastcall.ownership import Ledger
from lastcall.redaction import Redactor
from lastcall.replay import Replayer
from lastcall.timeline import WIDTH, timeline
from lastcall.transcripts import RecordedCall, Transcript
from lastcall.transcripts.live import Live
from lastcall.tune import Tuner


def lines(*calls, policy=None):
    policy = Policy() if policy is None else policy
    run = Transcript("f", "r", "x", calls)
    return timeline(run, Replayer(policy).replay(run), policy)


def call(n=0, **fields):
    return RecordedCall("look", {"n": n}, reply=n, **fields)


def test_of_a_long_run_the_beginning_and_the_end_are_shown():
    calls = [call(n, result=f"page {n}", status=200) for n in range(1000)]
    shown = lines(*calls, policy=Policy.permissive())
    assert len(shown) == 22
    assert [row.split()[0] for row in shown[1:9]] == ["1", "2", "3", "4", "5", "6", "...", "987"]
    assert "980 more calls" in shown[7]


def test_equal_calls_in_a_row_are_one_line():
    shown = lines(*[call(1, result="a", failed=True)] * 2, call(2, result="b"), call(1, result="c"))
    assert [row.split()[:2] for row in shown[1:]] == [["1-2", "x2"], ["3", "x1"], ["4", "x3"]]
    assert shown[1].endswith("failed")
    assert shown[3].endswith("ok")


def test_what_an_answer_was():
    shown = lines(
        RecordedCall("a", None, status=503, result="later"),
        RecordedCall("a", '{"x": 1}'),
        RecordedCall("a", "{broken", malformed=True),
        RecordedCall("a", {"x": 1}, status=404, result="no"),
        policy=Policy(statuses={404: "ok"}),
    )
    assert [row.split(")")[-1].strip() for row in shown[1:]] == [
        "503", "not told", "malformed", "404, ok",
    ]  # fmt: skip
    assert "a()" in shown[1]
    assert "a({broken)" in shown[3]


def test_an_answer_that_ends_the_turn_is_the_last_line():
    shown = lines(call(0, status=422), call(1), call(2), policy=Policy.strict())
    assert shown[1].startswith(">")
    assert "422, ends turn" in shown[1]
    assert shown[3].split() == ["2-3", "2", "more,", "saved"]


class Walked(Sequence):
    """Calls of a run too large to be held: they can be gone through, and no more."""

    def __init__(self, calls):
        self.calls = calls

    def __len__(self):
        return len(self.calls)

    def __iter__(self):
        return iter(self.calls)

    def __getitem__(self, place):
        # The first is near; each look at another would read the file up to it.
        assert place == 0
        return self.calls[0]


def test_a_run_that_is_not_held_is_told_and_counted_like_any_other():
    calls = tuple(call(n % 3, ts=float(n), result="x", status=422) for n in range(9))
    policy = Policy()
    told = []
    for held in (calls, Walked(calls)):
        run = Transcript("f", "r", "x", held)
        done = Replayer(policy).replay(run)
        ledger, tuner = Ledger(policy, Redactor(b"key")), Tuner(policy)
        ledger.add(run, done)
        tuner.add(run, good=False)
        lines = timeline(run, done, policy, Redactor(b"key"))
        told.append((lines, ledger.exact(), ledger.blocked(), tuner.bad))
    assert told[0] == told[1]


def test_a_recording_of_our_own_is_told_by_what_the_guard_saw():
    def recorded(at, outcome, fingerprint="f" * 16):
        live = Live(
            Where(run="r", turn="t"),
            "tool",
            begun=2 * at,
            ended=2 * at + 1,
            fingerprint=fingerprint,
            near=fingerprint,
            tool={"volatile": ("since",)},
            outcome=outcome,
        )
        return RecordedCall("pay", {"card": "[redacted]"}, reply=at, live=live)

    shown = lines(
        recorded(0, Outcome("error", status=422, grade="final"), "a" * 16),
        recorded(1, Outcome("ok"), "b" * 16),
        recorded(2, Outcome("paused"), "b" * 16),
        recorded(3, None, "b" * 16),
        policy=Policy.permissive(),
    )
    assert [row.split()[1] for row in shown[1:]] == ["x1", "x1", "x2", "x3"]
    assert [row[59:].strip() for row in shown[1:]] == ["422", "ok", "paused", "not told"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.lists(
        st.builds(
            RecordedCall,
            st.text(min_size=1, max_size=60),
            values,
            result=values,
            status=st.none() | st.integers(100, 599),
            malformed=st.booleans(),
        ),
        max_size=30,
    )
)
def test_whatever_is_in_it_each_line_is_one_and_fits(calls):
    for row in lines(*calls):
        assert row.isprintable()
        assert len(row) <= WIDTH
