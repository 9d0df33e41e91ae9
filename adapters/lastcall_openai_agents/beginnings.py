"""What happens before a model is asked: nothing is set up for a run that is stopped from outside."""

from __future__ import annotations

import inspect
from typing import Any

from agents import AgentBase, FunctionTool, RunContextWrapper

from lastcall import Call, Guard
from lastcall_openai_agents.around import at, inside


async def begins(guard: Guard, context: RunContextWrapper[Any] | None) -> bool:
    """Whether tools may be set up in the run of *context*. The SDK does that before any hook is told of
    the request, so the run ends a moment later, with the stop."""
    if guard.switch is None or not guard.policy.enforce or context is None:
        return True
    with inside(at(context)):
        where = guard.here()
    return where is None or await guard.switch.acheck(Call("model", where=where)) is None


def beginning(tool: FunctionTool, guard: Guard) -> None:
    """Let *tool*, a guarded copy, ask the kill switch before its own function says whether it is offered."""
    own = tool.is_enabled
    if guard.switch is None or not callable(own):
        return

    async def is_enabled(context: RunContextWrapper[Any], agent: AgentBase[Any]) -> bool:
        if not await begins(guard, context):
            return False
        said = own(context, agent)
        return bool(await said if inspect.isawaitable(said) else said)

    tool.is_enabled = is_enabled
