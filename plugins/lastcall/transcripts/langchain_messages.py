"""LangChain messages, as `messages_to_dict`, `model_dump` and `dumps` write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import holds, transcripts
from lastcall.transcripts.fields import literal, mapping, objects, plain, text, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable
from lastcall.transcripts.usage import usage

AROUND = frozenset({"output", "kwargs"})
"""What callbacks are told of the end of a tool."""

KINDS = frozenset({"human", "ai", "tool", "system", "function", "chat", "remove"})

PRINTED = re.compile(
    # A text, or a list of blocks that hold no lists.
    r"content=(?P<content>'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\""
    r"|\[(?:[^'\"\[\]]|'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")*+\])"
    r"(?P<before>(?: .*)?) tool_call_id='[^']*'(?P<behind>.*)",
    re.DOTALL,
)
"""A message of a tool as Python prints it, which older tracers keep."""

SUMMARY = "summarization"
"""The source of messages that LangChain's middleware writes in the user's name."""


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


def unwrapped(value: Any) -> tuple[Any, bool | None]:
    """What a tool answered, out of the message that LangChain put it into, or the JSON text of one; and whether
    that says that the call failed. The message holds the call's id, so no two are equal."""
    inner = plain(value)
    while (
        isinstance(inner, dict)
        and inner.keys() <= AROUND
        and isinstance(inner.get("output"), dict | str)
    ):
        inner = plain(inner["output"])
    if isinstance(inner, str) and (found := PRINTED.fullmatch(inner)):
        failed = " status='error'" in found["before"] + found["behind"]
        return words(literal(found["content"])), failed or None
    if not isinstance(inner, dict):
        return value, None
    kind, fields = opened(inner)
    if kind != "tool" or "content" not in fields:
        return value, None
    status = text(fields.get("status"))
    return words(fields["content"]), status == "error" if status else None


def hear(
    pairing: Pairing, message: dict[str, Any], *, ts: float | None = None, more: bool = False
) -> None:
    """Adds the calls, the answer or the turn that *message* brings; *more*: it continues the model message
    before it."""
    kind, fields = opened(message)
    role = fields.get("role") if kind == "chat" else None
    if kind == "human" and mapping(fields.get("additional_kwargs")).get("lc_source") == SUMMARY:
        # The turn goes on, with a summary in the place of what was said.
        return
    if kind == "human" or role == "user":
        pairing.user()
    elif kind == "ai" or role == "assistant":
        if not more:
            pairing.reply()
        about = mapping(fields.get("response_metadata"))
        told = fields.get("usage_metadata") or about.get("token_usage") or about.get("usage")
        pairing.spent(usage(told, about.get("model_name") or about.get("model")))
        _ask(pairing, fields, ts)
    elif kind in ("tool", "function"):
        status = fields.get("status")
        pairing.answer(
            words(fields.get("content")),
            id=fields.get("tool_call_id"),
            tool=fields.get("name"),
            failed=status == "error" if text(status) else None,
        )


def _ask(pairing: Pairing, fields: dict[str, Any], ts: float | None) -> None:
    agent = fields.get("name")
    parsed, broken = objects(fields.get("tool_calls")), objects(fields.get("invalid_tool_calls"))
    for call in parsed:
        pairing.call(call.get("name"), call.get("args"), id=call.get("id"), ts=ts, agent=agent)
    for call in broken:
        pairing.call(
            call.get("name"),
            call.get("args"),
            id=call.get("id"),
            ts=ts,
            malformed=True,
            agent=agent,
        )
    if parsed or broken:
        return
    # Dumps from before LangChain 0.2 keep the provider's own calls only.
    extra = mapping(fields.get("additional_kwargs"))
    for call in objects(extra.get("tool_calls")):
        function = mapping(call.get("function"))
        pairing.call(
            function.get("name"), function.get("arguments"), id=call.get("id"), ts=ts, agent=agent
        )
    legacy = mapping(extra.get("function_call"))
    if legacy and not objects(extra.get("tool_calls")):
        pairing.call(legacy.get("name"), legacy.get("arguments"), ts=ts, agent=agent)
