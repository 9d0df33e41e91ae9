"""One transcript, several roads: a real agent that lives a recorded run again, guarded in each of the ways
there are, comes to the stops that replay tells of, at the same calls. LangChain lives the same runs.

What differs, and why:

- The SDK takes an id that a model uses again for the call of before, and ends the run. So here each call of
  a run has an id of its own.
- The SDK starts the calls of a reply at once. Here they are called one after the other, as a transcript has
  them; else the loop decides which of two equal ones is the second.
- `GuardHooks` decides about a whole reply before any of its calls begins: what one of them brings can
  refuse none of its siblings.
- A function of the SDK fails by raising alone. A failure that is returned comes from an MCP server, whose
  name is part of the call's fingerprint, where it is known: hooks are told of the tool alone.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import cache
from itertools import islice
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, ToolExecutionConfig, function_tool
from agents.mcp import MCPServer
from agents.tool_context import ToolContext
from mcp.types import CallToolResult, Tool
from msgspec.structs import replace

from lastcall import Guard, Policy
from lastcall.testing import FakeClock
from lastcall.transcripts import RecordedCall, Transcript
from lastcall_openai_agents import (
    GuardHooks,
    RunStopped,
    guard_agent,
    guard_tools,
    instrument,
    stop_of,
)

from ..recorded import (  # noqa: TID252 - a sibling folder
    POLICIES,
    Course,
    Ended,
    Lived,
    Lives,
    Recording,
    chosen,
    differing,
    expected,
    replayed,
)
from .playing import Kept
from .scripted import Script, call, get, script, unanswered

ROADS = ("guard_agent", "GuardHooks", "instrument")
MODES = ("run", "streamed")

IN_TURN = RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1))


class Told(Script):
    """Says what the recorded model said."""

    def __init__(self, recording: Recording) -> None:
        super().__init__([])
        self.recording = recording

    def _next(self, asked: Any) -> list[Any]:
        calls = [call(each.tool, each.args, call_id) for _, call_id, each in self.recording.reply()]
        return calls or script("done").replies[0]


class Failed(Exception):
    """As a tool raises it."""


def tool_of(name: str, recording: Recording) -> Any:
    """A tool that takes any arguments and answers as recorded; a failure it raises."""

    async def body(ctx: ToolContext[Any]) -> Any:
        told = recording.answer(ctx.tool_call_id)
        if told.failed:
            raise Failed(told.result)
        return told.result

    return function_tool(body, name_override=name, strict_mode=False)


class Desk(MCPServer):
    """A server with the recorded tools; a failure it returns."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording
        self.tool_meta_resolver = lambda asked: {"id": asked.run_context.tool_call_id}

    name = "desk"

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Tool]:
        schema = {"type": "object", "properties": {}}
        return [Tool(name=name, inputSchema=schema) for name in self.recording.shells]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        told = self.recording.answer(meta["id"])
        content = [{"type": "text", "text": told.result}]
        return CallToolResult.model_validate({"content": content, "isError": bool(told.failed)})

    async def connect(self) -> None: ...
    async def cleanup(self) -> None: ...
    async def list_prompts(self) -> Any: ...
    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...


def named_apart(run: Transcript) -> Transcript:
    """*run*, in which each call gets an id of its own."""
    return replace(run, calls=tuple(replace(each, id=None) for each in run.calls))


async def lived(
    run: Transcript, policy: Policy, road: str, mode: str, *, served: bool = False
) -> list[Lived]:
    """Each turn of *run*, lived again in one session; its tools may be *served*."""
    recording = Recording(named_apart(run))
    guard = Guard(policy, clock=FakeClock(), listeners=[recording.listen])
    agent = Agent("A", model=Told(recording))
    if served:
        agent.mcp_servers = [Desk(recording)]
    else:
        agent.tools = [tool_of(name, recording) for name in recording.shells]
    if road == "guard_agent":
        agent = guard_agent(agent, guard)
    elif road == "guard_tools":
        agent.tools = guard_tools(agent.tools, guard)
    options: dict[str, Any] = {"session": Kept("t"), "max_turns": 1000, "run_config": IN_TURN}
    if road == "GuardHooks":
        options["hooks"] = GuardHooks(guard)
    with ExitStack() as after:
        if road == "instrument":
            after.callback(instrument(guard))
        return [await turn_of(agent, mode, options, recording, turn) for turn in recording.turns]


async def turn_of(
    agent: Agent[Any], mode: str, options: dict[str, Any], recording: Recording, turn: Any
) -> Lived:
    recording.begin(turn)
    result: Any
    try:
        if mode == "run":
            result = await Runner.run(agent, "go on", **options)
        else:
            result = Runner.run_streamed(agent, "go on", **options)
            async for _ in result.stream_events():
                pass
    except RunStopped as stopped:
        result = stopped
    course = recording.course(stop_of(result))
    items = options["session"].items
    return Lived(course, told_in(items, turn), tuple(unanswered(items)))


def told_in(items: list[Any], turn: Any) -> tuple[int, ...]:
    """The numbers of the calls of *turn* that were answered with a stop."""
    told = {
        get(each, "call_id")
        for each in items
        if get(each, "type") == "function_call_output" and "Stopped: " in str(get(each, "output"))
    }
    return tuple(asked.number for reply in turn for asked in reply if asked.id in told)


@cache
def lives(corpus: Any, name: str, road: str, mode: str) -> Lives:
    """What replay tells and what was lived, turn by turn, by the run's file."""
    told = expected(corpus, name)

    async def all_of_them() -> Lives:
        return {
            run.file: tuple(
                zip(told[run.file], await lived(run, POLICIES[name], road, mode), strict=True)
            )
            for run in chosen(corpus, name)
        }

    return asyncio.run(all_of_them())


on_every_road = pytest.mark.parametrize(
    ("policy", "road", "mode"),
    [
        (policy, road, MODES[(at + nth) % 2])
        for at, policy in enumerate(POLICIES)
        for nth, road in enumerate(ROADS)
    ],
)
"""Every policy on every road, and either of them run and streamed; all at once would take a minute."""


@on_every_road
def test_the_same_calls_meet_the_same_stops(corpus, policy, road, mode):
    assert differing(lives(corpus, policy, road, mode), lambda course: course.met) == {}


@on_every_road
def test_the_same_calls_are_executed_and_none_after_the_end(corpus, policy, road, mode):
    assert differing(lives(corpus, policy, road, mode), lambda course: course.executed) == {}


@on_every_road
def test_the_run_comes_back_with_the_stop_that_ended_its_turn(corpus, policy, road, mode):
    assert differing(lives(corpus, policy, road, mode), lambda course: course.ended) == {}


@on_every_road
def test_the_model_reads_of_each_stop_and_every_call_is_answered(corpus, policy, road, mode):
    for file, turns in lives(corpus, policy, road, mode).items():
        for replay, life in turns:
            assert life.told == tuple(met.number for met in replay.met), file
            assert life.unanswered == (), file


def test_they_are_the_runs_that_langchain_lives(corpus):
    turns = {file: turns for name in POLICIES for file, turns in expected(corpus, name).items()}
    assert len(turns) >= 40
    met = [each for name in POLICIES for told in expected(corpus, name).values() for each in told]
    assert {each.reason for course in met for each in course.met} == {
        "ceiling", "failing", "refusals", "repeat", "same", "terminal",
    }  # fmt: skip
    at_once = [run for name in POLICIES for run in chosen(corpus, name) if several(run)]
    assert len(at_once) >= 5


def several(run: Transcript) -> bool:
    """Whether a reply of *run* asks for more than one call."""
    return len({(each.turn, each.reply) for each in run.calls}) < len(run.calls)


# What differs.


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("policy", ["default", "patient", "503 is final"])
def test_a_failure_that_a_server_returns_is_as_one_that_a_tool_raises(corpus, policy, road):
    failing = [run for run in chosen(corpus, policy) if any(each.failed for each in run.calls)]
    assert failing

    def plain(course: Course) -> Any:
        # The server's name is part of the fingerprint.
        return course._replace(met=tuple(met._replace(fingerprint="") for met in course.met))

    for run in islice(failing, 4):
        turns = asyncio.run(lived(run, POLICIES[policy], road, "run", served=True))
        told = replayed(run, POLICIES[policy])
        assert [plain(life.course) for life in turns] == [plain(course) for course in told]
        assert not any(life.unanswered for life in turns)


def made(*replies: list[RecordedCall]) -> Transcript:
    """A run of one turn."""
    calls = [replace(each, reply=at) for at, reply in enumerate(replies) for each in reply]
    return Transcript("made", "made", "made", tuple(calls))


NO = RecordedCall("order", {"q": 1}, result="HTTP 422: no such order", failed=True)
YES = RecordedCall("look", {"q": 2}, result="found")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("road", [*ROADS, "guard_tools"])
def test_hooks_decide_about_a_reply_before_any_of_its_calls_begins(road, mode):
    run = made([NO, YES], [YES])
    (life,) = asyncio.run(lived(run, Policy.strict(), road, mode))
    assert life.course.ended == Ended("order", "terminal", "turn", 422)
    # The first answer ends the turn; the second call was let pass before it was there, or it was not.
    assert life.course.executed == ((0, 1) if road == "GuardHooks" else (0,))
    assert life.unanswered == ()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("road", [*ROADS, "guard_tools"])
def test_an_answer_that_is_a_stop_is_read_as_one(road, mode):
    answer = '{"status_code": 422, "error": "no such order"}'
    run = made(*[[replace(NO, result=answer, failed=None)]] * 2)
    (life,) = asyncio.run(lived(run, Policy(), road, mode))
    assert life.course.executed == (0,)
    assert [(met.number, met.refused) for met in life.course.met] == [(0, False), (1, True)]
    assert life.told == (0, 1)
