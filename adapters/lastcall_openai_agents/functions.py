"""Function tools, as the SDK invokes them: behind the guards of the moment, and those that let a call pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from agents import FunctionTool
from agents.tool_context import ToolContext

from lastcall import Stop
from lastcall_openai_agents import _sdk, recorded
from lastcall_openai_agents.around import at, passed_by
from lastcall_openai_agents.calls import Passage
from lastcall_openai_agents.seams import Seam
from lastcall_openai_agents.tools import guards_of, passage_of, passing


def asking(invoke: Callable[..., Any]) -> Callable[..., Any]:
    """*invoke* of function tools, behind the guards that are met here."""

    @wraps(invoke)
    async def guarded(**given: Any) -> Any:
        tool, ctx = given["function_tool"], given["context"]
        passages = passages_of(tool, ctx)
        if not passages:
            return await invoke(**given)
        stop = await refusal(passages, ctx)
        if stop is not None:
            return _sdk.refused(stop.text)
        if "on_invoke_tool" not in vars(tool):
            body = recorded.whole if recorded.TAPES else partial(invoke, **given)
            return await beside(body, ctx, passages)
        for passage in passages:
            tool = passing(tool, _sdk.shadow(tool), passage)
        return await invoke(**{**given, "function_tool": tool})

    return guarded


def checking(check: Callable[..., Any]) -> Callable[..., Any]:
    """*check* of a function tool's guardrails, behind the guards of the moment. Those that let the call
    pass are not asked again at its body."""

    @wraps(check)
    async def guarded(**given: Any) -> Any:
        ctx = given["tool_context"]
        stop = await refusal(passages_of(given["func_tool"], ctx), ctx)
        return await check(**given) if stop is None else stop.text

    return guarded


def passages_of(tool: FunctionTool, ctx: Any) -> list[Passage]:
    """How a call of *tool* passes the guards that it meets here, and not at the tool anyhow."""
    if not isinstance(ctx, ToolContext):
        return []
    guards = passed_by(ctx, ctx.tool_call_id, ctx.tool_arguments)
    known = list(guards_of(tool)) if guards else []
    made = [passage_of(tool, guard) for guard in guards if guard not in known]
    for each in made:
        each.replays = "on_invoke_tool" in vars(tool)
    return made


async def refusal(passages: list[Passage], ctx: ToolContext[Any]) -> Stop | None:
    """The stop that keeps the call of *ctx* from running; None when it may."""
    for passage in passages:
        stop = await passage.ask(ctx, at(ctx))
        if stop is not None:
            return stop
    return None


async def beside(body: Callable[[], Any], ctx: ToolContext[Any], passages: list[Passage]) -> Any:
    """The result of *body*, which is that of a tool that only looks like one and has no body to get at."""

    def said(stop: Stop, result: Any) -> Any:  # noqa: ARG001 - the passage's contract
        return _sdk.refused(stop.text)

    for passage in passages:
        body = partial(passage.run, ctx, body, shown=lambda made: (made.output, None), answer=said)
    return await body()


INVOKING = [Seam(place, asking) for place in _sdk.INVOKING]
"""Open while `instrument` is on, and for good once there are guarding hooks: those decide beforehand, and
what came of it is heard here."""

CHECKING = Seam(_sdk.CHECKING, checking)
"""Open while `instrument` is on."""
