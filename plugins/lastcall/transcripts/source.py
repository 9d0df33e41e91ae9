"""The bytes of a file as UTF-8 text: unpacked, recoded, and line by line in constant memory."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

LIMIT = 256 * 1024 * 1024
"""The most bytes of text that are held at once: those of one line, or of a file that is one value."""

LARGE = 4 * 1024 * 1024

CHUNK = 1024 * 1024

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
HINT = 'needs a library: pip install "lastcall[zstd]"'

WIDE = {
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
"""The marks of wide encodings; one of UTF-32 begins like one of UTF-16."""


class DamagedError(Exception):
    """Why a file cannot be read, or not on from *line*."""

    line: int | None = None


class TooLongError(ValueError):
    """A line, or a file that is one value, longer than what is held at once."""


class Source:
    """A file that can be read from its start any number of times.

    Compressed files (gzip, zstd) are known by their first bytes, UTF-16 and UTF-32 by their marks. *limit*: bytes of
    text that may be held at once.
    """

    def __init__(self, path: Path, limit: int = LIMIT) -> None:
        self.path = path
        self.limit = limit
        self._held: bytes | None = None
        with path.open("rb") as file:
            self.lead = file.read(16)
            if not file.seekable():
                # A pipe can be read once only.
                self._held = self.lead + file.read(limit + 1)
                if len(self._held) > limit:
                    raise DamagedError(
                        f"is a pipe that brings more than {size(limit)}: save it first"
                    )
        self.packed = self.lead.startswith((GZIP, ZSTD))
        """Whether the file is compressed."""
        # JSON packs ten to fifty times, a loop even better.
        self.large = path.stat().st_size > (LARGE // 32 if self.packed else LARGE)
        """Whether what is made of the text should not be held as a whole."""

    def chunks(self) -> Iterator[bytes]:
        """The text in UTF-8 (where the file keeps to it), in pieces. Raises DamagedError."""
        with self._raw() as raw:
            first = _more(raw)
            wide = next((name for name, marks in WIDE.items() if first.startswith(marks)), None)
            if wide is not None:
                decoder = codecs.getincrementaldecoder(wide)(errors="replace")
                while first:
                    yield decoder.decode(first).encode(errors="replace")
                    first = _more(raw)
                yield decoder.decode(b"", final=True).encode(errors="replace")
                return
            first = first.removeprefix(codecs.BOM_UTF8)
            while first:
                yield first
                first = _more(raw)

    def start(self, size: int) -> bytes:
        """The first *size* bytes of text, or so much of them as can be read. Raises DamagedError when
        nothing can."""
        parts, total = [], 0
        try:
            for chunk in self.chunks():
                parts.append(chunk)
                total += len(chunk)
                if total >= size:
                    break
        except DamagedError:
            if not total:
                raise
        return b"".join(parts)[:size]

    def whole(self) -> bytes:
        """All of the text. Raises DamagedError, and TooLongError when it is more than the limit."""
        parts, total = [], 0
        for chunk in self.chunks():
            parts.append(chunk)
            total += len(chunk)
            if total > self.limit:
                unpacked = "unpacks to" if self.packed else "has"
                raise TooLongError(
                    f"{unpacked} more than {size(self.limit)} and is not JSON lines, which could be"
                    " read one by one; for a list: jq -c '.[]' FILE > LINES.jsonl"
                )
        return b"".join(parts)

    def lines(self) -> Iterator[tuple[int, bytes | TooLongError]]:
        """The lines that are not blank, with their numbers from 1. Raises DamagedError.

        A line over the limit comes as TooLongError, without being held; in a compressed file, where a few
        bytes may unpack to terabytes, it ends the reading.
        """
        number, held, length, dropping = 1, list[bytes](), 0, False
        try:
            for chunk in self.chunks():
                end = chunk.rfind(b"\n")
                if end < 0:
                    held.append(chunk)
                    length += len(chunk)
                    if length > self.limit:
                        yield from () if dropping else [(number, self._long())]
                        dropping, held, length = True, [], 0
                    continue
                held.append(chunk[:end])
                for line in b"".join(held).split(b"\n"):
                    if dropping:
                        dropping = False
                    elif len(line) > self.limit:
                        yield number, self._long()
                    elif line and not line.isspace():
                        yield number, line
                    number += 1
                held, length = [chunk[end + 1 :]], len(chunk) - end - 1
        except DamagedError as damage:
            damage.line = damage.line or number
            raise
        final = b"".join(held)
        if not dropping and final and not final.isspace():
            yield number, final

    def _long(self) -> TooLongError:
        said = f"a line of more than {size(self.limit)}"
        if self.packed:
            raise DamagedError(f"unpacks to {said}")
        return TooLongError(said)

    @contextmanager
    def _raw(self) -> Iterator[Any]:
        with ExitStack() as opened:
            packed = self.path.open("rb") if self._held is None else io.BytesIO(self._held)
            inner: Any = opened.enter_context(packed)
            if self.lead.startswith(GZIP):
                inner = opened.enter_context(gzip.GzipFile(fileobj=inner))
            elif self.lead.startswith(ZSTD):
                inner = opened.enter_context(_zstd().ZstdFile(inner))
            yield inner


def _more(raw: Any) -> bytes:
    """The next piece, empty at the end. Raises DamagedError."""
    try:
        # Not `read`, which loses what it has when the data turns out to be cut off.
        return bytes(raw.read1(CHUNK))
    except EOFError:
        raise DamagedError("is cut off in the middle of its compressed data") from None
    except (OSError, zlib.error, ValueError) as error:
        raise DamagedError(f"cannot be read: {error}") from None
    except Exception as error:
        # ZstdError is known only where a zstd library is.
        if type(error).__name__ == "ZstdError":
            raise DamagedError(f"cannot be read: {error}") from None
        raise


def _zstd() -> Any:
    """The zstd of Python 3.14, or its backport. Raises DamagedError."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise DamagedError(f"is packed with zstd, which {HINT}")


def size(count: int) -> str:
    """A number of bytes for people: `256 MiB`."""
    for unit, one in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= one and count % one == 0:
            return f"{count // one} {unit}"
    return f"{count} bytes"
