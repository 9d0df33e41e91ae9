"""A person instead of a stop: the SDK's approval, before a call is refused (requirement I8)."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agents import FunctionTool, RunContextWrapper, RunResult, RunResultStreaming
from agents.tool_context import ToolContext

from lastcall import Guard, Stop, Verdict
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.around import at, inside
from lastcall_openai_agents.frames import Frame
from lastcall_openai_agents.paused import PAUSED

if TYPE_CHECKING:
    from lastcall_openai_agents.calls import Passage

Needs = Callable[[RunContextWrapper[Any], dict[str, Any], str], Awaitable[bool]]
"""The SDK's question whether a call has to wait for a person."""

OWN = frozenset({"call", "tool", "turn", "run", "thread"})
"""What a person who talks with one agent may decide; beyond it others are concerned."""

FAULTS = frozenset({"attempts", "fault", "in_progress", "kill", "malformed", "no_key", "store"})
"""Reasons that no leave of a person takes away."""


def asking(tool: FunctionTool, passage: Passage) -> None:
    """Let *tool*, a guarded copy, wait for an approval where the guard would refuse its call.

    To approve it is to let it pass: what led to the stop is forgotten, a budget gives as much again.
    `guard.raise_limit(run, by)` before the approval gives as much as is said. To reject it ends the run.
    """
    own = tool.needs_approval
    tool.needs_approval = needing(own, tool.name, passage)
    if not callable(own):
        # The SDK looks into arguments for a function only, and has a person asked where it fills in a
        # default; nobody wanted that here.
        _sdk.without_inspection(tool)


def needing(own: Any, tool: str, passage: Passage) -> Needs:
    """What is asked whether a call of *tool* waits for a person: it does where its *own* policy wants one,
    or the guard would refuse it."""

    async def needs(context: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> bool:
        said = own(context, args, call_id) if callable(own) else own
        if inspect.isawaitable(said):
            said = await said
        return bool(said) or await refused(passage, tool, context, args, call_id)

    return needs


async def refused(
    passage: Passage,
    tool: str,
    context: RunContextWrapper[Any],
    args: dict[str, Any],
    call_id: str,
) -> bool:
    """Whether the guard would refuse the call, and a person may decide about that. Asked once a call."""
    frame, key = at(context), (passage.guard, call_id)
    verdict = frame.foreseen.get(key)
    if verdict is None:
        ctx = ToolContext.from_agent_context(
            context,
            call_id,
            agent=frame.agent,
            # Of a server's tool the model may know another name.
            tool_name=frame.named(call_id) or tool,
            tool_arguments=json.dumps(args),
        )
        await frame.run.ause(passage.guard)
        call = passage.call(ctx, frame, args, exists=True)
        with inside(frame):
            if passage.replays and passage.guard.flying(call, passage.declared):
                # It waits for an equal one, which may be the next in this reply.
                return False
            verdict = await passage.guard.adecide(call, passage.declared)
        frame.foreseen[key] = verdict
    return asked_about(verdict)


def asked_about(verdict: Verdict) -> bool:
    """Whether a person is asked about the call that *verdict* refuses."""
    stop = verdict.ending or verdict.stop
    return stop is not None and not stop.asked and stop.scope in OWN and stop.reason not in FAULTS


async def rejected(guard: Guard, frame: Frame) -> Stop | None:
    """The stop of a run that a person ended: by the time the model would be asked, every call that
    waited for one was approved or rejected."""
    for key, verdict in tuple(frame.foreseen.items()):
        if key[0] is guard and verdict.ticket is None:
            del frame.foreseen[key]
            if asked_about(verdict):
                return await guard.person.aend(verdict)
    return None


def stops_in(result: RunResult | RunResultStreaming) -> dict[str, Stop]:
    """Why each call of *result* waits for a person: the stop that the guard would answer it with, by the
    id of the call. Those that wait for a reason of their own are not among them."""
    found: dict[str, Stop] = {}
    frames = [frame for _, frame in PAUSED.waiting()]
    for item in result.interruptions:
        call = item.raw_item
        call_id = call.get("call_id") if isinstance(call, dict) else getattr(call, "call_id", None)
        for frame in reversed(frames):
            for (_, waits), verdict in frame.foreseen.items():
                if waits == call_id and call_id not in found and asked_about(verdict):
                    stop = verdict.ending or verdict.stop
                    if stop is not None:
                        found[waits] = stop
    return found
