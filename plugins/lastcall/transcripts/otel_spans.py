"""OpenTelemetry spans of tool calls, from Jaeger, from OTLP or as a plain list."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from msgspec import Struct

from lastcall.call import Usage
from lastcall.transcripts.conversations import Names, glance
from lastcall.transcripts.fields import arguments, http, mapping, objects, seconds, text
from lastcall.transcripts.gathering import gathered
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
from lastcall.transcripts.usage import amount, usage

NAMES = ("gen_ai.tool.name", "tool.name", "entity.1.name", "traceloop.entity.name")
ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "gcp.vertex.agent.tool_call_args",
    "traceloop.entity.input",
    "input.value",
)
RESULTS = (
    "gen_ai.tool.call.result",
    "gcp.vertex.agent.tool_response",
    "traceloop.entity.output",
    "output.value",
)
"""Where the vendors put a call's name, arguments and result; the first found counts."""

KINDS = (
    ("gen_ai.operation.name", "execute_tool"),
    ("openinference.span.kind", "TOOL"),
    ("span.type", "agentic.tool.invocation"),
    ("traceloop.span.kind", "tool"),
)
"""Attributes that say a span is a tool call."""

REQUESTS = (
    ("gen_ai.operation.name", ("chat", "generate_content", "text_completion")),
    ("openinference.span.kind", ("LLM",)),
    ("traceloop.span.kind", ("llm",)),
    ("span.type", ("inference", "inference.framework")),
    ("llm.request.type", ("chat", "completion")),
)
"""Attributes that say a span is a request to a model."""

TOKENS = (
    ("input_tokens", ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")),
    ("output_tokens", ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")),
    ("cached_tokens", (
        "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
    )),
    ("reasoning_tokens", (
        "gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens",
        "llm.token_count.completion_details.reasoning",
    )),
)  # fmt: skip
MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
COSTS = ("gen_ai.usage.cost", "llm.cost.total")

ERRORS = frozenset({"2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR"})
OKAY = frozenset({"1", "OK", "STATUS_CODE_OK", "StatusCode.OK"})
KEYS = ("data", "batches", "resourceSpans", "resource_spans", "spans")


class OtelSpans:
    """Tool spans under one of four vendors' attributes, in the order they began."""

    name = "otel-spans"
    specificity = 40
    lacks: frozenset[Aspect] = frozenset({"turns"})

    def sniff(self, document: Document) -> bool:
        """Objects that are spans, or that hold groups of them."""
        seen = glance(document)
        return any(map(_is_span, seen)) or any(
            _spans(record) for record in seen if any(key in record for key in KEYS)
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a trace."""
        file, names = str(document.path), Names(document)
        for found in gathered(document, _traced, "no spans"):
            if isinstance(found, Unreadable):
                yield found
                continue
            trace, spans = found
            yield Transcript(file, names.name(trace or None), self.name, *_told(spans))


def _traced(record: Any) -> Iterator[tuple[str, _Span]]:
    return ((span.trace, span) for span in _spans(record))


class _Span(Struct, frozen=True):
    """What of a span matters here."""

    trace: str
    id: str | None
    parent: str | None
    start: float | None
    attributes: dict[str, Any]
    failed: bool | None

    @property
    def asks(self) -> bool:
        """Whether it is a request to a model."""
        return any(self.attributes.get(key) in values for key, values in REQUESTS)

    @property
    def usage(self) -> Usage | None:
        """What the request used."""
        told = {
            key: next((self.attributes[k] for k in names if k in self.attributes), None)
            for key, names in TOKENS
        }
        model = next((self.attributes[k] for k in MODELS if self.attributes.get(k)), None)
        return usage(told, model)

    @property
    def cost(self) -> Decimal | None:
        """What the request cost."""
        return next((amount(self.attributes[k]) for k in COSTS if k in self.attributes), None)

    @property
    def tool(self) -> str | None:
        """The tool it is a call of, None for any other span."""
        if not any(self.attributes.get(key) == value for key, value in KINDS):
            return None
        return next((text(self.attributes[k]) for k in NAMES if self.attributes.get(k)), "?")


def _is_span(value: dict[str, Any]) -> bool:
    named = "name" in value or "operationName" in value
    known = ("spanId", "spanID", "span_id")
    return named and (
        any(key in value for key in known)
        or any(key in mapping(value.get("context")) for key in known)
    )


def _spans(value: Any) -> list[_Span]:
    """All spans in a value, at any depth, in the order they stand there."""
    found, waiting = [], [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict) and _is_span(here):
            found.append(_span(here))
        elif isinstance(here, dict):
            waiting += reversed([here[key] for key in here if isinstance(here[key], list)])
        elif isinstance(here, list):
            waiting += reversed(here)
    return found


def _span(value: dict[str, Any]) -> _Span:
    context = mapping(value.get("context"))
    attributes = _attributes(value.get("attributes")) | _attributes(value.get("tags"))
    for event in objects(value.get("events")):
        # Monocle puts what goes in and out into events.
        inside = _attributes(event.get("attributes"))
        if event.get("name") == "data.input":
            attributes.setdefault("input.value", inside.get("input"))
        elif event.get("name") == "data.output":
            attributes.setdefault("output.value", inside.get("response"))
    references = [r for r in objects(value.get("references")) if r.get("refType") == "CHILD_OF"]
    return _Span(
        trace=_first(value | context, "traceId", "traceID", "trace_id") or "",
        id=_first(value | context, "spanId", "spanID", "span_id"),
        parent=_first(value, "parentSpanId", "parent_span_id", "parent_id")
        or next((text(reference.get("spanID")) for reference in references), None),
        start=seconds(
            value.get("startTimeUnixNano") or value.get("start_time") or value.get("startTime")
        ),
        attributes=attributes,
        failed=_failed(value, attributes),
    )


def _first(value: dict[str, Any], *keys: str) -> str | None:
    return next((text(value[key]) for key in keys if value.get(key)), None)


def _attributes(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return dict(value)
    return {
        pair["key"]: _plain(pair.get("value"))
        for pair in objects(value)
        if isinstance(pair.get("key"), str)
    }


def _plain(value: Any) -> Any:
    """A value out of its OTLP wrapping: `{"stringValue": "x"}`."""
    if isinstance(value, dict) and len(value) == 1:
        kind, inside = next(iter(value.items()))
        if kind == "arrayValue":
            return [_plain(one) for one in objects(mapping(inside).get("values"))]
        if kind in ("stringValue", "boolValue", "intValue", "doubleValue"):
            return inside
    return value


def _failed(value: dict[str, Any], attributes: dict[str, Any]) -> bool | None:
    status = value.get("status")
    fields = mapping(status)
    code = str(
        fields.get("code") or fields.get("status_code") or attributes.get("otel.status_code")
    )
    if code in ERRORS or attributes.get("error") is True or attributes.get("error.type"):
        return True
    return False if code in OKAY else None


def _told(spans: list[_Span]) -> tuple[tuple[RecordedCall, ...], tuple[RecordedReply, ...]]:
    """The calls and the replies of a trace."""
    tools = {span.id: span.tool for span in spans if span.id}
    asked = {span.id for span in spans if span.asks}
    inside = any(span.tool for span in spans)
    pairing, spoken = Pairing(), False
    for span in sorted(spans, key=lambda one: one.start or 0.0):
        # Two libraries may each have drawn the same call or request, one inside the other.
        if span.asks and span.parent not in asked:
            if inside:
                pairing.reply()
            else:
                hear(pairing, span.attributes, span.start)
            spoken = True
            pairing.spent(span.usage, cost=span.cost, ts=span.start)
        if span.tool is None or (span.parent and tools.get(span.parent) == span.tool):
            continue
        if not spoken:
            pairing.reply()
        _call(pairing, span)
    return pairing.calls(), pairing.replies()


def _call(pairing: Pairing, span: _Span) -> None:
    given = next((span.attributes[k] for k in ARGUMENTS if k in span.attributes), None)
    args, broken = _given(given)
    pairing.call(
        span.tool,
        args,
        id=span.attributes.get("gen_ai.tool.call.id") or span.id,
        ts=span.start,
        malformed=broken,
        agent=span.attributes.get("gen_ai.agent.name"),
    )
    result = next((span.attributes[k] for k in RESULTS if k in span.attributes), None)
    pairing.answer(
        result,
        id=span.attributes.get("gen_ai.tool.call.id") or span.id,
        failed=span.failed,
        status=http(span.attributes.get("http.response.status_code")),
    )


def _given(value: Any) -> tuple[Any, bool]:
    """The arguments of a span: an object, or anything else under `input`."""
    given, broken = arguments(value)
    return ({"input": value}, False) if broken else (given, False)
