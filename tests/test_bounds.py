"""How sure a rate is."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.bounds import at_most, upper_bound


def exact(events, trials, rate):
    """The probability of at most so many, in whole numbers."""
    yes = Fraction(rate)
    return sum(comb(trials, k) * yes**k * (1 - yes) ** (trials - k) for k in range(events + 1))


@pytest.mark.parametrize(
    ("events", "trials", "bound"),
    # From tables of the one-sided 95 % limit (the 95th percentile of Beta(k + 1, n - k)).
    [
        (0, 1, 0.95),
        (0, 10, 0.2589),
        (1, 10, 0.3942),
        (0, 59, 0.0495),
        (2, 20, 0.2826),
        (10, 10, 1.0),
    ],
)
def test_known_bounds(events, trials, bound):
    assert upper_bound(events, trials) == pytest.approx(bound, abs=1e-4)


def test_the_rule_of_three():
    assert upper_bound(0, 1000) == pytest.approx(3 / 1000, rel=0.01)


def test_nothing_tried_says_nothing():
    assert upper_bound(0, 0) == 1.0


@given(st.data())
def test_at_the_bound_so_few_events_are_as_unlikely_as_was_said(data):
    trials = data.draw(st.integers(1, 60))
    events = data.draw(st.integers(0, trials - 1))
    confidence = data.draw(st.sampled_from([0.5, 0.9, 0.95, 0.99]))
    bound = upper_bound(events, trials, confidence)
    assert events / trials <= bound <= 1
    assert float(exact(events, trials, bound)) == pytest.approx(1 - confidence, abs=1e-9)


@given(st.integers(0, 40), st.integers(1, 40), st.floats(0, 1))
def test_the_distribution_is_the_binomial_one(events, trials, rate):
    wanted = float(exact(min(events, trials), trials, rate))
    assert at_most(min(events, trials), trials, rate) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(("rate", "chance"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_rate_at_the_edge(rate, chance):
    assert at_most(2, 3, rate) == chance
    assert at_most(3, 3, rate) == 1.0


def test_many_trials_are_no_trouble():
    assert upper_bound(3, 1_000_000) == pytest.approx(7.75e-6, rel=0.01)


@pytest.mark.parametrize(("events", "trials"), [(-1, 3), (4, 3)])
def test_what_cannot_be(events, trials):
    with pytest.raises(ValueError, match="cannot be"):
        upper_bound(events, trials)


def test_a_confidence_that_cannot_be():
    with pytest.raises(ValueError, match="confidence"):
        upper_bound(0, 3, 1.0)
