"""Guarded copies of tools."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

from agents import (
    Agent,
    FunctionTool,
    Tool,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    function_tool,
)
from agents.tool_context import ToolContext

from lastcall import Guard, Stop, ToolPolicy
from lastcall_openai_agents import _sdk, recorded
from lastcall_openai_agents.around import SWAPS, at
from lastcall_openai_agents.ask import asking
from lastcall_openai_agents.beginnings import beginning
from lastcall_openai_agents.calls import PLAIN, Passage
from lastcall_openai_agents.hearing import RAW, heard
from lastcall_openai_agents.kinds import gap_of, guarded_native, guards_of_native

T = TypeVar("T")
log = logging.getLogger("lastcall")

GUARDS = "__lastcall_guards__"
"""Where the body of a function tool keeps the guards that it passes."""


class Gate(ToolInputGuardrail[Any]):
    """The guardrail that asks the guard. It comes first, and a refused call fires no hook."""

    def __init__(self, passage: Passage) -> None:
        super().__init__(guardrail_function=self.check, name="lastcall")
        self.passage = passage

    async def check(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        """Allow the call, or give the model the text of the stop."""
        stop = await self.passage.ask(data.context, at(data.context))
        if stop is None:
            return ToolGuardrailFunctionOutput.allow()
        return ToolGuardrailFunctionOutput.reject_content(stop.text, stop.model_dump(mode="json"))


@overload
def guard_tool(tool: Callable[..., Any], guard: Guard, **tool_policy: Any) -> FunctionTool: ...
@overload
def guard_tool(tool: T, guard: Guard, **tool_policy: Any) -> T: ...
def guard_tool(tool: Any, guard: Guard, **tool_policy: Any) -> Any:
    """A guarded copy of *tool*; a plain function becomes a tool first. *tool_policy* are the fields of
    `ToolPolicy`. What runs at the provider comes back as it is: nothing of it passes here."""
    return guarded(tool, guard, declared=ToolPolicy(**tool_policy) if tool_policy else PLAIN)


def guard_tools(tools: Iterable[Tool | Callable[..., Any]], guard: Guard) -> list[Tool]:
    """Guarded copies of *tools*. Those that no guard can stop are named in the log."""
    return [guarded(tool, guard) for tool in tools]


def guarded(
    tool: Any, guard: Guard, *, declared: ToolPolicy = PLAIN, agent: Agent[Any] | None = None
) -> Any:
    """A copy of *tool* guarded by *guard*, in which *agent* stands in for the agent it runs."""
    if isinstance(tool, FunctionTool):
        return guarded_function(tool, guard, declared, agent)
    if inspect.isroutine(tool):
        return guarded_function(function_tool(tool), guard, declared, None)
    why = gap_of(tool)
    if why is not None:
        log.warning("%s is not guarded: %s", getattr(tool, "name", tool), why)
        return tool
    return guarded_native(tool, guard, declared)


def guarded_function(
    tool: FunctionTool, guard: Guard, declared: ToolPolicy, agent: Agent[Any] | None
) -> FunctionTool:
    """A copy with the gate before its own guardrails, and its outcome seen before it is put in words."""
    if any(known is guard for known in guards_of(tool)):
        return tool
    passage = passage_of(tool, guard, declared)
    copied = passing(tool, copy.copy(tool), passage, agent)
    copied.tool_input_guardrails = [Gate(passage), *(tool.tool_input_guardrails or ())]
    beginning(copied, guard)
    if guard.policy.on_stop == "ask":
        passage.asks = tool.needs_approval is False
        asking(copied, passage)
    if agent is not None:
        _sdk.set_agent_of(copied, agent)
    return copied


def passing(
    tool: FunctionTool, copied: FunctionTool, passage: Passage, agent: Agent[Any] | None = None
) -> FunctionTool:
    """*copied*, a copy of *tool*, whose body goes through *passage*: below the SDK's handling of
    failures, so that the guard sees what the tool raised and the model what the guard says."""
    passage.replays = True
    inner = heard(_sdk.invoke_of(copied, tool))
    own = _sdk.agent_of(tool)
    swap = {} if own is None or agent is None else {id(own): agent}

    async def invoke(ctx: ToolContext[Any], text: str) -> Any:
        async def body() -> Any:
            if recorded.TAPES and own is None and not hasattr(inner, GUARDS):
                return recorded.answered()
            return await swapped(swap, lambda: inner(ctx, text)) if swap else await inner(ctx, text)

        def said(stop: Stop, result: Any) -> str:  # noqa: ARG001 - the passage's contract
            _sdk.bypass_schema(copied, ctx)
            return stop.text

        return await passage.run(
            ctx,
            body,
            patience=copied.timeout_seconds,
            paused=lambda: own is not None and _sdk.is_paused(ctx),
            raises=lambda: _sdk.raises(copied, ctx),
            shown=lambda result: (RAW.get(ctx, result), None),
            answer=said,
        )

    _sdk.with_invoke(copied, invoke)
    setattr(invoke, GUARDS, (passage.guard, *getattr(inner, GUARDS, ())))
    return copied


async def swapped(swap: Mapping[int, Agent[Any]], body: Callable[[], Any]) -> Any:
    """The result of *body*, in which the agents of *swap* run in place of others."""
    token = SWAPS.set({**SWAPS.get(), **swap})
    try:
        return await body()
    finally:
        SWAPS.reset(token)


def passage_of(tool: FunctionTool, guard: Guard, declared: ToolPolicy = PLAIN) -> Passage:
    """The passage of *tool*; what was declared at a guarded function holds for its tool."""
    function, server, agent = _sdk.function_of(tool), _sdk.server_of(tool), _sdk.agent_of(tool)
    if getattr(function, "__lastcall__", None) is not guard:
        return Passage(guard, declared, server=server, into=None if agent is None else agent.name)
    at_function: ToolPolicy = getattr(function, "__lastcall_tool__", PLAIN)
    alias = function.__lastcall_name__
    return Passage(guard, at_function.under(declared), server=server, alias=alias)


def guards_of(tool: object) -> Iterator[Guard]:
    """The guards that *tool* passes already."""
    if isinstance(tool, FunctionTool):
        # What only looks like a tool has no fields.
        for guardrail in vars(tool).get("tool_input_guardrails") or ():
            if isinstance(guardrail, Gate):
                yield guardrail.passage.guard
        yield from getattr(_sdk.body_of(tool), GUARDS, ())
    else:
        yield from guards_of_native(tool)
