"""`instrument`: every tool of the process is guarded, no code touched, and it can be undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pytest
from langchain_core.tools import BaseTool, ToolException, tool

from lastcall import Guard, Policy
from lastcall.events import Event
from lastcall_langchain import GuardCallbackHandler, GuardMiddleware, guard_tools, instrument
from lastcall_langchain.runs import RUNS

from .playing import agent_of, play
from .scripted import scripted, stubborn, unanswered

modes = pytest.mark.parametrize("mode", ["invoke", "ainvoke", "stream", "astream"])
kinds = pytest.mark.parametrize("kind", ["create_agent", "react", "graph"])
PLAIN = {"configurable": {"thread_id": "t"}, "recursion_limit": 200}


@pytest.fixture
def everywhere() -> Iterator[Callable[[Guard], Callable[[], None]]]:
    undos: list[Callable[[], None]] = []

    def instrumented(guard: Guard) -> Callable[[], None]:
        undos.append(instrument(guard))
        return undos[-1]

    yield instrumented
    for undo in undos:
        undo()


def look(q: int) -> str:
    """Look."""
    return "nothing"


@kinds
@modes
def test_an_agent_that_knows_nothing_is_ended(everywhere: Any, kind: str, mode: str) -> None:
    everywhere(Guard(Policy(max_calls=3)))
    model = stubborn(lambda i: {"q": i})
    played = play(agent_of(kind, model, [tool(look)]), PLAIN, mode)
    assert played.stop is not None
    assert played.stop.reason in ("ceiling", "refusals")
    assert len(model.asked) <= 6
    assert not unanswered(played.saved)


def test_it_is_undone_and_leaves_no_trace(everywhere: Any) -> None:
    before = BaseTool.run, BaseTool.arun
    undo = everywhere(Guard(Policy(max_calls=1)))
    assert BaseTool.run is not before[0]
    undo()
    undo()
    assert (BaseTool.run, BaseTool.arun) == before
    assert RUNS.everywhere == ()
    played = play(agent_of("create_agent", stubborn(lambda i: {"q": i}), [tool(look)]), PLAIN)
    assert played.stop is None


def test_twice_is_once(everywhere: Any) -> None:
    before = BaseTool.run
    guard = Guard(Policy.permissive())
    undo = everywhere(guard)
    again = everywhere(guard)
    assert BaseTool.run.__wrapped__ is before
    again()
    assert BaseTool.run is before
    undo()
    assert BaseTool.run is before


def test_two_guards_come_and_go_in_any_order(everywhere: Any) -> None:
    before = BaseTool.run
    events: list[tuple[str, Event]] = []
    first = Guard(Policy.permissive(), listeners=[lambda e: events.append(("first", e))])
    second = Guard(Policy.permissive(), listeners=[lambda e: events.append(("second", e))])
    undo_first, undo_second = everywhere(first), everywhere(second)

    def heard() -> list[str]:
        events.clear()
        tool(look).invoke({"q": 1})
        return sorted(who for who, each in events if each.kind == "attempt")

    assert heard() == ["first", "second"]
    undo_first()
    assert heard() == ["second"]
    undo_second()
    assert heard() == []
    assert BaseTool.run is before


def test_what_others_patch_round_it_stays(everywhere: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    undo = everywhere(Guard(Policy(max_calls=1)))
    ours, calls = BaseTool.run, []

    def theirs(self: BaseTool, *args: Any, **kwargs: Any) -> Any:
        calls.append(self.name)
        return ours(self, *args, **kwargs)

    monkeypatch.setattr(BaseTool, "run", theirs)
    undo()
    assert BaseTool.run is theirs
    assert [tool(look).invoke({"q": 1}) for _ in range(3)] == ["nothing"] * 3
    assert calls == ["look"] * 3


@pytest.fixture
def wrapping(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Callable[[], Callable[[], None]]]:
    """Somebody else who wraps as is usual, with `functools.wraps`, and puts back what there was."""
    monkeypatch.setattr(BaseTool, "run", BaseTool.run)
    calls: list[str] = []

    def wrap() -> Callable[[], None]:
        run = BaseTool.run

        @wraps(run)
        def theirs(self: BaseTool, *args: Any, **kwargs: Any) -> Any:
            calls.append(self.name)
            return run(self, *args, **kwargs)

        BaseTool.run = theirs  # type: ignore[method-assign]

        def unwrap() -> None:
            BaseTool.run = run  # type: ignore[method-assign]

        return unwrap

    return calls, wrap


@pytest.mark.parametrize("put", ["inside", "outside"])
@pytest.mark.parametrize("gone", ["ours", "theirs"])
def test_what_others_wrap_is_theirs_to_take_away(
    everywhere: Any, wrapping: Any, put: str, gone: str
) -> None:
    calls, wrap = wrapping
    before, attempts = BaseTool.run, list[Event]()
    guard = Guard(Policy.permissive(), listeners=[attempts.append])

    def called() -> tuple[int, int]:
        """How often they, and the guard, see one call."""
        calls.clear()
        attempts.clear()
        assert tool(look).invoke({"q": 1}) == "nothing"
        return len(calls), sum(each.kind == "attempt" for each in attempts)

    unwrap = wrap() if put == "inside" else None
    undo = everywhere(guard)
    unwrap = unwrap or wrap()
    assert called() == (1, 1)
    if gone == "ours":
        undo()
        assert called() == (1, 0)
        again = everywhere(guard)
        assert called() == (1, 1)
        again()
        assert called() == (1, 0)
        unwrap()
    else:
        unwrap()
        undo()
    assert called() == (0, 0)
    # Where they put back a wrapper of ours that is undone, it does nothing; undoing once more takes it away.
    undo()
    assert BaseTool.run is before
    everywhere(guard)
    assert called() == (0, 1)


def test_one_that_others_hide_is_put_round_theirs_and_judges_once(
    everywhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Event] = []
    guard = Guard(Policy.permissive(), listeners=[events.append])
    undo = everywhere(guard)
    ours = BaseTool.run
    monkeypatch.setattr(BaseTool, "run", lambda self, *args, **kwargs: ours(self, *args, **kwargs))
    theirs = BaseTool.run
    again = everywhere(guard)
    tool(look).invoke({"q": 1})
    assert [each.kind for each in events].count("attempt") == 1
    again()
    assert BaseTool.run is theirs
    undo()
    assert BaseTool.run is theirs


@pytest.mark.parametrize("other", ["middleware", "tools", "handler", "decorated", "all"])
@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_with_another_entry_a_call_counts_once(everywhere: Any, other: str, mode: str) -> None:
    events: list[Event] = []
    guard = Guard(Policy.permissive(), listeners=[events.append])
    everywhere(guard)
    every = other == "all"
    body = guard.wrap(look) if every or other == "decorated" else look
    tools = [tool(body)]
    if every or other == "tools":
        tools = guard_tools(tools, guard)
    middleware = [GuardMiddleware(guard)] if every or other == "middleware" else []
    model = scripted(*stubborn(lambda i: {"q": i}).script[:3])
    agent = agent_of("create_agent", model, tools, middleware=middleware)
    callbacks = [GuardCallbackHandler(guard)] if every or other == "handler" else []
    play(agent, {**PLAIN, "callbacks": callbacks}, mode)
    assert [each.tool for each in events if each.kind == "attempt"] == ["look"] * 3


def test_a_tool_keeps_its_own_state(everywhere: Any) -> None:
    class Counting(BaseTool):
        name: str = "counting"
        description: str = "Counts."
        count: int = 0
        _secret: int = 0

        def _run(self, q: int) -> str:
            self.count += 1
            self._secret += 1
            return str(self.count)

    everywhere(Guard(Policy.permissive()))
    counting = Counting()
    assert [counting.invoke({"q": 1}) for _ in range(2)] == ["1", "2"]
    assert asyncio.run(counting.ainvoke({"q": 1})) == "3"
    assert (counting.count, counting._secret) == (3, 3)


def test_the_status_behind_a_handled_exception_is_heard(everywhere: Any) -> None:
    class Refused(Exception):
        status_code = 422

    def order(q: int) -> str:
        """Order."""
        raise ToolException("no") from Refused()

    events: list[Event] = []
    everywhere(Guard(listeners=[events.append]))
    ordering = tool(order)
    ordering.handle_tool_error = True
    play(agent_of("create_agent", stubborn(lambda i: {"q": 1}, "order"), [ordering]), PLAIN)
    assert [each.status for each in events if each.kind == "attempt"] == [422]
