"""OpenAI chat messages: a bare list, in objects with `messages`, or either of them line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.chat import ROLES, hear
from lastcall.transcripts.conversations import holds, transcripts
from lastcall.transcripts.fields import seconds
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable


class OpenAIChat:
    """Messages with the roles and the `tool_calls` of chat completions."""

    name = "openai-chat-messages"
    specificity = 10

    def sniff(self, document: Document) -> bool:
        """Every message has one of the six roles."""
        return holds(document, _message)

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a message list."""
        return transcripts(document, self.name, _message, _hear)


def _message(message: dict[str, Any]) -> bool:
    role = message.get("role")
    return isinstance(role, str) and role in ROLES


def _hear(pairing: Pairing, message: dict[str, Any]) -> None:
    hear(pairing, message, ts=seconds(message.get("timestamp")))
