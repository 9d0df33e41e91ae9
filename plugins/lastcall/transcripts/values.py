"""JSON values that stand one behind the other, each over many lines, as people print them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from lastcall.transcripts.fields import MANY, VAST
from lastcall.transcripts.recorded import Row, Unreadable
from lastcall.transcripts.rows import HEAD

BLANK = re.compile(r"[\s,\x1e]*")
"""What may stand between two values: a comma, or the mark of a JSON text sequence."""

SCANNER = json.JSONDecoder()


class Values:
    """The values in a text, each with the line it begins in, and where it could not be read on."""

    def __init__(self, file: str, content: bytes) -> None:
        self.large = False
        self._rows: list[Row] = []
        self._problem: list[Unreadable] = []
        if len(content) > VAST and content.count(b"[") + content.count(b"{") > MANY:
            return
        text = content.decode(errors="replace")
        place, line, counted = _next(text, 0), 1, 0
        while place < len(text):
            line += text.count("\n", counted, place)
            counted = place
            try:
                value, end = SCANNER.raw_decode(text, place)
            except (ValueError, RecursionError) as error:
                said, at = "nested too deep", line
                if isinstance(error, json.JSONDecodeError):
                    said, at = error.msg, error.lineno
                problem = f"broken JSON: {said}; only what comes before is read"
                self._problem.append(Unreadable(file, at, problem))
                break
            self._rows.append((line, value))
            place = _next(text, end)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __bool__(self) -> bool:
        """Whether there is any, and the first is an object, or a list of some."""
        first = self._rows[0][1] if self._rows else None
        inner = first[0] if isinstance(first, list) and first else first
        return isinstance(inner, dict) and bool(inner)

    def head(self) -> tuple[Row, ...]:
        """The first few."""
        return tuple(self._rows[:HEAD])

    def sized(self) -> Iterator[tuple[int, object, int]]:
        """The values; how long each is is not known."""
        return ((line, value, 0) for line, value in self._rows)

    def broken(self) -> list[Unreadable]:
        """What could not be read, once."""
        told, self._problem = self._problem, []
        return told


def _next(text: str, place: int) -> int:
    found = BLANK.match(text, place)
    return found.end() if found else place
