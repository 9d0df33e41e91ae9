"""What requests to models cost: by the policy's table, by genai-prices, and by both frameworks' records."""

from __future__ import annotations

import sys
from decimal import Decimal

import pytest

from lastcall import Call, Outcome, ToolPolicy, Usage
from lastcall.money import amount, money, units
from lastcall.prices import Price, UnknownPriceError, cost_of, price_of

TABLE = {
    "m": Price(input="2", output="10", cached="0.5"),
    "m-*": Price(input="1", output="1"),
}


class TestTable:
    def test_counts_each_kind_of_token_once(self):
        used = Usage("m", input=1_000, output=100, cached=400, reasoning=60)
        assert price_of(used, TABLE) == Decimal("0.0012") + Decimal("0.0002") + Decimal("0.001")

    def test_cached_input_costs_as_much_as_other_where_nothing_is_said(self):
        assert price_of(Usage("m-2", 1_000_000, 0, 400_000), TABLE) == 1

    def test_the_exact_name_wins_then_the_first_pattern(self):
        assert price_of(Usage("m-mini", 1_000_000), TABLE) == 1
        assert price_of(Usage("m", 1_000_000), TABLE) == 2

    def test_a_model_without_a_name_has_the_price_of_any(self):
        with pytest.raises(UnknownPriceError, match=r'\[prices\."\*"\]'):
            price_of(Usage(None, 10), TABLE)
        assert price_of(Usage(None, 1_000_000), {"*": Price(input=3, output=3)}) == 3


class TestList:
    def test_knows_models_by_the_names_that_providers_give_back(self):
        pytest.importorskip("genai_prices")
        cost = price_of(Usage("gpt-4o-2024-08-06", 1_000, 100, 100), {})
        assert type(cost) is Decimal
        assert cost > 0
        assert cost < price_of(Usage("gpt-4o-2024-08-06", 1_000, 100), {})

    def test_is_overridden_by_the_table(self):
        used = Usage("gpt-4o", 1_000_000)
        assert price_of(used, {"gpt-*": Price(input="0.01", output=1)}) == Decimal("0.01")

    def test_an_unknown_model_is_an_error_that_says_what_to_do(self):
        pytest.importorskip("genai_prices")
        with pytest.raises(UnknownPriceError, match=r'\[prices\."ours-7"\] with input and output'):
            price_of(Usage("ours-7", 10), {})

    def test_so_it_is_where_the_list_is_not_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "genai_prices", None)
        with pytest.raises(UnknownPriceError, match=r'pip install "lastcall\[prices\]"'):
            price_of(Usage("gpt-4o", 10), {})


class TestCost:
    @pytest.mark.parametrize(
        ("outcome", "cost"),
        [
            (Outcome(usage=Usage("m", 1_000_000)), 2),
            (Outcome("error"), 0),
            (Outcome("error", usage=Usage("m", 1_000_000)), 2),
            (Outcome(), None),
            (Outcome("cancelled"), None),
            (Outcome("cancelled", started=False), 0),
            (Outcome("lost"), None),
        ],
    )
    def test_of_a_request(self, outcome, cost):
        assert cost_of(Call("model", kind="model"), outcome, TABLE) == cost

    @pytest.mark.parametrize("kind", ["ok", "error", "lost", "cancelled", "paused"])
    def test_a_tool_of_which_nothing_is_said_is_free(self, kind):
        assert cost_of(Call("look"), Outcome(kind), TABLE) == 0

    def test_a_single_price_is_that_of_a_call_that_went_well(self):
        pay = Call("pay", policy=ToolPolicy(cost="0.60"))
        costs = [cost_of(pay, Outcome(kind), {}) for kind in ("ok", "error", "paused", "lost")]
        assert costs == [Decimal("0.60"), 0, 0, None]


class TestMoney:
    def test_is_kept_in_whole_units_rounded_up(self):
        assert units(Decimal("0.00000015")) == 15
        assert units(Decimal("0.000000001")) == 1
        assert units(3) == 300_000_000

    @pytest.mark.parametrize(
        ("count", "shown"),
        [(0, "0.00"), (60_000_000, "0.60"), (270_000, "0.0027"), (10**10, "100.00"), (1, "1E-8")],
    )
    def test_is_shown_with_cents_or_as_many_places_as_it_takes(self, count, shown):
        assert str(amount(count)) == shown

    @pytest.mark.parametrize("wrong", [0.1, True, None, "x", "NaN", "-1", "1e-9", 2**53])
    def test_that_cannot_be_is_refused(self, wrong):
        with pytest.raises(ValueError, match="money"):
            money(wrong)
