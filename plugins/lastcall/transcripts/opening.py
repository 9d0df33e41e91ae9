"""Opens a file as the document that readers look at."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lastcall.transcripts.fields import decoded
from lastcall.transcripts.recorded import Document, Row, Unreadable
from lastcall.transcripts.rows import Rows
from lastcall.transcripts.source import LIMIT, DamagedError, Source, TooLongError
from lastcall.transcripts.values import Values

HEAD = 8192
"""How many bytes of a file are searched for a sign that it is no text."""

DATABASE = b"SQLite format 3\0"

CONTAINERS = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"PAR1": "a Parquet file: write it as JSON lines first, a row a line",
}
"""What may hold transcripts and is not looked into, by how it begins."""

OTHERS = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"%PDF", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"wOF",
    b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83",
)  # fmt: skip
"""How pictures, programs, fonts and the log beside a database begin: what is no transcript, nor was one."""

JSON = re.compile(rb"\s*(?:\{|\[\s*(?:[\[{\"\]]|$))")
"""How JSON begins that may be a transcript; lines of logs begin with `[info]`, or with a time in brackets."""

FIRST = 1000
"""How many lines may be broken before it is given up to find one that is not."""

FEW = 20
"""How many rows are looked at to tell JSON lines from prose with a bit of JSON in it."""


def opened(path: Path, limit: int = LIMIT) -> Document | Unreadable:
    """The file as one JSON value, as JSON lines, as text or as a database, whichever it is. Of JSON
    lines no more than the first few are read; anything else up to *limit* bytes of text."""
    file = str(path)
    try:
        source = Source(path, limit)
        if source.lead == DATABASE:
            return Document(path, "", database=True)
        start = source.start(HEAD)
    except FileNotFoundError:
        return Unreadable(file, None, "no such file")
    except IsADirectoryError:
        return Unreadable(file, None, "a folder, not a file")
    except DamagedError as damage:
        return Unreadable(file, None, f"the file {damage}")
    except (OSError, ValueError) as error:
        return Unreadable(file, None, f"cannot be opened: {error}")
    if start.startswith(DATABASE):
        return Unreadable(file, None, "a compressed database: unpack it first")
    for lead, problem in CONTAINERS.items():
        if start.startswith(lead):
            return Unreadable(file, None, problem)
    if b"\0" in start:
        other = start.startswith(OTHERS)
        return Unreadable(file, None, "a binary file, not text", foreign=other)
    try:
        return _parsed(path, source)
    except DamagedError as damage:
        return Unreadable(file, damage.line, f"the file {damage}")


def _parsed(path: Path, source: Source) -> Document | Unreadable:
    rows = Rows(source)
    if _lines_at_once(rows):
        return Document(path, rows=rows, source=source)
    content = b""
    try:
        content = source.whole()
        if not content.strip():
            return Unreadable(str(path), None, "an empty file")
        return Document(path, value=decoded(content), source=source)
    except (TooLongError, DamagedError) as error:
        problem, text = f"the file {error}", False
    except ValueError as error:
        problem, text = f"broken JSON: {error}", not _json(source)
        if not text and (values := Values(str(path), content)):
            return Document(path, rows=values, source=source)
    if _lines(rows):
        return Document(path, rows=rows, source=source)
    return Document(path, source=source) if text else Unreadable(str(path), None, problem)


def _lines_at_once(rows: Rows) -> bool:
    """Whether the first line is an object or a list of its own, and not the only line."""
    seen: list[Row | Unreadable] = []
    for one in rows.told():
        seen.append(one)
        if not _holding(seen[0]):
            return False
        if len(seen) > 1:
            return True
    return False


def _lines(rows: Rows) -> bool:
    """Whether the file is JSON lines, some perhaps broken, and not prose with a bit of JSON in it."""
    held = total = 0
    for one in rows.told():
        total += 1
        held += _holding(one)
        if held >= FEW or total >= FIRST:
            break
    return held > 0 and (2 * held >= total or _json(rows.source))


def _holding(one: Row | Unreadable) -> bool:
    value: Any = None if isinstance(one, Unreadable) else one[1]
    return isinstance(value, dict | list) and bool(value)


def _json(source: Source) -> bool:
    return JSON.match(source.start(HEAD)) is not None
