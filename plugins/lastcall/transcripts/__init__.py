"""Saved runs of agents, read by whichever reader knows their format."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from importlib.metadata import entry_points
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from lastcall.transcripts.conversations import GLANCE
from lastcall.transcripts.lacking import blank
from lastcall.transcripts.opening import opened
from lastcall.transcripts.recorded import (
    Aspect,
    Document,
    Reader,
    RecordedCall,
    RecordedReply,
    Transcript,
    Unreadable,
)
from lastcall.transcripts.source import LIMIT

__all__ = [
    "Aspect",
    "Document",
    "Reader",
    "RecordedCall",
    "RecordedReply",
    "Transcript",
    "Unreadable",
    "find",
    "read",
    "readers",
]

GROUP = "lastcall.transcripts"

BESIDE = ("-wal", "-shm", "-journal")


@cache
def readers() -> tuple[Reader, ...]:
    """The installed readers, the most specific first: *specificity*, else 0, then the name."""
    made: list[Reader] = [point.load()() for point in entry_points(group=GROUP)]
    return tuple(sorted(made, key=lambda one: (-getattr(one, "specificity", 0), one.name)))


def read(path: Path | str, *, limit: int = LIMIT) -> Iterator[Transcript | Unreadable]:
    """The runs of a file, in order, and what of it could not be read. Never raises.

    JSON lines are read as they are asked for, whatever the size of the file; *limit* is for what must
    be held at once, in bytes of text: a line, or a file that is one JSON value.
    """
    path = Path(path)
    document = opened(path, limit)
    if isinstance(document, Unreadable):
        yield document
        return
    try:
        reader = next((one for one in readers() if one.sniff(document)), None)
        if reader is None:
            yield _unknown(document)
            return
        for told in reader.read(document):
            yield from document.broken()
            yield _complete(told, reader) if isinstance(told, Transcript) else told
        yield from document.broken()
    except Exception as error:
        # One reader's mistake, maybe a plug-in's, must not end the reading of the other files.
        yield from document.broken()
        yield Unreadable(str(path), None, f"the reader stumbled: {error!r}")


def _complete(told: Transcript, reader: Reader) -> Transcript:
    """*told* with all that it lacks."""
    lacks = told.lacks | frozenset(getattr(reader, "lacks", ())) | blank(told)
    return replace(told, lacks=lacks) if lacks != told.lacks else told


def find(paths: Iterable[Path | str]) -> list[Path]:
    """The files in *paths*, each once: those named, and in sorted order all in folders but hidden
    ones, notes about them (SOURCE.md, README), and what SQLite keeps beside a database."""
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        # Unlike Path.is_dir, this one raises nothing, whatever the name is.
        if not os.path.isdir(path):  # noqa: PTH112
            found[path] = None
            continue
        closed: list[OSError] = []
        for folder, inner, files in os.walk(path, onerror=closed.append):
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            names = frozenset(files)
            named = (
                Path(folder, name)
                for name in sorted(names)
                if not _note(name) and not _beside(name, names)
            )
            found.update((file, None) for file in named if not _waits(file))
        # A folder that cannot be listed stands for its files, and will be found unreadable.
        found.update((Path(error.filename), None) for error in closed)
    return list(found)


def _waits(path: Path) -> bool:
    """Whether reading would wait for somebody to write: pipes, sockets and the like."""
    return os.path.exists(path) and not os.path.isfile(path)  # noqa: PTH110, PTH113 - as above


def _note(name: str) -> bool:
    return name.startswith((".", "README")) or name == "SOURCE.md"


def _beside(name: str, files: Collection[str]) -> bool:
    """Whether a file is what SQLite keeps beside one of *files*."""
    return name.endswith(BESIDE) and name.rpartition("-")[0] in files


def _unknown(document: Document) -> Unreadable:
    # Broken lines are told of as they are met.
    for _ in islice(document.rows, GLANCE):
        pass
    for first in document.broken():
        problem = f"not a transcript, and {first.problem}"
        return Unreadable(first.file, first.line, problem, foreign=True)
    known = ", ".join(sorted(one.name for one in readers()))
    problem = f"not a transcript: no reader of {known} knows it"
    return Unreadable(str(document.path), None, problem, foreign=True)
