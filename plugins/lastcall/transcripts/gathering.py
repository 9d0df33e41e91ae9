"""Puts together what belongs together in a file whose lines are parts of several runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from lastcall.transcripts.conversations import records
from lastcall.transcripts.recorded import Document, Unreadable

T = TypeVar("T")


def gathered(
    document: Document,
    parts: Callable[[Any], Iterable[tuple[str, T]] | None],
    nothing: str,
    names: Callable[[Any], Iterable[str]] | None = None,
) -> Iterator[tuple[str, list[T]] | Unreadable]:
    """The parts of the records by the name that *parts* gives each, in the order of their beginnings;
    in a large file each group as soon as it is complete, which takes two walks, the first one for their
    *names*, where those are found with less work. A record without parts is *nothing*, one of which
    *parts* gives None is passed over."""
    named = names or (lambda record: (name for name, _ in parts(record) or ()))
    last = _last(document, named) if document.large else {}
    groups: dict[str, list[T]] = {}
    for line, record in records(document):
        told = parts(record)
        some = list(told or ())
        if told is not None and not some:
            yield Unreadable(str(document.path), line, nothing)
        for name, part in some:
            groups.setdefault(name, []).append(part)
        for name in dict.fromkeys(name for name, _ in some):
            if name in last and last[name] == line:
                yield name, groups.pop(name)
    yield from groups.items()


def _last(document: Document, names: Callable[[Any], Iterable[str]]) -> dict[str, int | None]:
    """The last line with a part of each name."""
    last: dict[str, int | None] = {}
    for line, record, _ in document.sized():
        for name in names(record):
            last[name] = line
    return last
