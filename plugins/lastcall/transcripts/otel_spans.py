"""OpenTelemetry spans of tool calls, from Jaeger, from OTLP or as a plain list."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from msgspec import Struct

from lastcall.call import Usage
from lastcall.transcripts.conversations import Names, glance
from lastcall.transcripts.fields import (
    NAMELESS,
    called,
    http,
    mapping,
    objects,
    plain,
    seconds,
    text,
    untold,
)
from lastcall.transcripts.gathering import gathered
from lastcall.transcripts.langchain_messages import unwrapped
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import (
    Aspect,
    Document,
    RecordedCall,
    RecordedReply,
    Transcript,
    Unreadable,
)
from lastcall.transcripts.span_messages import flattened, hear
from lastcall.transcripts.usage import amount, usage

LONGEST = 20
"""As many characters have no whole number of 64 bits."""

NESTED = 50
"""How deep values may lie in values."""

NAMES = (
    "gen_ai.tool.name",
    "tool.name",
    "entity.1.name",
    "traceloop.entity.name",
    "ai.toolCall.name",
)
NAMED = "execute_tool "
"""Before the tool's name in that of its span."""

ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "gcp.vertex.agent.tool_call_args",
    "traceloop.entity.input",
    "tool_arguments",
    "ai.toolCall.args",
    "langfuse.observation.input",
    "input.value",
)
RESULTS = (
    "gen_ai.tool.call.result",
    "gcp.vertex.agent.tool_response",
    "traceloop.entity.output",
    "tool_response",
    "ai.toolCall.result",
    "langfuse.observation.output",
    "output.value",
)
"""Where the vendors put a call's name, arguments and result; the first found counts."""

HIDDEN = "__REDACTED__"
"""What OpenInference puts in the place of contents that it was told to hide."""

OPERATION = "gen_ai.operation.name"
CALL = "gen_ai.tool.call.id"
LEVEL = "langfuse.observation.level"

KINDS = (
    (OPERATION, "execute_tool"),
    ("openinference.span.kind", "TOOL"),
    ("span.type", "agentic.tool.invocation"),
    ("traceloop.span.kind", "tool"),
    ("langfuse.observation.type", "tool"),
    ("ai.operationId", "ai.toolCall"),
)
"""Attributes that say a span is a tool call."""

REQUESTS = (
    (OPERATION, ("chat", "generate_content", "text_completion")),
    ("openinference.span.kind", ("LLM",)),
    ("traceloop.span.kind", ("llm",)),
    ("span.type", ("inference", "inference.framework")),
    ("llm.request.type", ("chat", "completion")),
    ("langfuse.observation.type", ("generation",)),
    ("ai.operationId", ("ai.generateText.doGenerate", "ai.streamText.doStream")),
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

HTTP = ("http.request.method", "http.method")
HOPS = 8
"""Requests of HTTP between a call that a client drew and the same one that a server did."""

WANTED = ("tool_calls", "tool-calls", "tool_call", "tool_use", "function_call")
"""Why a request ended that asked for tools."""

ERRORS = frozenset({"2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR"})
OKAY = frozenset({"1", "OK", "STATUS_CODE_OK", "StatusCode.OK"})
KEYS = ("data", "trace", "batches", "resourceSpans", "resource_spans", "spans")
OTHERS = frozenset({"resourceLogs", "resourceMetrics", "resource_logs", "resource_metrics"})
"""What a collector writes into the same file, and is no part of a trace."""


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
        known = asked = 0
        for found in gathered(document, _traced, "no spans"):
            if isinstance(found, Unreadable):
                yield found
                continue
            trace, spans = found
            lacks = _lacking(spans)
            calls, replies = _told(spans, blind=bool(lacks))
            known += len(calls)
            asked += any(span.wanted for span in spans)
            yield Transcript(file, names.name(trace or None), self.name, calls, replies, lacks)
        if asked and not known:
            problem = (
                "models asked for tools, and which is not told: record messages, or calls of tools"
            )
            yield Unreadable(file, None, problem)


def _traced(record: Any) -> Iterator[tuple[str, _Span]] | None:
    if isinstance(record, dict) and record.keys() & OTHERS and not record.keys() & set(KEYS):
        return None
    return ((span.trace, span) for span in _spans(record))


class _Span(Struct, frozen=True):
    """What of a span matters here."""

    trace: str
    id: str | None
    parent: str | None
    start: float | None
    tool: str | None
    """The tool it is a call of, if any."""
    attributes: dict[str, Any]
    failed: bool | None
    error: str | None
    """What is said of the failure."""

    @property
    def asks(self) -> bool:
        """Whether it is a request to a model."""
        return any(self.attributes.get(key) in values for key, values in REQUESTS)

    @property
    def wanted(self) -> bool:
        """Whether it is a request that ended in calls of tools."""
        ended = self.attributes.get("gen_ai.response.finish_reasons")
        return self.asks and any(reason in WANTED for reason in _listed(ended))

    @property
    def given(self) -> Any:
        """With what its tool was called, as it is written."""
        return next((self.attributes[k] for k in ARGUMENTS if k in self.attributes), None)

    @property
    def made(self) -> Any:
        """What its tool answered, as it is written."""
        made = next((self.attributes[k] for k in RESULTS if k in self.attributes), None)
        return None if made == HIDDEN else made

    @property
    def called(self) -> bool:
        """Whether it says with what its tool was called; what has no parameters may have a result alone."""
        given = self.given
        return given != HIDDEN and (given is not None or self.made is not None)

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


def _is_span(value: dict[str, Any]) -> bool:
    named = "name" in value or "operationName" in value
    known = ("spanId", "spanID", "span_id", "context.span_id")
    # A table by its columns has all ids under one name.
    ids = (place.get(key) for place in (value, mapping(value.get("context"))) for key in known)
    return named and any(isinstance(one, str | int) for one in ids)


def _spans(value: Any) -> list[_Span]:
    """All spans in a value, at any depth, in the order they stand there."""
    found, waiting = [], [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict) and _is_span(here):
            found.append(_span(here))
        elif isinstance(here, dict):
            waiting += reversed([here[key] for key in here if _inner(key, here[key])])
        elif isinstance(here, list):
            waiting += reversed(here)
    return found


def _inner(key: str, value: Any) -> bool:
    """Whether spans may lie in a field."""
    return isinstance(value, list) or (key in KEYS and isinstance(value, dict))


def _span(value: dict[str, Any]) -> _Span:
    value = _row(value) if "context.span_id" in value else value
    context = mapping(value.get("context"))
    attributes = flattened(_attributes(value.get("attributes")) | _attributes(value.get("tags")))
    if text(value.get("span_kind")):
        attributes.setdefault("openinference.span.kind", value["span_kind"])
    said: Any = None
    for event in objects(value.get("events")):
        # Monocle puts what goes in and out into events.
        inside = _attributes(event.get("attributes"))
        if event.get("name") == "data.input":
            attributes.setdefault("input.value", inside.get("input"))
        elif event.get("name") == "data.output":
            attributes.setdefault("output.value", inside.get("response"))
        elif event.get("name") == "exception":
            said = inside.get("exception.message") or inside.get("exception.type")
    references = [r for r in objects(value.get("references")) if r.get("refType") == "CHILD_OF"]
    return _Span(
        trace=_first(value | context, "traceId", "traceID", "trace_id") or "",
        id=_first(value | context, "spanId", "spanID", "span_id"),
        parent=_first(value, "parentSpanId", "parent_span_id", "parent_id")
        or next((text(reference.get("spanID")) for reference in references), None),
        start=seconds(
            value.get("startTimeUnixNano") or value.get("start_time") or value.get("startTime")
        ),
        tool=_tool(text(value.get("name") or value.get("operationName")), attributes),
        attributes=attributes,
        failed=_failed(value, attributes),
        error=text(said)
        or _said(value)
        or text(attributes.get("langfuse.observation.status_message")),
    )


def _row(value: dict[str, Any]) -> dict[str, Any]:
    """A span out of the row of a table, as Phoenix exports them: a column each attribute."""
    made: dict[str, Any] = {"context": {}, "attributes": {}}
    for key, inside in value.items():
        group, dot, name = key.partition(".")
        if dot and group in made and inside is not None:
            made[group][name] = inside
        elif not dot:
            made.setdefault(key, inside)
    return made


def _tool(name: str | None, attributes: dict[str, Any]) -> str | None:
    """The tool that a span is a call of, None for any other span."""
    told = any(attributes.get(key) == value for key, value in KINDS)
    # Older ones of Pydantic AI, and made by hand, have the tool's name alone.
    alone = "gen_ai.tool.name" in attributes and OPERATION not in attributes
    if not told and not alone:
        return None
    said = next((text(attributes[key]) for key in NAMES if attributes.get(key)), None)
    return said or (name or "").removeprefix(NAMED) or NAMELESS


def _said(value: dict[str, Any]) -> str | None:
    status = mapping(value.get("status"))
    told = (status.get("message"), status.get("description"), value.get("status_message"))
    return next((words for one in told if (words := text(one))), None)


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


def _plain(value: Any, depth: int = 0) -> Any:
    """A value out of its OTLP wrapping: `{"stringValue": "x"}`."""
    if not isinstance(value, dict) or len(value) != 1 or depth > NESTED:
        return value
    kind, inside = next(iter(value.items()))
    if kind == "arrayValue":
        return [_plain(one, depth + 1) for one in objects(mapping(inside).get("values"))]
    if kind == "kvlistValue":
        pairs = [one for one in objects(mapping(inside).get("values")) if text(one.get("key"))]
        return {str(one["key"]): _plain(one.get("value"), depth + 1) for one in pairs}
    if kind == "intValue":
        # Whole numbers of 64 bits are text in JSON.
        whole = (
            isinstance(inside, str)
            and len(inside) < LONGEST
            and inside.removeprefix("-").isdecimal()
        )
        return int(inside) if whole else inside
    return inside if kind in ("stringValue", "boolValue", "doubleValue") else value


def _failed(value: dict[str, Any], attributes: dict[str, Any]) -> bool | None:
    status = value.get("status")
    fields = mapping(status)
    code = str(
        fields.get("code")
        or fields.get("status_code")
        or value.get("status_code")
        or attributes.get("otel.status_code")
    )
    told = (
        attributes.get("error") is True,
        attributes.get("error.type"),
        attributes.get(LEVEL) == "ERROR",
    )
    if code in ERRORS or any(told):
        return True
    return False if code in OKAY else None


def _listed(value: Any) -> list[Any]:
    given = plain(value)
    return given if isinstance(given, list) else [given]


def _lacking(spans: list[_Span]) -> frozenset[Aspect]:
    """Whether arguments were left out of all calls, as instrumentations do unless told otherwise."""
    tools = [span for span in spans if span.tool is not None]
    left_out = bool(tools) and not any(span.called for span in tools)
    return frozenset({"arguments"}) if left_out else frozenset()


def _told(
    spans: list[_Span], *, blind: bool
) -> tuple[tuple[RecordedCall, ...], tuple[RecordedReply, ...]]:
    """The calls and the replies of a trace; *blind*: no arguments are told."""
    placed = {span.id: span for span in spans if span.id}
    asked = {span.id for span in spans if span.asks}
    inside = any(span.tool for span in spans)
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
                hear(pairing, span.attributes, span.start)
            spoken = True
            pairing.spent(span.usage, cost=span.cost, ts=span.start)
        if span.tool is None or _around(span, placed) == span.tool:
            continue
        if not spoken:
            pairing.reply()
        _call(pairing, span, blind=blind)
    return pairing.calls(), pairing.replies()


def _around(span: _Span, placed: dict[str, _Span]) -> str | None:
    """The tool of the call that *span* lies in, with nothing but requests of HTTP between, if any."""
    above = placed.get(span.parent or "")
    for _ in range(HOPS):
        if above is None or above.tool is not None or not any(k in above.attributes for k in HTTP):
            break
        above = placed.get(above.parent or "")
    return None if above is None else above.tool


def _call(pairing: Pairing, span: _Span, *, blind: bool) -> None:
    given = span.given
    pairing.call(
        span.tool,
        untold(len(pairing)) if blind or given == HIDDEN else called(given),
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
