"""Puts a streamed response of a model together: server-sent events into the one object they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.fields import decoded, mapping, objects, parted

Event = dict[str, Any]

DATA = "data:"
DONE = "[DONE]"


def streamed(text: str) -> dict[str, Any]:
    """The response that the events in *text* make up; empty where it is none that is known."""
    told = list(events(text))
    for event in reversed(told):
        # Responses: the last event brings all of it.
        if str(event.get("type")).startswith("response."):
            return mapping(event.get("response"))
    if any(event.get("type") == "message_start" for event in told):
        return _anthropic(told)
    if any(objects(event.get("candidates")) for event in told):
        return _gemini(told)
    return _chat(told) if any(objects(event.get("choices")) for event in told) else {}


def events(text: str) -> Iterator[Event]:
    """The objects in the server-sent events of *text*."""
    for line in parted(text):
        data = line[len(DATA) :].strip() if line.startswith(DATA) else ""
        if not data or data == DONE:
            continue
        try:
            yield mapping(decoded(data))
        except ValueError:
            continue


def _chat(events: list[Event]) -> dict[str, Any]:
    """Chat completions: calls come in pieces, told apart by their index."""
    calls: dict[str, dict[str, Any]] = {}
    response: dict[str, Any] = {}
    for event in events:
        response |= {key: event[key] for key in ("model", "usage") if event.get(key)}
        for choice in objects(event.get("choices"))[:1]:
            for piece in objects(mapping(choice.get("delta")).get("tool_calls")):
                function = mapping(piece.get("function"))
                call = calls.setdefault(str(piece.get("index")), {"arguments": ""})
                call |= {"id": piece["id"]} if piece.get("id") else {}
                call |= {"name": function["name"]} if function.get("name") else {}
                call["arguments"] += str(function.get("arguments") or "")
    asked = [{"id": call.pop("id", None), "function": call} for call in calls.values()]
    message = {"role": "assistant", "content": "", "tool_calls": asked}
    return {**response, "choices": [{"message": message}]}


def _anthropic(events: list[Event]) -> dict[str, Any]:
    """Anthropic: blocks begin, grow and end; a call's input grows as text."""
    blocks: dict[str, dict[str, Any]] = {}
    message: dict[str, Any] = {}
    for event in events:
        kind, place = event.get("type"), str(event.get("index"))
        if kind == "message_start":
            message = dict(mapping(event.get("message")))
        elif kind == "content_block_start":
            blocks[place] = dict(mapping(event.get("content_block")))
        elif kind == "content_block_delta" and place in blocks:
            piece = mapping(event.get("delta")).get("partial_json")
            if isinstance(piece, str):
                given = blocks[place].get("input")
                blocks[place]["input"] = (given if isinstance(given, str) else "") + piece
        elif kind == "message_delta":
            message["usage"] = {**mapping(message.get("usage")), **mapping(event.get("usage"))}
    return {**message, "type": "message", "role": "assistant", "content": list(blocks.values())}


def _gemini(events: list[Event]) -> dict[str, Any]:
    """Gemini: every event brings whole parts."""
    parts: list[dict[str, Any]] = []
    response: dict[str, Any] = {}
    for event in events:
        response |= event
        for candidate in objects(event.get("candidates"))[:1]:
            parts += objects(mapping(candidate.get("content")).get("parts"))
    return {**response, "candidates": [{"content": {"parts": parts}}]}
