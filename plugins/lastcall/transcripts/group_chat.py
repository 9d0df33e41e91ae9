"""Chats of several agents: Magentic-One's orchestrator and AG2's groups, as Who&When keeps them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import GLANCE, Conversation, conversations, glance
from lastcall.transcripts.fields import objects, text, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, RecordedCall, Transcript, Unreadable

KEYS = ("history",)
ORDER = re.compile(r"Orchestrator \(-> (.+)\)")
THOUGHTS = "Orchestrator ("
"""How the role of what the orchestrator tells itself, or anyone, begins."""

FENCE = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
TERMINAL = "Computer_terminal"
"""The member of an AG2 group that runs the code in the message before."""


class GroupChat:
    """An order to an agent is a call of it; so is a message with code for the terminal."""

    name = "multi-agent-chat"
    specificity = 15

    def sniff(self, document: Document) -> bool:
        """Messages of an orchestrator, or of named members under `history`."""
        seen = glance(document)
        if any(str(message.get("role")).startswith(THOUGHTS) for message in seen):
            return True
        return any(_group(objects(chat.get("history"))[:GLANCE]) for chat in seen)

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a chat."""
        called = ("question_ID", "id")
        for found in conversations(document, _message, KEYS, called):
            if isinstance(found, Unreadable):
                yield found
                continue
            yield Transcript(str(document.path), found.run, self.name, _calls(found))


def _message(message: dict[str, Any]) -> bool:
    return isinstance(message.get("role"), str) and "content" in message


def _group(messages: list[dict[str, Any]]) -> bool:
    """Whether all have a member's name, or one is the orchestrator's."""
    if not messages or not all(map(_message, messages)):
        return False
    return all(map(_named, messages)) or any(
        message["role"].startswith(THOUGHTS) for message in messages
    )


def _named(message: dict[str, Any]) -> bool:
    return isinstance(message.get("name"), str)


def _calls(chat: Conversation) -> tuple[RecordedCall, ...]:
    pairing = Pairing()
    for message in chat.messages:
        role, said = text(message.get("role")) or "", words(message.get("content"))
        speaker = text(message.get("name")) or role
        order = ORDER.fullmatch(role)
        code = FENCE.findall(said) if isinstance(said, str) else []
        if role == "human":
            pairing.user()
        elif order:
            pairing.reply()
            pairing.call(order[1], {"instruction": said}, agent="Orchestrator")
        elif speaker == TERMINAL:
            if isinstance(said, str) and said.startswith("exitcode:"):
                pairing.answer(said)
        elif message.get("name"):
            pairing.reply()
            if code:
                pairing.call(TERMINAL, {"code": "\n".join(code)}, agent=speaker)
        elif not role.startswith(THOUGHTS):
            pairing.answer(said, tool=role)
    return pairing.calls()
