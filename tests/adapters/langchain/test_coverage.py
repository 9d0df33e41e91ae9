"""`coverage` and `attach`: what no guard can stop is named."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import StructuredTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent
from pydantic import BaseModel

from lastcall import Guard, Policy, Stopped
from lastcall_langchain import Coverage, attach, coverage, stop_of

from .scripted import USER, Scripted, stubborn


class Answer(BaseModel):
    text: str


class Binding(Scripted):
    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(
            tools=[*kwargs.get("hosted", ()), *(each for each in tools if isinstance(each, dict))]
        )


@tool
def look(q: int) -> str:
    """Look."""
    return "x"


def names(found: Coverage) -> tuple[set[str], set[str]]:
    return set(found.guarded), {gap.tool for gap in found.gaps}


SEARCH = {"type": "web_search"}


def test_a_list_of_tools() -> None:
    own = {"type": "function", "function": {"name": "mine", "parameters": {}}}
    google, anthropic = {"google_search": {}}, {"type": "web_fetch_1", "name": "web_fetch"}
    found = coverage([look, SEARCH, own, google, anthropic])
    assert names(found) == ({"look"}, {"web_search", "google_search", "web_fetch"})


def test_create_agent_shows_hosted_tools_and_structured_answers() -> None:
    agent = create_agent(Binding(script=[]), [look, SEARCH], response_format=ToolStrategy(Answer))
    guarded, gaps = names(coverage(agent))
    assert "look" in guarded
    assert gaps == {"web_search", "Answer"}


def test_an_agent_with_nothing_but_tools_has_no_gap() -> None:
    for agent in (
        create_agent(Scripted(script=[]), [look]),
        create_react_agent(Scripted(script=[]), [look]),
    ):
        assert names(coverage(agent)) == ({"look"}, set())


def test_a_graph_made_by_hand_shows_what_its_nodes_hold() -> None:
    model = Binding(script=[]).bind_tools([SEARCH])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([look]))
    graph.add_edge(START, "model")
    assert names(coverage(graph.compile())) == ({"look"}, {"web_search"})


def test_attach_names_the_gaps_and_guards_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    bare = create_agent(stubborn(lambda i: {"q": i}), [look, SEARCH])
    with caplog.at_level(logging.WARNING, "lastcall"):
        agent = attach(bare, Guard(Policy(max_calls=2)))
    assert [each.getMessage().split()[0] for each in caplog.records] == ["web_search"]
    with pytest.raises(Exception, match="Stopped: look") as raised:
        agent.invoke(USER, {"recursion_limit": 100})
    stop = stop_of(raised.value)
    assert stop is not None
    assert stop.reason in ("ceiling", "refusals")
    assert type(agent) is type(bare)


def test_tools_that_code_might_call_past_langchain_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard, ran = Guard(Policy(max_calls=1)), []

    def body(q: int) -> str:
        """Look."""
        ran.append(q)
        return "x"

    closed = StructuredTool.from_function(guard.wrap(body), name="closed")
    opened = StructuredTool.from_function(body, name="opened")
    assert coverage([closed, opened]).direct == ("opened",)
    with caplog.at_level(logging.INFO, "lastcall"):
        attach(create_agent(Binding(script=[]), [closed, opened]), guard)
    assert [each.getMessage().rsplit(": ")[1] for each in caplog.records] == ["opened"]
    # It is true of both.
    with guard.within(run="r"):
        for n in range(3):
            opened.func(n)
        closed.func(3)
        with pytest.raises(Stopped):
            closed.func(4)
    assert ran == [0, 1, 2, 3]


@pytest.mark.parametrize("odd", [None, 3, "text", {}, [], object(), lambda: None])
def test_anything_else_shows_nothing(odd: Any) -> None:
    assert coverage(odd) == Coverage((), ())
