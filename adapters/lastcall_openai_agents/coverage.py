"""Says of an agent which of its tools a guard can stop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from agents import Agent, AgentBase, FunctionTool, Handoff

from lastcall_openai_agents import _sdk
from lastcall_openai_agents.handovers import SEAM as HAND_OVERS
from lastcall_openai_agents.kinds import UNKNOWN, gap_of

SPOKEN = "a realtime session hands over by itself"


class Gap(NamedTuple):
    """Something that no guard can stop here, and why."""

    tool: str
    why: str


class Coverage(NamedTuple):
    """What a guard can stop of an agent, and of those that it leads to."""

    guarded: tuple[str, ...]
    """The tools that run here, and hand-overs; of an MCP server whatever it lists: `server/*`."""
    gaps: tuple[Gap, ...]


def coverage(agent: AgentBase[Any]) -> Coverage:
    """What a guard can stop of *agent*, by `guard_agent` or `instrument`: its tools, and those of the
    agents that it hands over to or uses as tools, as far as it shows them beforehand."""
    guarded: dict[str, None] = {}
    gaps: dict[str, Gap] = {}
    for found in tools_in(agent, {}):
        if isinstance(found, Gap):
            gaps[found.tool] = found
        else:
            guarded[found] = None
    return Coverage(tuple(guarded), tuple(gaps.values()))


def tools_in(agent: AgentBase[Any], seen: dict[int, Any]) -> Iterator[str | Gap]:
    """The names of what *agent* and those behind it may call, and gaps."""
    if id(agent) in seen:
        return
    # Kept alive too: an object that is gone leaves its id to another.
    seen[id(agent)] = agent
    for tool in agent.tools:
        why = None if isinstance(tool, FunctionTool) else gap_of(tool)
        yield tool.name if why is None else Gap(tool.name, why)
        inner = _sdk.agent_of(tool) if isinstance(tool, FunctionTool) else None
        if inner is not None:
            yield from tools_in(inner, seen)
    for server in agent.mcp_servers:
        yield f"{server.name}/*"
    for lead in getattr(agent, "handoffs", ()):
        name = lead.tool_name if isinstance(lead, Handoff) else Handoff.default_tool_name(lead)
        why = gap_of_lead(agent)
        yield name if why is None else Gap(name, why)
        target = _sdk.target_of(lead) if isinstance(lead, Handoff) else lead
        if target is not None:
            yield from tools_in(target, seen)


def agents_in(agent: AgentBase[Any]) -> list[AgentBase[Any]]:
    """*agent* and those that it hands over to or uses as tools, as far as it shows them beforehand."""
    found: dict[int, AgentBase[Any]] = {}
    due: list[AgentBase[Any]] = [agent]
    while due:
        one = due.pop()
        if id(one) in found:
            continue
        found[id(one)] = one
        inner = (_sdk.agent_of(tool) for tool in one.tools if isinstance(tool, FunctionTool))
        leads = getattr(one, "handoffs", ())
        targets = (_sdk.target_of(lead) if isinstance(lead, Handoff) else lead for lead in leads)
        due += [each for each in (*inner, *targets) if each is not None]
    return list(found.values())


def gap_of_lead(agent: AgentBase[Any]) -> str | None:
    """Why no guard can stop a hand-over of *agent*; None when one can."""
    if not isinstance(agent, Agent):
        return SPOKEN
    return None if HAND_OVERS.there else UNKNOWN
