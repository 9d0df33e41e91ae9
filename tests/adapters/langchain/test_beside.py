"""Beside LangChain's own means of watching: each hears, streams and writes what it does without a guard."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import (
    AsyncCallbackHandler,
    BaseCallbackHandler,
    FileCallbackHandler,
    get_usage_metadata_callback,
)
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, tool
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler

from lastcall import Guard, Policy, Stopped
from lastcall_langchain import GuardCallbackHandler, guard_tool, instrument
from lastcall_langchain.requests import REQUESTS
from lastcall_langchain.runs import RUNS
from lastcall_langchain.tracker import _EVERYWHERE, TRACKER

from .playing import agent_of, tools_of
from .scripted import USER, Scripted, asked_alone

WORDS = ("all", " is", " well")
WAYS = ("tools", "handler", "decorated", "instrument")
MODES = ("invoke", "ainvoke", "stream", "astream", "tokens", "atokens")
EVENTS = tuple(each for each in dir(BaseCallbackHandler) if each.startswith("on_"))
CALLS = asked_alone("look", ({"q": i} for i in range(3)))
STUBBORN = asked_alone("look", ({"q": i} for i in range(12)))

ways = pytest.mark.parametrize("way", WAYS)
modes = pytest.mark.parametrize("mode", MODES)
colours = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
listeners = pytest.mark.parametrize("kind", ["plain", "inline", "async"])


class Spelling(Scripted):
    """Streams its replies: words one by one, a call in one piece. It tells what it cost."""

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._generate(*args, **kwargs)
        said = result.generations[0].message
        said.response_metadata = {"model_name": "spelling"}
        said.usage_metadata = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
        return result

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        said = self._generate(messages).generations[0].message
        pieces = [
            {"name": each["name"], "args": json.dumps(each["args"]), "id": each["id"], "index": 0}
            for each in said.tool_calls
        ]
        told: dict[str, Any] = {
            "usage_metadata": said.usage_metadata,
            "response_metadata": said.response_metadata,
        }
        for word in ("",) if pieces else WORDS:
            chunk = AIMessageChunk(word, id=said.id, tool_call_chunks=pieces, **told)
            yield ChatGenerationChunk(message=chunk)
            told = {}


class Heard(BaseCallbackHandler):
    """Writes down every event it is told of."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []


class HeardInline(Heard):
    run_inline = True


class HeardInLoop(AsyncCallbackHandler, Heard):
    pass


def hearing(event: str) -> Callable[..., Any]:
    def hear(self: Heard, *args: Any, **kwargs: Any) -> None:
        token = kwargs.get("token", args[0] if args else None) if "token" in event else None
        self.heard.append((event, kwargs.get("name", token)))

    return hear


def hearing_in_loop(event: str) -> Callable[..., Any]:
    hear = hearing(event)

    async def in_loop(self: Heard, *args: Any, **kwargs: Any) -> None:
        hear(self, *args, **kwargs)

    return in_loop


for each in EVENTS:
    setattr(Heard, each, hearing(each))
    setattr(HeardInLoop, each, hearing_in_loop(each))

KINDS = {"plain": Heard, "inline": HeardInline, "async": HeardInLoop}


def look(q: int) -> str:
    """Look."""
    return f"found {q}"


@contextmanager
def guarded(
    way: str, guard: Guard, script: Any = CALLS, *, tools: Any = (look,)
) -> Iterator[tuple[Any, list[Any]]]:
    """An agent that *guard* judges, with the handlers that it takes."""
    undo = instrument(guard) if way == "instrument" else None
    handlers = [GuardCallbackHandler(guard)] if way == "handler" else []
    model = Spelling(script=list(script), asked=[])
    try:
        yield agent_of("create_agent", model, tools_of(tools, guard, way)), handlers
    finally:
        if undo is not None:
            undo()


def config_of(*handlers: Any) -> dict[str, Any]:
    return {"callbacks": list(handlers), "configurable": {"thread_id": "t"}}


async def all_of(stream: AsyncIterator[Any]) -> list[Any]:
    return [each async for each in stream]


def run(agent: Any, mode: str, *handlers: Any) -> Any:
    """What *agent* gives in *mode*; the exception it raises."""
    config = config_of(*handlers)
    how: Any = "messages" if mode.endswith("tokens") else "updates"
    try:
        if mode == "invoke":
            return agent.invoke(USER, config)
        if mode == "ainvoke":
            return asyncio.run(agent.ainvoke(USER, config))
        if mode in ("stream", "tokens"):
            return list(agent.stream(USER, config, stream_mode=how))
        return asyncio.run(all_of(agent.astream(USER, config, stream_mode=how)))
    except Exception as error:
        return error


def bare(work: Callable[[Any], Any], **given: Any) -> Any:
    """What *work* makes of an agent in a process that has no part of ours in it."""

    def without() -> Any:
        # The handler that is in every manager stands in a context variable.
        _EVERYWHERE.set(None)
        with guarded("nobody", Guard(), **given) as (agent, _):
            return work(agent)

    return copy_context().run(without)


def texts(result: Any) -> Any:
    """The part of a result in which no id is new each time."""
    if isinstance(result, BaseException):
        return type(result), str(result)
    if isinstance(result, dict):
        return [each.content for each in result["messages"]]
    pairs = [each for each in result if isinstance(each, tuple)]
    return [each.content for each, _ in pairs] or [sorted(each) for each in result]


@modes
@listeners
def test_a_handler_hears_what_it_hears_without_a_guard(mode: str, kind: str) -> None:
    expected = KINDS[kind]()
    result = bare(lambda agent: run(agent, mode, expected))
    for way in WAYS:
        told = KINDS[kind]()
        with guarded(way, Guard(Policy.permissive())) as (agent, handlers):
            assert texts(run(agent, mode, told, *handlers)) == texts(result), way
        assert told.heard == expected.heard, way
        heard = [what for event, what in told.heard if event == "on_llm_new_token" and what]
        assert heard == (list(WORDS) if mode.endswith("tokens") else []), way


@ways
@colours
def test_a_call_of_an_async_tool_is_heard_as_without_a_guard(way: str, mode: str) -> None:
    async def alook(q: int) -> str:
        """Look."""
        return f"found {q}"

    both = StructuredTool.from_function(look, alook)
    expected, told = Heard(), Heard()
    bare(lambda agent: run(agent, mode, expected), tools=(both,))
    with guarded(way, Guard(Policy.permissive()), tools=(both,)) as (agent, handlers):
        run(agent, mode, told, *handlers)
    assert told.heard == expected.heard
    assert told.heard.count(("on_tool_start", "look")) <= 3


def event_of(each: dict[str, Any]) -> tuple[Any, ...]:
    chunk = each["data"].get("chunk")
    return (
        each["event"],
        each["name"],
        sorted(each["data"]),
        len(each["parent_ids"]),
        getattr(chunk, "content", None),
    )


@ways
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.filterwarnings("ignore:astream_events .*deprecated:DeprecationWarning")
def test_the_events_of_a_stream_are_the_same(way: str, version: Any) -> None:
    def events(agent: Any, *handlers: Any) -> list[Any]:
        stream = agent.astream_events(USER, config_of(*handlers), version=version)
        return [event_of(each) for each in asyncio.run(all_of(stream))]

    expected = bare(events)
    with guarded(way, Guard(Policy.permissive())) as (agent, handlers):
        assert events(agent, *handlers) == expected
    assert [each[-1] for each in expected if each[-1] in WORDS] != []


@ways
@pytest.mark.filterwarnings("ignore:astream_log .*deprecated:DeprecationWarning")
def test_the_log_of_a_stream_is_the_same(way: str) -> None:
    def paths(agent: Any, *handlers: Any) -> list[Any]:
        patches = asyncio.run(all_of(agent.astream_log(USER, config_of(*handlers))))
        return [(each["op"], each["path"]) for patch in patches for each in patch.ops]

    expected = bare(paths)
    with guarded(way, Guard(Policy.permissive())) as (agent, handlers):
        assert paths(agent, *handlers) == expected
    assert len(expected) > len(WORDS)


def tree(traced: Any) -> tuple[Any, ...]:
    """A run with all in it, without ids and times."""
    below = [tree(each) for each in traced.child_runs]
    return traced.name, traced.run_type, traced.error, bool(traced.end_time), below


@modes
def test_a_tracer_keeps_the_same_tree_of_runs(mode: str) -> None:
    def collected(agent: Any, *handlers: Any) -> Any:
        collector = RunCollectorCallbackHandler()
        run(agent, mode, collector, *handlers)
        assert collector.run_map == {}
        (root,) = collector.traced_runs
        return tree(root)

    expected = bare(collected)
    for way in WAYS:
        with guarded(way, Guard(Policy.permissive())) as (agent, handlers):
            assert collected(agent, *handlers) == expected, way


@ways
@modes
def test_the_tokens_used_are_told_of_the_requests_that_were_made(way: str, mode: str) -> None:
    asked: list[Any] = []
    for limit, requests in ((None, 4), (1, 3)):
        policy = Policy(max_calls=limit) if limit else Policy.permissive()
        with guarded(way, Guard(policy)) as (agent, handlers):
            with get_usage_metadata_callback() as used:
                result = run(agent, mode, *handlers)
        assert isinstance(result, Stopped) == (limit is not None)
        asked.append(used.usage_metadata["spelling"]["input_tokens"])
        assert asked[-1] <= 5 * requests
    assert asked[0] == 5 * 4
    assert asked[1] < asked[0]


@ways
@colours
def test_a_file_is_written_the_same(way: str, mode: str, tmp_path: Path) -> None:
    def written(agent: Any, *handlers: Any) -> str:
        path = tmp_path / "log.txt"
        with FileCallbackHandler(str(path), mode="w") as writes:
            run(agent, mode, writes, *handlers)
        return path.read_text()

    expected = bare(written)
    with guarded(way, Guard(Policy.permissive())) as (agent, handlers):
        assert written(agent, *handlers) == expected
    assert "found 2" in expected


FAILING = ("chain_start", "chat_model_start", "llm_end", "tool_start", "tool_end", "llm_new_token")


def broken(event: str, kind: str, *, loud: bool) -> BaseCallbackHandler:
    def fails(self: Any, *args: Any, **kwargs: Any) -> None:
        raise ValueError(f"{event} fails")

    async def afails(self: Any, *args: Any, **kwargs: Any) -> None:
        raise ValueError(f"{event} fails")

    base = {"plain": BaseCallbackHandler, "inline": BaseCallbackHandler}
    body = {f"on_{event}": afails if kind == "async" else fails, "raise_error": loud}
    body["run_inline"] = kind == "inline"
    return type("Broken", (base.get(kind, AsyncCallbackHandler),), body)()


@pytest.fixture
def collected_here() -> Iterator[None]:
    """What is never awaited is collected in this frame, where Python can warn of it.

    In the middle of a named tuple's ``__new__``, which has no builtins, it cannot, and the
    warning that the test expects becomes a ``KeyError`` of the collector's.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.usefixtures("collected_here")
@pytest.mark.parametrize("mode", ["tokens", "atokens"])
@listeners
@pytest.mark.parametrize("loud", [False, True], ids=["logged", "raised"])
# When an inline handler raises, LangChain forgets the others, and there is always one: ours.
@pytest.mark.filterwarnings("ignore:coroutine 'ahandle_event' was never awaited:RuntimeWarning")
def test_a_handler_that_fails_does_to_a_run_what_it_does_without_a_guard(
    mode: str, kind: str, loud: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def warned() -> set[tuple[str, str]]:
        said = {(each.name, each.getMessage()) for each in caplog.records}
        caplog.clear()
        return said

    for event in FAILING:
        caplog.clear()
        expected = bare(lambda agent: run(agent, mode, broken(event, kind, loud=loud)))
        warnings = warned()
        for way in ("tools", "handler", "instrument"):
            with guarded(way, Guard(Policy.permissive())) as (agent, handlers):
                result = run(agent, mode, broken(event, kind, loud=loud), *handlers)
            assert texts(result) == texts(expected), (event, way)
            assert warned() == warnings, (event, way)
            assert len(REQUESTS) == 0, (event, way)
    # What was never awaited is not left for the next test to find.
    gc.collect()


@ways
@modes
@listeners
def test_a_run_is_stopped_whoever_listens(way: str, mode: str, kind: str) -> None:
    ran: list[int] = []

    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    told = KINDS[kind]()
    with guarded(way, Guard(Policy(max_calls=2)), STUBBORN, tools=(look,)) as (agent, handlers):
        result = run(agent, mode, told, *handlers)
    assert isinstance(result, Stopped)
    assert ran == [0, 1]
    assert told.heard[-1][0] == "on_chain_error"
    # The turn that was ended waits, to be refused again, until something new is said.
    assert (len(RUNS), len(RUNS._paused), len(REQUESTS)) == (1, 1, 0)


@ways
def test_a_refusal_is_among_the_events_of_a_stream(way: str) -> None:
    async def events(agent: Any, *handlers: Any) -> list[Any]:
        seen = []
        with pytest.raises(Stopped):
            async for each in agent.astream_events(USER, config_of(*handlers), version="v2"):
                seen.append(each)
        return seen

    with guarded(way, Guard(Policy(max_calls=2)), STUBBORN) as (agent, handlers):
        seen = asyncio.run(events(agent, *handlers))
    ended = [each for each in seen if each["event"] == "on_chain_end" and each["name"] == "tools"]
    answers = [str(each["data"]["output"]) for each in ended]
    assert [("found" in each, "Stopped" in each) for each in answers[:3]] == [
        (True, False),
        (True, False),
        (False, True),
    ]


def open_runs(traced: Any) -> list[str]:
    """The names of runs that were begun and never ended."""
    mine = [] if traced.end_time else [traced.name]
    return mine + [name for each in traced.child_runs for name in open_runs(each)]


@pytest.mark.parametrize("way", ["tools", "handler", "instrument"])
@modes
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_tracer_is_told_the_end_of_what_was_refused(way: str, mode: str, place: str) -> None:
    collector = RunCollectorCallbackHandler()
    with guarded(way, Guard(Policy(max_calls=2)), STUBBORN) as (agent, handlers):
        both = [collector, *handlers] if place == "before" else [*handlers, collector]
        run(agent, mode, *both)
    (root,) = collector.traced_runs
    assert open_runs(root) == []
    assert collector.run_map == {}


@pytest.mark.parametrize("way", ["tools", "handler", "instrument"])
@listeners
def test_a_text_model_in_an_event_loop_is_ended_whoever_listens(way: str, kind: str) -> None:
    guard = Guard(Policy(max_calls=2))
    model = FakeListLLM(responses=["again"])
    asked: list[str] = []
    looking = guard_tool(look, guard) if way == "tools" else tool(look)
    handlers: list[Any] = [KINDS[kind]()]
    handlers += [GuardCallbackHandler(guard)] if way == "handler" else []

    async def loop(_: Any) -> None:
        for i in range(12):
            asked.append(await model.ainvoke("what now?"))
            try:
                await looking.ainvoke({"q": i})
            except Stopped:
                continue

    undo = instrument(guard) if way == "instrument" else None
    try:
        with pytest.raises(Stopped):
            asyncio.run(RunnableLambda(loop).ainvoke(0, {"callbacks": handlers}))
    finally:
        if undo is not None:
            undo()
    assert len(asked) <= 3


def test_a_synchronous_stream_in_an_event_loop_makes_no_loop_for_each_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []
    new = asyncio.events.new_event_loop
    model = Spelling(script=[AIMessage("x")], asked=[])

    async def streaming() -> list[str]:
        monkeypatch.setattr(asyncio.events, "new_event_loop", lambda: made.append(0) or new())
        return [each.content for each in model.stream("go")]

    assert asyncio.run(streaming())[: len(WORDS)] == list(WORDS)
    assert made == []


@pytest.mark.parametrize("event", ["on_llm_new_token", "on_stream_event"])
@pytest.mark.parametrize("whose", ["tracker", "handler"])
def test_what_comes_with_each_token_takes_no_thread(event: str, whose: str) -> None:
    if not hasattr(BaseCallbackHandler, event):
        pytest.skip(f"this langchain-core has no {event}")
    ours = TRACKER if whose == "tracker" else GuardCallbackHandler(Guard())

    async def asks() -> bool:
        # LangChain gives every callback but a coroutine function a thread.
        return inspect.iscoroutinefunction(getattr(ours, event))

    assert asyncio.run(asks())
