"""One transcript, several roads: a real agent that lives a recorded run again, guarded in each of the ways
there are, comes to the stops that replay tells of, at the same calls."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver

from lastcall import Guard, Stopped
from lastcall.testing import FakeClock
from lastcall_langchain import (
    GuardCallbackHandler,
    GuardMiddleware,
    guard_tools,
    instrument,
    stop_of,
)

from ..recorded import (  # noqa: TID252 - tests are no package
    FORMATS,
    POLICIES,
    Lived,
    Recording,
    chosen,
    differing,
    expected,
    runs,
)
from .scripted import unanswered

ROADS = ("middleware", "handler", "tools", "instrument")
MODES = ("invoke", "ainvoke")


class Told(BaseChatModel):
    """Says what the recorded model said."""

    recording: Any

    @property
    def _llm_type(self):
        return "told"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        calls = [
            {"name": call.tool, "args": call.args, "id": call_id, "type": "tool_call"}
            for _, call_id, call in self.recording.reply()
        ]
        said = AIMessage("" if calls else "done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        return self._generate(messages)


def tool_of(name, recording, *, shell, raises):
    """A tool that takes any arguments and answers as recorded; a failure it *raises*, or returns."""

    def body(runtime: ToolRuntime, **args):
        call = recording.answer(runtime.tool_call_id)
        if not call.failed:
            return call.result
        if raises:
            raise ToolException(call.result)
        return ToolMessage(call.result, tool_call_id=runtime.tool_call_id, status="error")

    async def abody(runtime: ToolRuntime, **args):
        return body(runtime, **args)

    return StructuredTool(
        name=name,
        description=name,
        args_schema={"type": "object", "properties": {}},
        func=body,
        coroutine=abody,
        handle_tool_error=True,
        metadata={"lastcall": {"shell": shell}},
    )


def lived(run, policy, road, mode, *, raises):
    """Each turn of *run*, lived again on one thread."""
    recording = Recording(run)
    guard = Guard(policy, clock=FakeClock(), listeners=[recording.listen])
    tools = [
        tool_of(name, recording, shell=shell, raises=raises)
        for name, shell in recording.shells.items()
    ]
    agent = create_agent(
        Told(recording=recording),
        guard_tools(tools, guard) if road == "tools" else tools,
        middleware=[GuardMiddleware(guard)] if road == "middleware" else [],
        checkpointer=InMemorySaver(),
    )
    config = {
        "configurable": {"thread_id": "t"},
        "callbacks": [GuardCallbackHandler(guard)] if road == "handler" else [],
        "recursion_limit": 1000,
        # A transcript has the calls of a reply one after the other. Let loose, threads decide which of
        # them is judged first, and thereby which of two equal ones, or which beyond a budget, is refused.
        "max_concurrency": 1,
    }
    with ExitStack() as after:
        if road == "instrument":
            after.callback(instrument(guard))
        return [turn_of(agent, config, mode, recording, turn) for turn in recording.turns]


def turn_of(agent, config, mode, recording, turn):
    recording.begin(turn)
    given = {"messages": [("user", "go on")]}
    try:
        if mode == "invoke":
            result = agent.invoke(given, config)
        else:
            result = asyncio.run(agent.ainvoke(given, config))
    except Stopped as stopped:
        result = stopped
    course = recording.course(stop_of(result))
    history = agent.get_state(config).values["messages"]
    return Lived(course, told_in(history, turn), tuple(unanswered(history)))


def told_in(history, turn):
    """The numbers of the calls of *turn*, the last in *history*, that were answered with a stop."""
    begin = max(i for i, message in enumerate(history) if message.type == "human")
    replies, numbers, told = iter(turn), {}, []
    for message in history[begin:]:
        if isinstance(message, AIMessage) and message.tool_calls:
            numbers = {call_id: number for number, call_id, _ in next(replies)}
        if isinstance(message, ToolMessage) and message.text.startswith("Stopped: "):
            assert message.status == "error"
            told.append(numbers[message.tool_call_id])
    return tuple(told)


@cache
def lives(corpus, name, road, mode):
    """What replay tells and what was lived, turn by turn, by the run's file."""
    policy, told = POLICIES[name], expected(corpus, name)
    return {
        # A failure is raised in every other run, and returned in the others.
        run.file: tuple(
            zip(
                told[run.file],
                lived(run, policy, road, mode, raises=at % 2 == 0),
                strict=True,
            )
        )
        for at, run in enumerate(chosen(corpus, name))
    }


on_every_road = pytest.mark.parametrize(
    ("policy", "road", "mode"),
    [
        (policy, road, MODES[(at + nth) % 2])
        for at, policy in enumerate(POLICIES)
        for nth, road in enumerate(ROADS)
    ],
)
"""Every policy on every road, and either of them in both modes; all at once would take a minute."""


@on_every_road
def test_the_same_calls_meet_the_same_stops(corpus, policy, road, mode):
    assert differing(lives(corpus, policy, road, mode), lambda course: course.met) == {}


@on_every_road
def test_the_same_calls_are_executed_and_none_after_the_end(corpus, policy, road, mode):
    assert differing(lives(corpus, policy, road, mode), lambda course: course.executed) == {}


@on_every_road
def test_the_agent_comes_back_with_the_stop_that_ended_its_turn(corpus, policy, road, mode):
    assert differing(lives(corpus, policy, road, mode), lambda course: course.ended) == {}


@on_every_road
def test_the_model_reads_of_each_stop_and_every_call_is_answered(corpus, policy, road, mode):
    for file, turns in lives(corpus, policy, road, mode).items():
        for replay, life in turns:
            # A handler hears an answer that is on its way to the model already; that it was a stop, the
            # model reads when it makes the call again.
            stops = [met for met in replay.met if met.refused or road != "handler"]
            assert life.told == tuple(met.number for met in stops), file
            assert life.unanswered == (), file


def test_most_of_the_runs_that_are_lived_again_are_stopped(corpus):
    courses = {
        (name, file): turns for name in POLICIES for file, turns in expected(corpus, name).items()
    }
    stopped = [key for key, turns in courses.items() if any(turn.met for turn in turns)]
    assert len({file for _, file in courses}) >= 40
    assert len(stopped) >= len(courses) * 2 // 3
    loops = {run.file for run in runs(corpus, *FORMATS, loops=True)}
    assert len(loops) == 9
    assert loops <= {file for _, file in courses}
    met = [each for turns in courses.values() for turn in turns for each in turn.met]
    assert {each.reason for each in met} == {
        "ceiling", "failing", "refusals", "repeat", "same", "terminal",
    }  # fmt: skip
    assert {each.scope for each in met} == {"call", "tool", "turn", "run"}
    assert {each.status for each in met} == {None, 503}
    assert {each.refused for each in met} == {True, False}
