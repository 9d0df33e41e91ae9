"""The plain tool log: one call a line, as `lastcall.record` and most programs would write it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, overload

from msgspec.structs import replace

from lastcall.transcripts.conversations import glance, stem
from lastcall.transcripts.fields import arguments, http, seconds, text, untold
from lastcall.transcripts.pairing import SHELLS
from lastcall.transcripts.recorded import (
    Aspect,
    Document,
    RecordedCall,
    Row,
    Transcript,
    Unreadable,
)

WORDS = {
    "ok": False,
    "success": False,
    "succeeded": False,
    "error": True,
    "failed": True,
    "failure": True,
}
"""What a status in words says of the question whether the call failed."""


LARGE = 16 * 1024 * 1024
"""The most bytes of text of a run whose calls are held, in a file too large to be held as a whole. Those of
other runs are read again each time they are asked for."""

HELD = 4 * LARGE
"""The same for all runs together that have begun and are not over."""


class ToolLog:
    """Lines with `name` and `args`, and with ts, status, result, turn, run and more where known."""

    name = "jsonl"
    specificity = 5

    def sniff(self, document: Document) -> bool:
        """Any of the first lines is a call; a program's own log has names and times, too, and levels."""
        seen = [row for row in glance(document) if _call(row) and not _drawn(row)]
        told = any("args" in row or "level" not in row for row in seen)
        return told and not isinstance(document.value, list)

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a value of `run`; lines of several runs may be mixed."""
        if document.large:
            yield from self._large(document)
            return
        runs: dict[str, _Run] = {}
        for line, row in _rows(document):
            if not isinstance(row, dict) or not _call(row):
                yield _none(document, line)
                continue
            run = _named(row, document)
            log = runs.get(run)
            if log is None:
                log = runs[run] = _Run()
            log.add(row)
        for run, log in runs.items():
            yield log.over(str(document.path), run)

    def _large(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """Walked twice, so that each run is handed over at its last line."""
        file, seen, held = str(document.path), _census(document), 0
        runs: dict[str, _Run] = {}
        for line, row in _rows(document):
            if not isinstance(row, dict) or not _call(row):
                yield _none(document, line)
                continue
            run = _named(row, document)
            about, log = seen[run], runs.get(run)
            if log is None and line == about.first and about.bytes <= min(LARGE, HELD - held):
                log = runs[run] = _Run()
                held += about.bytes
            if log is not None:
                log.add(row)
            if line == about.last and log is not None:
                del runs[run]
                held -= about.bytes
                yield log.over(file, run)
            elif line == about.last:
                again = _Again(document, run, about)
                yield Transcript(file, run, self.name, again, lacks=_lacking(told=about.told))


class _About:
    """Where in a large file a run is."""

    __slots__ = ("bytes", "calls", "first", "last", "told")

    def __init__(self, first: int) -> None:
        self.first = self.last = first
        self.calls = self.bytes = 0
        self.told = False


def _census(document: Document) -> dict[str, _About]:
    """What there is of each run, from a first walk."""
    seen: dict[str, _About] = {}
    for line, row, size in document.sized():
        if isinstance(row, dict) and _call(row):
            run = _named(row, document)
            about = seen.get(run) or seen.setdefault(run, _About(line))
            about.calls += 1
            about.bytes += size
            about.told = about.told or "args" in row
            about.last = line
    return seen


class _Again(Sequence[RecordedCall]):
    """The calls of a run too large to be held; each walk reads the file."""

    def __init__(self, document: Document, run: str, about: _About) -> None:
        self._document, self._run, self._about = document, run, about

    def __len__(self) -> int:
        return self._about.calls

    def __iter__(self) -> Iterator[RecordedCall]:
        log, last, place = _Run(), self._about.last, -1
        for line, row in _rows(self._document):
            if isinstance(row, dict) and _call(row) and _named(row, self._document) == self._run:
                place += 1
                made = log.made(row)
                yield made if self._about.told else _blind(made, place)
            if line >= last:
                return

    @overload
    def __getitem__(self, place: int) -> RecordedCall: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[RecordedCall, ...]: ...

    def __getitem__(self, place: int | slice) -> RecordedCall | tuple[RecordedCall, ...]:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step > 0:
                return tuple(islice(self, start, stop, step))
            return tuple(islice(self, stop + 1, start + 1))[::step]
        wanted = place + len(self) if place < 0 else place
        for call in islice(self, wanted, wanted + 1) if wanted >= 0 else ():
            return call
        raise IndexError(f"no call {place} of {len(self)}")


class _Run:
    """One run while its lines are read."""

    def __init__(self) -> None:
        self.calls: list[RecordedCall] = []
        self._turn = -1
        self._said: Any = object()
        self._reply = -1
        self._replies: dict[str, int] = {}
        """The numbers of the replies of this turn, by what the log calls them."""

        self._told = False

    def add(self, row: dict[str, Any]) -> None:
        """Take in a line."""
        self._told = self._told or "args" in row
        self.calls.append(self.made(row))

    def over(self, file: str, run: str) -> Transcript:
        """The run of that name, now that all of its lines were taken in."""
        calls = self.calls
        if not self._told:
            calls = [_blind(call, place) for place, call in enumerate(calls)]
        return Transcript(file, run, ToolLog.name, tuple(calls), lacks=_lacking(told=self._told))

    def made(self, row: dict[str, Any]) -> RecordedCall:
        """The call of a line, the next of its run."""
        said = row.get("turn")
        if self._turn < 0 or said not in (None, self._said):
            self._turn, self._said = self._turn + 1, said
            self._replies.clear()
        args, broken = arguments(row.get("args"))
        tool, server = str(row["name"]), text(row.get("server"))
        result, failed, status = _outcome(row)
        return RecordedCall(
            tool=tool if server is None else f"{server}/{tool}",
            args=args,
            turn=self._turn,
            reply=self._number(text(row.get("reply"))),
            id=text(row.get("id")),
            ts=seconds(row.get("ts")),
            result=result,
            status=status,
            failed=failed,
            malformed=broken or row.get("malformed") is True,
            shell=tool.lower() in SHELLS,
            agent=text(row.get("agent")),
        )

    def _number(self, reply: str | None) -> int:
        # A line that names no reply is one of its own.
        if reply is not None and reply in self._replies:
            return self._replies[reply]
        self._reply += 1
        if reply is not None:
            self._replies[reply] = self._reply
        return self._reply


def _blind(call: RecordedCall, place: int) -> RecordedCall:
    """*call* in a run that tells no arguments of any."""
    return replace(call, args=untold(place))


def _lacking(*, told: bool) -> frozenset[Aspect]:
    return frozenset() if told else frozenset({"arguments"})


def _rows(document: Document) -> Iterable[Row]:
    return document.rows or ((1, document.value),)


def _named(row: dict[str, Any], document: Document) -> str:
    return text(row.get("run")) or stem(document)


def _none(document: Document, line: int) -> Unreadable:
    problem = "no call: it has no text `name` beside `args` or `ts`"
    return Unreadable(str(document.path), line, problem)


def _call(row: dict[str, Any]) -> bool:
    return bool(row.get("name")) and isinstance(row["name"], str) and ("args" in row or "ts" in row)


def _drawn(row: dict[str, Any]) -> bool:
    """Whether a row is an event of Chrome's trace format, which has names, times and arguments, too."""
    return "ph" in row and ("pid" in row or "tid" in row)


def _outcome(row: dict[str, Any]) -> tuple[Any, bool | None, int | None]:
    """A line's result, whether it says that the call failed, and its HTTP status."""
    said, error = row.get("status"), row.get("error")
    word = said.strip().lower() if isinstance(said, str) else ""
    result = row.get("result") if row.get("result") is not None else error or None
    return result, True if error else WORDS.get(word), http(word or said)
