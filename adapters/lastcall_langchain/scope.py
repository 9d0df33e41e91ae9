"""Finds out in which LangChain run a call is made; the core loads it once langchain-core is there."""

from __future__ import annotations

from lastcall import Guard, Where

from lastcall_langchain.tracker import TRACKER


class LangChainScope:
    """The scope of LangChain and LangGraph: one root invocation is one run and one turn."""

    def find(self, guard: Guard) -> Where | None:
        """Where a call made now belongs; None in no run."""
        place = TRACKER.place(guard)
        return None if place is None else place.where

    def covers(self, guard: Guard, tool: str) -> bool:
        """Whether the handler of *guard* judged the call of *tool* in whose body this is asked."""
        run = TRACKER.parent_of(None)
        return run is not None and run.tool == tool and guard in run.guards


SCOPE = LangChainScope()
