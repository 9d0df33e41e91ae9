"""What type checkers are told of a rule's settings is what there is; they read it, and Python does not."""

from __future__ import annotations

import ast
import inspect
from decimal import Decimal

import pytest

from lastcall.rules import Budget, Limit


@pytest.mark.parametrize("kind", [Budget, Limit])
def test_their_parameters_are_its_fields(kind):
    tree = ast.parse(inspect.getsource(inspect.getmodule(kind)))
    told = next(
        each.args
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef) and each.name == kind.__name__
        for each in ast.walk(each)
        if isinstance(each, ast.FunctionDef) and each.name == "__init__"
    )
    defaults = {
        given.arg: default and ast.literal_eval(default)
        for given, default in zip(told.kwonlyargs, told.kw_defaults, strict=True)
    }
    fields = kind.model_fields.items()
    assert defaults == {
        name: None if field.is_required() else field.default for name, field in fields
    }


def test_they_take_what_is_told():
    limit = Limit(quantity="money", most="1.00", reserve="0.05", alert="0.80", window=False)
    assert (limit.most, limit.reserve, limit.alert) == (
        Decimal("1.00"),
        Decimal("0.05"),
        Decimal("0.80"),
    )
    assert limit.window is None
    assert Limit(most=2, reserve=False, zone=False, tools=["a"]).tools == ("a",)
    told = {"quantity": "retries", "per": "run", "window": False, "most": 4}
    assert Budget(limits=[limit, told]).limits == (limit, Limit.model_validate(told))
