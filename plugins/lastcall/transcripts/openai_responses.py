"""OpenAI Responses items: bare, as input and output, and what the Agents SDK saves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.call import Usage
from lastcall.transcripts.chat import ROLES
from lastcall.transcripts.conversations import GLANCE, Names, few, glance, records
from lastcall.transcripts.fields import mapping, objects, text
from lastcall.transcripts.items import ANSWERS, CALLS, Items
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable
from lastcall.transcripts.usage import usage

KEYS = ("input", "items", "output")
"""Where an object keeps its items, in the order they happened."""

MARKS = ANSWERS | set(CALLS) | {"reasoning"}


class OpenAIResponses:
    """Typed items; those of one response follow each other, with no answer in between."""

    name = "openai-responses"
    specificity = 30

    def sniff(self, document: Document) -> bool:
        """Items of the Responses API, at least one of them of a kind that only it has."""
        if _items(glance(document)):
            return True
        return any(_items(_within(record)[:GLANCE]) for record in few(document))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a list of items."""
        file, names = str(document.path), Names(document)
        if _items(glance(document)):
            items: list[dict[str, Any]] = []
            for line, record in records(document):
                if isinstance(record, dict):
                    items.append(record)
                else:
                    yield Unreadable(file, line, "no item")
            yield Transcript(file, names.name(), self.name, _heard(items).calls())
            return
        for line, record in records(document):
            inside = _within(record)
            if not inside:
                yield Unreadable(file, line, f"no items under {', '.join(KEYS)}")
                continue
            around = mapping(record)
            wanted = text(around.get("id")) or text(around.get("response_id"))
            heard = _heard(inside, usage(around.get("usage"), around.get("model")))
            yield Transcript(file, names.name(wanted), self.name, heard.calls(), heard.replies())


def _items(items: list[dict[str, Any]]) -> bool:
    """Whether all are items or bare messages, and one of them of a kind that only this API has."""
    return all(map(_typed, items)) and any(map(_telling, items))


def _typed(item: dict[str, Any]) -> bool:
    kind, role = item.get("type"), item.get("role")
    return isinstance(kind, str) or (kind is None and isinstance(role, str) and role in ROLES)


def _telling(item: dict[str, Any]) -> bool:
    kind, content = item.get("type"), item.get("content")
    if kind == "message":
        texts = [str(block.get("type")) for block in objects(content)]
        return any(text in ("input_text", "output_text") for text in texts)
    return isinstance(kind, str) and kind in MARKS


def _within(record: Any) -> list[dict[str, Any]]:
    if isinstance(record, list):
        return objects(record)
    fields = mapping(record)
    if fields.get("object") == "list":
        return _in_order(objects(fields.get("data")))
    items: list[dict[str, Any]] = []
    for key in KEYS:
        value = fields.get(key)
        items += [{"role": "user", "content": value}] if isinstance(value, str) else objects(value)
    return items


def _in_order(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items of a page of the API, which begins with the last one unless asked otherwise."""
    kinds = (text(item.get("type")) or "" for item in items)
    first = next((kind for kind in kinds if kind in ANSWERS or kind in CALLS), "")
    return items[::-1] if first in ANSWERS else items


def _heard(items: list[dict[str, Any]], spent: Usage | None = None) -> Pairing:
    pairing = Pairing()
    heard = Items(pairing)
    for item in items:
        heard.hear(item)
    # What an object says of its usage is that of its one response, the last.
    pairing.spent(spent)
    return pairing
