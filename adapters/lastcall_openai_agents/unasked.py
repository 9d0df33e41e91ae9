"""Turns without a function tool: the SDK would ask the model again, and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from lastcall_openai_agents import _sdk
from lastcall_openai_agents.endings import over
from lastcall_openai_agents.seams import Seam


def going_on(finalize: Callable[..., Any]) -> Callable[..., Any]:
    """*finalize* of a turn, which has the guards of a guarded agent asked after any turn that called tools:
    custom ones, computers, or some that there are not."""

    @wraps(finalize)
    async def guarded(**given: Any) -> Any:
        step = await finalize(**given)
        # Where there were function tools, the agent's own behaviour was asked.
        if step is not None or given["function_results"] or not _sdk.answered_here(given):
            return step
        said = await over(given["public_agent"], given["context_wrapper"])
        return await _sdk.ended(given, None, said) if said and said.is_final_output else step

    return guarded


SEAM = Seam(_sdk.GOING_ON, going_on)
"""Open as long as the adapter is loaded, as that of hand-overs."""
