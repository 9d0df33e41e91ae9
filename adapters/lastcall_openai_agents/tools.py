"""Guarded copies of tools."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

from agents import (
    Agent,
    CustomTool,
    FunctionTool,
    Tool,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    function_tool,
)
from agents.tool_context import ToolContext

from lastcall import Guard, ToolPolicy
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.calls import PLAIN, Passage
from lastcall_openai_agents.runs import SWAPS, at

T = TypeVar("T")
log = logging.getLogger("lastcall")


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
    if isinstance(tool, CustomTool):
        return guarded_custom(tool, guard, declared)
    if inspect.isroutine(tool):
        return guarded_function(function_tool(tool), guard, declared, None)
    log.warning("tool %r runs where no guard can stop it", getattr(tool, "name", tool))
    return tool


def guarded_function(
    tool: FunctionTool, guard: Guard, declared: ToolPolicy, agent: Agent[Any] | None
) -> FunctionTool:
    """A copy with the gate before its own guardrails, and its outcome seen before it is put in words."""
    if any(known is guard for known in guards_of(tool)):
        return tool
    passage = passage_of(tool, guard, declared)
    copied = copy.copy(tool)
    inner = _sdk.invoke_of(copied, tool)
    own = _sdk.agent_of(tool)
    swap = {} if own is None or agent is None else {id(own): agent}

    async def invoke(ctx: ToolContext[Any], text: str) -> Any:
        async def body() -> Any:
            return await swapped(swap, lambda: inner(ctx, text)) if swap else await inner(ctx, text)

        return await passage.run(
            ctx,
            body,
            patience=copied.timeout_seconds,
            paused=lambda: own is not None and _sdk.is_paused(ctx),
            raises=lambda: _sdk.raises(copied, ctx),
        )

    _sdk.with_invoke(copied, invoke)
    copied.tool_input_guardrails = [Gate(passage), *(tool.tool_input_guardrails or ())]
    if agent is not None:
        _sdk.set_agent_of(copied, agent)
    return copied


async def swapped(swap: Mapping[int, Agent[Any]], body: Callable[[], Any]) -> Any:
    """The result of *body*, in which the agents of *swap* run in place of others."""
    token = SWAPS.set({**SWAPS.get(), **swap})
    try:
        return await body()
    finally:
        SWAPS.reset(token)


class Invoking:
    """What a guarded custom tool does. It has no guardrails, so it is asked at its body."""

    def __init__(self, passage: Passage, inner: Callable[..., Any]) -> None:
        self.passage = passage
        self.inner = inner

    async def __call__(self, ctx: ToolContext[Any], text: str) -> Any:
        """The result, or the text of the stop."""

        async def body() -> Any:
            found = self.inner(ctx, text)
            return await found if inspect.isawaitable(found) else found

        return await self.passage.run(ctx, body, args={"input": text})


def guarded_custom(tool: CustomTool, guard: Guard, declared: ToolPolicy) -> CustomTool:
    """A copy that asks before its body runs."""
    if any(known is guard for known in guards_of(tool)):
        return tool
    copied = copy.copy(tool)
    copied.on_invoke_tool = Invoking(Passage(guard, declared), tool.on_invoke_tool)
    return copied


def passage_of(tool: FunctionTool, guard: Guard, declared: ToolPolicy) -> Passage:
    """The passage of *tool*; what was declared at a guarded function holds for its tool."""
    function = _sdk.function_of(tool)
    if getattr(function, "__lastcall__", None) is not guard:
        return Passage(guard, declared)
    at_function: ToolPolicy = getattr(function, "__lastcall_tool__", PLAIN)
    return Passage(guard, at_function.under(declared), alias=function.__lastcall_name__)


def guards_of(tool: object) -> Iterator[Guard]:
    """The guards that *tool* passes already."""
    if isinstance(tool, FunctionTool):
        for guardrail in tool.tool_input_guardrails or ():
            if isinstance(guardrail, Gate):
                yield guardrail.passage.guard
    elif isinstance(tool, CustomTool):
        inner: Any = tool.on_invoke_tool
        while isinstance(inner, Invoking):
            yield inner.passage.guard
            inner = inner.inner
