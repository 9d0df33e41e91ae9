"""Beside the observability libraries of others, with a real OpenTelemetry SDK: none disturbs the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

import langchain.agents
import pytest
from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain_core.callbacks import BaseCallbackManager
from langchain_core.tools import BaseTool, tool
from langgraph.pregel import Pregel
from langgraph.types import Command

import lastcall_langchain
from lastcall import Guard, Policy, Stopped
from lastcall_langchain import instrument

from .playing import agent_of
from .scripted import scripted
from .test_beside import STUBBORN, bare, guarded, look, run, texts

trace = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")
in_memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
openai = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")

MODES = ("invoke", "ainvoke", "tokens", "atokens")
WAYS = ("tools", "handler", "instrument")
modes = pytest.mark.parametrize("mode", MODES)
ways = pytest.mark.parametrize("way", WAYS)

PATCHED: tuple[tuple[Any, str], ...] = (
    (BaseCallbackManager, "__init__"),
    (BaseTool, "run"),
    (BaseTool, "arun"),
    (Pregel, "stream"),
    (Pregel, "astream"),
    (Command, "__init__"),
    (langchain.agents, "create_agent"),
    *(
        (AgentMiddleware, f"{prefix}{when}_{what}")
        for prefix in ("", "a")
        for when in ("before", "after")
        for what in ("model", "agent")
    ),
    (openai.chat_models.base.BaseChatOpenAI, "_generate"),
    (openai.chat_models.base.BaseChatOpenAI, "_agenerate"),
    *(
        (openai.llms.base.BaseOpenAI, name)
        for name in ("_generate", "_agenerate", "_stream", "_astream")
    ),
)
"""All that one of the libraries, or we, put something round."""


class Spans(trace.SpanProcessor):
    """Everything that was begun, and what of it was ended."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.ended: list[Any] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.begun.append(span)

    def on_end(self, span: Any) -> None:
        self.ended.append(span)

    def told(self) -> list[tuple[str, str | None, str]]:
        """What the library tells, without ids and times: of each span the name, its parent's, how it ended."""
        names = {each.context.span_id: each.name for each in self.ended}
        return sorted(
            (
                each.name,
                "" if each.parent is None else names[each.parent.span_id],
                each.status.status_code.name,
            )
            for each in self.ended
        )

    def said(self) -> str:
        """All attributes of all spans."""
        return "\n".join(str(dict(each.attributes)) for each in self.ended)


def openinference() -> Any:
    missing = "openinference-instrumentation-langchain is not installed"
    library = pytest.importorskip("openinference.instrumentation.langchain", reason=missing)
    return library.LangChainInstrumentor()


def traceloop() -> Any:
    missing = "opentelemetry-instrumentation-langchain is not installed"
    library = pytest.importorskip("opentelemetry.instrumentation.langchain", reason=missing)
    return library.LangchainInstrumentor()


INSTRUMENTORS = {"openinference": openinference, "traceloop": traceloop}
instrumentors = pytest.mark.parametrize("library", INSTRUMENTORS)
libraries = pytest.mark.parametrize("library", [*INSTRUMENTORS, "langfuse"])


def in_place() -> list[Any]:
    return [vars(owner)[name] for owner, name in PATCHED]


def other_than(before: Sequence[Any]) -> list[str]:
    """What is no longer as it was."""
    pairs = zip(PATCHED, before, in_place(), strict=True)
    return [f"{owner.__name__}.{name}" for (owner, name), one, other in pairs if one is not other]


@contextmanager
def put_back() -> Iterator[None]:
    """Traceloop's cannot take back what it put round the methods of classes."""
    before = in_place()
    try:
        yield
    finally:
        for (owner, name), value in zip(PATCHED, before, strict=True):
            setattr(owner, name, value)


def made() -> tuple[Any, Spans]:
    provider, spans = trace.TracerProvider(shutdown_on_exit=False), Spans()
    provider.add_span_processor(spans)
    return provider, spans


@contextmanager
def watched(library: str) -> Iterator[tuple[Spans, list[Any]]]:
    """What *library* tells meanwhile, and the handlers it wants to be given."""
    provider, spans = made()
    if library == "langfuse":
        with langfuse(provider) as handler:
            yield spans, [handler]
        return
    instrumentor = INSTRUMENTORS[library]()
    with put_back():
        instrumentor.instrument(tracer_provider=provider)
        try:
            yield spans, []
        finally:
            instrumentor.uninstrument()


@contextmanager
def langfuse(provider: Any) -> Iterator[Any]:
    """Langfuse's handler. Nothing is sent: the spans stay here."""
    library = pytest.importorskip("langfuse", reason="langfuse is not installed")
    from langfuse.langchain import CallbackHandler

    key = f"pk-{uuid4().hex}"
    client = library.Langfuse(
        public_key=key,
        secret_key="sk-none",
        base_url="http://127.0.0.1:9",
        tracer_provider=provider,
        span_exporter=in_memory.InMemorySpanExporter(),
    )
    try:
        yield CallbackHandler(public_key=key)
    finally:
        client.shutdown()


def observed(library: str, work: Callable[..., Any]) -> tuple[Any, Spans]:
    """What comes of *work*, and what *library* tells of it."""
    with watched(library) as (spans, handlers):
        return work(*handlers), spans


def complaints(records: Sequence[logging.LogRecord]) -> set[tuple[str, str]]:
    return {(each.name, each.getMessage()) for each in records if each.levelno >= logging.WARNING}


@libraries
@ways
@modes
def test_a_permissive_guard_changes_no_span(
    library: str, way: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    result, expected = observed(
        library, lambda *handlers: bare(lambda agent: run(agent, mode, *handlers))
    )
    complained = complaints(caplog.records)
    caplog.clear()

    def work(*handlers: Any) -> Any:
        with guarded(way, Guard(Policy.permissive())) as (agent, ours):
            return run(agent, mode, *handlers, *ours)

    again, spans = observed(library, work)
    assert texts(again) == texts(result)
    assert spans.told() == expected.told()
    assert len(spans.begun) == len(spans.ended) > 10
    assert complaints(caplog.records) == complained


def left_by(library: str) -> list[str]:
    """What *library* by itself does not take back."""
    before, instrumentor = in_place(), INSTRUMENTORS[library]()
    with put_back():
        instrumentor.instrument(tracer_provider=made()[0])
        instrumentor.uninstrument()
        return other_than(before)


@instrumentors
@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize("gone", ["ours", "theirs"])
@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_either_may_come_first_and_go_first(library: str, first: str, gone: str, mode: str) -> None:
    left, before = left_by(library), in_place()
    guard, instrumentor = Guard(Policy(max_calls=2)), INSTRUMENTORS[library]()
    provider, spans = made()
    with ExitStack() as stack:
        stack.enter_context(put_back())
        undo = instrument(guard) if first == "ours" else None
        instrumentor.instrument(tracer_provider=provider)
        stack.callback(instrumentor.uninstrument)
        undo = undo or instrument(guard)
        stack.callback(undo)
        agent = stack.enter_context(guarded("nobody", guard, STUBBORN))[0]
        assert isinstance(run(agent, mode), Stopped)
        assert "budget of 2 calls for this turn is spent" in spans.said()
        if gone == "ours":
            undo()
            assert not isinstance(run(agent, mode), Stopped)
            instrumentor.uninstrument()
        else:
            instrumentor.uninstrument()
            assert isinstance(run(agent, mode), Stopped)
            undo()
        assert other_than(before) == left
        assert not isinstance(run(agent, mode), Stopped)


@libraries
@ways
@modes
def test_a_refused_call_is_seen_and_so_is_the_end_of_the_run(
    library: str, way: str, mode: str
) -> None:
    ran: list[int] = []

    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    def work(*handlers: Any) -> Any:
        guard = Guard(Policy(max_calls=2))
        with guarded(way, guard, STUBBORN, tools=(look,)) as (agent, ours):
            return run(agent, mode, *handlers, *ours)

    result, spans = observed(library, work)
    assert isinstance(result, Stopped)
    assert ran == [0, 1]
    (root,) = [each for each in spans.ended if each.parent is None]
    assert root.status.status_code.name == "ERROR"
    tools = [str(dict(each.attributes)) for each in spans.ended if "tools" in each.name]
    assert ["budget of 2 calls" in each for each in tools[:3]] == [False, False, True]
    if library == "openinference":
        assert '"lastcall_reason": "ceiling"' in root.attributes["metadata"]


@libraries
@ways
@modes
def test_every_span_of_a_stopped_run_is_ended(library: str, way: str, mode: str) -> None:
    def work(*handlers: Any) -> Any:
        with guarded(way, Guard(Policy(max_calls=2)), STUBBORN) as (agent, ours):
            return run(agent, mode, *handlers, *ours)

    _, spans = observed(library, work)
    assert len(spans.begun) == len(spans.ended)


class GuardMiddleware(AgentMiddleware):
    """It guards nothing, and has the name and the hooks of the one that does."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> None:
        return None

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: Any, runtime: Any) -> None:
        return None


@libraries
@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_the_middleware_is_a_node_like_that_of_any_other(library: str, mode: str) -> None:
    def told(middleware: AgentMiddleware) -> list[Any]:
        model, tools = scripted(*STUBBORN[:3]), [tool(look)]
        agent = agent_of("create_agent", model, tools, middleware=[middleware])
        return observed(library, lambda *handlers: run(agent, mode, *handlers))[1].told()

    ours = lastcall_langchain.GuardMiddleware(Guard(Policy.permissive()))
    assert told(ours) == told(GuardMiddleware())
