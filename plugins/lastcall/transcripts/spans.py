"""Spans as exporters write them (OTLP, Jaeger, Tempo, Phoenix, consoles), and what of them matters here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from msgspec import Struct

from lastcall.call import Usage
from lastcall.transcripts import dialects
from lastcall.transcripts.fields import NAMELESS, mapping, objects, plain, seconds, text
from lastcall.transcripts.otlp import attributes
from lastcall.transcripts.span_messages import flattened
from lastcall.transcripts.usage import amount, usage

KEYS = frozenset({"data", "trace", "batches", "resourceSpans", "resource_spans", "spans"})
"""Under what objects hold spans; lists may hold them under any name."""

IDS = ("spanId", "spanID", "span_id", "context.span_id")
TRACES = ("traceId", "traceID", "trace_id", "context.trace_id")
PARENTS = ("parentSpanId", "parent_span_id", "parent_id")
"""How exporters, and tables with a column each, call them."""

NAMED = "execute_tool "
"""Before the tool's name in that of its span."""

HIDDEN = "__REDACTED__"
"""What OpenInference puts in the place of contents that it was told to hide."""

HTTP = frozenset({"http.request.method", "http.method"})

WANTED = ("tool_calls", "tool-calls", "tool_call", "tool_use", "function_call")
"""Why a request ended that asked for tools."""

LEVEL = "langfuse.observation.level"

ERRORS = frozenset({"2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR"})
OKAY = frozenset({"1", "OK", "STATUS_CODE_OK", "StatusCode.OK"})

Raw = dict[str, Any]


class Span(Struct, frozen=True):
    """A call of a tool, a request to a model, or a request of HTTP, which may lie between two calls."""

    id: str | None
    parent: str | None
    start: float | None
    tool: str | None
    """The tool it is a call of, if any."""
    asks: bool
    """Whether it is a request to a model."""
    attributes: dict[str, Any]
    failed: bool | None = None
    error: str | None = None
    """What is said of the failure."""

    @property
    def wanted(self) -> bool:
        """Whether it is a request that ended in calls of tools."""
        ended = plain(self.attributes.get("gen_ai.response.finish_reasons"))
        reasons = ended if isinstance(ended, list) else [ended]
        return self.asks and any(reason in WANTED for reason in reasons)

    @property
    def given(self) -> Any:
        """With what its tool was called, as it is written."""
        return dialects.first(self.attributes, dialects.ARGUMENTS)

    @property
    def made(self) -> Any:
        """What its tool answered, as it is written."""
        made = dialects.first(self.attributes, dialects.RESULTS)
        return None if made == HIDDEN else made

    @property
    def called(self) -> bool:
        """Whether it says with what its tool was called; what has no parameters may have a result alone."""
        given = self.given
        return given != HIDDEN and (given is not None or self.made is not None)

    @property
    def usage(self) -> Usage | None:
        """What the request used."""
        used = {
            kind: dialects.first(self.attributes, names) for kind, names in dialects.TOKENS.items()
        }
        return usage(used, next(dialects.told(self.attributes, dialects.MODELS), None))

    @property
    def cost(self) -> Decimal | None:
        """What the request cost."""
        return amount(dialects.first(self.attributes, dialects.COSTS))


def raw(value: Any, wanted: Callable[[Raw], bool]) -> Iterator[Raw]:
    """All objects in a value that are *wanted*, at any depth, in the order they stand there, as they are written."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            if wanted(here):
                yield here
            else:
                waiting += reversed([here[key] for key in here if _inner(key, here[key])])
        elif isinstance(here, list):
            waiting += reversed(here)


def is_span(value: Raw) -> bool:
    """Whether an object has a name and the id of a span."""
    if "name" not in value and "operationName" not in value:
        return False
    # A table by its columns has all ids under one name.
    return any(
        isinstance(place.get(key), str | int)
        for place in (value, mapping(value.get("context")))
        for key in IDS
    )


def trace_of(value: Raw) -> str:
    """The id of its trace, empty where it has none."""
    return _first(mapping(value.get("context")), TRACES) or _first(value, TRACES) or ""


def id_of(value: Raw) -> str | None:
    """Its own id, or that of the span in which it was logged."""
    return _first(mapping(value.get("context")), IDS) or _first(value, IDS)


def _inner(key: str, value: Any) -> bool:
    """Whether spans may lie in a field."""
    return isinstance(value, list) or (key in KEYS and isinstance(value, dict))


def noted(value: Raw) -> Span | None:
    """What matters of a span; None where that is nothing."""
    value = _row(value) if "context.span_id" in value else value
    has = attributes(value.get("attributes"))
    if value.get("tags"):
        has |= attributes(value["tags"])
    has = flattened(has)
    if text(value.get("span_kind")):
        has.setdefault("openinference.span.kind", value["span_kind"])
    asks, calls = dialects.asks(has), dialects.calls(has)
    if not asks and not calls and HTTP.isdisjoint(has):
        return None
    began = value.get("startTimeUnixNano") or value.get("start_time") or value.get("startTime")
    said = _events(value, has) if calls else None
    return Span(
        id=id_of(value),
        parent=_parent(value),
        start=seconds(began),
        tool=_tool(value, has) if calls else None,
        asks=asks,
        attributes=has,
        failed=_failed(value, has) if calls else None,
        error=_error(value, has, said) if calls else None,
    )


def _events(value: Raw, has: dict[str, Any]) -> Any:
    """What an exception in the events says. Monocle puts what goes in and out into events, too: that is added."""
    said: Any = None
    for event in objects(value.get("events")):
        inside = attributes(event.get("attributes"))
        if event.get("name") == "data.input":
            has.setdefault("input.value", inside.get("input"))
        elif event.get("name") == "data.output":
            has.setdefault("output.value", inside.get("response"))
        elif event.get("name") == "exception":
            said = inside.get("exception.message") or inside.get("exception.type")
    return said


def _row(value: Raw) -> Raw:
    """A span out of the row of a table, as Phoenix exports them: a column each attribute."""
    made: Raw = {"context": {}, "attributes": {}}
    for key, inside in value.items():
        group, dot, name = key.partition(".")
        if dot and group in made and inside is not None:
            made[group][name] = inside
        elif not dot:
            made.setdefault(key, inside)
    return made


def _parent(value: Raw) -> str | None:
    named = _first(value, PARENTS)
    if named is not None:
        return named
    references = [r for r in objects(value.get("references")) if r.get("refType") == "CHILD_OF"]
    return next((text(reference.get("spanID")) for reference in references), None)


def _tool(value: Raw, has: dict[str, Any]) -> str:
    """The tool that a span is a call of."""
    said = next((text(one) for one in dialects.told(has, dialects.NAMES)), None)
    name = text(value.get("name") or value.get("operationName"))
    return said or (name or "").removeprefix(NAMED) or NAMELESS


def _error(value: Raw, has: dict[str, Any], said: Any) -> str | None:
    status = mapping(value.get("status"))
    told = (
        said,
        status.get("message"),
        status.get("description"),
        value.get("status_message"),
        has.get("langfuse.observation.status_message"),
    )
    return next((words for one in told if (words := text(one))), None)


def _failed(value: Raw, has: dict[str, Any]) -> bool | None:
    fields = mapping(value.get("status"))
    code = str(
        fields.get("code")
        or fields.get("status_code")
        or value.get("status_code")
        or has.get("otel.status_code")
    )
    told = (has.get("error") is True, has.get("error.type"), has.get(LEVEL) == "ERROR")
    if code in ERRORS or any(told):
        return True
    return False if code in OKAY else None


def _first(value: Raw, keys: tuple[str, ...]) -> str | None:
    for key in keys:
        if value.get(key):
            return text(value[key])
    return None
