"""Guarded copies of agents, with everything that they lead to."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from agents import Agent, AgentBase, FunctionTool, Handoff, RunContextWrapper, Tool

from lastcall import Guard, Stop
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.answers import Final, answering
from lastcall_openai_agents.endings import Ending
from lastcall_openai_agents.guards import MARK, marks
from lastcall_openai_agents.runner import install
from lastcall_openai_agents.servers import guarded_server
from lastcall_openai_agents.tools import guarded

A = TypeVar("A", bound=AgentBase[Any])


def guard_agent(
    agent: A,
    guard: Guard,
    *,
    last_answer: bool = False,
    final_output: Callable[[Stop], Any] | None = None,
) -> A:
    """A guarded copy of *agent*: its tools, its MCP servers, the agents it hands over to and those it
    uses as tools. A run that is stopped ends as a normal result, and `stop_of(result)` tells why. The
    agent itself stays as it is. Guarding twice with one guard guards once.

    *last_answer*: the model is asked once more, without tools, and its text is the output.
    *final_output* makes the output of a stopped run where the agent has an output type of its own;
    without it that output is the stop.
    """
    install()
    return Copies(guard, Final(last_answer, final_output)).of(agent)


class Copies:
    """The guarded copies of one graph of agents; one copy for each, also where they lead in circles."""

    def __init__(self, guard: Guard, final: Final = Final()) -> None:  # noqa: B008 - a constant
        self._guard = guard
        self._final = final
        self._made: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def of(self, agent: A) -> A:
        """The copy of *agent*."""
        if self._guard in marks(agent):
            return agent
        known = self._made.get(id(agent))
        if known is not None and known[0]() is agent:
            return known[1]  # type: ignore[no-any-return]
        made = copy.copy(agent)
        # Before the rest: the graph may lead back here.
        self._made[id(agent)] = (weakref.ref(agent, partial(self._forget, id(agent))), made)
        setattr(made, MARK, (*marks(agent), self._guard))
        made.tools = [self.tool(tool) for tool in agent.tools]
        made.mcp_servers = [guarded_server(server, self._guard) for server in agent.mcp_servers]
        self.ends(made)
        return made

    def ends(self, made: Any) -> None:
        """Guard what comes after the tools of *made*: hand-overs, and how its run ends."""
        made.handoffs = [self.lead(lead) for lead in made.handoffs]
        if not isinstance(made, Agent):
            # A realtime agent: its session goes on until somebody hangs up.
            return
        own = made.tool_use_behavior
        if not (isinstance(own, Ending) and own.covers(self._guard)):
            made.tool_use_behavior = Ending(self._guard, own, made, self._final)
        if self._final.last_answer:
            answering(made)

    def _forget(self, agent: int, _: object) -> None:
        self._made.pop(agent, None)

    def tool(self, tool: Tool) -> Tool:
        """The copy of *tool*, and of the agent behind it."""
        inner = _sdk.agent_of(tool) if isinstance(tool, FunctionTool) else None
        agent = None if inner is None else self.of(inner)
        made: Tool = guarded(tool, self._guard, agent=agent)
        return made

    def lead(self, lead: Any) -> Any:
        """The copy of a hand-over, which leads to the copy of its agent."""
        if isinstance(lead, AgentBase):
            return self.of(lead)
        if not isinstance(lead, Handoff) or self._guard in marks(lead):
            return lead
        made = copy.copy(lead)
        setattr(made, MARK, (*marks(lead), self._guard))

        async def invoke(ctx: RunContextWrapper[Any], text: str) -> Any:
            found = await lead.on_invoke_handoff(ctx, text)
            return self.of(found) if isinstance(found, AgentBase) else found

        made.on_invoke_handoff = invoke
        target = _sdk.target_of(lead)
        if target is not None:
            _sdk.set_target_of(made, weakref.ref(self.of(target)))
        return made
