"""Finds out in which LangChain run a call is made; the core loads it once langchain-core is there."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from msgspec.structs import replace

from lastcall import Call, Guard, Outcome, Stop, Stopped, Where
from lastcall.body import Body
from lastcall.contracts import Scope

# The tracker has to be in the callbacks before the first run begins.
from lastcall_langchain import outcomes, tracker  # noqa: F401
from lastcall_langchain.passing import drain_root
from lastcall_langchain.places import around, place, reply_of, run_of
from lastcall_langchain.runs import RUNS
from lastcall_langchain.stops import refusal


class LangChainScope(Scope):
    """The scope of LangChain and LangGraph: one root invocation is one run and one turn."""

    def find(self, guard: Guard) -> Where | None:
        """Where a call made now belongs; None in no run."""
        found = place(guard)
        return None if found is None else found.where

    def ready(self, guard: Guard) -> Awaitable[object] | None:
        """Find out which run goes on that another process paused."""
        run = run_of()
        return RUNS.arecall(run.root, guard) if run is not None and run.root.foreign else None

    def covers(self, guard: Guard, tool: str) -> bool:
        """Whether the handler of *guard* judged the call of *tool* in whose body this is asked."""
        run = run_of()
        return run is not None and run.tool == tool and guard in run.guards

    def body(self, guard: Guard) -> Body | None:
        """The body of the tool call that the handler of *guard* judged, in which this is asked."""
        run = run_of()
        while run is not None:
            found = run.bodies.get(guard)
            if found is not None:
                return found
            run = run.parent
        return None

    def caller(self) -> Any:
        """The id of the run that called the tool in whose body this is asked, under whatever name; of the
        run at hand outside of tools."""
        run = run_of()
        if run is None:
            return None
        return run.id if run.tool is None or run.parent is None else run.parent.id

    def asked(self, call: Call) -> Call:
        """*call* with the id and the reply of the tool call in whose body it is made: a decorated
        function knows neither."""
        run = run_of()
        if run is None:
            return call
        asker = run if run.tool is None or run.parent is None else run.parent
        return replace(
            call,
            id=call.id or (run.call_id if run.tool == call.tool else None),
            reply=call.reply or reply_of(asker, around().get("metadata")),
        )

    def raised(self, error: BaseException) -> Outcome | None:
        """The outcome of LangGraph's control flow, which is no failure; None for anything else."""
        return outcomes.flow(error)

    def shown(self, value: Any) -> Any:
        """The part of a command or a message that the model sees: both bear the id of their call."""
        return outcomes.visible(value)

    def stopped(self, stop: Stop) -> Stopped:
        """The exception for *stop* that ToolNode's default error handling answers the call with."""
        run = run_of()
        if run is not None:
            drain_root(run.root, stop)
        return refusal(stop)


SCOPE = LangChainScope()
