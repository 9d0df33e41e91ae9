"""LangChain messages, as `messages_to_dict`, `model_dump` and `dumps` write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import holds, transcripts
from lastcall.transcripts.fields import mapping, objects, text, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable
from lastcall.transcripts.usage import usage

KINDS = frozenset({"human", "ai", "tool", "system", "function", "chat", "remove"})


class LangChainMessages:
    """Messages told apart by a `type` such as human, ai and tool, or by the name of their class."""

    name = "langchain-messages"
    specificity = 20

    def sniff(self, document: Document) -> bool:
        """Every message has a LangChain type and the fields that go with it."""
        return holds(document, _message)

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a message list."""
        return transcripts(document, self.name, _message, hear)


def _message(message: dict[str, Any]) -> bool:
    kind, fields = opened(message)
    return kind in KINDS and "content" in fields


def opened(message: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A message's kind (human, ai, tool, ...) and its fields, of whichever dump it is from."""
    kind, fields = message.get("type"), message
    if kind == "constructor":
        path = message.get("id")
        kind = path[-1] if isinstance(path, list) and path else None
        fields = mapping(message.get("kwargs"))
    elif isinstance(message.get("data"), dict):
        fields = message["data"]
    plain = kind if isinstance(kind, str) else ""
    return plain.removesuffix("Chunk").removesuffix("Message").lower(), fields


def hear(pairing: Pairing, message: dict[str, Any]) -> None:
    """Adds the calls, the answer or the turn that *message* brings."""
    kind, fields = opened(message)
    role = fields.get("role") if kind == "chat" else None
    if kind == "human" or role == "user":
        pairing.user()
    elif kind == "ai" or role == "assistant":
        pairing.reply()
        about = mapping(fields.get("response_metadata"))
        told = fields.get("usage_metadata") or about.get("token_usage") or about.get("usage")
        pairing.spent(usage(told, about.get("model_name") or about.get("model")))
        _ask(pairing, fields)
    elif kind in ("tool", "function"):
        status = fields.get("status")
        pairing.answer(
            words(fields.get("content")),
            id=fields.get("tool_call_id"),
            tool=fields.get("name"),
            failed=status == "error" if text(status) else None,
        )


def _ask(pairing: Pairing, fields: dict[str, Any]) -> None:
    agent = fields.get("name")
    parsed, broken = objects(fields.get("tool_calls")), objects(fields.get("invalid_tool_calls"))
    for call in parsed:
        pairing.call(call.get("name"), call.get("args"), id=call.get("id"), agent=agent)
    for call in broken:
        pairing.call(
            call.get("name"), call.get("args"), id=call.get("id"), malformed=True, agent=agent
        )
    if parsed or broken:
        return
    # Dumps from before LangChain 0.2 keep the provider's own calls only.
    extra = mapping(fields.get("additional_kwargs"))
    for call in objects(extra.get("tool_calls")):
        function = mapping(call.get("function"))
        pairing.call(
            function.get("name"), function.get("arguments"), id=call.get("id"), agent=agent
        )
    legacy = mapping(extra.get("function_call"))
    if legacy and not objects(extra.get("tool_calls")):
        pairing.call(legacy.get("name"), legacy.get("arguments"), agent=agent)
