"""Where calls repeat in a row, alone or a few going round: so that a long loop is a short list."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from msgspec import Struct

__all__ = ["Fold", "folds"]

LONGEST: Final = 12
"""Calls that may go round, as the rule `cycle` has it."""

LEAST: Final = 3
"""Rounds that are worth folding."""


class Fold(Struct, frozen=True, array_like=True):
    """From the listed call *start* on (from 0), *period* calls come *times* times."""

    start: int
    period: int
    times: int


def folds(keys: Sequence[Hashable], border: int) -> Iterator[Fold]:
    """The repetitions in *keys*, in order and apart; none goes over *border*, where the run would have ended.
    Linear: each is taken where it begins."""
    middle = min(max(0, border), len(keys))
    for low, high in ((0, middle), (middle, len(keys))):
        at = low
        while at < high:
            fold = _at(keys, at, high)
            if fold is None:
                at += 1
            else:
                yield fold
                at += fold.period * fold.times


def _at(keys: Sequence[Hashable], at: int, high: int) -> Fold | None:
    """The repetition that begins there: the shortest period that has enough rounds."""
    for period in range(1, min(LONGEST, (high - at) // LEAST) + 1):
        end = at + period
        while end < high and keys[end] == keys[end - period]:
            end += 1
        times = (end - at) // period
        if times >= LEAST:
            return Fold(at, period, times)
    return None
