"""A guarded agent ends with a result, also after a turn in which the SDK asks nobody how to go on."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, ProgrammaticToolCallingTool, RunHooks
from openai.types.responses.response_output_item import Program, ProgramOutput
from pydantic import BaseModel

from lastcall import Guard, Policy
from lastcall.rules import Refusals
from lastcall_openai_agents import StopText, guard_agent

from .playing import Kept
from .scripted import play, script, stubborn, unanswered
from .test_cases import UNKNOWN
from .test_requests import Few
from .test_tool_kinds import ASKS, tool_of

kinds = pytest.mark.parametrize("kind", ASKS)


def runaway(kind: str, **fields: Any) -> tuple[Agent[Any], list[Any]]:
    """An agent that asks ten times for a tool of *kind*, and what the tool did."""
    done: list[Any] = []
    asks = [ASKS[kind](i, f"c{i}") for i in range(10)]
    return Agent("A", tools=[tool_of(kind, done)], model=script(*asks, "done"), **fields), done


@kinds
def test_the_result_of_a_runaway_carries_the_stop(kind, mode):
    class Ends(RunHooks[Any]):
        said: Any = ()

        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            self.said = (*self.said, output)

    ends, session = Ends(), Kept()
    agent, done = runaway(kind)
    guarded = guard_agent(agent, Guard(Policy(max_calls=3)))
    played = play(guarded, mode, hooks=ends, session=session)
    assert played.error is None
    assert isinstance(played.result.final_output, StopText)
    assert (played.stop.reason, played.stop.scope) == ("ceiling", "turn")
    assert (len(done), played.requests) == (3, 4)
    # It ends as any run does: hooks are told, and the session has it all.
    assert ends.said == (played.result.final_output,)
    assert len(session.items) == 1 + 2 * 4
    assert not unanswered(session.items)


class Report(BaseModel):
    text: str


@kinds
def test_the_output_may_be_of_a_type_of_its_own(kind, mode):
    agent, _ = runaway(kind, output_type=Report)
    guard = Guard(Policy(max_calls=3))
    made = lambda stop: Report(text=stop.reason)
    played = play(guard_agent(agent, guard, final_output=made), mode)
    assert played.result.final_output == Report(text="ceiling")
    assert played.stop.reason == "ceiling"


@kinds
def test_a_last_answer_is_asked_for(kind, mode):
    agent, done = runaway(kind)
    agent.model = script(*[ASKS[kind](i, f"c{i}") for i in range(4)], "What I have.")
    played = play(guard_agent(agent, Guard(Policy(max_calls=3)), last_answer=True), mode)
    assert (len(done), played.requests) == (3, 5)
    assert played.result.final_output == "What I have."
    assert played.stop.reason == "ceiling"


def test_calls_of_tools_that_there_are_not_end_it_too(mode):
    agent = Agent("A", model=stubborn("nowhere", lambda i: {"q": i}))
    played = play(guard_agent(agent, Guard()), mode, run_config=UNKNOWN)
    assert played.error is None
    assert (played.stop.reason, played.requests) == ("malformed", 3)
    assert played.result.final_output.stop == played.stop


@kinds
def test_a_guard_that_lets_it_go_on_is_asked_once_a_request(kind, mode):
    agent, _ = runaway(kind)
    agent.model = script(*[ASKS[kind](i, f"c{i}") for i in range(3)], "done")
    guard = Guard(Policy(rules=[Refusals(), Few(4)]))
    played = play(guard_agent(agent, guard), mode)
    assert (played.error, played.result.final_output, played.requests) == (None, "done", 4)


def test_an_answer_beside_what_ran_at_the_provider_is_the_end(mode):
    program = Program(id="p1", call_id="p1", type="program", code="1", fingerprint="f")
    brought = ProgramOutput(
        id="o1", call_id="p1", type="program_output", status="completed", result="1"
    )
    (answer,) = script("done").replies[0]
    tools = [ProgrammaticToolCallingTool()]
    agent = Agent("A", tools=tools, model=script([program, brought, answer]))
    # Whoever asked for leave for another request would hear that it is one too many.
    guard = Guard(Policy(rules=[Refusals(), Few(1)]))
    played = play(guard_agent(agent, guard), mode)
    assert (played.error, played.stop, played.result.final_output) == (None, None, "done")


def test_what_is_not_guarded_goes_on_as_before(mode):
    """Where the guard is in the tools alone there is no agent of ours to end."""
    agent, done = runaway("custom")
    played = play(agent, mode)
    assert (len(done), played.result.final_output) == (10, "done")
