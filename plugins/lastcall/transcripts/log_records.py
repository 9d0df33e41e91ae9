"""Requests to a model in log records: the events of OpenTelemetry's conventions for GenAI, for traces whose spans
have no messages, or that are not there at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lastcall.transcripts import fields, otlp
from lastcall.transcripts.fields import mapping, objects, seconds, text
from lastcall.transcripts.otlp import attributes
from lastcall.transcripts.spans import Raw, Span, id_of

DETAILS = "gen_ai.client.inference.operation.details"
"""The event of a whole request."""

CHOICE = "gen_ai.choice"
ASKED = frozenset({
    "gen_ai.system.message", "gen_ai.user.message", "gen_ai.assistant.message", "gen_ai.tool.message",
})  # fmt: skip
"""Those of before, one a message; with a choice a request ends."""

EVENTS = ASKED | {DETAILS, CHOICE}

INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
FINISHED = "gen_ai.response.finish_reasons"

TIMES = ("timeUnixNano", "timestamp", "observedTimeUnixNano", "observed_timestamp")


class Record(Struct, frozen=True):
    """One event of a request."""

    event: str
    span: str | None
    """The id of the span in which it was written: that of the request, or one around it."""
    start: float | None
    attributes: dict[str, Any]
    message: dict[str, Any] | None
    """That of an event of before, in the words of those of today."""


def is_record(value: Raw) -> bool:
    """Whether an object is a log record of a request to a model."""
    return _event(value) in EVENTS


def recorded(value: Raw) -> Record:
    """What a log record tells."""
    event = _event(value) or ""
    began = next((value[key] for key in TIMES if value.get(key)), None)
    has = attributes(value.get("attributes"))
    message = None
    if event != DETAILS:
        # Some exporters write what is no text as one.
        body = mapping(fields.plain(otlp.plain(value.get("body"))))
        message = _message(event, body)
        if body.get("finish_reason"):
            has[FINISHED] = [body["finish_reason"]]
    return Record(event, id_of(value), seconds(began), has, message)


def joined(spans: Iterable[Span], records: Iterable[Record]) -> list[Span]:
    """The spans with what records tell of the same requests, and a span for each of the others."""
    asked: dict[str | None, Span] = {span.id: span for span in spans if span.asks and span.id}
    others: list[Span] = []
    for record in _whole(records):
        span = asked.get(record.span)
        if span is None:
            # Several requests may have been logged in one span.
            id_ = (
                text(record.attributes.get("gen_ai.response.id")) or f"{len(others)}@{record.span}"
            )
            others.append(Span(id_, None, record.start, None, True, record.attributes))
        elif not {INPUT, OUTPUT} & span.attributes.keys():
            asked[span.id] = replace(span, attributes=record.attributes | span.attributes)
    return [*(asked.get(span.id, span) for span in spans), *others]


def _whole(records: Iterable[Record]) -> list[Record]:
    """A record for each request: messages are put together until one follows a choice."""
    requests: list[list[Record]] = []
    last: dict[str | None, list[Record]] = {}
    for record in _once(records):
        same = last.get(record.span)
        if record.message is None:
            requests.append([record])
        elif same is None or (same[-1].event == CHOICE and record.event != CHOICE):
            last[record.span] = [record]
            requests.append(last[record.span])
        else:
            same.append(record)
    return [_one(request) for request in requests]


def _once(records: Iterable[Record]) -> Iterator[Record]:
    """Without those that were sent again after a time-out: the same at the same time."""
    seen: set[tuple[str | None, float, int]] = set()
    for record in records:
        if record.start is not None:
            told = hash(repr((record.event, record.attributes, record.message)))
            if (record.span, record.start, told) in seen:
                continue
            seen.add((record.span, record.start, told))
        yield record


def _one(request: list[Record]) -> Record:
    first = request[0]
    if first.message is None:
        return first
    told: dict[str, Any] = {}
    for record in request:
        told |= record.attributes
    told[INPUT] = [record.message for record in request if record.event != CHOICE]
    told[OUTPUT] = [record.message for record in request if record.event == CHOICE]
    return replace(first, attributes=told)


def _event(value: Raw) -> str | None:
    named = value.get("eventName") or value.get("event_name")
    if named is None and "body" in value:
        # Before there was a field for it, it was an attribute.
        named = attributes(value.get("attributes")).get("event.name")
    return text(named)


def _message(event: str, body: dict[str, Any]) -> dict[str, Any]:
    if event == CHOICE:
        # Calls beside the message are those of the first versions.
        return {"role": "assistant", "parts": _calls({**body, **mapping(body.get("message"))})}
    role = event.split(".")[1]
    if role != "tool":
        return {"role": role, "parts": _calls(body) if role == "assistant" else []}
    answer = {"type": "tool_call_response", "id": body.get("id"), "response": body.get("content")}
    return {"role": role, "parts": [answer]}


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "tool_call", "id": call.get("id"), **mapping(call.get("function"))}
        for call in objects(message.get("tool_calls"))
    ]
