"""What a reader makes of a saved run: the calls it holds, in order, with what was answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from lastcall.call import Usage
from lastcall.transcripts.live import Live


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
    live: Live | None = None
    """What a recording of our own knows besides."""


class RecordedReply(Struct, frozen=True):
    """What a reply, by its number, used and cost, as far as the format tells; *turn* and *ts* as in a
    recorded call."""

    reply: int
    turn: int = 0
    ts: float | None = None
    usage: Usage | None = None
    cost: Decimal | None = None
    live: Live | None = None


Aspect = Literal["arguments", "turns", "replies", "results", "statuses", "errors", "usage", "time"]
"""What a transcript may tell beside which tools were called. arguments: with what. turns: where a user spoke. replies: which calls came in
one model message. errors: that a call failed, by a flag or a role. usage: tokens or cost."""


class Transcript(Struct, frozen=True):
    """One run of a file: *run* is unique inside the file."""

    file: str
    run: str
    format: str
    calls: Sequence[RecordedCall]
    """A tuple; for a run too large to be held, a sequence that reads the file each time it is walked."""
    replies: Sequence[RecordedReply] = ()
    """The model messages of which it is known what they used, in order."""
    lacks: frozenset[Aspect] = frozenset()
    """What it does not tell. `read` adds what no call of the run has to what its reader says."""


class Unreadable(Struct, frozen=True):
    """A part of a file that could not be read; the rest still is. *line* counts from 1. *foreign*: the
    whole file is something else than a transcript."""

    file: str
    line: int | None
    problem: str
    foreign: bool = False


Row = tuple[int, Any]
"""The number of a line, from 1, and its JSON value."""


class Rows(Protocol):
    """The JSON lines of a file. True when there are any; walking them reads the file anew."""

    def __iter__(self) -> Iterator[Row]: ...

    def __bool__(self) -> bool: ...

    def head(self) -> tuple[Row, ...]:
        """The first 20."""
        ...

    def broken(self) -> list[Unreadable]:
        """The lines that turned out broken since this was last asked."""
        ...

    def sized(self) -> Iterator[tuple[int, Any, int]]:
        """The rows, each with its length in bytes; no word is kept of broken lines."""
        ...

    @property
    def large(self) -> bool:
        """Whether they are too many to be held."""
        ...


class Text(Protocol):
    """A file of text."""

    def start(self, size: int, /) -> bytes:
        """Its first *size* bytes."""
        ...

    def whole(self) -> bytes:
        """All of it; raises ValueError where that is too much."""
        ...


class Document:
    """A file as readers see it: one JSON *value*, or *rows* of JSON lines, or plain *text*, or a
    *database* (SQLite) whose path is all that is told of it.

    Rows are not held: `for line, value in document.rows` reads the file, every time. A reader tells
    the format by `head` (its first rows) or by `start`, and should go through the rows once, handing
    over each run as soon as it is complete, so that a file of any size is read in little memory.
    """

    def __init__(
        self,
        path: Path,
        text: str | None = None,
        *,
        value: Any = None,
        rows: Rows | Sequence[Row] = (),
        database: bool = False,
        source: Text | None = None,
    ) -> None:
        self.path = path
        self.value = value
        self.rows: Rows | Sequence[Row] = rows
        self.database = database
        self._text = text
        self._source = source

    @property
    def head(self) -> tuple[Row, ...]:
        """The first 20 rows."""
        return tuple(self.rows[:20]) if isinstance(self.rows, Sequence) else self.rows.head()

    @property
    def text(self) -> str:
        """The whole text. Raises ValueError where that is more than may be held."""
        if self._text is None:
            self._text = _words(self._source.whole()) if self._source else ""
        return self._text

    def start(self, characters: int = 65536) -> str:
        """About the first *characters* of the text."""
        if self._text is None and self._source is not None:
            return _words(self._source.start(characters))
        return self.text[:characters]

    @property
    def large(self) -> bool:
        """Whether there are more rows than should be held in memory."""
        return False if isinstance(self.rows, Sequence) else self.rows.large

    def sized(self) -> Iterator[tuple[int, Any, int]]:
        """The rows, each with its length in bytes where that is known, for a walk ahead of the one in
        which broken lines are told of."""
        if isinstance(self.rows, Sequence):
            return ((line, value, 0) for line, value in self.rows)
        return self.rows.sized()

    def broken(self) -> list[Unreadable]:
        """The broken lines met since this was last asked."""
        return [] if isinstance(self.rows, Sequence) else self.rows.broken()


def _words(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


class Reader(Protocol):
    """One transcript format. Found by entry point in the group `lastcall.transcripts`."""

    name: str
    """The format's id, as `lastcall replay --json` prints it.

    A reader may have two more attributes: *specificity* (an int, 0 unless given: readers with a greater one
    are asked first) and *lacks* (aspects that its format never tells).
    """

    def sniff(self, document: Document) -> bool:
        """Whether the document is of this format, judged by its content alone, cheaply."""
        ...

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """The runs of the document, and what of it could not be read."""
        ...
