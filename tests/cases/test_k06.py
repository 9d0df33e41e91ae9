"""K06 Injected state is not an argument: never serialised, in no event, handed over as it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

import pytest

from lastcall import Policy
from lastcall.testing import assert_stopped

from .playing import astop_of, stop_of

TOUCHED = []


@dataclass(eq=False, repr=False)
class State:
    """Differs in every call; whoever looks into it is noted, and fails."""

    step: int

    def touched(self, *_):
        TOUCHED.append(self)
        raise TypeError("not to be looked into")

    __repr__ = __str__ = __hash__ = __iter__ = __len__ = __reduce_ex__ = touched
    model_dump = keys = items = __getstate__ = touched

    def __getattribute__(self, name):
        TOUCHED.append(name)
        return super().__getattribute__(name)


class Marker:
    """As a framework marks what it injects; the package decides."""


Marker.__module__ = "langgraph.prebuilt.tool_node"


class Runtime(State):
    """As a framework's own runtime object."""


Runtime.__module__ = "langchain.tools"


def by_mark(query: str, state: Annotated[State, Marker()]):
    RECEIVED.append(state)
    return "ok"


def by_marked_class(query: str, state: Annotated[State, Marker]):
    RECEIVED.append(state)
    return "ok"


def by_type(query: str, state: Runtime):
    RECEIVED.append(state)
    return "ok"


def plain(query: str, state):
    RECEIVED.append(state)
    return "ok"


RECEIVED = []
TOOLS = {
    "marked": (by_mark, {}),
    "marked by a class": (by_marked_class, {}),
    "typed": (by_type, {}),
    "declared volatile": (plain, {"volatile": ["state"]}),
}


@pytest.mark.parametrize(("fn", "declared"), TOOLS.values(), ids=TOOLS)
class TestInjectedState:
    def played(self, make_guard, fn, declared, call):
        RECEIVED.clear()
        events = []
        guard = make_guard(Policy(max_repeats=2), listeners=[events.append])
        tool = guard.wrap(**declared)(fn)
        states = [Runtime(step) for step in range(3)]
        TOUCHED.clear()
        with guard.within(run="r"):
            stops = [call(tool, state) for state in states]
        return stops, states, events, guard

    def check(self, stops, states, events, guard):
        assert stops[:2] == [None, None]
        assert_stopped(stops[2], reason="repeat")
        assert len(RECEIVED) == 2
        assert all(got is given for got, given in zip(RECEIVED, states, strict=False))
        assert TOUCHED == []
        # Showing an event that held the state would touch it.
        assert "Runtime" not in repr(events)
        assert "Runtime" not in repr([event.fields() for event in events])
        assert guard.report("r").faults == ()
        assert TOUCHED == []

    def test_by_keyword(self, make_guard, fn, declared):
        played = self.played(
            make_guard, fn, declared, lambda tool, state: stop_of(tool, query="x", state=state)
        )
        self.check(*played)

    def test_by_position(self, make_guard, fn, declared):
        played = self.played(
            make_guard, fn, declared, lambda tool, state: stop_of(tool, "x", state)
        )
        self.check(*played)

    def test_async(self, make_guard, fn, declared):
        async def afn(*args, **kwargs):
            return fn(*args, **kwargs)

        afn.__wrapped__ = fn
        afn.__annotations__ = fn.__annotations__
        played = self.played(
            make_guard,
            afn,
            declared,
            lambda tool, state: asyncio.run(astop_of(tool, query="x", state=state)),
        )
        self.check(*played)


def test_the_models_own_argument_still_tells_calls_apart(make_guard):
    guard = make_guard(Policy(max_repeats=1))
    tool = guard.wrap(by_type)
    with guard.within(run="r"):
        assert stop_of(tool, "x", Runtime(1)) is None
        assert stop_of(tool, "y", Runtime(1)) is None
        assert stop_of(tool, "x", Runtime(1)) is not None
