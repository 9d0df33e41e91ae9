"""The messages that spans of requests to a model carry, for traces without spans of tool calls."""

from __future__ import annotations

import re
from typing import Any

from lastcall.transcripts.fields import decoded, objects, text, words
from lastcall.transcripts.pairing import Pairing

FLAT = re.compile(
    r"(llm\.(?:input|output)_messages|gen_ai\.(?:prompt|completion))\.(\d{1,6})\.(?:message\.)?(.+)"
)
"""OpenInference's and OpenLLMetry's way: an attribute for each field of each message."""

CALL = re.compile(r"tool_calls\.(\d{1,6})\.(?:tool_call\.)?(?:function\.)?(id|name|arguments)")

INPUTS = ("llm.input_messages", "gen_ai.prompt", "gen_ai.input.messages")
OUTPUTS = ("llm.output_messages", "gen_ai.completion", "gen_ai.output.messages")

ROOTS = frozenset({"input", "output", "tool", "llm", "openinference"})
"""Where OpenInference's attributes begin, which Phoenix also shows as objects in objects."""

WHOLE = frozenset({"input.value", "output.value", "tool.parameters", "tool.json_schema"})
"""Attributes whose value may be an object of its own."""

NESTED = 20
"""How deep attributes may lie in attributes."""


def flattened(attributes: dict[str, Any]) -> dict[str, Any]:
    """*attributes* with those of OpenInference under their full names."""
    folded = {key for key, value in attributes.items() if _folded(key, value)}
    if not folded:
        return attributes
    told: dict[str, Any] = {}
    for key, value in attributes.items():
        if key in folded:
            _flatten(told, key, value, 0)
        else:
            told[key] = value
    return told


def _folded(key: str, value: Any) -> bool:
    return isinstance(value, dict | list) and (key in ROOTS or key.startswith("llm."))


def _flatten(told: dict[str, Any], key: str, value: Any, depth: int) -> None:
    inner: Any = None
    if key not in WHOLE and depth < NESTED:
        if isinstance(value, dict):
            inner = value.items()
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            inner = enumerate(value)
    if inner is None:
        told[key] = value
        return
    for name, one in inner:
        _flatten(told, f"{key}.{name}", one, depth + 1)


def carried(attributes: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages that went in and those that came out, each with its role, its content, its calls
    and its answers, where a span has them."""
    flat: dict[str, dict[int, dict[str, Any]]] = {}
    for key, value in attributes.items():
        found = FLAT.fullmatch(key)
        if found:
            place = flat.setdefault(found[1], {}).setdefault(int(found[2]), {})
            place[found[3]] = value
    told: dict[str, list[dict[str, Any]]] = {
        name: [_flat(some[place]) for place in sorted(some)] for name, some in flat.items()
    }
    for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
        told[name] = [_parted(message) for message in objects(_plain(attributes.get(name)))]
    given = next((told[name] for name in INPUTS if told.get(name)), [])
    made = next((told[name] for name in OUTPUTS if told.get(name)), [])
    return given, made


def hear(pairing: Pairing, attributes: dict[str, Any], ts: float | None) -> bool:
    """Adds what is new in one request: what follows the last message of the model, and its reply. A trace is
    one turn; what a program says again in the user's name begins none. Returns whether arguments are told of
    any call."""
    given, made = carried(attributes)
    last = max((n for n, message in enumerate(given) if message["role"] == "assistant"), default=-1)
    for message in given[last + 1 :]:
        for answer in message["answers"]:
            pairing.answer(answer["result"], id=answer["id"])
    pairing.reply()
    told = False
    for message in made:
        for call in message["calls"]:
            told = told or call.get("arguments") is not None
            pairing.call(call.get("name"), call.get("arguments"), id=call.get("id"), ts=ts)
    return told


def _flat(fields: dict[str, Any]) -> dict[str, Any]:
    calls: dict[int, dict[str, Any]] = {}
    for key, value in fields.items():
        found = CALL.fullmatch(key)
        if found:
            calls.setdefault(int(found[1]), {})[found[2]] = value
    role = text(fields.get("role")) or ("assistant" if calls else "")
    answers = []
    if role == "tool":
        # OpenInference names the call; OpenLLMetry too, under the same key.
        answers = [{"id": fields.get("tool_call_id"), "result": fields.get("content")}]
    return {"role": role, "calls": [calls[n] for n in sorted(calls)], "answers": answers}


def _parted(message: dict[str, Any]) -> dict[str, Any]:
    parts = objects(message.get("parts"))
    answers = [
        {"id": part.get("id"), "result": words(part.get("response", part.get("result")))}
        for part in parts
        if part.get("type") == "tool_call_response"
    ]
    calls = [part for part in parts if part.get("type") == "tool_call"]
    return {"role": text(message.get("role")) or "", "calls": calls, "answers": answers}


def _plain(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return decoded(value)
    except ValueError:
        return None
