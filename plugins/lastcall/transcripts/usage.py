"""What a request to a model used, under the names that providers and tracers give it."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from lastcall.call import Usage
from lastcall.transcripts.fields import mapping, text

INPUT = ("input_tokens", "prompt_tokens", "promptTokenCount", "input", "inputTokens")
OUTPUT = ("output_tokens", "completion_tokens", "candidatesTokenCount", "output", "outputTokens")
BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Anthropic counts what was cached beside its input; the others as a part of it."""

CACHED = (
    "cached_tokens",
    "cache_read",
    "cache_read_input_tokens",
    "cached_input_tokens",
    "cacheRead",
    "cachedContentTokenCount",
)
REASONING = (
    "reasoning_tokens",
    "reasoning",
    "reasoning_output_tokens",
    "thoughtsTokenCount",
)
DETAILS = (
    "input_tokens_details", "output_tokens_details", "prompt_tokens_details",
    "completion_tokens_details", "input_token_details", "output_token_details",
)  # fmt: skip
"""Objects inside in which the parts are named."""


def usage(value: Any, model: Any = None) -> Usage | None:
    """The usage in an object of any provider, None where it counts no tokens."""
    fields = mapping(value)
    given, made = _number(fields, INPUT), _number(fields, OUTPUT)
    if given is None and made is None:
        return None
    parts = [fields, *(inside for name in DETAILS if (inside := mapping(fields.get(name))))]
    beside = sum(_number(fields, (name,)) or 0 for name in BESIDE)
    return Usage(
        model=text(model),
        input=(given or 0) + beside,
        output=made or 0,
        cached=next((n for part in parts if (n := _number(part, CACHED))), 0),
        reasoning=next((n for part in parts if (n := _number(part, REASONING))), 0),
    )


def amount(value: Any) -> Decimal | None:
    """A cost: a number, or the text of one, from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        cost = Decimal(str(value))
    except (InvalidOperation, ValueError):
        return None
    return cost if cost.is_finite() and cost >= 0 and cost.adjusted() < MUCH else None


MUCH = 12
"""A cost has fewer digits than that before its point; others are no costs."""


def _number(fields: dict[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < MUCH:
            return int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 10**MUCH:
            return int(value)
    return None
