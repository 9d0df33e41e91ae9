"""What is new in one request to a model, for tracers that keep requests whole and calls of tools not at all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lastcall.transcripts import blocks, chat, langchain_messages
from lastcall.transcripts.fields import objects, text
from lastcall.transcripts.items import ANSWERS, CALLS, Items
from lastcall.transcripts.pairing import Pairing

Message = dict[str, Any]


def hear(
    pairing: Pairing, asked: Iterable[Message], said: Iterable[Message], ts: float | None
) -> None:
    """Adds the answers that follow the model's last message in *asked*, and the calls in what it *said*;
    messages may be OpenAI's, Anthropic's or LangChain's, or items of Responses.

    A trace is one turn: what a program says again in the user's name begins none.
    """
    given = list(asked)
    last = max((n for n, one in enumerate(given) if _by_model(one)), default=-1)
    heard = Items(pairing)
    for one in given[last + 1 :]:
        if not _by_user(one):
            _hear(heard, one, ts)
    made = list(said)
    if not any(_item(one) for one in made):
        pairing.reply()
    for one in made:
        if _item(one):
            heard.hear(one, ts=ts)
        else:
            _hear(heard, one, ts, more=True)


def _hear(heard: Items, message: Message, ts: float | None, *, more: bool = False) -> None:
    if _item(message):
        heard.hear(message, ts=ts)
    elif _kind(message):
        langchain_messages.hear(heard.pairing, message, ts=ts, more=more)
    else:
        chat.hear(heard.pairing, message, ts=ts, more=more)


def _item(message: Message) -> bool:
    kind = text(message.get("type"))
    return kind is not None and (kind in CALLS or kind in ANSWERS or kind == "reasoning")


def _kind(message: Message) -> str:
    """The kind of a message of LangChain, empty where it is none."""
    if "role" in message:
        return ""
    kind, fields = langchain_messages.opened(message)
    return kind if kind in langchain_messages.KINDS and "content" in fields else ""


def _by_model(message: Message) -> bool:
    kind = text(message.get("type"))
    if _item(message):
        return kind not in ANSWERS
    return message.get("role") == "assistant" or _kind(message) == "ai"


def _by_user(message: Message) -> bool:
    return (message.get("role") == "user" and not blocks.asking(message)) or (
        _kind(message) == "human"
    )


def messages(value: Any) -> list[Message]:
    """The messages in a list, or in a list of one list: LangChain's requests may be several."""
    inner = value[0] if isinstance(value, list) and len(value) == 1 else value
    return objects(inner if isinstance(inner, list) else value)
