"""Plays agents of the OpenAI Agents SDK for `lastcall replay --live`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents import (
    Agent,
    ComputerTool,
    ItemHelpers,
    MaxTurnsExceeded,
    RunErrorDetails,
    Runner,
    RunResult,
)

from lastcall import Stopped
from lastcall.live import Play, UnfinishedError
from lastcall_openai_agents import recorded
from lastcall_openai_agents.coverage import agents_in, coverage
from lastcall_openai_agents.endings import stop_of
from lastcall_openai_agents.instrument import instrument

LISTED = "it is asked which tools it has, and for nothing else; whoever makes the agent connects it"

ITEMS, AGENT = "items", "agent"
"""Under which names the conversation so far is kept from turn to turn, and the agent at work."""


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
        """Run the agent once, with the items so far and what the user says; after a hand-over it is the agent that
        took over, as in the SDK's own demo loop. Raises ValueError for one with a computer: pictures are not
        recorded."""
        agent = play.kept.get(AGENT, agent)
        for each in agents_in(agent):
            if any(isinstance(tool, ComputerTool) for tool in each.tools):
                raise ValueError(f"{each.name} has a computer, which cannot be lived again")
        before = play.kept.get(ITEMS)
        given = [*before, {"role": "user", "content": play.prompt}] if before else play.prompt
        undo = instrument(play.guard)
        recorded.TAPES.append(play.tape)
        try:
            with play.guard.within(thread=play.thread):
                result = play.complete(Runner.run(agent, given, max_turns=play.most))
        except MaxTurnsExceeded as error:
            raise UnfinishedError(f"a limit: {error}") from error
        except Exception as error:
            stop = stop_of(error)
            if stop is None:
                raise
            keep(play, getattr(error, "run_data", None))
            raise Stopped(stop) from error
        finally:
            recorded.TAPES.remove(play.tape)
            undo()
        keep(play, result)
        stop = stop_of(result)
        if stop is not None:
            raise Stopped(stop)
        if result.interruptions:
            raise UnfinishedError("a pause: a person has to approve a call")
        return result.final_output


def keep(play: Play, run: RunResult | RunErrorDetails | None) -> None:
    """Keep what a *run* came to, or as much as its error tells: its items, and the agent at work."""
    if run is None:
        said = {"role": "user", "content": play.prompt}
        play.kept[ITEMS] = [*play.kept.get(ITEMS, ()), said]
        return
    if isinstance(run, RunErrorDetails):
        made = [item.to_input_item() for item in run.new_items]
        play.kept[ITEMS] = [*ItemHelpers.input_to_new_input_list(run.input), *made]
    else:
        play.kept[ITEMS] = run.to_input_list()
    play.kept[AGENT] = run.last_agent
