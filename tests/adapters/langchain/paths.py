"""The ways a guard gets onto the roads by which tools run, and what holds on every road."""

from __future__ import annotations

import asyncio
import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, wraps
from inspect import iscoroutinefunction
from typing import Any, get_type_hints

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolNode

from lastcall import Call, Guard, Policy, Stop, Stopped
from lastcall_langchain import (
    GuardCallbackHandler,
    GuardMiddleware,
    guard_tool,
    instrument,
    stop_of,
    tool_node_wrappers,
)

from .scripted import USER, asking, reply, unanswered

LIMIT = 2
CALLS = [asking("look", {"q": i}, f"c{i}") for i in range(4)]
FOUR = [reply(call) for call in CALLS]
AT_ONCE = reply(*CALLS)

MODES = ("invoke", "ainvoke", "threaded")
"""threaded: an asynchronous run of a tool that has no asynchronous body."""

ANYWHERE = ("tools", "handler", "decorated", "instrument", "all")
IN_NODES = (*ANYWHERE, "wrappers")
IN_AGENTS = (*ANYWHERE, "middleware")


class Socket:
    """Where a road gets its parts from, with *guard* put in at *entry*."""

    def __init__(self, entry: str, mode: str, guard: Guard | None) -> None:
        self.entry, self.mode, self.guard = entry, mode, guard
        self.ran: list[int] = []

    def at(self, entry: str) -> Guard | None:
        """The guard, where it is put in at *entry*."""
        return self.guard if self.entry in (entry, "all") else None

    def look(self, q: int) -> str:
        """Note that a tool's body started, and what it found."""
        self.ran.append(q)
        return f"found {q}"

    def tool(self, body: Callable[..., Any] | None = None, **options: Any) -> BaseTool:
        """A tool of *body*, of the colour that the mode is about."""

        def look(q: int) -> str:
            return self.look(q)

        body, guard = body or look, self.at("decorated")
        if self.mode == "ainvoke" and not iscoroutinefunction(body):
            body = awaitable(body)
        body = body if guard is None else guard.wrap(body)
        bodies = {"coroutine" if self.mode == "ainvoke" else "func": body}
        return self.guarded(StructuredTool.from_function(**bodies, description="Look.", **options))

    def guarded(self, tool: BaseTool) -> BaseTool:
        """A tool that others made."""
        guard = self.at("tools")
        return tool if guard is None else guard_tool(tool, guard)

    def node(self, *tools: BaseTool, cls: type[ToolNode] = ToolNode, **options: Any) -> ToolNode:
        """A tool node."""
        guard = self.at("wrappers")
        return cls(tools, **({} if guard is None else tool_node_wrappers(guard)), **options)

    @property
    def middleware(self) -> list[Any]:
        """What goes into an agent's middleware."""
        guard = self.at("middleware")
        return [] if guard is None else [GuardMiddleware(guard)]

    @property
    def config(self) -> dict[str, Any]:
        """What goes into an invocation."""
        guard = self.at("handler")
        callbacks = [] if guard is None else [GuardCallbackHandler(guard)]
        configurable = {"thread_id": "t", "k": "v"}
        return {"callbacks": callbacks, "configurable": configurable, "recursion_limit": 60}

    @contextmanager
    def plugged(self) -> Iterator[None]:
        """What is switched on for the whole process, for as long as the run takes."""
        guard = self.at("instrument")
        undo = None if guard is None else instrument(guard)
        try:
            yield
        finally:
            if undo is not None:
                undo()

    # Roads are written once, as coroutine functions; a synchronous run never has to wait in them.

    async def call(self, of: Any, *args: Any, how: str = "invoke", **options: Any) -> Any:
        """What `of.invoke` gives, or `of.ainvoke`, or another pair of methods; of a stream its chunks."""
        if self.mode == "invoke":
            given = getattr(of, how)(*args, **options)
            return list(given) if isinstance(given, Iterator) else given
        given = getattr(of, f"a{how}")(*args, **options)
        if isinstance(given, AsyncIterator):
            return [chunk async for chunk in given]
        return await given

    def coloured(self, body: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        """*body* as a function of the colour that the mode is about."""
        if self.mode != "invoke":
            return body

        @wraps(body)
        def run(*args: Any, **kwargs: Any) -> Any:
            return at_once(body(*args, **kwargs))

        return run

    def runnable(self, body: Callable[..., Awaitable[Any]]) -> Any:
        """*body* as a runnable."""
        return RunnableLambda(self.coloured(body))


def awaitable(body: Callable[..., Any]) -> Callable[..., Any]:
    """*body* as a coroutine function."""

    @wraps(body)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return body(*args, **kwargs)

    # Their names are known where *body* was written, and not here.
    run.__annotations__ = get_type_hints(body, include_extras=True)
    return run


def at_once(waiting: Any) -> Any:
    """The result of a coroutine that has nothing to wait for."""
    try:
        waiting.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("it waits")


class ByHand:
    """Something to invoke that is no Runnable: *body* is given the input and the config."""

    def __init__(self, body: Callable[..., Awaitable[Any]], agent: Any = None) -> None:
        self.ainvoke = body
        if agent is not None:
            self.get_state = agent.get_state

    def invoke(self, given: Any, config: Any) -> Any:
        return at_once(self.ainvoke(given, config))


class Chunks(list[Any]):
    """What a stream gave."""


@dataclass
class Road:
    """One way for tools to be run: *make* gives what has `invoke` and `ainvoke`."""

    name: str
    make: Callable[[Socket], Any]
    entries: Sequence[str] = ANYWHERE
    modes: Sequence[str] = MODES
    around: Sequence[str] = ()
    """Entries that see one call of another tool first, in which the others are made."""
    parallel: bool = False
    """Its calls run side by side, and an exception of one calls off those that have not begun."""
    free: bool = False
    """It is in no run, so it is taken within a scope set by hand."""
    but: Mapping[str, str] = field(default_factory=dict)
    """Entries by which the run ends in another way than it should, and the way."""


@dataclass
class Ended:
    """How a run on a road ended."""

    result: Any
    stop: Stop | None
    history: list[BaseMessage]
    ran: list[int]


def taken(road: Road, entry: str, mode: str, guard: Guard | None = None) -> Ended:
    """One run on *road*."""
    socket = Socket(entry, mode, guard)
    runnable, config = road.make(socket), socket.config
    by_hand = guard is not None and road.free
    with socket.plugged(), guard.within(run="by hand") if by_hand else nullcontext():
        try:
            if mode == "invoke":
                result = runnable.invoke(USER, config)
            else:
                result = asyncio.run(runnable.ainvoke(USER, config))
        except Exception as error:
            result = error
    chunks = result if isinstance(result, Chunks) else [result]
    stop = next((found for chunk in chunks if (found := stop_of(chunk))), None)
    return Ended(result, stop, kept(runnable, config, result), socket.ran)


def kept(runnable: Any, config: Any, result: Any) -> list[BaseMessage]:
    """The history of a run: what its checkpointer saved, or what it gave."""
    state = runnable.get_state(config).values if hasattr(runnable, "get_state") else result
    messages = state.get("messages") if isinstance(state, dict) else state
    return messages if isinstance(messages, list) and not isinstance(messages, Chunks) else []


@cache
def unguarded(make: Callable[[Socket], Any], mode: str) -> Ended:
    """The same run without a guard."""
    return taken(Road("", make), "none", mode)


# What holds on every road.


def unchanged(road: Road, entry: str, mode: str) -> None:
    """A permissive guard changes nothing, and sees each call once with the model's own arguments."""
    events: list[Any] = []
    guard = Guard(Policy.permissive(), listeners=[events.append])
    ended, bare = taken(road, entry, mode, guard), unguarded(road.make, mode)
    assert sorted(ended.ran) == sorted(bare.ran) == [0, 1, 2, 3]
    assert alike(ended.result) == alike(bare.result)
    assert alike(ended.history) == alike(bare.history)
    assert ended.stop is None
    seen = [
        event.fingerprint for event in events if (event.kind, event.tool) == ("attempt", "look")
    ]
    assert sorted(seen) == sorted(Call("look", call["args"]).fingerprint for call in CALLS)
    assert {event.kind for event in events} <= {"attempt", "finished"}


def held(road: Road, entry: str, mode: str) -> None:
    """A limit holds, and the run ends with a stop and every call in its history answered."""
    ended = limited(road, entry, mode)
    assert ended.stop is not None
    assert ended.stop.reason in ("ceiling", "refusals")
    assert unanswered(ended.history) == []


def raised(road: Road, entry: str, mode: str) -> None:
    """A limit holds, and the run ends by the refusal itself; the refused call has no answer."""
    ended = limited(road, entry, mode)
    assert isinstance(ended.result, Stopped)
    assert ended.stop is not None
    assert unanswered(ended.history) == ["c2"]


def untold(road: Road, entry: str, mode: str) -> None:
    """A limit holds and every call is answered, but nothing in the result tells of the stop."""
    ended = limited(road, entry, mode)
    assert ended.stop is None
    assert unanswered(ended.history) == []


def limited(road: Road, entry: str, mode: str) -> Ended:
    ended = taken(road, entry, mode, Guard(Policy(max_calls=LIMIT + (entry in road.around))))
    called_off = road.parallel and isinstance(ended.result, Stopped)
    assert len(ended.ran) == LIMIT or (called_off and len(ended.ran) < LIMIT)
    return ended


def everywhere(roads: Iterable[Road], ending: str | None = None) -> pytest.MarkDecorator:
    """Every road with each of its entries by which it ends in that way, synchronous and, in turns, in
    one of the other modes."""
    cases = [
        pytest.param(road, entry, mode, id=f"{road.name}-{entry}-{mode}")
        for at, road in enumerate(roads)
        for i, entry in enumerate(road.entries)
        for mode in road.modes
        if ending in (None, road.but.get(entry, "held"))
        if mode in ("invoke", road.modes[-1 - (at + i + (ending is None)) % 2 % len(road.modes)])
    ]
    return pytest.mark.parametrize(("road", "entry", "mode"), cases)


# How results are compared.


def alike(result: Any) -> Any:
    """What two runs have in common: everything but ids; of a stream, what is said, in its order."""
    if isinstance(result, Chunks):
        return list(dict.fromkeys(json.dumps(each, default=str) for each in said(result)))
    if isinstance(result, BaseMessage):
        return (type(result), alike(fields(result)))
    if isinstance(result, Mapping):
        return {key: alike(value) for key, value in result.items()}
    if isinstance(result, list | tuple):
        return [alike(each) for each in result]
    if isinstance(result, BaseException):
        return (type(result), str(result))
    return result


def fields(message: BaseMessage) -> dict[str, Any]:
    """What a message says, without the ids that are made anew for it and for its parts."""
    content = message.content
    if isinstance(content, list):
        content = [{**each, "id": None} if isinstance(each, dict) else each for each in content]
    return {**message.model_dump(exclude={"id"}), "content": content}


def said(chunk: Any) -> Iterator[Any]:
    """The messages in a chunk, and what a tool wrote to the stream."""
    if isinstance(chunk, BaseMessage):
        yield fields(chunk)
    elif isinstance(chunk, Mapping | list | tuple):
        for each in chunk.values() if isinstance(chunk, Mapping) else chunk:
            yield from said(each)
    elif isinstance(chunk, str) and chunk.startswith("looking"):
        yield chunk
