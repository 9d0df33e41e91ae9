"""Replay: the same fold over a transcript, with its clock."""

from __future__ import annotations

import json

import pytest

from lastcall import Policy
from lastcall.replay import Replayer
from lastcall.transcripts import Transcript, read
from lastcall.transcripts.recorded import RecordedCall


def transcript(*calls, run="r"):
    return Transcript("file", run, "jsonl", tuple(calls))


def call(n=0, result="x", **fields):
    return RecordedCall("search", {"n": n}, reply=fields.pop("reply", n), result=result, **fields)


def stopped(transcript, policy=None):
    done = Replayer(policy).replay(transcript)
    return [(stop.index, stop.reason, stop.refused) for stop in done.stops]


def test_one_result_edited_changes_the_verdicts_from_there_on_alone():
    same = [call(1, "same", reply=n) for n in range(8)]
    edited = [*same[:2], call(1, "other", reply=2), *same[3:]]
    assert stopped(transcript(*same))[0] == (3, "same", True)
    assert stopped(transcript(*edited))[0] == (6, "same", True)


def test_runs_replayed_one_after_the_other_do_not_meet():
    replayer = Replayer()
    for _ in range(3):
        done = replayer.replay(transcript(*[call(1, reply=n) for n in range(3)]))
        assert done.stops == ()
    assert len(replayer._rehearsal.store) == 0


def test_calls_of_one_reply_are_one_round():
    policy = Policy(max_calls=1)
    calls = [call(0), *[call(n, reply=1) for n in range(1, 6)]]
    done = Replayer(policy).replay(transcript(*calls))
    assert {stop.reason for stop in done.stops} == {"ceiling"}


def test_a_failing_call_in_every_turn_is_seen_across_turns():
    calls = [call(1, "Error: no", turn=n, reply=n, failed=True) for n in range(5)]
    assert stopped(transcript(*calls))[0] == (3, "failing", True)


def test_malformed_calls_end_the_turn():
    calls = [
        RecordedCall("search", "{broken", reply=n, malformed=True, result="error", failed=True)
        for n in range(4)
    ]
    assert stopped(transcript(*calls))[0] == (2, "malformed", True)


def test_a_clock_that_jumps_back_is_held():
    calls = [call(n, ts=float(1000 - n)) for n in range(5)]
    assert stopped(transcript(*calls)) == []


@pytest.fixture(scope="module")
def measured(root_folder):
    folder = root_folder.parent / "shared" / "transcripts"
    if not (folder / "index.jsonl").exists():
        pytest.skip("the corpus of real runs is not on this machine")
    replayer, rows = Replayer(), []
    for row in map(json.loads, (folder / "index.jsonl").read_text().splitlines()):
        runs = [run for run in read(folder / row["file"]) if isinstance(run, Transcript)]
        hit = any(stop.refused for run in runs for stop in replayer.replay(run).stops)
        rows.append((row, hit))
    return rows


@pytest.fixture(scope="module")
def root_folder():
    from pathlib import Path

    return Path(__file__).parents[1]


def test_no_good_run_is_touched(measured):
    touched = [
        row["file"]
        for row, hit in measured
        if hit and row["outcome_label"] == "success" and not row["reviewed_loop"]
    ]
    assert touched == []


def test_at_least_17_of_the_20_reviewed_loops_are_stopped(measured):
    loops = [hit for row, hit in measured if row["reviewed_loop"]]
    assert len(loops) == 20
    assert sum(loops) >= 17
