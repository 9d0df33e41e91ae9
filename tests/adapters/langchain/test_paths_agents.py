"""`create_agent` in all its modes, with every kind of tool, nested, and what is built on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import InjectedState, InjectedStore, InjectedToolCallId, ToolRuntime
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel
from tenacity import retry, stop_after_attempt

from lastcall import Call, Guard, Policy
from lastcall_langchain import stop_of

from .paths import (
    AT_ONCE,
    CALLS,
    FOUR,
    IN_AGENTS,
    ByHand,
    Chunks,
    Road,
    Socket,
    everywhere,
    held,
    taken,
    unchanged,
    untold,
)
from .scripted import USER, asking, reply, scripted, unanswered


def agent_of(
    socket: Socket, *tools: Any, script: Any = FOUR, middleware: Sequence[Any] = (), **options: Any
) -> Any:
    return create_agent(
        scripted(*script),
        tools,
        middleware=[*socket.middleware, *middleware],
        checkpointer=InMemorySaver(),
        store=InMemoryStore(),
        **options,
    )


def plain(socket: Socket) -> Any:
    return agent_of(socket, socket.tool())


def at_once(socket: Socket) -> Any:
    return agent_of(socket, socket.tool(), script=[AT_ONCE])


def streamed(**how: Any) -> Callable[[Socket], Any]:
    """An agent whose stream is its result."""

    def make(socket: Socket) -> Any:
        def look(q: int) -> str:
            get_stream_writer()(f"looking at {q}")
            return socket.look(q)

        agent = agent_of(socket, socket.tool(look))

        async def stream(given: Any, config: Any) -> Any:
            return Chunks(await socket.call(agent, given, config, how="stream", **how))

        return ByHand(stream, agent)

    return make


def told(socket: Socket) -> Any:
    """An agent whose events are its result."""
    agent = plain(socket)

    async def events(given: Any, config: Any) -> Any:
        happened = agent.astream_events(given, config, version="v2")
        return Chunks([event["data"] async for event in happened])

    return ByHand(events, agent)


# Kinds of tools: the same call, whatever else its body is given, and whatever it gives.


def with_state(socket: Socket) -> Any:
    def look(q: int, state: Annotated[Any, InjectedState]) -> str:
        return f"{socket.look(q)} after {len(state['messages'])}"

    return agent_of(socket, socket.tool(look))


def with_part_of_state(socket: Socket) -> Any:
    def look(q: int, said: Annotated[list[Any], InjectedState("messages")]) -> str:
        return f"{socket.look(q)} after {len(said)}"

    return agent_of(socket, socket.tool(look))


def with_store(socket: Socket) -> Any:
    def look(q: int, store: Annotated[BaseStore, InjectedStore()]) -> str:
        store.put(("seen",), str(q), {"q": q})
        return f"{socket.look(q)} beside {len(store.search(('seen',)))}"

    return agent_of(socket, socket.tool(look))


def with_runtime(socket: Socket) -> Any:
    def look(q: int, runtime: ToolRuntime) -> str:
        return f"{socket.look(q)} for {runtime.tool_call_id} of {len(runtime.state['messages'])}"

    return agent_of(socket, socket.tool(look))


def with_config(socket: Socket) -> Any:
    def look(q: int, config: RunnableConfig) -> str:
        return f"{socket.look(q)} with {config['configurable']['k']}"

    return agent_of(socket, socket.tool(look))


def with_call_id(socket: Socket) -> Any:
    def look(q: int, call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        return ToolMessage(socket.look(q), tool_call_id=call_id, artifact=[q])

    return agent_of(socket, socket.tool(look))


def giving_commands(socket: Socket) -> Any:
    def look(q: int, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        return Command(update={"messages": [ToolMessage(socket.look(q), tool_call_id=call_id)]})

    return agent_of(socket, socket.tool(look))


def giving_artifacts(socket: Socket) -> Any:
    def look(q: int) -> tuple[str, dict[str, int]]:
        return socket.look(q), {"q": q}

    return agent_of(socket, socket.tool(look, response_format="content_and_artifact"))


def giving_the_answer(socket: Socket) -> Any:
    return agent_of(socket, socket.tool(return_direct=True), script=[AT_ONCE])


class Shelf(BaseRetriever):
    """Finds one document."""

    find: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(self.find(query))]


def retrieving(socket: Socket) -> Any:
    shelf = Shelf(find=lambda query: socket.look(int(query)))
    calls = [asking("look", {"query": str(i)}, f"c{i}") for i in range(4)]
    retriever = socket.guarded(create_retriever_tool(shelf, "look", "Look."))
    return agent_of(socket, retriever, script=[reply(call) for call in calls])


class Giving(AgentMiddleware):
    """A middleware that brings a tool."""

    def __init__(self, brought: Any) -> None:
        super().__init__()
        self.tools = [brought]


def given_by_a_middleware(socket: Socket) -> Any:
    return agent_of(socket, middleware=[Giving(socket.tool())])


class Answer(BaseModel):
    """What the agent is to answer."""

    found: int


def structured(socket: Socket) -> Any:
    script = [*FOUR, reply(asking("Answer", {"found": 4}, "a"))]
    return agent_of(socket, socket.tool(), script=script, response_format=ToolStrategy(Answer))


# Agents in agents.


def as_a_tool(socket: Socket, inner: Sequence[Any] | None = None) -> Any:
    """An agent in the body of a tool. *inner*: a middleware of its own."""
    middleware = socket.middleware if inner is None else inner
    agent = create_agent(scripted(*FOUR), [socket.tool()], middleware=middleware, name="inner")

    async def delegate(task: str) -> str:
        result = await socket.call(agent, {"messages": [("user", task)]})
        return str(result["messages"][-1].text)

    body = delegate if socket.mode == "ainvoke" else in_a_thread(agent)
    script = [reply(asking("delegate", {"task": "look four times"}, "d"))]
    return agent_of(socket, socket.tool(body), script=script)


def in_a_thread(agent: Any) -> Any:
    def delegate(task: str) -> str:
        return str(agent.invoke({"messages": [("user", task)]})["messages"][-1].text)

    return delegate


def as_a_node(socket: Socket) -> Any:
    graph = StateGraph(MessagesState)
    agent = create_agent(scripted(*FOUR), [socket.tool()], middleware=socket.middleware)
    graph.add_node("agent", agent)
    graph.add_edge(START, "agent")
    return graph.compile(checkpointer=InMemorySaver())


def handed_over(socket: Socket) -> Any:
    """Two agents of one graph; the first hands over to the second after two calls."""

    def transfer(runtime: ToolRuntime) -> Command[Any]:
        done = ToolMessage("handed over", tool_call_id=runtime.tool_call_id)
        messages = [*runtime.state["messages"], done]
        return Command(goto="second", graph=Command.PARENT, update={"messages": messages})

    tools = [socket.tool(), socket.tool(transfer)]
    first = scripted(*FOUR[:2], reply(asking("transfer", {}, "t")))
    # What was replied before counts.
    second = scripted(*FOUR[:3], *FOUR[2:])
    graph = StateGraph(MessagesState)
    for name, model in (("first", first), ("second", second)):
        graph.add_node(name, create_agent(model, tools, middleware=socket.middleware, name=name))
    graph.add_edge(START, "first")
    return graph.compile(checkpointer=InMemorySaver())


def deep(socket: Socket) -> Any:
    """A deep agent whose sub-agent does the work."""
    deepagents = pytest.importorskip("deepagents", reason="deepagents is no dependency of ours")
    looker = {
        "name": "looker",
        "description": "Looks.",
        "system_prompt": "Look.",
        "model": scripted(*FOUR),
        "tools": [socket.tool()],
        "middleware": socket.middleware,
    }
    return deepagents.create_deep_agent(
        scripted(reply(asking("task", {"description": "go", "subagent_type": "looker"}, "d"))),
        subagents=[looker],
        middleware=socket.middleware,
        checkpointer=InMemorySaver(),
    )


UNSEEN = ("tools", "decorated")
"""Entries that do not see tools which others bring along."""

ROADS = [
    Road("create_agent", plain, IN_AGENTS),
    Road("in parallel", at_once, IN_AGENTS),
    *(
        Road(f"stream {mode}", streamed(stream_mode=mode), IN_AGENTS)
        for mode in ("values", "updates", "messages", "debug", "tasks", "checkpoints")
    ),
    Road("stream several", streamed(stream_mode=["custom", "updates"]), IN_AGENTS),
    Road("stream subgraphs", streamed(stream_mode="updates", subgraphs=True), IN_AGENTS),
    Road("astream_events", told, IN_AGENTS, modes=("ainvoke", "threaded")),
    Road("InjectedState", with_state, IN_AGENTS),
    Road("InjectedState field", with_part_of_state, IN_AGENTS),
    Road("InjectedStore", with_store, IN_AGENTS),
    Road("ToolRuntime", with_runtime, IN_AGENTS),
    Road("RunnableConfig", with_config, IN_AGENTS),
    Road("InjectedToolCallId", with_call_id, IN_AGENTS),
    Road("Command", giving_commands, IN_AGENTS),
    Road("content_and_artifact", giving_artifacts, IN_AGENTS),
    Road(
        "return_direct",
        giving_the_answer,
        IN_AGENTS,
        but={"handler": "untold", "decorated": "untold"},
    ),
    Road("a middleware's tool", given_by_a_middleware, IN_AGENTS),
    Road("ToolStrategy", structured, IN_AGENTS),
    Road("an agent as a tool", as_a_tool, IN_AGENTS, around=IN_AGENTS),
    Road("an agent as a node", as_a_node, IN_AGENTS),
    Road("a hand-over", handed_over, IN_AGENTS, around=IN_AGENTS),
    Road("deepagents", deep, IN_AGENTS, around=[e for e in IN_AGENTS if e not in UNSEEN]),
]
RETRIEVER = [Road("retriever", retrieving, [e for e in IN_AGENTS if e != "decorated"])]


@everywhere(ROADS)
def test_a_permissive_guard_changes_nothing(road: Road, entry: str, mode: str) -> None:
    unchanged(road, entry, mode)


@everywhere([*ROADS, *RETRIEVER], "held")
def test_a_limit_holds_and_ends_the_run(road: Road, entry: str, mode: str) -> None:
    held(road, entry, mode)


@everywhere(ROADS, "untold")
def test_a_direct_return_that_was_refused_by_an_exception_does_not_tell_of_the_stop(
    road: Road, entry: str, mode: str
) -> None:
    untold(road, entry, mode)


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_a_middleware_of_the_outer_agent_does_not_see_the_calls_of_an_inner_one(mode: str) -> None:
    road = Road("", lambda socket: as_a_tool(socket, inner=()))
    ended = taken(road, "middleware", mode, Guard(Policy(max_calls=1)))
    assert ended.ran == [0, 1, 2, 3]
    assert ended.stop is None


def test_a_structured_answer_that_never_fits_is_no_call_and_goes_on_to_the_recursion_limit() -> (
    None
):
    never = [reply(asking("Answer", {"found": "x"}, f"a{i}")) for i in range(40)]
    road = Road("", lambda s: agent_of(s, script=never, response_format=ToolStrategy(Answer)))
    ended = taken(road, "middleware", "invoke", Guard(Policy(max_calls=1)))
    assert isinstance(ended.result, GraphRecursionError)
    assert unanswered(ended.history) == []


def test_a_stream_of_nothing_but_custom_events_shows_the_stop_as_one() -> None:
    road = Road("", streamed(stream_mode="custom"))
    ended = taken(road, "middleware", "invoke", Guard(Policy(max_calls=2)))
    assert ended.result[:2] == ["looking at 0", "looking at 1"]
    assert {chunk["lastcall"]["reason"] for chunk in ended.result[2:]} == {"ceiling"}
    assert stop_of(ended.history) is not None


def test_an_output_of_version_two_tells_of_the_stop() -> None:
    socket = Socket("middleware", "invoke", Guard(Policy(max_calls=2)))
    assert stop_of(plain(socket).invoke(USER, socket.config, version="v2")) is not None


def test_what_is_injected_is_no_argument_of_a_function_that_another_decorator_wraps() -> None:
    events: list[Any] = []
    guard = Guard(Policy.permissive(), listeners=[events.append])

    @tool
    @guard.wrap
    @retry(stop=stop_after_attempt(1))
    def look(q: int, state: Annotated[Any, InjectedState]) -> str:
        """Look."""
        return "nothing new"

    create_agent(scripted(*FOUR), [look]).invoke(USER)
    attempts = [event.fingerprint for event in events if event.kind == "attempt"]
    assert attempts == [Call("look", call["args"]).fingerprint for call in CALLS]
