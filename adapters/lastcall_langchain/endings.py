"""Tells everyone the end of a run that one of our handlers refuses.

LangChain does not: a handler that raises at a start ends the telling, and a tracer beside it keeps that run
open for ever. So while a callback manager tells of a start, what ours raise is put aside; once everyone has
heard the start, everyone is told the end, and only then is it raised. For that the six methods by which
managers tell of tools and requests to models are wrapped; a handler that is told by anything else raises
at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, TypeVar, cast
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler, CallbackManager
from langchain_core.callbacks.manager import ahandle_event, handle_event

from lastcall_langchain.requests import unmade
from lastcall_langchain.runs import RUNS

F = TypeVar("F", bound=Callable[..., None])


class Refusing(BaseCallbackHandler):
    """A handler that refuses by raising at a start.

    Never asynchronous (LangChain swallows what such a handler raises in synchronous runs) and never
    inline (that takes events from other handlers).
    """

    raise_error = True
    run_inline = False

    def on_refused(self, error: Exception, *, run_id: UUID) -> None:
        """The tool or the request to a model that was about to begin does not, for *error* of one of ours."""
        RUNS.refused(run_id, error)
        unmade(run_id)


class Event(NamedTuple):
    """A start that may be refused, and how its end is told."""

    start: str
    ignored: str
    """The attribute of a handler that says that it hears nothing of such starts."""
    end: str


EVENTS = (
    Event("on_tool_start", "ignore_agent", "on_tool_error"),
    Event("on_chat_model_start", "ignore_chat_model", "on_llm_error"),
    Event("on_llm_start", "ignore_llm", "on_llm_error"),
)


class Refusal(NamedTuple):
    """What one of ours would have raised at the start of a run."""

    by: Refusing
    run_id: UUID
    error: Exception


@dataclass(slots=True, eq=False)
class Start:
    """One start, while a manager tells of it."""

    heard: list[Refusing] = field(default_factory=list)
    """Those of ours that were told."""
    refused: list[Refusal] = field(default_factory=list)
    """What they would have raised; the first of it is."""


_START: ContextVar[Start | None] = ContextVar("lastcall_start", default=None)


def put_aside(hear: F) -> F:
    """*hear*, a method of ours, with what it raises put aside until everyone has heard the start."""

    @wraps(hear)
    def heard(self: Refusing, *args: Any, **kwargs: Any) -> None:
        start = _START.get()
        if start is not None:
            start.heard.append(self)
            if start.refused:
                return
        try:
            hear(self, *args, **kwargs)
        except Exception as error:
            if start is None:
                # No manager tells of it, so nobody would raise it later.
                self.on_refused(error, run_id=kwargs["run_id"])
                raise
            start.refused.append(Refusal(self, kwargs["run_id"], error))

    return cast("F", heard)


@contextmanager
def starting() -> Iterator[Start]:
    """A start that a manager tells of inside."""
    start = Start()
    token = _START.set(start)
    try:
        yield start
    except BaseException:
        # Somebody else's handler raised, and that is what the caller gets.
        for each in start.refused:
            each.by.on_refused(each.error, run_id=each.run_id)
        raise
    finally:
        _START.reset(token)


def telling(tell: Callable[..., Any], event: Event) -> Callable[..., Any]:
    """*tell*, by which a manager tells of a start, with the end told too where ours refuse it."""

    @wraps(tell)
    def told(self: CallbackManager, *args: Any, **kwargs: Any) -> Any:
        with starting() as start:
            runs = tell(self, *args, **kwargs)
        if not start.refused:
            return runs
        error = start.refused[0].error
        for run in listed(runs):
            handle_event(ours(self.handlers), "on_refused", None, error, run_id=run.run_id)
            run.handlers = others(self.handlers, event)
            getattr(run, event.end)(error, **about(kwargs))
        raise error

    return told


def atelling(tell: Callable[..., Any], event: Event) -> Callable[..., Any]:
    """`telling` for an event loop."""
    said = signature(tell)

    @wraps(tell)
    async def told(self: AsyncCallbackManager, *args: Any, **kwargs: Any) -> Any:
        heard = self.handlers
        with starting() as start:
            runs = await tell(self, *args, **kwargs)
            inline = [each for each in self.handlers if each.run_inline]
            missed = [each for each in ours(self.handlers) if each not in start.heard]
            if event.start == "on_llm_start" and inline and missed:
                # Where there are inline handlers, LangChain tells the start of a text model to no others.
                heard = inline
                await catch_up(missed, runs, said.bind(self, *args, **kwargs).arguments)
        if not start.refused:
            return runs
        error = start.refused[0].error
        for run in listed(runs):
            await ahandle_event(ours(self.handlers), "on_refused", None, error, run_id=run.run_id)
            run.handlers = others(heard, event)
            await getattr(run, event.end)(error, **about(kwargs))
        raise error

    return told


async def catch_up(missed: list[BaseCallbackHandler], runs: Any, said: Mapping[str, Any]) -> None:
    """Tell *missed* the start of a text model, of which a manager was told what is *said*."""
    for run, prompt in zip(runs, said["prompts"], strict=True):
        await ahandle_event(
            missed,
            "on_llm_start",
            "ignore_llm",
            said["serialized"],
            [prompt],
            run_id=run.run_id,
            parent_run_id=run.parent_run_id,
            tags=run.tags,
            metadata=run.metadata,
            **said.get("kwargs", {}),
        )


def listed(runs: Any) -> list[Any]:
    """The managers of the runs that began: of a tool one, of models one for each prompt."""
    return runs if isinstance(runs, list) else [runs]


def ours(handlers: Iterable[BaseCallbackHandler]) -> list[BaseCallbackHandler]:
    """Those that may refuse."""
    return [each for each in handlers if isinstance(each, Refusing)]


def others(handlers: Iterable[BaseCallbackHandler], event: Event) -> list[BaseCallbackHandler]:
    """Those of other people that heard the start."""
    return [
        each
        for each in handlers
        if not isinstance(each, Refusing) and not getattr(each, event.ignored)
    ]


def about(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What LangChain says beside the error at the end of a run that failed."""
    return {name: kwargs[name] for name in ("tool_call_id",) if name in kwargs}


def tell_ends() -> None:
    """Wrap the methods by which the managers of this process tell of starts."""
    for event in EVENTS:
        for manager, wrapped in ((CallbackManager, telling), (AsyncCallbackManager, atelling)):
            setattr(manager, event.start, wrapped(getattr(manager, event.start), event))
