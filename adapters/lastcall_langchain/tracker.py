"""Fills the book of runs, and ends the runs that guards have ended, by one handler that is in every
callback manager of the process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook
from typing_extensions import override

from lastcall import Call, Guard, Outcome, Where
from lastcall_langchain.places import around, whereabouts
from lastcall_langchain.runs import RUNS, Run
from lastcall_langchain.stops import ended, keep_quiet


class Tracker(BaseCallbackHandler):
    """Tells the book what begins and ends.

    Never asynchronous (LangChain swallows what such a handler raises in synchronous runs) and never
    inline (that takes events from other handlers).
    """

    raise_error = True
    run_inline = False

    @property
    @override
    def ignore_llm(self) -> bool:
        # Tokens are events of this kind, and each would cost a thread; chat models have their own.
        return True

    @property
    @override
    def ignore_retry(self) -> bool:
        return True

    @property
    @override
    def ignore_custom_event(self) -> bool:
        return True

    @override
    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        RUNS.began(run_id, parent_run_id, metadata, inputs=inputs, name=kwargs.get("name"))

    @override
    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        tool_began(serialized, run_id, parent_run_id, metadata, kwargs)

    @override
    def on_retriever_start(
        self,
        serialized: dict[str, Any],
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        RUNS.began(run_id, parent_run_id, metadata, inputs=query)

    @override
    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[Any]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        run = RUNS.get(parent_run_id)
        if run is not None:
            RUNS.asked(run)
            gate(RUNS.guards(run.root), run, run_id, metadata, messages)

    @override
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        RUNS.ended(run_id)

    @override
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        RUNS.ended(run_id, error)

    @override
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        RUNS.ended(run_id)

    @override
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        RUNS.ended(run_id, error)

    @override
    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:
        RUNS.ended(run_id)

    @override
    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        RUNS.ended(run_id, error)


def tool_began(
    serialized: Mapping[str, Any] | None,
    run_id: UUID,
    parent_run_id: UUID | None,
    metadata: Mapping[str, Any] | None,
    rest: Mapping[str, Any],
) -> Run:
    """The record of a run of a tool that begins."""
    tool = (serialized or {}).get("name") or rest.get("name") or "tool"
    # Nothing starts by resuming a tool, so its input tells nothing.
    return RUNS.began(
        run_id, parent_run_id, metadata, inputs="", tool=tool, call_id=rest.get("tool_call_id")
    )


def gate(
    guards: Iterable[Guard],
    run: Run,
    request_id: UUID,
    metadata: Mapping[str, Any] | None,
    messages: Sequence[Sequence[Any]],
) -> None:
    """Raise RunStopped when one of *guards* has ended what a model is about to be asked for in *run*."""
    where = whereabouts(run, metadata, around().get("configurable"))
    for guard in guards:
        if RUNS.admits(run, guard, request_id):
            continue
        verdict = guard.decide(request(where))
        if verdict.ticket is not None:
            guard.observe(verdict.ticket, Outcome())
        stop = verdict.ending or verdict.stop
        if stop is not None:
            raise ended(stop, messages[0] if messages else ())


def request(where: Where) -> Call:
    """A request to the model, as the guard is asked about it."""
    return Call("model", kind="model", where=where)


TRACKER = Tracker()

# A default, so that every context has it; a handler that is set there is in every manager.
_EVERYWHERE: ContextVar[Any] = ContextVar("lastcall_tracker", default=TRACKER)
register_configure_hook(_EVERYWHERE, inheritable=True)
keep_quiet()
