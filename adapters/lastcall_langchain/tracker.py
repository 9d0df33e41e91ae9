"""Fills the book of runs, and ends the runs that guards have ended, by one handler that is in every
callback manager of the process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from inspect import CO_COROUTINE
from typing import Any
from uuid import UUID

from langchain_core.outputs import LLMResult
from langchain_core.tracers.context import register_configure_hook
from typing_extensions import override

from lastcall_langchain.endings import Refusing, put_aside, tell_ends
from lastcall_langchain.requests import answered, failed, gate
from lastcall_langchain.roots import Run
from lastcall_langchain.runs import RUNS
from lastcall_langchain.stops import keep_quiet
from lastcall_langchain.usage import messages_of


class Tracker(Refusing):
    """Tells the book what begins and ends."""

    @property
    def on_llm_new_token(self) -> Callable[..., Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Nothing, at no cost: where LangChain awaits, each token would cost a thread but for a coroutine
        function; where it does not (in an event loop too, as in notebooks), with one. Who asks tells."""
        asks = sys._getframe(1)  # noqa: SLF001 - both have a running loop
        return aunheard if asks.f_code.co_flags & CO_COROUTINE else unheard

    on_stream_event = on_llm_new_token  # pyright: ignore[reportAssignmentType]
    """Newer models tell of more than tokens on the way."""

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
    @put_aside
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
    @put_aside
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
        self._asked(run_id, parent_run_id, metadata, messages, kwargs)

    @override
    @put_aside
    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._asked(run_id, parent_run_id, metadata, [prompts], kwargs)

    @override
    def on_llm_end(
        self, response: LLMResult, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        run = RUNS.get(parent_run_id)
        if run is not None:
            RUNS.replied(run, calls_in(response))
        answered(run_id, response)

    @override
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        failed(run_id, error)

    def _asked(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        metadata: dict[str, Any] | None,
        messages: list[Any],
        kwargs: dict[str, Any],
    ) -> None:
        run = RUNS.get(parent_run_id)
        guards = RUNS.everywhere if run is None else RUNS.guards(run.root)
        if run is not None:
            RUNS.asked(run)
        gate(guards, run, run_id, metadata, messages, kwargs.get("invocation_params"))

    @override
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        RUNS.ended(run_id, outputs=outputs)

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


def calls_in(response: LLMResult) -> tuple[str | None, ...]:
    """The ids of the calls that a model's answer asks for."""
    message = next(messages_of(response), None)
    return tuple(call["id"] for call in getattr(message, "tool_calls", ()))


def unheard(*_: Any, **__: Any) -> None:
    """Nothing is done about a token."""


async def aunheard(*_: Any, **__: Any) -> None:
    """Nothing is done about a token."""


TRACKER = Tracker()

# A default, so that every context has it; a handler that is set there is in every manager.
_EVERYWHERE: ContextVar[Any] = ContextVar("lastcall_tracker", default=TRACKER)
register_configure_hook(_EVERYWHERE, inheritable=True)
tell_ends()
keep_quiet()
