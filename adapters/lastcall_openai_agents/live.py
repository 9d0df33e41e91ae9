"""Plays agents of the OpenAI Agents SDK for `lastcall replay --live`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents import Agent, ComputerTool, MaxTurnsExceeded, Runner

from lastcall import Stopped
from lastcall.live import Play, UnfinishedError
from lastcall_openai_agents import recorded
from lastcall_openai_agents.coverage import agents_in, coverage
from lastcall_openai_agents.endings import stop_of
from lastcall_openai_agents.instrument import instrument

LISTED = "it is asked which tools it has, and for nothing else; whoever makes the agent connects it"


class AgentsPlayer:
    """Plays an Agent, and those that it hands over to or uses as tools."""

    def plays(self, agent: object) -> bool:
        """Whether it is an Agent."""
        return isinstance(agent, Agent)

    def gaps(self, agent: Any) -> Sequence[tuple[str, str]]:
        """Tools that run at the provider, and MCP servers, which list their tools."""
        servers = {server.name for each in agents_in(agent) for server in each.mcp_servers}
        return [*coverage(agent).gaps, *((name, LISTED) for name in sorted(servers))]

    def play(self, agent: Any, play: Play) -> Any:
        """Run the agent once. Raises ValueError for one with a computer: pictures are not recorded."""
        for each in agents_in(agent):
            if any(isinstance(tool, ComputerTool) for tool in each.tools):
                raise ValueError(f"{each.name} has a computer, which cannot be lived again")
        undo = instrument(play.guard)
        recorded.TAPES.append(play.tape)
        try:
            result = play.complete(Runner.run(agent, play.prompt, max_turns=play.most))
        except MaxTurnsExceeded as error:
            raise UnfinishedError(f"a limit: {error}") from error
        except Exception as error:
            stop = stop_of(error)
            if stop is None:
                raise
            raise Stopped(stop) from error
        finally:
            recorded.TAPES.remove(play.tape)
            undo()
        stop = stop_of(result)
        if stop is not None:
            raise Stopped(stop)
        if result.interruptions:
            raise UnfinishedError("a pause: a person has to approve a call")
        return result.final_output
