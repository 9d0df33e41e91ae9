"""What the model reads of a call that nobody could execute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agents import Agent, Handoff, RunConfig
from agents.tool_context import ToolContext

from lastcall import Guard
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.around import at
from lastcall_openai_agents.calls import Passage
from lastcall_openai_agents.guards import EVERYWHERE, marks
from lastcall_openai_agents.passing_on import guards_in

OWN = "_lastcall_own"
"""Where a formatter of ours keeps the user's own: a nested run inherits ours, and makes another."""


def formatted(agent: Agent[Any], options: dict[str, Any]) -> None:
    """Put a formatter in *options* through which the model reads the stop that a call of a tool that there
    is not ends in. Only where it is needed: the SDK looks at whether there is one."""
    config: RunConfig | dict[str, Any] | None = options.get("run_config")
    if not (_sdk.tells_of_missing(config) and (EVERYWHERE or somewhere(agent, marks))):
        return
    asked = list(guards_in(options.get("hooks")))
    if isinstance(config, RunConfig):
        own: Any = config.tool_error_formatter
    else:
        own = (config or {}).get("tool_error_formatter")
    own = getattr(own, OWN, own)

    async def formatter(args: Any) -> str | None:
        said = await missed(args, asked) if args.kind == "tool_not_found" else None
        if said is None and own is not None:
            said = own(args)
            said = await said if hasattr(said, "__await__") else said
        return said

    setattr(formatter, OWN, own)
    if isinstance(config, RunConfig):
        options["run_config"] = replace(config, tool_error_formatter=formatter)
    else:
        # A mapping, so that the SDK still makes, and closes, the model provider itself.
        options["run_config"] = {**(config or {}), "tool_error_formatter": formatter}


async def missed(args: Any, asked: list[Guard]) -> str | None:
    """The text of the stop that a call of a tool that there is not ends in, if it does. Hooks were
    *asked* when the reply came."""
    frame = at(args.run_context)
    if frame.agent is None:
        return None
    ctx = ToolContext.from_agent_context(
        args.run_context,
        args.call_id,
        agent=frame.agent,
        tool_name=args.tool_name,
        tool_arguments=frame.written(args.call_id),
    )
    for guard in dict.fromkeys([*marks(frame.agent), *EVERYWHERE]):
        if guard not in asked:
            stop = await Passage(guard).ask(ctx, frame, exists=False)
            if stop is not None:
                return stop.text
    return None


def somewhere(agent: Agent[Any], so: Callable[[Agent[Any]], object]) -> bool:
    """Whether it is *so* with *agent*, or with one that it may hand over to."""
    waiting, seen = [agent], {id(agent)}
    while waiting:
        at_work = waiting.pop()
        if so(at_work):
            return True
        for lead in at_work.handoffs:
            target = _sdk.target_of(lead) if isinstance(lead, Handoff) else lead
            if isinstance(target, Agent) and id(target) not in seen:
                seen.add(id(target))
                waiting.append(target)
    return False
