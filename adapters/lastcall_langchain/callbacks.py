"""Guards an agent that can only be given callbacks; refuses and ends by exceptions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Self
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config
from lastcall import Call, Guard, Ticket, ToolPolicy

from lastcall_langchain.passing import declared_in, drain, failure, put, read
from lastcall_langchain.stops import refusal
from lastcall_langchain.tracker import TRACKER, Place, Run

SEAM = "callback"

MOST_OPEN = 10_000
"""Calls in flight; the oldest of more was refused by another handler and never ran."""


class GuardCallbackHandler(BaseCallbackHandler):
    """Add it to an agent's callbacks: `agent.invoke(..., {"callbacks": [GuardCallbackHandler(guard)]})`.

    A refusal is an exception that ToolNode's default error handling answers the call with; the run
    ends by `RunStopped` at the next request to the model.
    """

    raise_error = True
    run_inline = False

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._lock = threading.Lock()
        self._open: OrderedDict[UUID, Ticket] = OrderedDict()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        tool = (serialized or {}).get("name") or kwargs.get("name") or "tool"
        if self.guard.inside(tool, SEAM):
            return
        call_id = kwargs.get("tool_call_id")
        run = TRACKER.began(
            run_id, parent_run_id, metadata, inputs=input_str, tool=tool, call_id=call_id
        )
        if not TRACKER.claimed(run, self.guard):
            # Another handler of the same guard has it.
            return
        args = input_str if inputs is None else inputs
        self._judge(Call(tool, args, id=call_id), run, metadata)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        ticket = self._closed(run_id)
        if ticket is not None:
            self.guard.observe(ticket, read(self.guard, ticket, output, []))

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        ticket = self._closed(run_id)
        if ticket is not None:
            self.guard.observe(ticket, failure(self.guard, ticket, error))

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002
        messages: list[list[Any]],
        *,
        run_id: UUID,  # noqa: ARG002
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        TRACKER.gate((self.guard,), parent_run_id, metadata, messages)

    def on_llm_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002
        prompts: list[str],
        *,
        run_id: UUID,  # noqa: ARG002
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        TRACKER.gate((self.guard,), parent_run_id, metadata, [prompts])

    def _judge(self, call: Call, run: Run, metadata: dict[str, Any] | None) -> None:
        declared: ToolPolicy = declared_in(metadata)
        place: Place | None = None
        if run.parent is not None:
            around = var_child_runnable_config.get() or {}
            place = TRACKER.placed(self.guard, run.parent, metadata, around.get("configurable"))
        verdict = self.guard.decide(put(call, place), declared)
        stop = verdict.ending or verdict.stop
        if stop is not None:
            TRACKER.finished(run.id)
            drain(place, stop)
            raise refusal(stop)
        if verdict.ticket is not None:
            with self._lock:
                self._open[run.id] = verdict.ticket
                if len(self._open) > MOST_OPEN:
                    self._open.popitem(last=False)

    def _closed(self, run_id: UUID) -> Ticket | None:
        with self._lock:
            return self._open.pop(run_id, None)
