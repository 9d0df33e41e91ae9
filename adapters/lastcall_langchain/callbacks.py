"""Guards an agent that can only be given callbacks; refuses and ends by exceptions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from typing import Any, Self
from uuid import UUID

from typing_extensions import override

from lastcall import Call, Guard, Outcome, Ticket
from lastcall.body import Body
from lastcall_langchain import outcomes
from lastcall_langchain.arguments import own
from lastcall_langchain.ask import leave
from lastcall_langchain.breakpoints import told_of_breakpoints
from lastcall_langchain.control import pauses
from lastcall_langchain.endings import Refusing, put_aside
from lastcall_langchain.passing import declared_in, drain, put, stop_in
from lastcall_langchain.places import around, placed
from lastcall_langchain.requests import gate
from lastcall_langchain.roots import Run
from lastcall_langchain.runs import RUNS
from lastcall_langchain.shown import show
from lastcall_langchain.stops import refusal
from lastcall_langchain.tracker import Tracker, tool_began

SEAM = "callback"

MOST_OPEN = 10_000
"""Calls in flight; the oldest of more was refused by another handler and never ran."""


class GuardCallbackHandler(Refusing):
    """Add it to an agent's callbacks: `agent.invoke(..., {"callbacks": [GuardCallbackHandler(guard)]})`.

    A refusal is an exception that ToolNode's default error handling answers the call with; the run
    ends by `RunStopped` at the next request to the model.
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """A handler that hears of breakpoints, too, where there are graphs."""
        made: Self = super().__new__(told_of_breakpoints(cls))
        return made

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._lock = threading.Lock()
        self._open: OrderedDict[UUID, Body] = OrderedDict()

    on_llm_new_token = Tracker.on_llm_new_token  # pyright: ignore[reportAssignmentType]
    on_stream_event = Tracker.on_llm_new_token  # pyright: ignore[reportAssignmentType]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

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
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        run = tool_began(serialized, run_id, parent_run_id, metadata, kwargs)
        tool = run.tool or "tool"
        # A second handler of the same guard finds the call claimed.
        at = None if run.parent is None else run.parent.id
        if self.guard.bodies.inside(tool, SEAM, at) or not RUNS.claimed(run, self.guard):
            return
        args = input_str if inputs is None else own(inputs)
        self._judge(Call(tool, args, id=run.call_id), run, metadata)

    @override
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        ticket = self._closed(run_id)
        if ticket is not None:
            self.guard.observe(ticket, outcomes.returned(self.guard, ticket, output, []))

    @override
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        ticket = self._closed(run_id)
        if ticket is not None:
            self.guard.observe(ticket, outcomes.raised(self.guard, ticket, error))

    @override
    def on_refused(self, error: Exception, *, run_id: UUID) -> None:
        super().on_refused(error, run_id=run_id)
        # Leave of this guard, where another refuses.
        ticket = self._closed(run_id)
        if ticket is not None:
            self.guard.observe(ticket, Outcome("paused" if pauses(error) else "cancelled"))

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
        params = kwargs.get("invocation_params")
        gate((self.guard,), RUNS.get(parent_run_id), run_id, metadata, messages, params)

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
        params = kwargs.get("invocation_params")
        gate((self.guard,), RUNS.get(parent_run_id), run_id, metadata, [prompts], params)

    def on_interrupt(self, event: Any) -> None:
        """LangGraph tells that the graph of `event.run_id` waits, at a breakpoint or for a person."""
        RUNS.waits(event.run_id)

    def _judge(self, call: Call, run: Run, metadata: dict[str, Any] | None) -> None:
        place = None
        if run.parent is not None:
            place = placed(self.guard, run.parent, metadata, around().get("configurable"))
        declared = declared_in(metadata, self.guard.declared(call.tool))
        # A handler can keep a body from running, and cannot give a result in its place.
        verdict = self.guard.unreplayed(leave(self.guard, put(call, place), declared))
        stop = stop_in(verdict)
        if stop is not None:
            drain(place, stop)
            show(stop, run)
            raise refusal(stop)
        if verdict.ticket is not None:
            body = run.bodies[self.guard] = Body(call.name, SEAM, None, verdict.ticket)
            with self._lock:
                self._open[run.id] = body
                RUNS.opened(run.root, run.id, partial(self._lost, run.id))
                if len(self._open) > MOST_OPEN:
                    self._open.popitem(last=False)

    def _closed(self, run_id: UUID) -> Ticket | None:
        run = RUNS.get(run_id)
        if run is not None:
            RUNS.closed(run.root, run_id)
            run.bodies.pop(self.guard, None)
        with self._lock:
            body = self._open.pop(run_id, None)
        if body is None:
            return None
        self.guard.bodies.ended(body)
        return body.ticket

    def _lost(self, run_id: UUID) -> None:
        """The run around that call is over, and another handler kept what came of it from us."""
        ticket = self._closed(run_id)
        if ticket is not None:
            self.guard.observe(ticket, Outcome("lost"))
