"""Plays one turn of an agent, guarded through one of the entries, and tells how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition

from lastcall import Guard, Stop
from lastcall_langchain import (
    GuardCallbackHandler,
    GuardMiddleware,
    guard_tools,
    stop_of,
)

from .scripted import USER, Scripted, unanswered

MODES = ("invoke", "ainvoke", "stream", "astream")

WAYS = (
    ("middleware", "create_agent"),
    *(
        (entry, agent)
        for entry in ("tools", "handler", "decorated")
        for agent in ("create_agent", "react", "graph")
    ),
)
"""Every entry with every kind of agent that has it."""


class Played(NamedTuple):
    """How a turn ended."""

    result: Any
    """What the agent returned; the exception it raised."""
    stop: Stop | None
    saved: list[BaseMessage]
    """The history that the checkpointer kept."""

    @property
    def unanswered(self) -> list[str]:
        return unanswered(self.saved)

    @property
    def raised(self) -> BaseException | None:
        return self.result if isinstance(self.result, BaseException) else None


def tools_of(
    bodies: Sequence[Callable[..., Any] | BaseTool], guard: Guard, entry: str
) -> list[BaseTool]:
    """Tools of *bodies*, guarded where the entry is about tools."""
    if entry == "decorated":
        return [
            guarded_body(body, guard) if isinstance(body, BaseTool) else tool(guard.wrap(body))
            for body in bodies
        ]
    tools = [body if isinstance(body, BaseTool) else tool(body) for body in bodies]
    return guard_tools(tools, guard) if entry == "tools" else tools


def guarded_body(given: BaseTool, guard: Guard) -> BaseTool:
    update = {
        name: guard.wrap(getattr(given, name))
        for name in ("func", "coroutine")
        if getattr(given, name)
    }
    return given.model_copy(update=update)


def agent_of(
    kind: str, model: Any, tools: Sequence[BaseTool], *, middleware: Sequence[Any] = (), **node: Any
) -> Any:
    """An agent of one of three kinds, with a checkpointer. *node* goes to a hand-made ToolNode."""
    if kind == "create_agent":
        return create_agent(model, tools, middleware=middleware, checkpointer=InMemorySaver())
    if kind == "react":
        return create_react_agent(model, tools, checkpointer=InMemorySaver())
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools, **node))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=InMemorySaver())


def config_of(guard: Guard, entry: str, thread: str = "t") -> dict[str, Any]:
    """The config of one invocation."""
    callbacks = [GuardCallbackHandler(guard)] if entry == "handler" else []
    return {"configurable": {"thread_id": thread}, "callbacks": callbacks, "recursion_limit": 200}


def build(
    entry: str,
    kind: str,
    guard: Guard,
    model: Scripted,
    *bodies: Callable[..., Any] | BaseTool,
    **node: Any,
) -> Any:
    """An agent guarded through *entry*."""
    middleware = [GuardMiddleware(guard)] if entry == "middleware" else []
    tools = tools_of(bodies, guard, entry)
    return agent_of(kind, model, tools, middleware=middleware, **node)


def play(agent: Any, config: dict[str, Any], mode: str = "invoke", given: Any = USER) -> Played:
    """One invocation of *agent*."""
    result: Any
    try:
        if mode == "invoke":
            result = agent.invoke(given, config)
        elif mode == "ainvoke":
            result = asyncio.run(agent.ainvoke(given, config))
        elif mode == "stream":
            result = list(agent.stream(given, config, stream_mode="updates"))
        else:
            result = asyncio.run(drained(agent.astream(given, config, stream_mode="values")))
    except Exception as error:
        result = error
    if mode == "stream" and isinstance(result, list):
        stop = next((found for chunk in result if (found := stop_of(chunk))), None)
    elif mode == "astream" and isinstance(result, list):
        stop = stop_of(result[-1])
    else:
        stop = stop_of(result)
    return Played(result, stop, agent.get_state(config).values["messages"])


async def drained(stream: Any) -> list[Any]:
    return [chunk async for chunk in stream]
