"""Keys of writes: equal for a retry and for a re-plan, different for anything else, with nobody's data in them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.idempotency import LONGEST, MOST, kept, operation_key, own, params_of

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
arguments = st.dictionaries(st.text(max_size=8), plain, max_size=5)
names = st.text(max_size=300)


class TestAKey:
    def test_reads_as_tenant_operation_and_hash(self):
        tenant, operation, digest = operation_key("pay", {"invoice": 7}, tenant="acme").split(":")
        assert (tenant, operation, len(digest)) == ("acme", "pay", 32)
        assert operation_key("pay", {"invoice": 7}).startswith("_:pay:")

    def test_is_of_the_parameters_that_say_which_operation_it_is(self):
        one = operation_key("pay", {"invoice": 7, "amount": 10}, identity=("invoice",))
        other = operation_key("pay", {"amount": 20, "invoice": 7}, identity=("invoice",))
        assert one == other
        assert params_of({"invoice": 7, "amount": 10}) != params_of({"invoice": 7, "amount": 20})
        assert one != operation_key("pay", {"invoice": 8, "amount": 10}, identity=("invoice",))

    def test_is_of_all_but_the_volatile_ones_where_none_is_named(self):
        one = operation_key("pay", {"invoice": 7, "at": "10:00"}, volatile=("at",))
        assert one == operation_key("pay", {"invoice": 7, "at": "10:01"}, volatile=("at",))
        assert one != operation_key("pay", {"invoice": 8, "at": "10:00"}, volatile=("at",))

    @pytest.mark.parametrize("args", [{}, {"invoice": None}, "no JSON", None, [7], {"Invoice": 7}])
    def test_there_is_none_where_that_is_missing(self, args):
        assert operation_key("pay", args, identity=("invoice",)) is None

    @given(arguments)
    def test_is_the_same_for_arguments_as_the_model_wrote_them(self, args):
        assert operation_key("pay", json.dumps(args)) == operation_key("pay", args)

    @given(names, names, arguments)
    def test_fits_a_header_and_holds_no_personal_data(self, tenant, operation, args):
        key = operation_key(operation, args, tenant=tenant)
        assert len(key) <= LONGEST
        assert own(key) == key, "visible ASCII"

    def test_hashes_names_that_may_be_somebody(self):
        key = operation_key("pay", {}, tenant="ann@example.com")
        assert "ann" not in key
        assert key == operation_key("pay", {}, tenant="ann@example.com")
        assert key != operation_key("pay", {}, tenant="bob@example.com")

    def test_a_callers_own_is_kept_as_it_is_where_it_fits_a_header(self):
        assert own("order-7") == "order-7"
        hostile = [own(each) for each in ("a b", "k\r\nX: y", "ä", "k" * 256, "\ud800")]
        assert all(each.startswith("~") and len(each) == 33 for each in hostile)
        assert len(set(hostile)) == len(hostile)


class TestAResult:
    @given(plain)
    def test_comes_back_as_it_was_or_is_not_kept(self, value):
        text = kept(value)
        if text is not None:
            assert repr(json.loads(text)) == repr(value)

    @pytest.mark.parametrize(
        "value", ["text", {"id": "ch_1", "n": [1, 2.5, None, True]}, [], 0, None]
    )
    def test_that_json_can_hold_is_kept(self, value):
        assert json.loads(kept(value)) == value

    @pytest.mark.parametrize(
        "value",
        [(1, 2), {1: "a"}, {"a": (1,)}, b"x", object(), float("nan"), "\ud800", "x" * MOST],
        ids=["tuple", "key", "inside", "bytes", "object", "nan", "half", "large"],
    )
    def test_that_would_come_back_as_something_else_is_not(self, value):
        assert kept(value) is None
