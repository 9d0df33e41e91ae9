"""One call counts once, through however many entries of one guard it passes."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import BaseTool, tool

from lastcall import Guard, Policy
from lastcall_langchain import GuardCallbackHandler, GuardMiddleware, guard_tool, guard_tools

from .playing import build, config_of, play
from .scripted import USER, asked_alone, asking, reply, scripted

FOUR = asked_alone("look", ({"q": i} for i in range(4)))


def made(ran: list[Any]) -> BaseTool:
    @tool
    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    return look


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize(
    "entries",
    [
        {"middleware", "tools"},
        {"middleware", "handler"},
        {"tools", "handler"},
        {"tools", "decorated"},
        {"handler", "decorated"},
        {"middleware", "decorated"},
        {"middleware", "tools", "handler", "decorated"},
    ],
    ids=lambda entries: "+".join(sorted(entries)),
)
def test_entries_together_count_once(entries: set[str], mode: str) -> None:
    ran: list[Any] = []
    guard = Guard(Policy(max_calls=3))

    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    tools: list[BaseTool] = [tool(guard.wrap(look) if "decorated" in entries else look)]
    if "tools" in entries:
        tools = guard_tools(tools, guard)
    middleware = [GuardMiddleware(guard)] if "middleware" in entries else []
    agent = create_agent(scripted(*FOUR), tools, middleware=middleware)
    callbacks: list[Any] = [GuardCallbackHandler(guard)] if "handler" in entries else []
    heard: list[Any] = []
    guard._reporter._announce._listeners = (heard.append,)
    try:
        if mode == "invoke":
            agent.invoke(USER, {"callbacks": callbacks})
        else:
            asyncio.run(agent.ainvoke(USER, {"callbacks": callbacks}))
    except Exception:
        assert "middleware" not in entries
    assert ran == [0, 1, 2]


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_the_same_entry_twice_counts_once(mode: str) -> None:
    for entry in ("middleware", "tools", "handler"):
        ran: list[Any] = []
        guard = Guard(Policy(max_calls=3))
        tools: list[BaseTool] = [made(ran)]
        middleware: list[Any] = []
        config: dict[str, Any] = {}
        if entry == "middleware":
            middleware = [GuardMiddleware(guard), GuardMiddleware(guard, name="Again")]
        elif entry == "tools":
            tools = guard_tools(guard_tools(tools, guard), guard)
        else:
            config["callbacks"] = [GuardCallbackHandler(guard), GuardCallbackHandler(guard)]
        agent = create_agent(scripted(*FOUR), tools, middleware=middleware)
        try:
            if mode == "invoke":
                agent.invoke(USER, config)
            else:
                asyncio.run(agent.ainvoke(USER, config))
        except Exception:
            assert entry != "middleware"
        assert ran == [0, 1, 2], entry


@pytest.mark.parametrize("entry", ["middleware", "tools", "handler", "decorated"])
def test_two_guards_both_count(entry: str) -> None:
    ran: list[Any] = []
    wide, narrow = Guard(Policy(max_calls=3)), Guard(Policy(max_calls=2))
    tools: list[BaseTool] = guard_tools([made(ran)], narrow)
    agent = build(entry, "create_agent", wide, scripted(*FOUR), *tools)
    play(agent, config_of(wide, entry))
    assert ran == [0, 1]


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda each: each.model_copy()])
def test_copies_of_a_tool_share_the_counter(how: Any) -> None:
    ran: list[Any] = []
    guard = Guard(Policy(max_calls=2))
    original = guard_tool(made(ran), guard)

    @tool
    def nested(q: int) -> str:
        """Ask another agent."""
        inner = create_agent(scripted(*FOUR[:2]), [how(original)])
        return str(inner.invoke(USER)["messages"][-1].content)

    first = reply(asking("look", {"q": 10}, "o1"))
    second = reply(asking("nested", {"q": 1}, "o2"))
    agent = create_agent(scripted(first, second), [how(original), nested])
    for _ in range(2):
        ran.clear()
        with pytest.raises(Exception, match="Stopped"):
            agent.invoke(USER)
        assert ran == [10, 0]


def test_copies_of_a_middleware_and_a_handler_share_the_counter() -> None:
    guard = Guard()
    assert copy.deepcopy(GuardMiddleware(guard)).guard is guard
    handler = GuardCallbackHandler(guard)
    assert copy.deepcopy(handler) is handler
