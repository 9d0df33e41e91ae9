"""Several policies on the same runs, side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from lastcall.expectation import Expectations, cut, expected
from lastcall.policy import Policy
from lastcall.replay import ReplayedStop, Replayer
from lastcall.transcripts.recorded import Transcript

Mark = Literal["good", "bad"]
"""good: nothing may stop the run. bad: something should."""


class Marks:
    """Which runs are good and which bad: those of the files in *good* and in *bad*, and what is written
    beside a file (`*.expect.toml`)."""

    def __init__(self, good: Iterable[Path] = (), bad: Iterable[Path] = ()) -> None:
        self._good, self._bad = list(map(placed, good)), list(map(placed, bad))
        self._beside: tuple[str, Expectations | None] = ("", None)

    def of(self, transcript: Transcript) -> Mark | None:
        """That of a run; None: it has none. Raises ExpectationError, and ValueError for a run with both."""
        file = placed(Path(transcript.file))
        good, bad = inside(file, self._good), inside(file, self._bad)
        if good and bad:
            raise ValueError(f"{transcript.file} cannot be both good and bad")
        if good or bad:
            return "good" if good else "bad"
        told = self._told(transcript.file)
        if told is None:
            return None
        return "bad" if told.of(transcript.run).expect == "stop" else "good"

    def _told(self, file: str) -> Expectations | None:
        if self._beside[0] != file:
            self._beside = (file, expected(Path(file)))
        return self._beside[1]


def placed(path: Path) -> Path:
    """Where *path* is, not what a link there leads to: a folder of links is a way to mark."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` follows links


def inside(file: Path, places: Sequence[Path]) -> bool:
    """Whether *file* is one of *places*, or in one."""
    return any(file == place or place in file.parents for place in places)


class Column(Struct):
    """What one policy does to all runs."""

    policy: str
    runs: int = 0
    calls: int = 0
    stopped: int = 0
    saved: int = 0
    good: int = 0
    false_stops: int = 0
    """Good runs that it stops."""
    bad: int = 0
    caught: int = 0
    """Bad runs that it stops."""


class Verdicts(Struct, frozen=True):
    """One run under every policy."""

    name: str
    mark: Mark | None
    stops: tuple[ReplayedStop | None, ...]
    """Where each would have cut it short, in the order of the policies."""

    @property
    def telling(self) -> bool:
        """Whether policies differ in it, or one is wrong about it."""
        stopped = {stop is not None for stop in self.stops}
        wrong = {"good": True, "bad": False}.get(self.mark or "")
        return len(stopped) > 1 or wrong in stopped


class Comparison:
    """Replays each run under each policy; memory grows by the runs that tell policies apart."""

    def __init__(self, policies: Iterable[tuple[str, Policy]], marks: Marks | None = None) -> None:
        named = tuple(policies)
        self.columns = [Column(name) for name, _ in named]
        self.telling: list[Verdicts] = []
        self._replayers = [Replayer(policy) for _, policy in named]
        self._marks = Marks() if marks is None else marks

    def add(self, transcript: Transcript) -> None:
        """Replay one run under all of them. Raises ExpectationError and ValueError."""
        mark = self._marks.of(transcript)
        stops: list[ReplayedStop | None] = []
        for column, replayer in zip(self.columns, self._replayers, strict=True):
            done = replayer.replay(transcript)
            stop = cut(done)
            stops.append(stop)
            column.runs += 1
            column.calls += done.calls
            column.stopped += stop is not None
            column.saved += done.saved
            column.good += mark == "good"
            column.bad += mark == "bad"
            column.false_stops += mark == "good" and stop is not None
            column.caught += mark == "bad" and stop is not None
        file = Path(transcript.file)
        name = str(file) if transcript.run in file.name else f"{file} [{transcript.run}]"
        one = Verdicts(name, mark, tuple(stops))
        if one.telling:
            self.telling.append(one)
