"""The plain tool log: one call a line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastcall.replay import Replayer
from lastcall.transcripts import RecordedCall, Transcript, Unreadable, read, source, tool_log

Told = Callable[[Any], list[Any]]
Calls = Callable[[Any], tuple[RecordedCall, ...]]

DATA = Path(__file__).parent / "data"


def lines(*rows: object) -> str:
    return "\n".join(map(json.dumps, rows))


def test_runs_mixed_in_one_file_are_told_apart() -> None:
    runs: list[Any] = list(read(DATA / "jsonl.jsonl"))
    assert [run.run for run in runs] == ["a", "b"]
    first, second = runs[0].calls
    assert (first.tool, first.args, first.id) == ("get_order", {"id": 7}, "c1")
    assert (first.ts, first.status, first.failed, first.result) == (
        1000.5,
        404,
        None,
        "no such order",
    )
    assert (first.turn, second.turn) == (0, 1)
    assert (first.reply, second.reply) == (0, 1)
    assert second.status == 200


def test_status_words_server_and_broken_arguments() -> None:
    runs: list[Any] = list(read(DATA / "jsonl.jsonl"))
    good, bad = runs[1].calls
    assert (good.tool, good.agent, good.ts) == ("web/search", "finder", 1001.0)
    assert (good.failed, bad.failed) == (False, True)
    assert (bad.args, bad.malformed) == ('{"q": ', True)
    assert good.reply == bad.reply


def test_a_log_of_one_line_is_a_log(calls: Calls) -> None:
    (call,) = calls({"name": "f", "args": {}, "ts": 1})
    assert call.tool == "f"


def test_a_trace_of_a_browser_is_no_log(told: Told) -> None:
    event = {"name": "f", "cat": "v8", "ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "args": {}}
    for rows in ([event], [event] * 3, [{**event, "ph": "M"}, {**event, "ph": "B"}]):
        (problem,) = told(lines(*rows))
        assert problem.foreign
    (run,) = told(lines({"name": "f", "args": {}, "pid": 7}, {"name": "f", "args": {}, "pid": 7}))
    assert len(run.calls) == 2


def test_turns_count_changes_and_a_line_without_one_stays(calls: Calls) -> None:
    rows: list[Any] = [
        {"name": "f", "args": {}, "turn": turn} for turn in ("x", "x", None, "y", "x")
    ]
    assert [call.turn for call in calls(lines(*rows))] == [0, 0, 0, 1, 2]


def test_a_reply_number_used_again_in_the_next_turn_is_another_reply(calls: Calls) -> None:
    rows: list[Any] = [{"name": "f", "args": {}, "turn": t, "reply": 0} for t in (1, 1, 2)]
    assert [call.reply for call in calls(lines(*rows))] == [0, 0, 1]


def test_a_line_that_is_no_call_is_told_of(told: Told) -> None:
    bad, run = told(lines({"name": "f", "args": {}}, {"level": "info"}, {"name": "f", "args": {}}))
    assert isinstance(bad, Unreadable)
    assert bad.line == 2
    assert isinstance(run, Transcript)
    assert len(run.calls) == 2


@pytest.mark.parametrize("said", [True, 1.5, 0, 7000, "maybe", None, ["ok"]])
def test_a_status_that_is_none_says_nothing(calls: Calls, said: Any) -> None:
    (call,) = calls({"name": "f", "args": {}, "status": said})
    assert (call.status, call.failed) == (None, None)


def test_an_error_field_means_that_the_call_failed(calls: Calls) -> None:
    (call,) = calls({"name": "f", "args": {}, "error": "no"})
    assert (call.failed, call.result) == (True, "no")


@pytest.mark.parametrize("most", [tool_log.LARGE, 0])
@pytest.mark.parametrize("large", [source.LARGE, 0])
def test_arguments_that_no_line_of_a_run_tells_are_not_taken_to_be_equal(
    told: Told, monkeypatch: pytest.MonkeyPatch, large: int, most: int
) -> None:
    monkeypatch.setattr(source, "LARGE", large)
    monkeypatch.setattr(tool_log, "LARGE", most)
    rows = [{"ts": n, "name": "f", "run": "blind", "result": "x"} for n in range(9)]
    none = [{"ts": n, "name": "f", "run": "seen", "args": None} for n in range(2)]
    blind, seen = told(lines(*rows, *none, {"ts": 9, "name": "f", "run": "seen"}))
    assert ("arguments" in blind.lacks, "arguments" in seen.lacks) == (True, False)
    assert [call.args for call in blind.calls] == [{"[not told]": n} for n in range(9)]
    assert [call.args for call in seen.calls] == [{}, {}, {}]
    assert Replayer().replay(blind).stops == ()


def test_a_programs_own_log_is_none(told: Told) -> None:
    row = {"ts": 1, "level": "error", "name": "app", "msg": "no", "error": "no"}
    (problem,) = told(lines(row, row))
    assert problem.foreign
    (run,) = told(lines({**row, "args": {}}, row))
    assert len(run.calls) == 2
