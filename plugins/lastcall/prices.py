"""What a call cost: a tool's by what is declared of it, a model's by its tokens and their prices."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from pydantic import BaseModel, ConfigDict

from lastcall.call import Call, Outcome, Usage
from lastcall.money import Money

MILLION = 1_000_000
NOTHING = Decimal(0)


class UnknownPriceError(LookupError):
    """A request to a model of which no price is known; the message says what to do about it."""


class Price(BaseModel):
    """What a model costs, in the currency of the policy, for a million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Money
    output: Money
    cached: Money | None = None
    """Of input that the provider had seen before; None: as much as other input."""

    def of(self, usage: Usage) -> Decimal:
        """What *usage* costs. Cached tokens are a part of the input, reasoning is one of the output."""
        cached = min(usage.cached, usage.input)
        rate = self.input if self.cached is None else self.cached
        total = (usage.input - cached) * self.input + cached * rate + usage.output * self.output
        return total / MILLION


def price_of(usage: Usage, prices: Mapping[str, Price]) -> Decimal:
    """What *usage* costs: by *prices*, the exact name of the model first, then the first pattern, then by
    the list of `genai-prices` (US dollars). Raises UnknownPriceError."""
    model = usage.model
    if model is None:
        price = prices.get("*")
        if price is None:
            raise UnknownPriceError(
                'the provider does not say which model answered; a price for such is [prices."*"]'
                " in the policy"
            )
        return price.of(usage)
    price = prices.get(model)
    if price is None:
        matching = (each for pattern, each in prices.items() if fnmatchcase(model, pattern))
        price = next(matching, None)
    return listed(usage, model) if price is None else price.of(usage)


def listed(usage: Usage, model: str) -> Decimal:
    """The price by the list of `genai-prices`. Raises UnknownPriceError."""
    cure = f'say it in the policy: [prices."{model}"] with input and output for a million tokens'
    try:
        import genai_prices  # noqa: PLC0415 - an extra, and only for those who count money
    except ImportError:
        raise UnknownPriceError(
            f'no price of the model {model!r} is known: pip install "lastcall[prices]", or {cure}'
        ) from None
    used = genai_prices.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=min(usage.cached, usage.input),
    )
    try:
        return genai_prices.calc_price(used, model).total_price
    except (LookupError, ValueError):
        raise UnknownPriceError(f"genai-prices knows no model {model!r}; {cure}") from None


def cost_of(call: Call, outcome: Outcome, prices: Mapping[str, Price]) -> Decimal | None:
    """What *call* cost; None when nobody knows. Raises UnknownPriceError.

    A call that never began, or waits, cost nothing. A tool costs what is declared for the status it
    answered by, else for `ok` or `error`; a single price is that of a call that went well.
    """
    if not outcome.started or outcome.kind == "paused":
        return NOTHING
    if call.kind == "model":
        if outcome.usage is not None:
            return price_of(outcome.usage, prices)
        return NOTHING if outcome.kind == "error" else None
    return of_tool(call.policy.cost, outcome)


def of_tool(declared: Decimal | Mapping[Any, Decimal] | None, outcome: Outcome) -> Decimal | None:
    """What a call of a tool cost by what is *declared*; None when nobody knows."""
    if declared is None:
        return NOTHING
    if outcome.kind not in ("ok", "error"):
        return None
    if isinstance(declared, Mapping):
        plain = declared.get(outcome.kind, NOTHING)
        return plain if outcome.status is None else declared.get(outcome.status, plain)
    return declared if outcome.kind == "ok" else NOTHING
