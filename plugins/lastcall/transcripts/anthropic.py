"""Anthropic messages: a bare list, in objects with `messages`, or either of them line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.blocks import hear
from lastcall.transcripts.conversations import GLANCE, few, glance, holds, transcripts
from lastcall.transcripts.fields import mapping, objects
from lastcall.transcripts.recorded import Document, Transcript, Unreadable

MARKS = frozenset({
    "tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use",
})  # fmt: skip


class AnthropicMessages:
    """User and assistant messages whose content is blocks."""

    name = "anthropic-messages"
    specificity = 20

    def sniff(self, document: Document) -> bool:
        """Messages of a user and an assistant, and among the first a block only Anthropic has."""
        if not holds(document, _message):
            return False
        lists = [glance(document)]
        for record in few(document):
            inside = record if isinstance(record, list) else mapping(record).get("messages")
            lists.append(objects(inside)[:GLANCE])
        return any(map(_marked, (message for some in lists for message in some)))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a message list."""
        return transcripts(document, self.name, _message, hear)


def _message(message: dict[str, Any]) -> bool:
    return message.get("role") in ("user", "assistant", "system")


def _marked(message: dict[str, Any]) -> bool:
    return any(str(block.get("type")) in MARKS for block in objects(message.get("content")))
