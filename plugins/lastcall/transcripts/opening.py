"""Opens a file as the document that readers look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lastcall.transcripts.fields import decoded
from lastcall.transcripts.recorded import Document, Unreadable

HEAD = 8192
"""How many bytes of a file are searched for a sign that it is no text."""


def opened(path: Path) -> Document | Unreadable:
    """The file as text, as one JSON value or as JSON lines, whichever it is."""
    file = str(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Unreadable(file, None, "no such file")
    except IsADirectoryError:
        return Unreadable(file, None, "a folder, not a file")
    except (OSError, ValueError) as error:
        return Unreadable(file, None, f"cannot be opened: {error}")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = content.decode("utf-16", errors="replace")
    elif b"\0" in content[:HEAD]:
        return Unreadable(file, None, "a binary file, not text")
    else:
        # Bytes that are not UTF-8 break their line only, so they pass here and are found there.
        text = content.removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape")
    if not text.strip():
        return Unreadable(file, None, "an empty file")
    return _parsed(path, text)


def _parsed(path: Path, text: str) -> Document | Unreadable:
    try:
        return Document(path, text, value=decoded(_utf8(text)))
    except ValueError as error:
        whole = str(error)
    rows: list[tuple[int, Any]] = []
    broken: list[Unreadable] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append((number, decoded(_utf8(line))))
        except ValueError as error:
            broken.append(Unreadable(str(path), number, f"broken line: {error}"))
    if _lines(text, rows, len(rows) + len(broken)):
        return Document(path, text, rows=tuple(rows), broken=tuple(broken))
    if text.lstrip().startswith(("{", "[")):
        return Unreadable(str(path), None, f"broken JSON: {whole}")
    return Document(path, text)


def _lines(text: str, rows: list[tuple[int, Any]], total: int) -> bool:
    """Whether a text is JSON lines, some perhaps broken, and not prose with a bit of JSON in it."""
    held = sum(isinstance(value, dict | list) and bool(value) for _, value in rows)
    return held > 0 and (text.lstrip().startswith(("{", "[")) or 2 * held >= total)


def _utf8(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("not UTF-8") from None
    return text
