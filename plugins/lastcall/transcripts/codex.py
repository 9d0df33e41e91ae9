"""Codex rollout files: one line an event, Responses items among them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import decoded, mapping, objects, seconds, text
from lastcall.transcripts.items import Items
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable
from lastcall.transcripts.usage import usage

LINES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})

OUTPUT = "Output:\n"
PASSING = ("Chunk ID:", "Wall time:", "Original token count:")
LASTING = ("Exit code:", "Process ", "Total output lines:")
HEAD = (*PASSING, *LASTING)
"""With what the lines begin that Codex puts before an output; what is in the first is new every time."""


class Codex:
    """Lines of a type and a payload; older files have the items bare, after a line about the session, and the
    first ones were one object of both."""

    name = "codex-rollout-jsonl"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """A line of a Codex session, or the line with which older sessions begin."""
        seen = glance(document)
        if any(
            str(row.get("type")) in LINES and isinstance(row.get("payload"), dict) for row in seen
        ):
            return True
        first = seen[0] if seen else {}
        return _first(first) or (_old(first) and bool(document.rows))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a file, named by its session."""
        session = _Session()
        for line, row in records(document):
            if not isinstance(row, dict):
                yield Unreadable(str(document.path), line, "no event")
                continue
            session.add(row)
        pairing = session.pairing
        name = Names(document).name(session.id)
        yield Transcript(str(document.path), name, self.name, pairing.calls(), pairing.replies())


def _first(row: dict[str, Any]) -> bool:
    """A whole session of the first versions."""
    return {"id", "timestamp"} <= mapping(row.get("session")).keys() and "items" in row


def _old(row: dict[str, Any]) -> bool:
    """The first line of a session from before lines had types."""
    return {"id", "timestamp", "instructions"} <= row.keys() and "type" not in row


def _printed(given: str) -> str:
    """An output without what is new in it every time: no two would be equal."""
    head, mark, output = given.partition(OUTPUT)
    lines = head.splitlines()
    if not mark or not all(line.startswith(HEAD) for line in lines):
        return given
    return "\n".join([*(line for line in lines if not line.startswith(PASSING)), output])


class _Session:
    """One session while its lines are read."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.pairing = Pairing()
        self._items = Items(self.pairing)
        self._model: Any = None

    def add(self, row: dict[str, Any]) -> None:
        kind, ts = text(row.get("type")), seconds(row.get("timestamp"))
        inside = mapping(row.get("payload"))
        if kind == "session_meta":
            self.id = self.id or text(inside.get("id"))
        elif kind == "turn_context":
            self._model = inside.get("model")
        elif kind == "event_msg":
            if inside.get("type") == "token_count":
                last = mapping(inside.get("info")).get("last_token_usage")
                self.pairing.spent(usage(last, self._model), ts=ts)
        elif kind == "response_item":
            self._item(inside, ts)
        elif kind is None and _first(row):
            self.id = text(row["session"].get("id"))
            for item in objects(row["items"]):
                self._item(item, None)
        elif kind is None and _old(row):
            self.id = self.id or text(row.get("id"))
        elif kind not in LINES:
            self._item(row, ts)

    def _item(self, item: dict[str, Any], ts: float | None) -> None:
        given = item.get("output")
        # A shell's output is the text of an object: what it printed, and how it ended.
        if isinstance(given, str) and given.startswith('{"output"'):
            with suppress(ValueError):
                item = {**item, "output": mapping(decoded(given)).get("output", given)}
        elif isinstance(given, str) and given.startswith(HEAD):
            item = {**item, "output": _printed(given)}
        elif isinstance(given, dict) and "content" in given:
            flag = given.get("success")
            item = {**item, "output": given["content"]}
            self._items.hear(item, ts=ts, failed=not flag if isinstance(flag, bool) else None)
            return
        self._items.hear(item, ts=ts)
