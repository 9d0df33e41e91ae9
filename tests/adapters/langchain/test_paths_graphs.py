"""Tool nodes in graphs made by hand, and the prebuilt agents of LangGraph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition
from langgraph.runtime import Runtime
from langgraph.types import Send

from .paths import (
    ANYWHERE,
    AT_ONCE,
    FOUR,
    IN_NODES,
    Road,
    Socket,
    everywhere,
    held,
    raised,
    unchanged,
)
from .scripted import scripted


def graph_of(
    socket: Socket, tools: Any, *script: AIMessage, route: Any = tools_condition, saved: bool = True
) -> Any:
    model = scripted(*(script or FOUR))

    async def ask(state: Any) -> Any:
        return {"messages": [await socket.call(model, state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", socket.coloured(ask))
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", route)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=InMemorySaver() if saved else None)


def handling(**how: Any) -> Callable[[Socket], Any]:
    """A graph whose tool node handles errors like that."""
    return lambda socket: graph_of(socket, socket.node(socket.tool(), **how))


def excused(error: ToolException) -> str:
    return "Sorry."


def at_once(socket: Socket) -> Any:
    return graph_of(socket, socket.node(socket.tool()), AT_ONCE)


def fanned_out(socket: Socket) -> Any:
    """One task of the tools node for each call."""

    def sent(state: Any) -> Any:
        return [Send("tools", [call]) for call in state["messages"][-1].tool_calls] or END

    return graph_of(socket, socket.node(socket.tool()), AT_ONCE, route=sent)


class Derived(ToolNode):
    """A tool node of somebody's own."""

    def _func(self, input: Any, config: RunnableConfig, runtime: Runtime) -> Any:
        return super()._func(input, config, runtime)

    async def _afunc(self, input: Any, config: RunnableConfig, runtime: Runtime) -> Any:
        return await super()._afunc(input, config, runtime)


def derived(socket: Socket) -> Any:
    return graph_of(socket, socket.node(socket.tool(), cls=Derived))


def own_node(socket: Socket) -> Any:
    """A node that calls tools by itself."""
    tool = socket.tool()

    async def call(state: Any) -> Any:
        calls = state["messages"][-1].tool_calls
        return {"messages": [await socket.call(tool, each) for each in calls]}

    return graph_of(socket, socket.coloured(call))


def without_a_model(socket: Socket) -> Any:
    """A plan that is carried out, four calls one after the other; no model is ever asked."""
    graph = StateGraph(MessagesState)
    graph.add_node("plan", lambda state: {"messages": [FOUR[len(state["messages"]) // 2]]})
    graph.add_node("tools", socket.node(socket.tool()))
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "tools")
    graph.add_conditional_edges("tools", lambda s: END if len(s["messages"]) > 8 else "plan")
    return graph.compile(checkpointer=InMemorySaver())


def react(version: Any, *script: AIMessage, node: bool = False) -> Callable[[Socket], Any]:
    def make(socket: Socket) -> Any:
        tool = socket.tool()
        return create_react_agent(
            scripted(*(script or FOUR)),
            socket.node(tool) if node else [tool],
            checkpointer=InMemorySaver(),
            version=version,
        )

    return make


def nested(*, called: bool) -> Callable[[Socket], Any]:
    """A graph that is a node of another, or is called by one."""

    def make(socket: Socket) -> Any:
        inner = graph_of(socket, socket.node(socket.tool()), saved=False)

        async def ask(state: Any) -> Any:
            return await socket.call(inner, state)

        graph = StateGraph(MessagesState)
        graph.add_node("inner", socket.coloured(ask) if called else inner)
        graph.add_edge(START, "inner")
        return graph.compile(checkpointer=InMemorySaver())

    return make


EXCEPTIONS = {"handler": "raised", "decorated": "raised"}
"""Both can refuse by an exception only."""

ROADS = [
    Road("ToolNode", handling(), IN_NODES),
    Road("ToolNode True", handling(handle_tool_errors=True), IN_NODES),
    Road("ToolNode str", handling(handle_tool_errors="Sorry."), IN_NODES),
    Road("ToolNode callable", handling(handle_tool_errors=excused), IN_NODES),
    Road("ToolNode type", handling(handle_tool_errors=ToolException), IN_NODES),
    Road("ToolNode types", handling(handle_tool_errors=(OSError, ToolException)), IN_NODES),
    Road("ToolNode False", handling(handle_tool_errors=False), IN_NODES, but=EXCEPTIONS),
    Road("ToolNode other type", handling(handle_tool_errors=OSError), IN_NODES, but=EXCEPTIONS),
    Road("ToolNode derived", derived, IN_NODES),
    Road("ToolNode in parallel", at_once, IN_NODES),
    Road("Send", fanned_out, IN_NODES),
    Road("a node of one's own", own_node, but=EXCEPTIONS),
    Road("no model", without_a_model, IN_NODES),
    Road("react v1", react("v1")),
    Road("react v1 in parallel", react("v1", AT_ONCE)),
    Road("react v2", react("v2")),
    Road("react v2 in parallel", react("v2", AT_ONCE)),
    Road("react with a ToolNode", react("v2", node=True), (*ANYWHERE, "wrappers")),
    Road("subgraph", nested(called=False), IN_NODES),
    Road("subgraph called", nested(called=True), IN_NODES),
]


@everywhere(ROADS)
def test_a_permissive_guard_changes_nothing(road: Road, entry: str, mode: str) -> None:
    unchanged(road, entry, mode)


@everywhere(ROADS, "held")
def test_a_limit_holds_and_ends_the_run(road: Road, entry: str, mode: str) -> None:
    held(road, entry, mode)


@everywhere(ROADS, "raised")
def test_where_no_node_handles_errors_a_refusal_by_exception_leaves_its_call_unanswered(
    road: Road, entry: str, mode: str
) -> None:
    raised(road, entry, mode)
