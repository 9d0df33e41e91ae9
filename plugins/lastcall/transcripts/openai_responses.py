"""OpenAI Responses items: bare, as input and output, and what the Agents SDK saves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.chat import ROLES
from lastcall.transcripts.conversations import GLANCE, Names, glance, records
from lastcall.transcripts.fields import mapping, objects, text, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, RecordedCall, Transcript, Unreadable

KEYS = ("input", "items", "output")
"""Where an object keeps its items, in the order they happened."""

CALLS: dict[str, tuple[str | None, str]] = {
    "function_call": (None, "arguments"),
    "custom_tool_call": (None, "input"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "computer_call": ("computer", "action"),
}
"""Items that ask for a tool of the agent's own: the tool's name where the item has none, and the
field of its arguments. Hosted tools run at the provider, where no guard sees them: left out."""

ANSWERS = frozenset(f"{kind}_output" for kind in CALLS)
MARKS = ANSWERS | set(CALLS) | {"reasoning"}


class OpenAIResponses:
    """Typed items; those of one response follow each other, with no answer in between."""

    name = "openai-responses"
    specificity = 30

    def sniff(self, document: Document) -> bool:
        """Items of the Responses API, at least one of them of a kind that only it has."""
        if _items(glance(document)):
            return True
        return any(_items(_within(record)[:GLANCE]) for _, record in records(document, GLANCE))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a list of items."""
        file, names = str(document.path), Names(document)
        found = records(document)
        bare = objects([record for _, record in found])
        if _items(bare[:GLANCE]):
            for line, record in found:
                if not isinstance(record, dict):
                    yield Unreadable(file, line, "no item")
            yield Transcript(file, names.name(), self.name, _calls(bare))
            return
        for line, record in found:
            items = _within(record)
            if not items:
                yield Unreadable(file, line, f"no items under {', '.join(KEYS)}")
                continue
            wanted = text(mapping(record).get("id")) or text(mapping(record).get("response_id"))
            yield Transcript(file, names.name(wanted), self.name, _calls(items))


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
    items: list[dict[str, Any]] = []
    for key in KEYS:
        value = fields.get(key)
        items += [{"role": "user", "content": value}] if isinstance(value, str) else objects(value)
    return items


def _calls(items: list[dict[str, Any]]) -> tuple[RecordedCall, ...]:
    pairing, answering = Pairing(), False
    for item in items:
        kind, role = text(item.get("type")), item.get("role")
        if role == "user":
            pairing.user()
            answering = False
        elif kind in ANSWERS:
            pairing.answer(
                words(item.get("output")),
                id=item.get("call_id"),
                failed=_failed(item) if kind == "apply_patch_call_output" else None,
            )
            answering = False
        elif role == "assistant" or (role is None and kind is not None):
            if not answering:
                pairing.reply()
                answering = True
            if kind in CALLS:
                _ask(pairing, kind, item)
    return pairing.calls()


def _ask(pairing: Pairing, kind: str, item: dict[str, Any]) -> None:
    name, field = CALLS[kind]
    args = item.get(field)
    if kind == "custom_tool_call":
        args = {"input": args}
    pairing.call(name or item.get("name"), args, id=item.get("call_id") or item.get("id"))


def _failed(item: dict[str, Any]) -> bool | None:
    return item.get("status") == "failed" if text(item.get("status")) else None
