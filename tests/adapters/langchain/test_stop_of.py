"""`stop_of` tells how a run ended from whatever is at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from lastcall import Guard, Policy, Stop
from lastcall_langchain import GuardMiddleware, guard_tool, stop_of
from lastcall_langchain.stops import answer, ended, farewell

from .playing import config_of
from .scripted import USER, asked_alone, asking, reply, scripted

FOUR = asked_alone("look", ({"q": i} for i in range(4)))


def look(q: int) -> str:
    """Look."""
    return f"found {q}"


@pytest.fixture
def stop() -> Stop:
    found = stop_of(
        create_agent(
            scripted(*FOUR), [tool(look)], middleware=[GuardMiddleware(Guard(Policy(max_calls=1)))]
        ).invoke(USER)
    )
    assert found is not None
    return found


def test_every_form_of_a_result_is_read(stop: Stop) -> None:
    last = farewell(stop)
    history = [HumanMessage("go"), AIMessage("hm"), last]

    @dataclass
    class State:
        messages: list[Any]

    forms: list[Any] = [
        last,
        history,
        tuple(history),
        {"messages": history},
        State(history),
        {"model": None, "guard": {"messages": [last], "jump_to": "end"}},
        ("updates", {"guard": {"messages": [last]}}),
        (("outer:1",), "updates", {"guard": {"messages": last}}),
        (last, {"langgraph_node": "guard"}),
        ended(stop),
    ]
    assert [stop_of(form) for form in forms] == [stop] * len(forms)


def test_what_did_not_end_a_run_is_no_stop(stop: Stop) -> None:
    narrow = stop.model_copy(update={"scope": "call"})
    forms: list[Any] = [
        None, "text", 5, {}, [], {"messages": []}, AIMessage("done"), ValueError("x"),
        [HumanMessage("go"), answer(narrow, "c", "look"), AIMessage("done")],
        [HumanMessage("go"), farewell(stop), HumanMessage("again"), AIMessage("done")],
        ToolMessage("x", tool_call_id="c"), {"node": None},
    ]  # fmt: skip
    assert [stop_of(form) for form in forms] == [None] * len(forms)


def test_a_stop_is_found_behind_other_exceptions(stop: Stop) -> None:
    try:
        try:
            raise ended(stop)
        except Exception as inner:
            raise RuntimeError("the app's own") from inner
    except RuntimeError as outer:
        assert stop_of(outer) == stop
        assert stop_of(ExceptionGroup("several", [ValueError("x"), outer])) == stop


@pytest.mark.parametrize("stream_mode", ["updates", "values", "messages", ["updates", "values"]])
def test_a_stream_shows_its_stop_in_a_chunk(stream_mode: Any) -> None:
    guard = Guard(Policy(max_calls=1))
    agent = create_agent(scripted(*FOUR), [tool(look)], middleware=[GuardMiddleware(guard)])
    chunks = list(agent.stream(USER, stream_mode=stream_mode))
    found = [stop for chunk in chunks if (stop := stop_of(chunk))]
    assert found
    assert {each.reason for each in found} == {"ceiling"}


def test_the_next_turn_of_a_stopped_thread_is_not_stopped() -> None:
    guard = Guard(Policy(max_calls=2))
    agent = create_agent(
        scripted(*FOUR[:2]),
        [tool(look)],
        middleware=[GuardMiddleware(guard)],
        checkpointer=InMemorySaver(),
    )
    agent_that_asks_more = create_agent(
        scripted(*FOUR),
        [tool(look)],
        middleware=[GuardMiddleware(guard)],
        checkpointer=agent.checkpointer,
    )
    config: Any = config_of(guard, "middleware")
    assert stop_of(agent_that_asks_more.invoke(USER, config)) is not None
    result = agent.invoke(USER, config)
    assert stop_of(result) is None
    assert result["messages"][-1].content == "done"


def test_a_direct_return_that_was_refused_for_the_whole_turn_is_a_stop() -> None:
    @tool(return_direct=True)
    def final(q: int) -> str:
        """Answer."""
        return f"answer {q}"

    guard = Guard(Policy(max_calls=1))
    message = reply(asking("final", {"q": 1}, "a"), asking("final", {"q": 2}, "b"))
    result = create_agent(scripted(message), [guard_tool(final, guard)]).invoke(USER)
    found = stop_of(result)
    assert found is not None
    assert found.reason == "ceiling"
