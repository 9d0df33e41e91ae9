"""Hand-overs: seen and counted as calls, and refused like others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from agents import Agent
from agents.tool_context import ToolContext

from lastcall import Guard, Stop
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.around import at, here
from lastcall_openai_agents.calls import Passage
from lastcall_openai_agents.endings import Ending, over
from lastcall_openai_agents.frames import Frame
from lastcall_openai_agents.guards import EVERYWHERE, marks
from lastcall_openai_agents.passing_on import guards_in
from lastcall_openai_agents.seams import Seam


class Leading(Passage):
    """How a hand-over passes a guard. It comes after the other calls of its reply."""

    def position(self, ctx: ToolContext[Any], frame: Frame) -> tuple[int, int | None]:
        """Its place, also where the reply was heard without it."""
        if frame.holds(ctx.tool_call_id):
            return super().position(ctx, frame)
        others = frame.size or 0
        return others, others + 1


def handing_over(execute: Callable[..., Any]) -> Callable[..., Any]:
    """*execute* of hand-overs, behind the guards of the agent and of the moment."""

    @wraps(execute)
    async def guarded(**given: Any) -> Any:
        step = await passed(execute, given)
        frame, target = here(), _sdk.agent_of_step(step)
        if frame is not None and target is not None:
            # Who has the conversation now takes the place of who had it.
            frame.path = (*frame.path[:-1], target.name)
        return step

    return guarded


async def passed(execute: Callable[..., Any], given: dict[str, Any]) -> Any:
    """What *execute* makes of the turn. A hand-over that is refused is answered with the text of the
    stop, and the agent goes on, or ends a run that is over."""
    agent, leads = given["public_agent"], given["run_handoffs"]
    call, lead = leads[0].tool_call, leads[0].handoff
    guards = guards_for(agent, given["hooks"])
    if not guards:
        return await execute(**given)
    ctx = ToolContext.from_agent_context(
        given["context_wrapper"],
        call.call_id,
        agent=agent,
        tool_name=lead.tool_name,
        tool_arguments=call.arguments,
        run_config=given["run_config"],
    )

    def shown(step: Any) -> tuple[Any, bool | None]:
        target = _sdk.agent_of_step(step)
        return (None if target is None else lead.get_transfer_message(target)), None

    def answer(stop: Stop, step: Any) -> Any:
        return _sdk.stayed(given, stop.text) if step is None else step

    body, frame = partial(execute, **given), at(ctx)
    for guard in guards:
        passage = Leading(guard)
        stop = await passage.ask(ctx, frame)
        if stop is not None:
            step = answer(stop, None)
            said = await over(agent, given["context_wrapper"])
            # Where there is a hand-over the SDK looks at no other way to end.
            return await _sdk.ended(given, step, said) if said and said.is_final_output else step
        body = partial(passage.run, ctx, body, shown=shown, answer=answer, raises=lambda: True)
    return await body()


def guards_for(agent: Agent[Any], hooks: Any) -> list[Guard]:
    """The guards that the hand-overs of *agent* pass, each once: its own, those of the run's *hooks*,
    and those of the moment."""
    behavior: Any = agent.tool_use_behavior
    found = [*marks(agent)]
    while isinstance(behavior, Ending):
        # A clone of a guarded copy is known by this alone.
        found.append(behavior.guard)
        behavior = behavior.own
    return list(dict.fromkeys([*found, *guards_in(hooks), *EVERYWHERE]))


SEAM = Seam(_sdk.HANDING_OVER, handing_over)
"""Open as long as the adapter is loaded: a hand-over shows neither its agent nor its run."""
