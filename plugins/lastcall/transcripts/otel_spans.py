"""OpenTelemetry spans of tool calls, from Jaeger, from OTLP or as a plain list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from lastcall.transcripts.conversations import Names, glance
from lastcall.transcripts.fields import called, http, untold
from lastcall.transcripts.gathering import gathered
from lastcall.transcripts.langchain_messages import unwrapped
from lastcall.transcripts.log_records import Record, is_record, joined, recorded
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import (
    Aspect,
    Document,
    RecordedCall,
    RecordedReply,
    Transcript,
    Unreadable,
)
from lastcall.transcripts.span_messages import hear
from lastcall.transcripts.spans import (
    HIDDEN,
    HTTP,
    KEYS,
    Raw,
    Span,
    is_span,
    noted,
    raw,
    trace_of,
)

CALL = "gen_ai.tool.call.id"

HOPS = 8
"""Requests of HTTP between a call that a client drew and the same one that a server did."""

LOGS = frozenset({"resourceLogs", "resource_logs"})
OTHERS = LOGS | {"resourceMetrics", "resource_metrics"}
"""What a collector writes into the same file; of it only log records of requests to a model are a part of a trace."""


class OtelSpans:
    """Tool spans in any dialect, in the order they began; without any, the calls that models asked for."""

    name = "otel-spans"
    specificity = 40
    lacks: frozenset[Aspect] = frozenset({"turns"})

    def sniff(self, document: Document) -> bool:
        """Objects that are spans or log records, or that hold groups of them."""
        seen = glance(document)
        return any(map(_part, seen)) or any(
            any(raw(record, _part)) for record in seen if not (KEYS | LOGS).isdisjoint(record)
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a trace."""
        file, names = str(document.path), Names(document)
        known = asked = 0
        for found in gathered(document, _traced, "no spans", _traces):
            if isinstance(found, Unreadable):
                yield found
                continue
            trace, parts = found
            spans = joined(
                [one for one in parts if isinstance(one, Span)],
                [one for one in parts if isinstance(one, Record)],
            )
            calls, replies, lacks = _told(spans)
            known += len(calls)
            asked += any(span.wanted for span in spans)
            yield Transcript(file, names.name(trace or None), self.name, calls, replies, lacks)
        if asked and not known:
            problem = (
                "models asked for tools, and which is not told: record messages, or calls of tools"
            )
            yield Unreadable(file, None, problem)


def _part(value: Raw) -> bool:
    return is_span(value) or is_record(value)


def _traced(record: Any) -> list[tuple[str, Span | Record | None]] | None:
    told = [
        (trace_of(one), noted(one) if is_span(one) else recorded(one)) for one in raw(record, _part)
    ]
    return None if not told and _other(record) else told


def _traces(record: Any) -> Iterator[str]:
    return map(trace_of, raw(record, _part))


def _other(record: Any) -> bool:
    return isinstance(record, dict) and not OTHERS.isdisjoint(record) and KEYS.isdisjoint(record)


def _told(
    spans: list[Span],
) -> tuple[tuple[RecordedCall, ...], tuple[RecordedReply, ...], frozenset[Aspect]]:
    """The calls and the replies of a trace, and what it lacks: instrumentations leave arguments out of all
    calls unless told otherwise."""
    placed = {span.id: span for span in spans if span.id}
    asked = {span.id for span in spans if span.asks}
    inside = any(span.tool for span in spans)
    told = any(span.called for span in spans if span.tool)
    pairing, spoken, seen = Pairing(), False, set[str]()
    for span in sorted(spans, key=lambda one: one.start or 0.0):
        # What is sent again after a time-out is written twice.
        if span.id in seen:
            continue
        seen |= {span.id} if span.id else set()
        # Two libraries may each have drawn the same call or request, one inside the other.
        if span.asks and span.parent not in asked:
            if inside:
                pairing.reply()
            else:
                told = hear(pairing, span.attributes, span.start) or told
            spoken = True
            pairing.spent(span.usage, cost=span.cost, ts=span.start)
        if span.tool is None or _around(span, placed) == span.tool:
            continue
        if not spoken:
            pairing.reply()
        _call(pairing, span)
    calls = pairing.calls()
    if told or not calls:
        return calls, pairing.replies(), frozenset()
    hidden = tuple(replace(call, args=untold(place)) for place, call in enumerate(calls))
    return hidden, pairing.replies(), frozenset({"arguments"})


def _around(span: Span, placed: dict[str, Span]) -> str | None:
    """The tool of the call that *span* lies in, with nothing but requests of HTTP between, if any."""
    above = placed.get(span.parent or "")
    for _ in range(HOPS):
        if above is None or above.tool is not None or HTTP.isdisjoint(above.attributes):
            break
        above = placed.get(above.parent or "")
    return None if above is None else above.tool


def _call(pairing: Pairing, span: Span) -> None:
    given = span.given
    pairing.call(
        span.tool,
        untold(len(pairing)) if given == HIDDEN else called(given),
        id=span.attributes.get(CALL) or span.id,
        ts=span.start,
        agent=span.attributes.get("gen_ai.agent.name"),
    )
    result, failed = unwrapped(span.made)
    pairing.answer(
        span.error if result in (None, "") and span.failed else result,
        id=span.attributes.get(CALL) or span.id,
        failed=failed if failed or span.failed is None else span.failed,
        status=http(span.attributes.get("http.response.status_code"))
        or http(span.attributes.get("error.type")),
    )
