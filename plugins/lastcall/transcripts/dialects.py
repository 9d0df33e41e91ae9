"""How tracers call what they tell: one dialect each, all with the same cast."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from msgspec import Struct

Said = tuple[str, tuple[str, ...]]
"""An attribute, and the values by which it says of what kind a span is."""


class Dialect(Struct, frozen=True):
    """The attributes of one tracer; where it has several for the same, the first found counts."""

    calls: Said | None = None
    """Says that a span is the call of a tool."""
    asks: tuple[Said, ...] = ()
    """Say that a span is a request to a model."""
    name: tuple[str, ...] = ()
    """Of a call: the tool, its arguments, its result."""
    arguments: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    """Of a request: who was asked, what it used in tokens, and what it cost."""
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    cost: tuple[str, ...] = ()


OPERATION = "gen_ai.operation.name"

GEN_AI = Dialect(
    calls=(OPERATION, ("execute_tool",)),
    asks=((OPERATION, ("chat", "generate_content", "text_completion")),),
    name=("gen_ai.tool.name",),
    arguments=("gen_ai.tool.call.arguments",),
    result=("gen_ai.tool.call.result",),
    model=("gen_ai.response.model", "gen_ai.request.model"),
    input=("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    output=("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    cached=("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
    reasoning=("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens"),
    cost=("gen_ai.usage.cost",),
)
"""OpenTelemetry's own conventions, old and new."""

GOOGLE_ADK = Dialect(
    arguments=("gcp.vertex.agent.tool_call_args",),
    result=("gcp.vertex.agent.tool_response",),
)

OPENLLMETRY = Dialect(
    calls=("traceloop.span.kind", ("tool",)),
    asks=(("traceloop.span.kind", ("llm",)), ("llm.request.type", ("chat", "completion"))),
    name=("traceloop.entity.name",),
    arguments=("traceloop.entity.input",),
    result=("traceloop.entity.output",),
)

PYDANTIC_AI = Dialect(arguments=("tool_arguments",), result=("tool_response",))
"""Its older versions; the others speak OpenTelemetry's."""

VERCEL = Dialect(
    calls=("ai.operationId", ("ai.toolCall",)),
    asks=(("ai.operationId", ("ai.generateText.doGenerate", "ai.streamText.doStream")),),
    name=("ai.toolCall.name",),
    arguments=("ai.toolCall.args",),
    result=("ai.toolCall.result",),
)

LANGFUSE = Dialect(
    calls=("langfuse.observation.type", ("tool",)),
    asks=(("langfuse.observation.type", ("generation",)),),
    arguments=("langfuse.observation.input",),
    result=("langfuse.observation.output",),
)

MONOCLE = Dialect(
    calls=("span.type", ("agentic.tool.invocation",)),
    asks=(("span.type", ("inference", "inference.framework")),),
    name=("entity.1.name",),
)
"""What goes in and out is in its events."""

OPENINFERENCE = Dialect(
    calls=("openinference.span.kind", ("TOOL",)),
    asks=(("openinference.span.kind", ("LLM",)),),
    name=("tool.name",),
    arguments=("input.value",),
    result=("output.value",),
    model=("llm.model_name",),
    input=("llm.token_count.prompt",),
    output=("llm.token_count.completion",),
    cached=("llm.token_count.prompt_details.cache_read",),
    reasoning=("llm.token_count.completion_details.reasoning",),
    cost=("llm.cost.total",),
)

DIALECTS = (
    GEN_AI, GOOGLE_ADK, OPENLLMETRY, PYDANTIC_AI, VERCEL, LANGFUSE, MONOCLE, OPENINFERENCE,
)  # fmt: skip
"""In the order in which they are believed: a library may speak several at once."""


def _all(field: str) -> tuple[str, ...]:
    return tuple(chain.from_iterable(getattr(one, field) for one in DIALECTS))


CALLS = tuple(one.calls for one in DIALECTS if one.calls)
ASKS = tuple(chain.from_iterable(one.asks for one in DIALECTS))
NAMES, ARGUMENTS, RESULTS = _all("name"), _all("arguments"), _all("result")
MODELS, COSTS = _all("model"), _all("cost")
TOKENS = {
    "input_tokens": _all("input"),
    "output_tokens": _all("output"),
    "cached_tokens": _all("cached"),
    "reasoning_tokens": _all("reasoning"),
}

Attributes = dict[str, Any]


def calls(attributes: Attributes) -> bool:
    """Whether a span is the call of a tool."""
    return _says(attributes, CALLS) or (
        # Older ones of Pydantic AI, and made by hand, have the tool's name alone.
        GEN_AI.name[0] in attributes and OPERATION not in attributes
    )


def asks(attributes: Attributes) -> bool:
    """Whether a span is a request to a model."""
    return _says(attributes, ASKS)


def _says(attributes: Attributes, kinds: tuple[Said, ...]) -> bool:
    return any(attributes.get(key) in values for key, values in kinds)


def first(attributes: Attributes, names: tuple[str, ...]) -> Any:
    """The first of the attributes of those *names*, None where there is none."""
    return next((attributes[name] for name in names if name in attributes), None)


def told(attributes: Attributes, names: tuple[str, ...]) -> Iterator[Any]:
    """Those of them that say anything."""
    return (attributes[name] for name in names if attributes.get(name))
