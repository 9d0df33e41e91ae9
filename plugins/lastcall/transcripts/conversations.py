"""Finds the message lists of a document: one run or many, in one JSON value or line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from lastcall.transcripts.fields import mapping, objects, text
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable

GLANCE = 20
"""How many messages or lines of a document are looked at to tell its format."""

Test = Callable[[dict[str, Any]], bool]


class Conversation(Struct, frozen=True):
    """The messages of one run; *run* is unique in its file."""

    run: str
    messages: list[dict[str, Any]]


class Names:
    """Gives each run of a file a name of its own."""

    def __init__(self, document: Document) -> None:
        self._stem = stem(document)
        self._times: dict[str, int] = {}
        """How often each name was wanted; all but the first time it was numbered."""

    def name(self, wanted: str | None = None) -> str:
        """*wanted*, or the file's name; numbered when another run has it."""
        wanted = wanted or self._stem
        times = self._times.get(wanted, 0) or self._numbered(wanted)
        name = wanted
        while times:
            times += 1
            name = f"{wanted}#{times}"
            if name not in self._times:
                break
        self._times[wanted] = times or 1
        return name

    def _numbered(self, wanted: str) -> int:
        """1 when *wanted* is a name that was made here by numbering another."""
        base, mark, number = wanted.rpartition("#")
        made = self._times.get(base, 0) if mark and number.isdecimal() else 0
        return 1 if made > 1 and int(number[:9]) <= made else 0


def stem(document: Document) -> str:
    """The name of a document's file up to its first dot."""
    return document.path.name.split(".")[0] or document.path.name


def records(document: Document) -> Iterator[tuple[int | None, Any]]:
    """The values of a document that may each be a run, with their lines: its rows, the elements
    of its list, or its one value."""
    if document.rows:
        yield from document.rows
    elif isinstance(document.value, list):
        yield from ((None, entry) for entry in document.value)
    else:
        yield None, document.value


def few(document: Document) -> list[Any]:
    """The first few of its records."""
    if document.rows:
        return [record for _, record in document.head]
    return document.value[:GLANCE] if isinstance(document.value, list) else [document.value]


def glance(document: Document) -> list[dict[str, Any]]:
    """The first few objects among the records."""
    return objects(few(document))


def holds(document: Document, test: Test, keys: tuple[str, ...] = ("messages",)) -> bool:
    """Whether the document holds messages that pass *test*."""
    if _are(glance(document), test):
        return True
    inside = [_within(record, keys) for record in few(document)]
    return any(_are(messages, test) for messages in inside if messages)


def conversations(
    document: Document,
    test: Test,
    keys: tuple[str, ...] = ("messages",),
    called: tuple[str, ...] = ("run_id", "task_id", "id", "thread_id"),
) -> Iterator[Conversation | Unreadable]:
    """The runs of a document whose messages pass *test*, bare or under one of *keys*; runs are
    named by the fields *called*."""
    file, names = str(document.path), Names(document)
    if _are(few(document), test):
        messages: list[dict[str, Any]] = []
        for line, record in records(document):
            if isinstance(record, dict):
                messages.append(record)
            else:
                yield Unreadable(file, line, "no message")
        yield Conversation(names.name(), messages)
        return
    for line, record in records(document):
        inside = _within(record, keys)
        if inside is None:
            yield Unreadable(file, line, f"no list of messages under {' or '.join(keys)}")
            continue
        told = objects(inside)
        if len(told) < len(inside):
            yield Unreadable(file, line, f"{len(inside) - len(told)} messages are no objects")
        around = mapping(record)
        wanted = next((text(around[key]) for key in called if text(around.get(key))), None)
        yield Conversation(names.name(wanted), told)


def transcripts(
    document: Document, name: str, test: Test, hear: Callable[[Pairing, dict[str, Any]], None]
) -> Iterator[Transcript | Unreadable]:
    """One run of the format *name* for each conversation; *hear* takes in one message."""
    for found in conversations(document, test):
        if isinstance(found, Unreadable):
            yield found
            continue
        pairing = Pairing()
        for message in found.messages:
            hear(pairing, message)
        yield Transcript(str(document.path), found.run, name, pairing.calls(), pairing.replies())


def _within(record: Any, keys: tuple[str, ...]) -> list[Any] | None:
    if isinstance(record, list):
        return record
    inside = mapping(record)
    return next((inside[key] for key in keys if isinstance(inside.get(key), list)), None)


def _are(messages: list[Any], test: Test) -> bool:
    seen = objects(messages[:GLANCE])
    return bool(seen) and all(map(test, seen))
