"""The handler refuses and ends by exceptions, and leaves other handlers alone."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.language_models import FakeListLLM
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import ToolException, tool
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolInvocationError

from lastcall import Guard, Policy, Stop, Stopped
from lastcall.testing import FailingStore
from lastcall_langchain import GuardCallbackHandler, GuardMiddleware, RunStopped, stop_of
from lastcall_langchain.stops import ended, refusal

from .playing import build, config_of, play
from .scripted import USER, asked_alone, asking, reply, scripted, stubborn

TWO = asked_alone("look", ({"q": i} for i in range(4)))


def look(q: int) -> str:
    """Look."""
    return f"found {q}"


class Listening(BaseCallbackHandler):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
        self.told.append("start")

    def on_tool_end(self, *args: Any, **kwargs: Any) -> None:
        self.told.append("end")

    def on_tool_error(self, *args: Any, **kwargs: Any) -> None:
        self.told.append("error")

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.told.append("model")

    def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
        self.told.append("answer")


class ListeningAsync(AsyncCallbackHandler):
    """The same, asynchronous."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
        self.told.append("start")

    async def on_tool_end(self, *args: Any, **kwargs: Any) -> None:
        self.told.append("end")


def stop_here(**fields: Any) -> Stop:
    guard = Guard(Policy(max_calls=1))
    with guard.within(run="r"):
        guard.wrap(look)(1)
        with pytest.raises(Stopped) as raised:
            guard.wrap(look)(2)
    return raised.value.stop.model_copy(update=fields)


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_other_handlers_hear_every_call_that_runs(mode: str) -> None:
    guard = Guard(Policy(max_calls=2))
    for other in (Listening(), ListeningAsync()):
        agent = build("handler", "create_agent", guard, scripted(*TWO), look)
        config = config_of(guard, "handler")
        config["callbacks"] = [other, *config["callbacks"]]
        played = play(agent, config, mode)
        assert played.stop is not None
        assert other.told.count("end") == 2
        assert other.told.count("start") >= 2


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_a_tracked_process_tells_other_handlers_all_there_is(mode: str) -> None:
    guard = Guard()
    told: list[list[str]] = []
    for entry in ("unguarded", "tools", "middleware"):
        listening = Listening()
        agent = build(entry, "create_agent", guard, scripted(*TWO), look)
        config = config_of(guard, entry)
        play(agent, {**config, "callbacks": [listening]}, mode)
        told.append(listening.told)
    assert told[0] == told[1] == told[2]
    assert told[0].count("start") == told[0].count("end") == 4


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_refusing_is_no_mishap_to_warn_of(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(BaseCallbackHandler):
        def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
            raise ValueError("a mishap")

    guard = Guard(Policy(max_calls=2))
    with caplog.at_level(logging.DEBUG, "langchain_core.callbacks.manager"):
        agent = build("handler", "create_agent", guard, scripted(*TWO), look)
        assert play(agent, config_of(guard, "handler"), mode).stop is not None
        assert caplog.records == []
        config = config_of(guard, "handler")
        config["callbacks"] = [Broken()]
        play(agent, config, mode)
    assert "a mishap" in caplog.text


@pytest.mark.parametrize("how", [True, "Sorry.", ToolException, (ValueError, ToolInvocationError)])
def test_every_usual_error_handling_of_a_tool_node_answers_a_refusal(how: Any) -> None:
    guard = Guard(Policy(max_calls=2))
    agent = build("handler", "graph", guard, scripted(*TWO), look, handle_tool_errors=how)
    played = play(agent, config_of(guard, "handler"))
    assert played.stop is not None
    assert played.unanswered == []
    refused = [message for message in played.saved if message.type == "tool"][-1]
    assert refused.status == "error"
    if how != "Sorry.":
        assert "Stopped: look" in refused.text
        assert "Stop(" not in refused.text


def test_a_tool_node_that_handles_nothing_raises_what_carries_the_stop() -> None:
    guard = Guard(Policy(max_calls=2))
    agent = build("handler", "graph", guard, scripted(*TWO), look, handle_tool_errors=False)
    played = play(agent, config_of(guard, "handler"))
    assert isinstance(played.raised, Stopped)
    assert played.stop is not None
    assert played.stop.reason == "ceiling"


@pytest.mark.parametrize("entry", ["tools", "handler"])
def test_the_exception_that_ends_a_run_knows_the_messages_so_far(entry: str) -> None:
    guard = Guard(Policy(max_calls=2))
    played = play(
        build(entry, "create_agent", guard, scripted(*TWO), look), config_of(guard, entry)
    )
    assert isinstance(played.raised, RunStopped)
    assert [message.type for message in played.raised.messages] == [
        message.type for message in played.saved
    ]
    assert str(played.raised) == played.raised.stop.text


def test_a_handler_on_the_tool_alone_is_enough() -> None:
    ran: list[int] = []

    @tool
    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    guard = Guard(Policy(max_calls=2))
    look.callbacks = [GuardCallbackHandler(guard)]
    agent = build("other", "create_agent", guard, scripted(*TWO), look)
    played = play(agent, config_of(guard, "other"))
    assert ran == [0, 1]
    assert played.stop is not None
    assert played.unanswered == []


def test_a_text_model_is_ended_too() -> None:
    guard = Guard(Policy(max_calls=1))
    llm = FakeListLLM(responses=["again"] * 40)
    asked: list[str] = []

    @tool
    def look(q: str) -> str:
        """Look."""
        return q

    def loop(_: Any) -> None:
        for i in range(40):
            asked.append(llm.invoke("what now?"))
            try:
                look.invoke({"q": str(i)})
            except Stopped:
                continue

    with pytest.raises(RunStopped):
        RunnableLambda(loop).invoke(0, {"callbacks": [GuardCallbackHandler(guard)]})
    assert len(asked) == 2


def test_a_tool_that_interrupts_or_commands_is_settled_without_a_failure() -> None:
    from langgraph.types import interrupt

    guard = Guard()

    def ask(q: int) -> str:
        """Ask a person."""
        return str(interrupt("may I?"))

    handler = GuardCallbackHandler(guard)
    agent = build(
        "other", "create_agent", guard, scripted(reply(asking("ask", {"q": 1}, "a"))), ask
    )
    config = {**config_of(guard, "other", "paused-once"), "callbacks": [handler]}
    agent.invoke({"messages": [("user", "go")]}, config)
    assert handler._open == {}
    from langgraph.types import Command

    assert agent.invoke(Command(resume="yes"), config)["messages"][-1].content == "done"


@pytest.mark.parametrize("make", [refusal, ended])
def test_an_exception_is_the_same_after_a_journey(make: Any) -> None:
    stop = stop_here()
    error = make(stop)
    for back in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert isinstance(back, Stopped)
        assert back.stop == stop
        assert repr(back) == stop.text
    assert isinstance(error, ToolInvocationError)
    assert error.message == stop.text
    assert isinstance(error, RunStopped) == (make is ended)


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_a_model_of_last_resort_is_not_asked_either(mode: str) -> None:
    guard = Guard(Policy(max_calls=2))
    first, second = stubborn(lambda i: {"q": i}), stubborn(lambda i: {"q": i})

    def call(state: Any) -> Any:
        return {"messages": [first.with_fallbacks([second]).invoke(state["messages"])]}

    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import tools_condition

    graph = StateGraph(MessagesState)
    graph.add_node("model", call)
    graph.add_node("tools", ToolNode([tool(look)]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    agent = graph.compile()
    given: Any = {"messages": [("user", "go")]}
    config: Any = {"callbacks": [GuardCallbackHandler(guard)]}
    with pytest.raises(RunStopped):
        agent.invoke(given, config) if mode == "invoke" else asyncio.run(
            agent.ainvoke(given, config)
        )
    assert (len(first.asked), len(second.asked)) == (3, 0)


def test_a_guard_that_fails_refuses_and_ends() -> None:
    for entry in ("middleware", "tools", "handler"):
        store = FailingStore()
        store.fail()
        guard = Guard(store=store)
        model = stubborn(lambda i: {"q": i})
        ran: list[int] = []

        def broken(q: int, ran: list[int] = ran) -> str:
            """Look."""
            ran.append(q)
            return "x"

        handler = [GuardCallbackHandler(guard)] if entry == "handler" else []
        agent = build(entry, "create_agent", guard, model, tool("look")(broken))
        played = play(agent, {**config_of(guard, entry), "callbacks": handler})
        assert ran == []
        assert len(model.asked) <= 1
        assert stop_of(played.result) is not None


def test_the_middleware_alone_warns_of_nothing_and_keeps_nothing() -> None:
    guard = Guard()
    middleware = GuardMiddleware(guard)
    before = dict(vars(middleware))
    agent = build("other", "create_agent", guard, scripted(*TWO), look)
    play(agent, config_of(guard, "other"))
    assert vars(middleware) == before


def test_the_handler_knows_what_a_decorated_function_said_of_itself() -> None:
    guard, ran = Guard(), []

    @tool
    @guard.wrap(max_repeats=6)
    def wait() -> str:
        """Wait."""
        ran.append(1)
        return "not yet"

    agent = create_agent(stubborn(lambda i: {}, "wait"), [wait])
    with pytest.raises(RunStopped) as stopped:
        agent.invoke(USER, {"callbacks": [GuardCallbackHandler(guard)]})
    assert len(ran) == 6
    assert stopped.value.stop.reason == "refusals"
