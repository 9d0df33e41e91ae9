"""Hears one OpenAI chat message; several formats are lists of them."""

from __future__ import annotations

from typing import Any

from lastcall.transcripts import blocks
from lastcall.transcripts.fields import mapping, objects, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.usage import usage

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def hear(
    pairing: Pairing,
    message: dict[str, Any],
    *,
    ts: float | None = None,
    failed: bool | None = None,
    more: bool = False,
) -> None:
    """Adds the calls, the answer or the turn that *message* brings; *more*: it continues the model message
    before it."""
    role = message.get("role")
    if role in ("user", "assistant") and blocks.asking(message):
        # What goes through a proxy of several providers, or is told apart only further on.
        blocks.hear(pairing, message, ts=ts, more=more)
    elif role == "user":
        pairing.user()
    elif role == "assistant":
        if not more:
            pairing.reply()
        pairing.spent(usage(message.get("usage"), message.get("model")), ts=ts)
        _ask(pairing, message, ts)
    elif role in ("tool", "function"):
        pairing.answer(
            words(message.get("content")),
            id=message.get("tool_call_id"),
            tool=message.get("name"),
            failed=failed,
        )


def _ask(pairing: Pairing, message: dict[str, Any], ts: float | None) -> None:
    agent = message.get("name")
    extra = mapping(message.get("additional_kwargs"))
    calls = objects(message.get("tool_calls")) or objects(extra.get("tool_calls"))
    for call in calls:
        custom = mapping(call.get("custom"))
        # LangChain's calls, which tracers put into chat messages, have no object of their own.
        function = mapping(call.get("function")) or custom or call
        # A custom tool takes free text: not JSON, and not malformed for that.
        given = function.get("arguments", function.get("args"))
        args = {"input": custom.get("input")} if custom else given
        pairing.call(function.get("name"), args, id=call.get("id"), ts=ts, agent=agent)
    function = mapping(message.get("function_call"))
    if function and not calls:
        pairing.call(function.get("name"), function.get("arguments"), ts=ts, agent=agent)
