"""What a reader makes of a saved run: the calls it holds, in order, with what was answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct


class RecordedCall(Struct, frozen=True):
    """One tool call of a transcript and its answer.

    *turn* counts the user messages before it and *reply* the model messages; calls of one model
    message share a reply. *failed* is what the format itself says of the answer (an error flag, an
    error role): None where it has no such channel. *status* is an HTTP status recorded beside the
    answer, never one read out of its text. *shell*: the tool prints other programs' output.
    """

    tool: str
    args: Any
    turn: int = 0
    reply: int = 0
    id: str | None = None
    ts: float | None = None
    result: Any = None
    status: int | None = None
    failed: bool | None = None
    malformed: bool = False
    shell: bool = False
    agent: str | None = None


class Transcript(Struct, frozen=True):
    """One run of a file: *run* is unique inside the file."""

    file: str
    run: str
    format: str
    calls: tuple[RecordedCall, ...]


class Unreadable(Struct, frozen=True):
    """A part of a file that could not be read; the rest still is. *line* counts from 1. *foreign*: the
    whole file is something else than a transcript."""

    file: str
    line: int | None
    problem: str
    foreign: bool = False


class Document(Struct, frozen=True, dict=True):
    """A file as readers see it. *value* is its JSON value; *rows* are the JSON values of its lines with
    their numbers, for files that are not one JSON value."""

    path: Path
    text: str
    value: Any = None
    rows: tuple[tuple[int, Any], ...] = ()
    broken: tuple[Unreadable, ...] = ()


class Reader(Protocol):
    """One transcript format. Found by entry point in the group `lastcall.transcripts`."""

    name: str
    """The format's id, as `lastcall replay --json` prints it."""

    def sniff(self, document: Document) -> bool:
        """Whether the document is of this format, judged by its content alone, cheaply."""
        ...

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """The runs of the document, and what of it could not be read."""
        ...
