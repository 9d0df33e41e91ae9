"""The last answer of a run that is to end: one more request to the model, with tools withdrawn."""

from __future__ import annotations

import copy
import inspect
from typing import Any, NamedTuple

from agents import Agent, AgentBase, Handoff, RunContextWrapper, Tool, handoff

from lastcall import Guard, Stop
from lastcall_openai_agents.around import at
from lastcall_openai_agents.frames import Frame

OWN = frozenset({"turn", "run", "thread"})
"""Scopes after whose stop one may still be asked. Beyond them (a user's budget, a kill switch) others
are stopped as well, and a request is just what must not be made."""

FREE = frozenset({None, "auto", "none"})
"""Choices of a tool that a request without tools can be made with."""


class Final(NamedTuple):
    """How a guarded agent ends a run that its guard has stopped."""

    last_answer: bool = False
    """Whether the model is asked once more, without tools, and its text is the output."""
    output: Any = None
    """A function from the stop to the final output of an agent with an output type of its own."""


def due(guard: Guard, frame: Frame, agent: Agent[Any] | None, stop: Stop) -> bool:
    """Whether *agent* gives a last answer before *stop* ends the run: the outermost does, and once.

    A schema would have the model make up what it did not find, so where there is one nobody is asked.
    """
    if agent is None or not frame.root or frame.last is not None:
        return False
    if stop.scope not in OWN or stop.reason == "kill":
        return False
    plain = agent.output_type is None or agent.output_type is str
    forced = agent.model_settings.tool_choice
    if not plain or not (agent.reset_tool_choice or forced in FREE):
        return False
    frame.asks_once_more(stop)
    frame.asked.add(guard)
    return True


def answering(made: Agent[Any]) -> None:
    """Let *made*, a guarded copy, offer no tools and no hand-overs, and read the stop when it is asked for a last answer."""
    tools, prompt = made.get_all_tools, made.get_system_prompt

    async def get_all_tools(context: RunContextWrapper[Any]) -> list[Tool]:
        return [] if at(context).last is not None else await tools(context)

    async def get_system_prompt(context: RunContextWrapper[Any]) -> str | None:
        said, stop = await prompt(context), at(context).last
        if stop is None:
            return said
        return f"{said}\n\n{stop.text}" if said else stop.text

    vars(made).update(get_all_tools=get_all_tools, get_system_prompt=get_system_prompt)
    made.handoffs = [withdrawn(lead) for lead in made.handoffs]


def withdrawn(lead: Any) -> Any:
    """A copy of *lead*, a hand-over or where one leads, that is not offered for a last answer."""
    if isinstance(lead, Agent):
        made = handoff(lead)
    elif isinstance(lead, Handoff):
        made = copy.copy(lead)
    else:
        return lead
    own = made.is_enabled

    async def is_enabled(context: RunContextWrapper[Any], agent: AgentBase[Any]) -> bool:
        if at(context).last is not None:
            return False
        said = own(context, agent) if callable(own) else own
        return bool(await said if inspect.isawaitable(said) else said)

    made.is_enabled = is_enabled
    return made
