"""The JSON lines of a file, read again each time they are walked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from lastcall.transcripts.fields import decoded
from lastcall.transcripts.recorded import Row, Unreadable
from lastcall.transcripts.source import DamagedError, Source, TooLongError

HEAD = 20
"""How many rows are kept to tell a format by."""

LONG = 16 * 1024 * 1024
"""The most bytes of text that those come from, where there is more than one."""

PENDING = 100
"""The most broken lines that wait to be told of; of more than that only the number is told."""


class Rows:
    """The rows of a file and the broken lines between them, which `broken` hands over as they are
    met: each once, however often the rows are walked."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._head: tuple[Row, ...] | None = None
        self._met = 0
        self._pending: list[Unreadable] = []
        self._further = 0

    def __iter__(self) -> Iterator[Row]:
        for one in self.told():
            if isinstance(one, Unreadable):
                self._note(one)
            else:
                yield one

    def __bool__(self) -> bool:
        return bool(self.head())

    def head(self) -> tuple[Row, ...]:
        """The first rows, with no word about broken lines: 20, or fewer where they are long."""
        if self._head is None:
            found: list[Row] = []
            held = 0
            for number, value, size in islice(self.sized(), HEAD):
                held += size
                if found and held > LONG:
                    break
                found.append((number, value))
            self._head = tuple(found)
        return self._head

    def told(self) -> Iterator[Row | Unreadable]:
        """Every row and every broken line, in order."""
        for one in self._walk():
            yield one if isinstance(one, Unreadable) else one[:2]

    def sized(self) -> Iterator[tuple[int, Any, int]]:
        """The rows with their lengths in bytes, with no word about broken lines."""
        for one in self._walk():
            if not isinstance(one, Unreadable):
                yield one

    @property
    def large(self) -> bool:
        """Whether they are too many to be held."""
        return self.source.large

    def _walk(self) -> Iterator[tuple[int, Any, int] | Unreadable]:
        file = str(self.source.path)
        try:
            for number, line in self.source.lines():
                if isinstance(line, TooLongError):
                    yield Unreadable(file, number, f"broken line: {line}")
                    continue
                try:
                    value: Any = decoded(line)
                except ValueError as error:
                    yield Unreadable(file, number, f"broken line: {error}")
                    continue
                yield number, value, len(line)
        except DamagedError as damage:
            problem = f"the file {damage}; only what comes before this line is read"
            yield Unreadable(file, damage.line, problem)

    def broken(self) -> list[Unreadable]:
        """The broken lines met since this was last asked."""
        told, self._pending = self._pending, []
        if self._further:
            problem = f"and {self._further} more broken lines before line {self._met + 1}"
            told.append(Unreadable(str(self.source.path), None, problem))
            self._further = 0
        return told

    def _note(self, one: Unreadable) -> None:
        line = one.line or 0
        if line <= self._met:
            return
        self._met = line
        if len(self._pending) < PENDING:
            self._pending.append(one)
        else:
            self._further += 1
