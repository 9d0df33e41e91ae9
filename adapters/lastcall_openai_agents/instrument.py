"""Guards every run of the process without touching its code, as observability libraries do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from agents import FunctionTool
from agents.tool_context import ToolContext

from lastcall import Guard, Stop
from lastcall_openai_agents import _sdk, fields, handovers
from lastcall_openai_agents.calls import Passage
from lastcall_openai_agents.computers import ACTING
from lastcall_openai_agents.runner import install
from lastcall_openai_agents.runs import EVERYWHERE, at
from lastcall_openai_agents.seams import Seam
from lastcall_openai_agents.tools import guards_of, passage_of, passing

log = logging.getLogger("lastcall")
_LOCK = threading.Lock()


def instrument(guard: Guard) -> Callable[[], None]:
    """Take every call of every tool and every hand-over in this process past *guard*, and ask it before
    each request to a model; the function that is returned undoes it.

    It covers `Runner.run`, `run_sync`, `run_streamed` and the tools of realtime sessions. Asking twice
    for one guard is asking once. A call that is guarded by the same guard elsewhere too (`guard_agent`,
    `guard_tools`, `GuardHooks`, `guard.wrap`) counts once. What a release of the SDK does in a way that
    is not known here is named in the log; raises RuntimeError when that is function tools.
    """
    if not any(seam.there for seam in INVOKING):
        raise RuntimeError(
            f"this release of openai-agents has no agents.tool.{INVOKING[0].place.name} as it is known"
            " here, so instrument cannot see its tools; guard_agent(agent, guard) does"
        )
    install()
    with _LOCK:
        if guard not in EVERYWHERE:
            EVERYWHERE.append(guard)
        for what, seam in SEAMS:
            seam.open()
            if not seam.there:
                log.warning(
                    "%s is not guarded: this release of openai-agents has no %s",
                    what,
                    seam.place.name,
                )

    def undo() -> None:
        with _LOCK:
            if guard in EVERYWHERE:
                EVERYWHERE.remove(guard)
            if not EVERYWHERE:
                for _, seam in SEAMS:
                    seam.close()

    return undo


def asking(invoke: Callable[..., Any]) -> Callable[..., Any]:
    """*invoke* of function tools, behind the guards of the moment."""

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
            return await beside(partial(invoke, **given), ctx, passages)
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
    """How a call of *tool* passes the guards of the moment that it does not pass anyhow."""
    if not EVERYWHERE or not isinstance(ctx, ToolContext):
        return []
    known = list(guards_of(tool))
    return [passage_of(tool, guard) for guard in EVERYWHERE if guard not in known]


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
CHECKING = Seam(_sdk.CHECKING, checking)

SEAMS: list[tuple[str, Seam | fields.Field]] = [
    *(("a function tool", seam) for seam in INVOKING),
    ("a function tool, before its hooks,", CHECKING),
    *fields.SEAMS.items(),
    ("a computer", ACTING),
    ("a hand-over", handovers.SEAM),
]
"""All that is needed, and what for."""
