"""Cases from the field about hooks and wrappers (theme K), through LangChain."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver

from lastcall import Guard, Policy, Stopped, ToolPolicy
from lastcall.stores.memory import MemoryStore
from lastcall_langchain import GuardCallbackHandler, GuardMiddleware, attach, coverage
from lastcall_langchain.runs import RUNS

from .playing import Played, build, config_of, play, tools_of
from .scripted import USER, Scripted, asked_alone, asking, reply, scripted, stubborn

ENTRIES = ["middleware", "tools", "handler", "decorated"]
entries = pytest.mark.parametrize("entry", ENTRIES)
modes = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])

crossed = pytest.mark.parametrize(
    ("entry", "mode"),
    [
        ("middleware", "invoke"),
        ("tools", "ainvoke"),
        ("handler", "ainvoke"),
        ("decorated", "invoke"),
    ],
)
"""Every entry, sync or async, where how it is called makes no difference of its own."""


def look(q: int) -> str:
    """Look."""
    return f"found {q}"


def at_once(name: str, *many: int) -> Any:
    """One reply with a call for each."""
    return reply(*(asking(name, {"q": q}, f"c{q}") for q in many))


def played(
    guard: Guard, entry: str, mode: str, model: Any, *bodies: Any, kind: str = "", **node: Any
) -> Played:
    """One turn of an agent guarded through *entry*."""
    agent = build(entry, kind or "create_agent", guard, model, *bodies, **node)
    return play(agent, config_of(guard, entry), mode)


@crossed
def test_r124_an_event_sink_that_raises_changes_no_result(
    entry: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    def sink(event: Any) -> None:
        raise RuntimeError("the sink is full")

    texts = []
    for listeners in ([], [sink]):
        guard = Guard(Policy(max_calls=2), listeners=listeners)
        caplog.clear()
        with caplog.at_level(logging.ERROR, "lastcall"):
            # One call a reply: of a batch any may be the one that is refused.
            model = scripted(*asked_alone("look", ({"q": i} for i in range(3))))
            ended = played(guard, entry, mode, model, look)
        texts.append([each.text for each in ended.saved])
        assert ended.stop is not None
        logged = {(each.name, each.levelname) for each in caplog.records}
        assert logged == ({("lastcall", "ERROR")} if listeners else set())
    assert texts[0] == texts[1]


class Failing(MemoryStore):
    """Fails at one of its steps: the *nth* decision of a tool's call, or what follows it."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at, self.on = at, False

    def fails(self, step: Any) -> None:
        name = getattr(getattr(step, "func", step), "__name__", "")
        if self.on and name == self.at:
            raise ConnectionError("the store is down")

    def update(self, keys: Any, step: Any, now: Any) -> Any:
        self.fails(step)
        return super().update(keys, step, now)

    async def aupdate(self, keys: Any, step: Any, now: Any) -> Any:
        self.fails(step)
        return await super().aupdate(keys, step, now)


@crossed
@pytest.mark.parametrize("at", ["deciding", "observing"])
@pytest.mark.parametrize("on_fault", ["closed", "open"])
def test_r125_a_fault_of_the_guard_is_contained_as_configured(
    entry: str, mode: str, at: str, on_fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []
    store = Failing(at)

    def seen(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    class Telling(Scripted):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            # From the model's first reply on.
            store.on = True
            return super()._generate(*args, **kwargs)

    model = Telling(script=[at_once("seen", 1)], asked=[])
    events: list[Any] = []
    guard = Guard(Policy(on_fault=on_fault), store=store, listeners=[events.append])
    with caplog.at_level(logging.CRITICAL, "lastcall"):
        ended = played(guard, entry, mode, model, seen)
        store.on = False
    runs = {each.run for each in events if each.run}
    incident = guard.report(runs.pop())
    assert incident is not None
    assert incident.faults
    assert "fault" in [each.kind for each in events]
    assert ended.unanswered == []
    refused = at == "deciding" and on_fault == "closed"
    assert ran == ([] if refused else [1])
    if refused:
        assert ended.stop is not None
        assert ended.stop.reason == "fault"
    else:
        assert ended.stop is None
        assert [each.text for each in ended.saved[2:]] == ["found 1", "done"]


@crossed
def test_r128_a_handled_validation_error_leaves_no_call_in_flight(entry: str, mode: str) -> None:
    made = tool(look)
    made.handle_validation_error = True
    guard = Guard(Policy.permissive())
    handler = GuardCallbackHandler(guard)
    calls = (asking("look", {"q": f"not a number {i}"}, f"c{i}") for i in range(5))
    agent = build(entry, "create_agent", guard, scripted(reply(*calls)), made)
    config: Any = config_of(guard, entry)
    config["callbacks"] = [handler] if entry == "handler" else []
    ended = play(agent, config, mode)
    assert ended.raised is None
    assert ended.unanswered == []
    assert len([each for each in ended.saved if each.type == "tool"]) == 5
    assert handler._open == {}
    assert len(RUNS) == 0
    assert len(guard.store) == 0  # type: ignore[arg-type]


@crossed
def test_r128_so_does_one_that_the_tool_node_handles(entry: str, mode: str) -> None:
    guard = Guard(Policy.permissive())
    handler = GuardCallbackHandler(guard)
    calls = (asking("look", {"q": f"not a number {i}"}, f"c{i}") for i in range(5))
    agent = build(entry, "create_agent", guard, scripted(reply(*calls)), look)
    config: Any = config_of(guard, entry)
    config["callbacks"] = [handler] if entry == "handler" else []
    ended = play(agent, config, mode)
    assert ended.raised is None
    assert [each.status for each in ended.saved if each.type == "tool"] == ["error"] * 5
    assert handler._open == {}
    assert len(RUNS) == 0
    assert len(guard.store) == 0  # type: ignore[arg-type]


@crossed
def test_r133_the_sequence_of_decisions_is_the_same_every_time(entry: str, mode: str) -> None:
    script = [at_once("look", 1)] * 3 + [at_once("look", 2), at_once("look", 1), at_once("look", 3)]
    sequences = set()
    for _ in range(5):
        events: list[Any] = []
        guard = Guard(Policy(max_repeats=2, max_calls=4), listeners=[events.append])
        played(guard, entry, mode, scripted(*script), look)
        sequences.add(tuple((each.kind, each.tool, each.reason, each.observed) for each in events))
    assert len(sequences) == 1


@modes
@pytest.mark.parametrize("entry", ["handler", "decorated"])
def test_r134_of_two_parallel_calls_the_stop_of_one_reaches_the_caller(
    entry: str, mode: str
) -> None:
    guard = Guard(Policy(max_calls=1))
    model = scripted(at_once("look", 1, 2))
    ended = played(guard, entry, mode, model, look, kind="graph", handle_tool_errors=False)
    assert isinstance(ended.raised, Stopped)
    assert ended.stop is not None
    assert ended.stop.reason == "ceiling"


@crossed
def test_r135_a_stop_decided_before_the_call_keeps_the_body_from_starting(
    entry: str, mode: str
) -> None:
    ran: list[int] = []

    def seen(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    # Nobody can have less than one call; the guard's own fault refuses all.
    store = Failing("deciding")
    store.on = True
    guard = Guard(store=store)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(logging.getLogger("lastcall"), "disabled", True)
        ended = played(guard, entry, mode, scripted(at_once("seen", 1, 2)), seen)
        store.on = False
    assert ran == []
    assert ended.stop is not None


class Down(ToolException):
    """The service is down."""

    status_code = 503


@entries
@modes
@pytest.mark.parametrize("how", ["handled", "raised", "returned"])
def test_r136_attempt_failure_and_release_are_recorded_whatever_the_tool_does(
    entry: str, mode: str, how: str
) -> None:
    def fetch(q: int) -> Any:
        """Fetch."""
        if how == "returned":
            return {"error": "down", "status_code": 503}
        raise Down("down")

    made = tool(fetch)
    made.handle_tool_error = how == "handled"
    events: list[Any] = []
    guard = Guard(listeners=[events.append])
    handler = GuardCallbackHandler(guard)
    agent = build(entry, "create_agent", guard, scripted(at_once("fetch", 1)), made)
    config: Any = config_of(guard, entry)
    config["callbacks"] = [handler] if entry == "handler" else []
    play(agent, config, mode)
    attempts = [each for each in events if each.kind == "attempt"]
    assert [each.outcome for each in attempts] == ["error"]
    incident = guard.report(attempts[0].run)
    assert incident is not None
    totals = incident.totals
    assert (totals.executed, totals.attempts, totals.failed) == (1, 1, 1)
    if (entry, how) != ("handler", "handled"):
        # Where LangChain makes text of an exception, a handler is told of the text alone.
        assert attempts[0].status == 503
    assert handler._open == {}
    assert len(RUNS) == 0
    # What failed is remembered for the thread, and nothing of the run.
    assert not guard.store.peek(("run", attempts[0].run), guard.clock())


@entries
@pytest.mark.parametrize("kind", ["create_agent", "graph"])
def test_r141_a_coroutine_alone_fails_under_a_sync_call_as_if_unguarded(
    entry: str, kind: str
) -> None:
    async def later(q: int) -> str:
        """Look."""
        return f"found {q}"

    guard = Guard()
    made = StructuredTool.from_function(coroutine=later, name="later", description="Look.")
    bare = build("bare", kind, guard, scripted(at_once("later", 1)), made)
    agent = build(
        entry if (entry, kind) != ("middleware", "graph") else "tools",
        kind,
        guard,
        scripted(at_once("later", 1)),
        made,
    )
    errors = [
        play(bare, config_of(guard, "bare")).raised,
        play(agent, config_of(guard, entry)).raised,
    ]
    assert [type(each) for each in errors] == [NotImplementedError] * 2
    assert str(errors[0]) == str(errors[1])


class Unprocessable(Exception):
    """The service says 422, in a way of its own."""

    def __init__(self) -> None:
        super().__init__("the thing is not a thing; see error 503 in the handbook")
        self.response = httpx.Response(422, request=httpx.Request("GET", "http://desk.test/"))


HANDLINGS = [
    (entry, handling)
    for entry in ENTRIES
    for handling in (True, "Something went wrong.", None)
    # A handler alone cannot answer a raw exception (README, what it cannot stop).
    if (entry, handling) != ("handler", None)
]


@modes
@pytest.mark.parametrize(("entry", "handling"), HANDLINGS)
def test_r160_r165_decisions_are_the_same_whatever_the_framework_makes_of_errors(
    entry: str, handling: Any, mode: str
) -> None:
    events: list[Any] = []

    def order(q: int) -> str:
        """Order."""
        raise Unprocessable

    guard = Guard(listeners=[events.append])
    node = {} if handling is None else {"handle_tool_errors": handling}
    kind = "create_agent" if entry == "middleware" else "graph"
    model = scripted(*asked_alone("order", [{"q": 1}] * 3))
    ended = played(guard, entry, mode, model, order, kind=kind, **(node if kind == "graph" else {}))
    # The status is that of the exception's response, not a number in its text.
    told = [(each.kind, each.status) for each in events if each.tool == "order"]
    assert told[:3] == [("attempt", 422), ("stop", 422), ("refused", 422)]
    assert next(each.reason for each in events if each.kind == "refused") == "terminal"
    assert ended.unanswered == []


@crossed
def test_r161_an_exception_of_the_framework_is_a_failure_without_a_status(
    entry: str, mode: str
) -> None:
    events: list[Any] = []

    def order(q: int) -> str:
        """Order."""
        raise ToolException("no such order 404 in 500 rooms")

    made = tool(order)
    made.handle_tool_error = True
    guard = Guard(listeners=[events.append])
    ended = played(guard, entry, mode, scripted(at_once("order", 1)), made)
    told = [(each.outcome, each.status) for each in events if each.kind == "attempt"]
    assert told == [("error", None)]
    assert ended.stop is None


@crossed
def test_r211_options_of_a_tool_stay_with_its_own_call(entry: str, mode: str) -> None:
    ran: list[str] = []
    policy = Policy(
        max_repeats=2, tools={"outer": ToolPolicy(max_repeats=6), "inner": ToolPolicy(reads=True)}
    )
    guard = Guard(policy)

    def inner(q: int) -> str:
        """Look inside."""
        ran.append("inner")
        return "found"

    (inside,) = tools_of([inner], guard, "tools" if entry == "middleware" else entry)

    def outer(q: int) -> str:
        """Look."""
        ran.append("outer")
        try:
            return str(inside.invoke({"q": 1}))
        except Stopped as stopped:
            return str(stopped)

    model = scripted(*asked_alone("outer", [{"q": 1}] * 5))
    ended = played(guard, entry, mode, model, outer)
    # The inner tool has the limit of the policy, whatever that of the tool around it is.
    assert (ran.count("outer"), ran.count("inner")) == (5, 2)
    assert ended.stop is None


class Chunked(BaseChatModel):
    """Streams its one call in pieces; a provider sends the arguments bit by bit."""

    @property
    def _llm_type(self) -> str:
        return "chunked"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Chunked:
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        if any(message.type == "tool" for message in messages):
            yield ChatGenerationChunk(message=AIMessageChunk("done"))
            return
        for at, args_ in enumerate(('{"q"', ": 1", "}")):
            piece = {"name": "look" if at == 0 else None, "args": args_, "index": 0}
            piece["id"] = "c1" if at == 0 else None
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[piece]))


@entries
@pytest.mark.parametrize("how", ["stream", "astream", "events"])
def test_r185_r186_a_streamed_call_counts_once(entry: str, how: str) -> None:
    ran: list[int] = []
    events: list[Any] = []

    def seen(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    seen.__name__ = "look"
    guard = Guard(listeners=[events.append])
    agent, config = build(entry, "create_agent", guard, Chunked(), seen), config_of(guard, entry)  # type: ignore[arg-type]

    async def streamed() -> Any:
        if how == "astream":
            return [each async for each in agent.astream(USER, config, stream_mode="messages")]
        return [each async for each in agent.astream_events(USER, config, version="v2")]

    if how == "stream":
        list(agent.stream(USER, config, stream_mode="messages"))
    else:
        asyncio.run(streamed())
    assert ran == [1]
    assert [each.kind for each in events if each.tool == "look"] == ["attempt"]


# K27 Tools that run elsewhere.


class Hosting(Scripted):
    """A model whose provider searches the web by itself, and shows it in its answers, or does not."""

    shows: bool = True
    tools: Any = ()

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[each for each in tools if isinstance(each, dict)])

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        result = super()._generate(messages, *args, **kwargs)
        if self.shows:
            searched = {"type": "web_search_call", "id": "ws", "status": "completed"}
            message = result.generations[0].message
            message.content = [searched, {"type": "text", "text": message.text}]
            message.response_metadata["model_provider"] = "openai"
        return result


SEARCH = {"type": "web_search"}


@entries
@modes
@pytest.mark.parametrize("shows", [True, False])
def test_k27_a_hosted_tool_is_named_and_never_counted_as_none(
    entry: str, mode: str, shows: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []
    events: list[Any] = []

    def seen(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    guard = Guard(Policy(max_calls=2), listeners=[events.append])
    script = asked_alone("seen", ({"q": i} for i in range(5)))
    model = Hosting(script=script, asked=[], shows=shows)
    middleware = [GuardMiddleware(guard)] if entry == "middleware" else []
    made = tools_of([seen], guard, entry)
    agent = create_agent(
        model, [*made, SEARCH], middleware=middleware, checkpointer=InMemorySaver()
    )
    found = coverage(agent)
    assert found.guarded == ("seen",)
    assert [each.tool for each in found.gaps] == ["web_search"]
    with caplog.at_level(logging.WARNING, "lastcall"):
        ended = play(agent, config_of(guard, entry), mode)
    # The function tool is governed as usual.
    assert ran == [0, 1]
    assert ended.stop is not None
    incident = guard.report(ended.stop.run or "")
    assert incident is not None
    hosted = incident.hosted.get("web_search")
    assert hosted != 0
    assert (hosted or 0) >= (2 if shows else 0)
    assert "web_search" in caplog.text


def test_r129_of_a_model_alone_coverage_says_that_no_tool_is_heard() -> None:
    bound = Hosting(script=[], asked=[]).bind_tools([tool(look), SEARCH])
    found = coverage(attach(bound, Guard()))
    assert found.guarded == ()
    assert [each.tool for each in found.gaps] == ["web_search"]


class Raising(BaseCallbackHandler):
    """Somebody else's handler, of which every event fails."""

    def __init__(self, *, loud: bool) -> None:
        self.raise_error = loud

    def on_tool_end(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("a hook of somebody else")


@pytest.mark.parametrize("entry", ["middleware", "tools", "decorated", "handler"])
@modes
def test_r136_a_hook_of_others_that_fails_settles_the_call_all_the_same(
    entry: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    def seen(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    for loud in (False, True):
        ran.clear()
        events: list[Any] = []
        guard = Guard(Policy(max_calls=2), listeners=[events.append])
        agent = build(entry, "create_agent", guard, stubborn(lambda i: {"q": i}, "seen"), seen)
        config: Any = config_of(guard, entry)
        config["callbacks"] = [Raising(loud=loud), *config["callbacks"]]
        with caplog.at_level(logging.CRITICAL, "langchain_core.callbacks.manager"):
            ended = play(agent, config, mode)
        if loud:
            assert str(ended.raised) == "a hook of somebody else"
            assert ran == [0]
        else:
            assert ran == [0, 1]
            assert ended.stop is not None
        # A turn that a stop ended by an exception waits, to be refused again.
        waits = isinstance(ended.raised, Stopped)
        assert len(RUNS) == waits
        assert [each.outcome for each in events if each.kind == "attempt"]
        assert bool(guard.store.peek(("run", events[0].run), guard.clock())) == waits


@entries
def test_k26_a_guard_may_be_made_and_used_in_any_thread(entry: str) -> None:
    ended: list[Any] = []

    def one() -> None:
        guard = Guard(Policy(max_calls=1))
        ended.append(played(guard, entry, "invoke", scripted(at_once("look", 1, 2)), look).stop)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(timeout=30)
    assert [stop.reason for stop in ended] == ["ceiling"] * 4
