"""How sure a rate is that was seen in few trials."""

from __future__ import annotations

from math import exp, lgamma, log, log1p

STEPS = 60
"""Halvings of the interval from 0 to 1: more than a float can tell apart."""


def upper_bound(events: int, trials: int, confidence: float = 0.95) -> float:
    """The rate, from 0 to 1, that is not exceeded with that *confidence*, where *events* were seen in
    *trials* independent trials. Without any trial it is 1. Raises ValueError.

    The one-sided exact bound of Clopper and Pearson (Biometrika 26, 1934, p. 404); with no event it is
    1 - (1 - confidence)**(1 / trials), about 3 / trials: the rule of three (Hanley and Lippman-Hand, JAMA
    249, 1983, p. 1743).
    """
    if not 0 <= events <= trials:
        raise ValueError(f"{events} of {trials} trials cannot be")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is between 0 and 1, not {confidence!r}")
    if events == trials:
        return 1.0
    low, high = events / trials, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        if at_most(events, trials, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def at_most(events: int, trials: int, rate: float) -> float:
    """The probability of no more than *events* in *trials* trials of that *rate*."""
    if rate <= 0:
        return 1.0
    if rate >= 1:
        return float(events >= trials)
    # By logarithms: the coefficients alone would not fit into a float.
    yes, no, all_ways = log(rate), log1p(-rate), lgamma(trials + 1)
    return sum(
        exp(all_ways - lgamma(k + 1) - lgamma(trials - k + 1) + k * yes + (trials - k) * no)
        for k in range(events + 1)
    )
