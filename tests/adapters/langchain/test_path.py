"""The path of agents: as tools of each other they nest, by hand-overs they take each other's place
(requirement G2)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command

from lastcall import Guard, Policy
from lastcall.rules import Path
from lastcall_langchain import GuardCallbackHandler, GuardMiddleware

from .scripted import USER, asking, reply, scripted

MODES = ("invoke", "ainvoke", "stream")


class Seen:
    """A guard, and a tool that tells where it is called."""

    def __init__(self, mode: str, policy: Policy | None = None) -> None:
        self.mode = mode
        self.events: list[Any] = []
        self.guard = Guard(policy, listeners=[self.events.append])
        self.paths: dict[int, tuple[str, ...]] = {}

        def where(x: int) -> str:
            """Where it is called."""
            found = self.guard.here()
            assert found is not None
            assert found.agent == found.path[-1]
            self.paths[x] = found.path
            return f"here {x}"

        self.tool = tool(where)

    def agent(self, name: str, *replies: Any, tools: Any = (), **more: Any) -> Any:
        return create_agent(scripted(*replies), [self.tool, *tools], name=name, **more)

    def play(self, graph: Any) -> Any:
        config: Any = {"callbacks": [GuardCallbackHandler(self.guard)]}
        if self.mode == "ainvoke":
            return asyncio.run(graph.ainvoke(USER, config))
        if self.mode == "stream":
            return list(graph.stream(USER, config, subgraphs=True))
        return graph.invoke(USER, config)


@pytest.fixture(params=MODES)
def seen(request: pytest.FixtureRequest) -> Seen:
    return Seen(request.param, Policy().replaced(Path(enforce=False)))


def at(x: int) -> Any:
    """A reply with a call of the tool."""
    return reply(asking("where", {"x": x}, f"w{x}"))


def asks(name: str) -> Any:
    return reply(asking(f"ask_{name}", {"q": "?"}, f"k-{name}"))


def as_tool(agent: Any, name: str) -> Any:
    """*agent* as a tool."""

    def run(q: str) -> str:
        return str(agent.invoke({"messages": [("user", q)]})["messages"][-1].text)

    async def arun(q: str) -> str:
        return str((await agent.ainvoke({"messages": [("user", q)]}))["messages"][-1].text)

    return StructuredTool.from_function(run, arun, name=f"ask_{name}", description="Ask.")


def test_agents_as_tools_nest(seen: Seen) -> None:
    c = seen.agent("c", at(3))
    b = seen.agent("b", at(2), asks("c"), at(22), tools=[as_tool(c, "c")])
    a = seen.agent("a", at(1), asks("b"), at(11), tools=[as_tool(b, "b")])
    seen.play(a)
    assert seen.paths == {
        1: ("a",),
        2: ("a", "b"),
        3: ("a", "b", "c"),
        22: ("a", "b"),
        11: ("a",),
    }


def test_so_does_one_that_has_the_name_of_who_calls_it(seen: Seen) -> None:
    """What an agent says of itself is inherited by everything in it, and is not told anew."""
    a3 = seen.agent("a", at(3))
    a2 = seen.agent("a", at(2), asks("a"), at(22), tools=[as_tool(a3, "a")])
    seen.play(seen.agent("a", at(1), asks("a"), at(11), tools=[as_tool(a2, "a")]))
    assert seen.paths == {
        1: ("a",),
        2: ("a", "a"),
        3: ("a", "a", "a"),
        22: ("a", "a"),
        11: ("a",),
    }


def test_and_a_circle(seen: Seen) -> None:
    again = seen.agent("a", at(3))
    b = seen.agent("b", at(2), asks("a"), tools=[as_tool(again, "a")])
    seen.play(seen.agent("a", at(1), asks("b"), tools=[as_tool(b, "b")]))
    assert seen.paths == {1: ("a",), 2: ("a", "b"), 3: ("a", "b", "a")}


def test_agents_that_are_nodes_of_one_graph_stand_beside_each_other(seen: Seen) -> None:
    # A node is given the whole conversation, and so is the model in it.
    team = StateGraph(MessagesState)
    team.add_node("a", seen.agent("a", at(1)))
    team.add_node("b", seen.agent("b", reply(), reply(), at(2)))
    team.add_edge(START, "a")
    team.add_edge("a", "b")
    team.add_edge("b", END)
    seen.play(team.compile(name="team"))
    assert seen.paths == {1: ("a",), 2: ("b",)}


def test_hand_overs_take_each_others_place(seen: Seen) -> None:
    """By `Command(graph=Command.PARENT)`, there and back."""

    def handing_over(name: str) -> Any:
        def to(
            tool_call_id: Annotated[str, InjectedToolCallId], state: Annotated[Any, InjectedState]
        ) -> Any:
            """Hand over."""
            answer = ToolMessage("over", tool_call_id=tool_call_id)
            told = {"messages": [*state["messages"], answer]}
            return Command(goto=name, graph=Command.PARENT, update=told)

        return tool(f"to_{name}")(to)

    def over(name: str) -> Any:
        return reply(asking(f"to_{name}", {}, f"h-{name}"))

    # One conversation: the third reply of it is billing's first, and the fifth is triage's again.
    replies = (at(1), over("billing"), at(2), over("triage"), at(3))
    group = StateGraph(MessagesState)
    group.add_node("triage", seen.agent("triage", *replies, tools=[handing_over("billing")]))
    group.add_node("billing", seen.agent("billing", *replies, tools=[handing_over("triage")]))
    group.add_edge(START, "triage")
    seen.play(group.compile())
    assert seen.paths == {1: ("triage",), 2: ("billing",), 3: ("triage",)}
    assert [each for each in seen.events if each.kind == "shadow"] == []


@pytest.mark.parametrize("mode", MODES)
def test_a_circle_stops_at_the_third_agent(mode: str) -> None:
    """Whoever called it gets what it answers, and the run goes on."""
    seen = Seen(mode, Policy().replaced(Path()))
    again = seen.agent("a", at(3))
    b = seen.agent("b", asks("a"), at(2), tools=[as_tool(again, "a")])
    seen.play(seen.agent("a", asks("b"), at(1), tools=[as_tool(b, "b")]))
    assert seen.paths == {1: ("a",), 2: ("a", "b")}
    refused = [each.stop for each in seen.events if each.kind == "refused"]
    assert [(each.reason, each.path) for each in refused] == [("path", ("a", "b", "a"))]


def test_the_middleware_sees_the_same() -> None:
    seen = Seen("invoke", Policy().replaced(Path()))
    guarded = {"middleware": [GuardMiddleware(seen.guard)]}
    inner = seen.agent("a", at(2), **guarded)
    played = seen.agent("a", at(1), asks("a"), tools=[as_tool(inner, "a")], **guarded).invoke(USER)
    assert seen.paths == {1: ("a",)}
    assert [each.stop.path for each in seen.events if each.kind == "refused"] == [("a", "a")]
    assert played["messages"][-1].text == "done"
