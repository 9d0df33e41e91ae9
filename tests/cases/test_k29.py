"""K29 The wrapper is invisible. (What the frameworks make of it is tested with the adapters.)"""

from __future__ import annotations

import asyncio
import functools
import inspect
import typing

import pytest
from pydantic import TypeAdapter

from lastcall import Policy


class Runtime:
    pass


Runtime.__module__ = "langchain.tools"


def function(query: str, limit: int = 5, *, runtime: Runtime | None = None) -> list[str]:
    """Search for *query*."""
    return [query] * limit


async def coroutine(query: str, limit: int = 5, *, runtime: Runtime | None = None) -> list[str]:
    """Search for *query*."""
    await asyncio.sleep(0)
    return [query] * limit


class Search:
    """Searches."""

    def __call__(self, query: str, limit: int = 5, *, runtime: Runtime | None = None) -> list[str]:
        """Search for *query*."""
        return [query] * limit


class AsyncCallable:
    """Searches."""

    async def __call__(self, query: str, limit: int = 5) -> list[str]:
        """Search for *query*."""
        return [query] * limit


class Holder:
    def method(self, query: str, limit: int = 5) -> list[str]:
        """Search for *query*."""
        return [query] * limit


TOOLS = {
    "function": function,
    "coroutine function": coroutine,
    "callable object": Search(),
    "async callable object": AsyncCallable(),
    "bound method": Holder().method,
    "partial": functools.partial(function, limit=2),
    "partial of a coroutine function": functools.partial(coroutine, limit=2),
    "decorated": functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs)),
}


@pytest.fixture(params=TOOLS.values(), ids=TOOLS)
def bare(request):
    return request.param


@pytest.fixture
def tool(make_guard, bare):
    return make_guard(Policy.permissive()).wrap(bare)


def body(fn):
    fn = getattr(fn, "func", fn)
    return fn if inspect.isroutine(fn) else type(fn).__call__


def test_signature_name_and_docstring_are_those_of_the_bare_tool(bare, tool):
    assert inspect.signature(tool) == inspect.signature(bare)
    assert tool.__name__ == getattr(bare, "__name__", type(bare).__name__)
    assert inspect.getdoc(tool) == inspect.getdoc(bare)


def test_both_views_of_the_signature_agree(bare, tool):
    # Frameworks follow `__wrapped__` or look at the wrapper itself (R140).
    assert inspect.signature(inspect.unwrap(tool)) == inspect.signature(tool)


def test_annotations_resolve_to_the_same_types(bare, tool):
    assert typing.get_type_hints(tool) == typing.get_type_hints(body(bare))


def test_a_coroutine_stays_a_coroutine(bare, tool):
    assert inspect.iscoroutinefunction(tool) == (
        inspect.iscoroutinefunction(bare) or inspect.iscoroutinefunction(body(bare))
    )


def test_a_result_is_the_value(tool):
    result = tool("x", limit=2)
    if inspect.isawaitable(result):
        result = asyncio.run(awaited(result))
    assert result == ["x", "x"]


async def awaited(result):
    return await result


def test_the_derived_schema_is_equal(make_guard):
    def search(query: str, limit: int = 5, tags: list[str] | None = None) -> list[str]:
        return [query]

    guarded = make_guard().wrap(search)
    assert TypeAdapter(guarded).json_schema() == TypeAdapter(search).json_schema()


def test_wrong_arguments_raise_the_same_error(make_guard):
    guard = make_guard()
    tool = guard.wrap(function)
    with guard.within(run="r"):
        for call in (lambda fn: fn(), lambda fn: fn("x", other=1), lambda fn: fn(1, 2, 3, 4)):
            with pytest.raises(TypeError) as bare:
                call(function)
            with pytest.raises(TypeError) as guarded:
                call(tool)
            assert str(guarded.value) == str(bare.value)


def test_the_error_of_the_tool_is_the_very_object(make_guard):
    error = ValueError("no")

    def fails(query: str) -> str:
        raise error

    guard = make_guard()
    with guard.within(run="r"), pytest.raises(ValueError, match="no") as caught:
        guard.wrap(fails)("x")
    assert caught.value is error
