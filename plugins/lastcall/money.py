"""Money: Decimal for people, whole numbers of one small unit for counters, never a float."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import BeforeValidator

PLACES = 8
"""Decimal places of the currency that are kept: a token may cost less than a millionth."""

MOST = 2**53
"""Units up to which every store counts exactly; one of them has numbers that are doubles."""

Amount = int | Decimal
"""What a limit counts: whole numbers, and money in its currency."""


def read(value: Any) -> Any:
    """JSON has amounts of money as text."""
    return Decimal(value) if isinstance(value, str) else value


Shown = Annotated[Amount, BeforeValidator(read)]
"""An amount as a stop shows it, also read back from JSON."""


def units(amount: Amount) -> int:
    """*amount* of the currency in whole units of 1e-8, rounded up: nothing that costs is free."""
    scaled = Decimal(amount).scaleb(PLACES)
    return int(scaled.to_integral_value(rounding=ROUND_CEILING))


def amount(units: int) -> Decimal:
    """*units* as an amount of the currency, with two decimal places or as many as it takes."""
    exact = Decimal(units).scaleb(-PLACES)
    short = exact.normalize()
    exponent = short.as_tuple().exponent
    return exact.quantize(Decimal("0.01")) if isinstance(exponent, int) and exponent > -2 else short  # noqa: PLR2004 - cents


def money(value: Any) -> Decimal:
    """*value*, a Decimal, a whole number or text like "0.60", as money. Raises ValueError for a float,
    which cannot hold most amounts, and for anything below 0 or finer than 1e-8."""
    if isinstance(value, float):
        raise ValueError(f'money is never a float; write it as text: "{value}"')  # noqa: TRY004 - pydantic's
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise ValueError('money is a Decimal, a whole number or text like "0.60"')  # noqa: TRY004
    try:
        exact = Decimal(value)
    except InvalidOperation:
        raise ValueError('money is a Decimal, a whole number or text like "0.60"') from None
    if not exact.is_finite() or exact < 0 or exact >= amount(MOST):
        raise ValueError(f"money is from 0 to less than {amount(MOST)}")
    if exact != amount(units(exact)):
        raise ValueError(f"money has at most {PLACES} decimal places")
    return exact


Money = Annotated[Decimal, BeforeValidator(money)]
"""An amount of the currency that all of one policy is in: 0 or more, never a float."""


def worst(cost: Decimal | Mapping[Any, Decimal] | None) -> Decimal | None:
    """What a call may cost at most, by what is declared of its tool; None when nothing is."""
    return max(cost.values(), default=Decimal(0)) if isinstance(cost, Mapping) else cost
