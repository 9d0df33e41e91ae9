"""A write is made once, through every entry: in one reply, in a later run, and in a node that is run again."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from lastcall import Call, Guard, Outcome, Policy, ToolPolicy, Where
from lastcall_langchain import guard_tool

from .playing import MODES, build, config_of, play
from .scripted import asking, reply, scripted

ONCE = {"writes": True, "identity": ("invoice",), "on_repeat": "replay"}
ENTRIES = [
    ("middleware", "create_agent"),
    ("tools", "create_agent"),
    ("tools", "graph"),
    ("decorated", "react"),
]


def twice(name: str = "pay") -> Any:
    """A model that makes one write twice in a reply, and once more in the next."""
    both = [asking(name, {"invoice": 7}, "c1"), asking(name, {"invoice": 7}, "c2")]
    return scripted(reply(*both), reply(asking(name, {"invoice": 7}, "c3")))


def guard_of() -> Guard:
    return Guard(Policy(tools={"pay": ONCE}))


@pytest.mark.parametrize(("entry", "kind"), ENTRIES)
@pytest.mark.parametrize("mode", MODES)
def test_r183_one_execution_and_every_call_is_answered_alike(
    entry: str, kind: str, mode: str
) -> None:
    if kind == "graph" and mode in ("ainvoke", "astream"):
        pytest.skip("its model node is synchronous, like its tools")
    guard, paid, lock = guard_of(), [], threading.Lock()

    def pay(invoice: int) -> dict[str, Any]:
        """Pay."""
        with lock:
            paid.append(invoice)
        return {"charge": f"ch_{len(paid)}", "ä": None}

    agent = build(entry, kind, guard, twice(), pay)
    for thread in ("one", "other"):
        played = play(agent, config_of(guard, entry, thread), mode)
        answers = [each for each in played.saved if isinstance(each, ToolMessage)]
        assert [each.tool_call_id for each in answers] == ["c1", "c2", "c3"]
        assert {each.content for each in answers} == {'{"charge": "ch_1", "ä": null}'}
        assert {(each.name, each.status) for each in answers} == {("pay", "success")}
        assert (played.stop, played.unanswered) == (None, [])
    assert paid == [7]


def test_a_handler_refuses_with_the_result_in_its_words() -> None:
    guard, paid = guard_of(), []

    def pay(invoice: int) -> str:
        """Pay."""
        paid.append(invoice)
        return "ch_1"

    one = scripted(
        reply(asking("pay", {"invoice": 7}, "c1")), reply(asking("pay", {"invoice": 7}, "c2"))
    )
    agent = build("handler", "create_agent", guard, one, pay)
    played = play(agent, config_of(guard, "handler"))
    first, second = (each for each in played.saved if isinstance(each, ToolMessage))
    assert (first.content, second.status) == ("ch_1", "error")
    assert "carried out already" in second.content
    assert 'answered: "ch_1"' in second.content
    assert paid == [7]


def test_k38_a_node_that_is_run_again_from_its_start() -> None:
    """Three resumes, also inside a subgraph: one execution, and the stored result each time."""
    guard, paid, got = guard_of(), [], []

    @tool
    def pay(invoice: int) -> str:
        """Pay."""
        paid.append(invoice)
        return f"ch_{len(paid)}"

    guarded = guard_tool(pay, guard)
    call = {"type": "tool_call", "id": "c1", "name": "pay", "args": {"invoice": 7}}

    def node(state: MessagesState) -> dict[str, Any]:
        got.append(guarded.invoke(call).content)
        for question in range(3):
            interrupt(question)
        return {"messages": [("ai", "done")]}

    inner = StateGraph(MessagesState)
    inner.add_node("work", node)
    inner.add_edge(START, "work")
    outer = StateGraph(MessagesState)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    for graph, thread in ((inner, "alone"), (outer, "inside")):
        paid.clear(), got.clear()
        guard = guard_of()
        guarded = guard_tool(pay, guard)
        agent = graph.compile(checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": thread}}
        agent.invoke({"messages": [("user", "go")]}, config)
        for _ in range(3):
            agent.invoke(Command(resume="yes"), config)
        assert paid == [7]
        assert got == ["ch_1"] * 4


def test_a_tool_called_without_an_id_gives_the_plain_result() -> None:
    guard, paid = guard_of(), []

    def pay(invoice: int) -> dict[str, int]:
        """Pay."""
        paid.append(invoice)
        return {"charge": len(paid)}

    guarded = guard_tool(pay, guard)
    with guard.within(run="r", turn="t"):
        assert [guarded.invoke({"invoice": 7}) for _ in range(3)] == [{"charge": 1}] * 3
    assert paid == [7]


@pytest.mark.parametrize(
    "result", [[1, 2], ["a", "b"], [{"a": 1}], [{"type": "text", "text": "a"}], []]
)
def test_a_list_is_shown_as_it_was(result: list[Any]) -> None:
    guard, call = guard_of(), {"type": "tool_call", "name": "pay", "args": {"invoice": 7}}

    @tool
    def pay(invoice: int) -> list[Any]:
        """Pay."""
        return result

    with guard.within(run="r", turn="t"):
        guarded = guard_tool(pay, guard)
        assert guarded.invoke({"invoice": 7}) == result
        shown = guarded.invoke({**call, "id": "c1"}).content
    assert shown == pay.invoke({**call, "id": "c2"}).content


def test_nobody_is_asked_about_a_write_that_runs() -> None:
    guard, paid = Guard(Policy(tools={"pay": ONCE}, on_stop="ask")), []

    def pay(invoice: int) -> str:
        """Pay."""
        paid.append(invoice)
        return "ch_1"

    elsewhere = Call("pay", {"invoice": 7}, Where(run="elsewhere"))
    running = guard.decide(elsewhere, ToolPolicy(**ONCE))
    model = scripted(reply(asking("pay", {"invoice": 7}, "c1")))
    played = play(build("handler", "create_agent", guard, model, pay), config_of(guard, "handler"))
    (answer,) = (each for each in played.saved if isinstance(each, ToolMessage))
    assert "being carried out" in answer.content
    guard.observe(running.ticket, Outcome(content="ch_0"))
    assert paid == []
