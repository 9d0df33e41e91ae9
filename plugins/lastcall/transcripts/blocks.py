"""Hears one Anthropic message; several formats are made of them."""

from __future__ import annotations

from typing import Any

from lastcall.transcripts.fields import objects, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.usage import usage


def asking(message: dict[str, Any]) -> bool:
    """Whether the content of *message* has calls, or answers to some, in Anthropic's blocks."""
    content = message.get("content")
    return isinstance(content, list) and any(
        block.get("type") in ("tool_use", "tool_result") for block in objects(content)
    )


def hear(
    pairing: Pairing, message: dict[str, Any], *, ts: float | None = None, more: bool = False
) -> None:
    """Adds the calls, the answers or the turn that *message* brings; *more*: it continues the
    model message before it."""
    blocks = objects(message.get("content"))
    if message.get("role") == "assistant":
        if not more:
            pairing.reply()
        pairing.spent(usage(message.get("usage"), message.get("model")), ts=ts)
        for block in blocks:
            # Hosted tools (`server_tool_use`) run at the provider, where no guard sees them.
            if block.get("type") == "tool_use":
                pairing.call(block.get("name"), block.get("input"), id=block.get("id"), ts=ts)
        return
    answers = [block for block in blocks if block.get("type") == "tool_result"]
    for block in answers:
        pairing.answer(
            words(block.get("content")),
            id=block.get("tool_use_id"),
            failed=block.get("is_error") is True,
        )
    # Text beside tool results is a reminder of the program, not a new question.
    if message.get("role") == "user" and not answers:
        pairing.user()
