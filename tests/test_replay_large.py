"""Replay of runs of any length: turns come and go, stops are counted, sequences are walked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from lastcall import Policy, replay
from lastcall.replay import Replayer
from lastcall.transcripts import RecordedCall, Transcript


def call(n: int, **fields: Any) -> RecordedCall:
    return RecordedCall("f", {"n": n}, reply=n, result="x", **fields)


class Walked(Sequence[RecordedCall]):
    """Calls that are no tuple, as those of a run too large to be held."""

    def __init__(self, calls: list[RecordedCall]) -> None:
        self._calls = calls
        self.walks = 0

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[RecordedCall]:
        self.walks += 1
        return iter(self._calls)

    def __getitem__(self, place: Any) -> Any:
        return self._calls[place]


def test_a_sequence_is_replayed_as_a_tuple_is_and_walked_once() -> None:
    calls = [call(n // 3, turn=n // 30) for n in range(90)]
    walked = Walked(calls)
    replayer = Replayer(Policy(max_calls=25))
    one = replayer.replay(Transcript("f", "r", "x", tuple(calls)))
    two = replayer.replay(Transcript("f", "r", "x", walked))
    assert one == two
    assert one.stops
    assert walked.walks == 1


def test_turns_that_are_over_are_dropped_and_those_that_go_on_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay, "OPEN", 3)
    finished: list[str] = []
    replayer = Replayer(Policy(max_calls=2))
    finish = replayer._guard.finish
    monkeypatch.setattr(replayer._guard, "finish", lambda run: (finished.append(run), finish(run)))
    # Turn 0 goes on beside the others.
    turns = [turn for n in range(1, 20) for turn in (0, n)]
    calls = tuple(call(n, turn=turn) for n, turn in enumerate(turns))
    done = replayer.replay(Transcript("f", "r", "x", calls))
    refused = [stop.index for stop in done.stops]
    assert refused == [index for index, turn in enumerate(turns) if turn == 0][2:]
    assert len(finished) == len(set(finished)) == 20
    assert finished[:2] == ["f:r#1", "f:r#2"]


def test_of_very_many_stops_the_first_are_kept_and_all_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay, "MOST_STOPS", 5)
    calls = tuple(call(n) for n in range(20))
    done = Replayer(Policy(max_calls=2)).replay(Transcript("f", "r", "x", calls))
    assert (len(done.stops), done.further, done.executed, done.saved) == (5, 13, 2, 18)
