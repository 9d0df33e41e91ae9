"""Tools that are called by hand, in chains, and in loops of one's own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core._api import LangChainBetaWarning
from langchain_core.messages import HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task

from lastcall import Guard, Policy, Stopped
from lastcall_langchain import guard_tool, instrument

from .paths import (
    ANYWHERE,
    AT_ONCE,
    CALLS,
    FOUR,
    ByHand,
    Chunks,
    Road,
    Socket,
    everywhere,
    held,
    taken,
    unchanged,
)
from .scripted import scripted

ARGUMENTS = [call["args"] for call in CALLS]


def bare(how: str, *given: Any) -> Callable[[Socket], Any]:
    """A tool called by hand, once for each of *given*; a batch with all of them."""

    def make(socket: Socket) -> Any:
        tool = socket.tool()

        async def called(_: Any, config: Any) -> Any:
            return [await socket.call(tool, one, config, how=how) for one in given]

        async def batched(_: Any, config: Any) -> Any:
            found = await socket.call(tool, CALLS, config, how=how)
            answers = [one[1] if isinstance(one, tuple) else one for one in found]
            return sorted(answers, key=lambda answer: answer.tool_call_id)

        return ByHand(called if given else batched)

    return make


def in_lambdas(socket: Socket) -> Any:
    tool = socket.tool()

    async def called(calls: Any) -> Any:
        return [await socket.call(tool, call) for call in calls]

    return RunnableLambda(lambda _: CALLS) | socket.runnable(called)


def in_a_pipe(socket: Socket) -> Any:
    prompt = ChatPromptTemplate.from_messages([("human", "look {messages}")])
    calls = RunnableLambda(lambda message: message.tool_calls)
    return prompt | scripted(AT_ONCE) | calls | socket.tool().map()


def in_parallel(socket: Socket) -> Any:
    tool = socket.tool()
    branches = {call["id"]: RunnableLambda(lambda _, call=call: call) | tool for call in CALLS}
    return RunnableParallel(branches) | RunnableLambda(lambda found: list(found.values()))


def as_a_tool(socket: Socket) -> Any:
    """A chain that was made a tool, called by a chain."""

    async def look(given: dict[str, int]) -> str:
        return socket.look(given["q"])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LangChainBetaWarning)
        chain = socket.runnable(look).as_tool(
            name="look", description="Look.", arg_types={"q": int}
        )
    return RunnableLambda(lambda _: CALLS) | socket.guarded(chain).map()


def in_a_loop(socket: Socket) -> Any:
    """What people write before they know of agents."""
    model, tool = scripted(*FOUR), socket.tool()

    async def loop(_: Any) -> Any:
        messages: list[Any] = [HumanMessage("go")]
        while True:
            messages.append(await socket.call(model, messages))
            if not messages[-1].tool_calls:
                return messages
            messages += [await socket.call(tool, call) for call in messages[-1].tool_calls]

    return socket.runnable(loop)


def in_tasks(socket: Socket) -> Any:
    """The same as a workflow of LangGraph's functional API."""
    model, tool = scripted(*FOUR), socket.tool()

    async def ask(messages: Any) -> Any:
        return await socket.call(model, messages)

    async def call(one: Any) -> Any:
        return await socket.call(tool, one)

    asked, called = task(socket.coloured(ask)), task(socket.coloured(call))

    async def done(future: Any) -> Any:
        return future.result() if socket.mode == "invoke" else await future

    async def workflow(_: Any) -> Any:
        messages: list[Any] = [HumanMessage("go")]
        while True:
            messages.append(await done(asked(messages)))
            if not messages[-1].tool_calls:
                return messages
            messages += [await done(called(one)) for one in messages[-1].tool_calls]

    return entrypoint(checkpointer=InMemorySaver())(socket.coloured(workflow))


def executor(*, streamed: bool) -> Callable[[Socket], Any]:
    """The agent of before LangGraph."""

    def make(socket: Socket) -> Any:
        agents = pytest.importorskip(
            "langchain_classic.agents", reason="langchain-classic is no dependency of ours"
        )
        prompt = ChatPromptTemplate.from_messages(
            [("human", "{messages}"), ("placeholder", "{agent_scratchpad}")]
        )
        tools = [socket.tool()]
        agent = agents.create_tool_calling_agent(scripted(*FOUR), tools, prompt)
        made = agents.AgentExecutor(agent=agent, tools=tools)

        async def stream(given: Any, config: Any) -> Any:
            return Chunks(await socket.call(made, given, config, how="stream"))

        return ByHand(stream) if streamed else made

    return make


BARE = {
    "invoke": bare("invoke", *CALLS),
    "invoke with arguments": bare("invoke", *ARGUMENTS),
    "stream": bare("stream", *CALLS),
    "batch": bare("batch"),
    "batch as completed": bare("batch_as_completed"),
}
ROADS = [
    *(Road(name, make, free=True, parallel="batch" in name) for name, make in BARE.items()),
    Road("RunnableLambda", in_lambdas),
    Road("prompt to model to tool", in_a_pipe, parallel=True),
    Road("RunnableParallel", in_parallel, parallel=True),
    Road("a chain as a tool", as_a_tool, ("tools", "handler", "instrument", "all"), parallel=True),
    Road("a while loop", in_a_loop),
    Road("entrypoint and tasks", in_tasks),
    Road("AgentExecutor", executor(streamed=False)),
    Road("AgentExecutor streamed", executor(streamed=True)),
]


@everywhere(ROADS)
def test_a_permissive_guard_changes_nothing(road: Road, entry: str, mode: str) -> None:
    unchanged(road, entry, mode)


@everywhere(ROADS, "held")
def test_a_limit_holds_and_ends_the_run(road: Road, entry: str, mode: str) -> None:
    held(road, entry, mode)


@pytest.mark.parametrize("entry", ANYWHERE)
def test_a_bare_tool_outside_any_run_is_a_run_of_its_own_each_time(entry: str) -> None:
    ended = taken(Road("", bare("invoke", *ARGUMENTS)), entry, "invoke", Guard(Policy(max_calls=1)))
    assert ended.ran == [0, 1, 2, 3]
    assert ended.stop is None


@pytest.mark.parametrize("entry", ["tools", "handler", "instrument"])
def test_a_body_that_is_called_without_its_tool_is_not_seen(entry: str) -> None:
    guard = Guard(Policy(max_calls=1))
    socket = Socket(entry, "invoke", guard)
    tool: Any = socket.tool()
    with socket.plugged(), guard.within(run="r"):
        tool.func(q=0)
        tool.func(q=1)
        tool._run(q=2, config=socket.config)
    assert socket.ran == [0, 1, 2]


def test_a_decorated_body_that_is_called_without_its_tool_is_seen() -> None:
    guard = Guard(Policy(max_calls=1))
    tool: Any = Socket("decorated", "invoke", guard).tool()
    with guard.within(run="r"), pytest.raises(Stopped):
        for i in range(2):
            tool.func(q=i)


@pytest.mark.parametrize(
    ("first", "narrow"),
    [
        ("tools", "tools"),
        ("instrument", "tools"),
        ("instrument", "instrument"),
        ("tools", "instrument"),
    ],
)
def test_a_guard_of_one_tool_and_one_of_all_tools_both_count(first: str, narrow: str) -> None:
    ran: list[int] = []

    class Look(BaseTool):
        name: str = "look"
        description: str = "Look."

        def _run(self, q: int) -> str:
            ran.append(q)
            return "found"

    guards = {e: Guard(Policy(max_calls=2 if e == narrow else 3)) for e in ("tools", "instrument")}
    undo = instrument(guards["instrument"]) if first == "instrument" else None
    tool = guard_tool(Look(), guards["tools"])
    undo = undo or instrument(guards["instrument"])
    try:
        RunnableLambda(lambda _: [tool.invoke(call) for call in CALLS]).invoke(0)
    finally:
        undo()
    assert ran == [0, 1]


def counted(entry: str) -> list[str]:
    """The tools of which a call of a function that goes by another name than its tool is counted."""
    events: list[Any] = []
    guard = Guard(Policy.permissive(), listeners=[events.append])
    socket = Socket(entry, "invoke", guard)

    @guard.wrap
    def find(q: int) -> str:
        return socket.look(q)

    tool = socket.guarded(StructuredTool.from_function(find, name="look", description="Look."))
    with socket.plugged():
        RunnableLambda(lambda _: tool.invoke(CALLS[0])).invoke(0, socket.config)
    return [event.tool for event in events if event.kind == "attempt"]


@pytest.mark.parametrize("entry", ["tools", "instrument"])
def test_a_decorated_function_of_another_name_than_its_tool_counts_once(entry: str) -> None:
    assert counted(entry) == ["look"]


def test_a_handler_takes_a_decorated_function_of_another_name_for_another_tool() -> None:
    assert counted("handler") == ["find", "look"]
