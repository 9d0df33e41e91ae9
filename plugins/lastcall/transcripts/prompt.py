"""What the user said first in a saved run, wherever its format keeps that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lastcall.transcripts.conversations import few, records
from lastcall.transcripts.fields import words
from lastcall.transcripts.opening import opened
from lastcall.transcripts.recorded import Document, Unreadable

DEPTH = 12
"""How deep messages are looked for."""

OF_CALLS = frozenset(
    ("args", "arguments", "result", "output", "tool_calls", "function", "tools", "kwargs_schema")
)
"""What belongs to calls: a user that is spoken of there is another one."""

SAYING = ("content", "text", "message", "parts")
"""Where a message has what it says."""

PLAIN = frozenset(("lastcall", "jsonl"))
"""Formats that are lists of calls, and have no messages."""


def prompts(path: Path, form: str, runs: int) -> list[str | None]:
    """The first words of the user in each of the *runs* runs of the file, in their order; None where they
    are not found, or it cannot be told whose they are."""
    unknown: list[str | None] = [None] * runs
    if form in PLAIN:
        return unknown
    document = opened(path)
    if isinstance(document, Unreadable) or document.database:
        return unknown
    if runs == 1:
        return [next((said for _, record in records(document) for said in spoken(record)), None)]
    each = each_record(document, runs)
    return unknown if each is None else [next(spoken(record), None) for record in each]


def each_record(document: Document, runs: int) -> list[Any] | None:
    """The records of the document where each is one of the *runs*; None where they are not."""
    if len(few(document)) < min(runs, 1):
        return None
    found: list[Any] = []
    for _, record in records(document):
        found.append(record)
        if len(found) > runs:
            return None
    return found if len(found) == runs else None


def spoken(value: Any, depth: int = 0) -> Iterator[str]:
    """The texts of the user's messages in *value*, in their order."""
    if depth > DEPTH:
        return
    if isinstance(value, list):
        for each in value:
            yield from spoken(each, depth + 1)
    elif isinstance(value, dict):
        given = value.get("original_input")
        text = given if isinstance(given, str) else text_of(value) if by_user(value) else None
        if text:
            yield text
            return
        for name, each in value.items():
            if name not in OF_CALLS:
                yield from spoken(each, depth + 1)


def by_user(message: dict[str, Any]) -> bool:
    """Whether *message* is marked as the user's."""
    said = (message.get(name) for name in ("role", "type", "source", "name"))
    return any(each in ("user", "human") for each in said if isinstance(each, str))


def text_of(message: dict[str, Any]) -> str | None:
    """What is said in *message*; None where that is no text."""
    for name in SAYING:
        told = words(message.get(name))
        if isinstance(told, str) and told.strip():
            return told
    return None
