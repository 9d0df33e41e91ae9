"""OpenClaw sessions: one event a line, messages among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, seconds, text, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable
from lastcall.transcripts.usage import amount, usage


class OpenClaw:
    """Events of type `message`: calls are `toolCall` blocks, answers have the role `toolResult`."""

    name = "openclaw-session-jsonl"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """A session line that has a version, or a message line that has a parent."""
        return any(
            (row.get("type") == "session" and "version" in row)
            or (row.get("type") == "message" and "parentId" in row and "message" in row)
            for row in glance(document)
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a file, named by its session."""
        pairing, session = Pairing(), None
        for line, row in records(document):
            if not isinstance(row, dict):
                yield Unreadable(str(document.path), line, "no event")
            elif row.get("type") == "session":
                session = text(row.get("id"))
            elif row.get("type") == "message":
                _hear(pairing, mapping(row.get("message")), seconds(row.get("timestamp")))
        name = Names(document).name(session)
        yield Transcript(str(document.path), name, self.name, pairing.calls(), pairing.replies())


def _hear(pairing: Pairing, message: dict[str, Any], ts: float | None) -> None:
    role = message.get("role")
    if role == "user":
        pairing.user()
    elif role == "assistant":
        pairing.reply()
        told = mapping(message.get("usage"))
        cost = amount(mapping(told.get("cost")).get("total"))
        pairing.spent(usage(told, message.get("model")), cost=cost, ts=ts)
        for block in objects(message.get("content")):
            if block.get("type") == "toolCall":
                pairing.call(block.get("name"), block.get("arguments"), id=block.get("id"), ts=ts)
    elif role == "toolResult":
        flag = message.get("isError")
        pairing.answer(
            words(message.get("content")),
            id=message.get("toolCallId"),
            tool=message.get("toolName"),
            failed=flag if isinstance(flag, bool) else None,
        )
