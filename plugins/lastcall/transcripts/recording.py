"""What `lastcall.recording.Recorder` wrote: live runs, with all that the guard went by."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import InvalidOperation
from pathlib import Path
from typing import Any

from msgspec import MsgspecError

from lastcall.recording import SUFFIX, VERSION
from lastcall.transcripts.opening import opened
from lastcall.transcripts.recorded import Document, Transcript, Unreadable
from lastcall.transcripts.recording_run import NAME, Run

PACKED = ("", ".gz", ".zst")
"""What follows the name of a file that was compressed since."""

LINES = ("call", "result", "over", "more", "from")
"""One of these is in every line."""


class Recording:
    """Lines of calls and of results, of any number of runs."""

    name = NAME
    specificity = 20

    def sniff(self, document: Document) -> bool:
        """The first line says so."""
        rows = document.head or ((1, document.value),)
        return any(_is_line(row) for _, row in rows[:1])

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a value of `run`, in the order in which they end; with what the next files have of it,
        and none of those that are told with the file before."""
        reading = _Reading(document.path)
        yield from reading.take_all(document)
        while (later := reading.following()) is not None:
            if isinstance(later, Unreadable):
                yield later
                break
            yield from reading.take_all(later, only=set(reading.runs))
        for name, run in reading.runs.items():
            yield run.transcript(str(document.path), name)


class _Reading:
    """The runs of the file *path*, and of those that go on with them, while their lines are read."""

    def __init__(self, path: Path) -> None:
        self.runs: dict[str, Run] = {}
        """Those that are not over."""
        self._path = path
        self._at = 0
        """Lines read so far, in all files."""
        self._file = ""
        self._seen: set[str] = set()
        self._more: str | None = None
        self._calls: dict[tuple[str, int], tuple[Run, int] | None] = {}
        """Calls that are not settled, by file and number; None: the run is told elsewhere."""
        self._elsewhere: set[str] = set()
        """Runs that are told with the file before."""
        self._over: Transcript | None = None

    def take_all(
        self, document: Document, only: set[str] | None = None
    ) -> Iterator[Transcript | Unreadable]:
        """Take in the lines of *document*, of the runs *only* where it goes on with them. Gives the runs
        that are over, and what is wrong with its lines."""
        self._file, self._more = _name(document.path), None
        self._seen.add(self._file)
        begun = self._at
        for line, row in document.rows or ((1, document.value),):
            self._at = begun + line
            problem = self._taken(row, only)
            if problem is not None:
                yield Unreadable(str(document.path), line, problem)
            if self._over is not None:
                yield self._over
                self._over = None
            if only is not None and not self.runs:
                break

    def following(self) -> Document | Unreadable | None:
        """The file that goes on with the runs that are not over, if it is there."""
        if not self.runs or self._more is None or self._more in self._seen:
            return None
        path = _beside(self._path, self._more)
        return None if path is None else opened(path)

    def _taken(self, row: Any, only: set[str] | None) -> str | None:
        """Take in a line; gives what is wrong with it, if that is not told with its own file."""
        alien = _alien(row)
        if alien is not None:
            return alien if only is None else None
        try:
            return self._line(row, only)
        except (MsgspecError, InvalidOperation, TypeError, ValueError, KeyError) as error:
            return f"broken line: {error}"

    def _line(self, row: dict[str, Any], only: set[str] | None) -> str | None:
        if "from" in row:
            if only is None and _beside(self._path, row["from"]) is not None:
                self._elsewhere = set(map(str, row["runs"]))
        elif "more" in row:
            self._more = str(row["more"])
        elif "over" in row:
            self._end(str(row["over"]), only)
        elif "call" in row:
            name = str(row.get("run"))
            mine = name not in self._elsewhere if only is None else name in only
            place = None
            if mine:
                run = self.runs.setdefault(name, Run())
                place = run, run.begin(row, self._at)
            self._calls[self._file, row["call"]] = place
        else:
            key = (str(row.get("of", self._file)), row["result"])
            if key not in self._calls:
                # Of a file that is gone, or of the process that this one came from: nobody's fault.
                lost = only is None and "of" not in row
                return "a result whose call is not in this file" if lost else None
            place = self._calls.pop(key)
            if place is not None:
                place[0].end(place[1], row, self._at)
        return None

    def _end(self, name: str, only: set[str] | None) -> None:
        # The name may be used again, for another run.
        (self._elsewhere if only is None else only).discard(name)
        run = self.runs.pop(name, None)
        if run is not None:
            self._over = run.transcript(str(self._path), name)


def _alien(row: Any) -> str | None:
    """Why *row* is none of our lines; None when it is one."""
    if not _is_line(row):
        return f"no line of a recording: it has none of {', '.join(LINES)}"
    if row["lastcall"] != VERSION:
        return f"written by another version (format {row['lastcall']}; this one reads {VERSION})"
    return None


def _is_line(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("lastcall"), int)
        and any(each in row for each in LINES)
    )


def _name(path: Path) -> str:
    """The name that the recorder gave a file."""
    stem, suffix, _ = path.name.partition(SUFFIX)
    return stem + suffix


def _beside(path: Path, name: Any) -> Path | None:
    """The recorder's file *name* in the folder of *path*, compressed perhaps; None where it is not."""
    if not isinstance(name, str) or Path(name).name != name:
        return None
    there = (path.with_name(name + packed) for packed in PACKED)
    return next((each for each in there if each.is_file()), None)
