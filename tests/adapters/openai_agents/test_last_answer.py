"""The last answer, and outputs of stopped runs that have a type of their own."""

from __future__ import annotations

import asyncio
import copy
import pickle

import pytest
from agents import Agent, Runner, function_tool
from pydantic import BaseModel

from lastcall import Guard, Policy, Stop
from lastcall_openai_agents import RunStopped, StopText, guard_agent, stop_of

from .scripted import Script, call, play, script


class Asked(Script):
    """Notes what each request offers and is told."""

    def __init__(self, replies):
        super().__init__(replies)
        self.offered = []

    def note(self, system, args, more):
        tools = more.get("tools", args[1] if len(args) > 1 else ())
        self.offered.append(([each.name for each in tools], system))

    async def get_response(self, system_instructions, input, *rest, **more):
        self.note(system_instructions, rest, more)
        return await super().get_response(system_instructions, input, *rest, **more)

    async def stream_response(self, system_instructions, input, *rest, **more):
        self.note(system_instructions, rest, more)
        async for each in super().stream_response(system_instructions, input, *rest, **more):
            yield each


@function_tool
def look(q: int) -> str:
    return f"found {q}"


def asked(*last, calls=4):
    replies = [call("look", {"q": i}, f"c{i}") for i in range(calls)]
    return Asked(script(*replies, *last).replies)


def agent(model, **fields):
    return Agent("A", tools=[look], model=model, instructions="Be brief.", **fields)


def test_the_model_is_asked_once_more_without_tools(mode):
    guard, model = Guard(Policy(max_calls=3)), asked("Here is what I have.")
    played = play(guard_agent(agent(model), guard, last_answer=True), mode)
    assert played.error is None
    assert played.result.final_output == "Here is what I have."
    assert played.requests == 5
    assert [tools for tools, _ in model.offered] == [["look"]] * 4 + [[]]
    assert model.offered[-1][1].startswith("Be brief.\n\nStopped: look:")
    assert played.stop.reason == "ceiling"
    assert [each.result for each in played.stop.gathered] == ["found 0", "found 1", "found 2"]
    assert not played.unanswered


def test_with_and_without_streaming_the_history_is_the_same():
    saved = []
    for mode in ("run", "streamed"):
        model = asked("Here is what I have.")
        made = guard_agent(agent(model), Guard(Policy(max_calls=3)), last_answer=True)
        saved.append(play(made, mode).session)
    plain = [[(i.get("type"), i.get("output")) for i in items] for items in saved]
    assert plain[0] == plain[1]


def test_a_model_that_still_asks_for_tools_is_ended(mode):
    guard = Guard(Policy(max_calls=3))
    model = asked(call("look", {"q": 9}, "again"))
    played = play(guard_agent(agent(model), guard, last_answer=True), mode)
    assert played.requests == 5
    assert played.stop is not None or stop_of(played.result) is not None


def test_a_request_that_fails_gives_the_stop_all_the_same():
    class Failing(Asked):
        async def get_response(self, system_instructions, input, *rest, **more):
            if len(self.calls) == 4:
                raise ConnectionError("gone")
            return await super().get_response(system_instructions, input, *rest, **more)

    model = Failing(asked().replies)
    played = play(guard_agent(agent(model), Guard(Policy(max_calls=3)), last_answer=True))
    assert isinstance(played.error, RunStopped)
    assert isinstance(played.error.__cause__, ConnectionError)
    assert len(played.stop.gathered) == 3


@pytest.mark.parametrize("cancelled", ["immediate", "after_turn"])
def test_a_streamed_run_can_be_called_off_while_it_is_asked_for(cancelled):
    class Waiting(Asked):
        async def stream_response(self, system_instructions, input, *rest, **more):
            if len(self.calls) == 4:
                begun.set()
                await go.wait()
            async for each in super().stream_response(system_instructions, input, *rest, **more):
                yield each

    async def scene():
        result = Runner.run_streamed(made, "hi")
        await begun.wait()
        result.cancel(cancelled)
        if cancelled == "after_turn":
            go.set()
        async for _ in result.stream_events():
            pass
        return result, asyncio.all_tasks() - {asyncio.current_task()}

    begun, go, guard = asyncio.Event(), asyncio.Event(), Guard(Policy(max_calls=3))
    made = guard_agent(agent(Waiting(asked("late").replies)), guard, last_answer=True)
    result, left = asyncio.run(scene())
    assert left == set()
    assert stop_of(result).reason == "ceiling"
    assert len(guard.store) == 0


def test_the_next_turn_is_as_any_other(mode):
    guard = Guard(Policy(max_calls=1))
    made = guard_agent(agent(asked("one", calls=2)), guard, last_answer=True)
    assert play(made, mode).stop is not None
    made.model = asked("two", calls=1)
    played = play(made, mode)
    assert played.stop is None
    assert played.result.final_output == "two"


def test_only_the_outermost_agent_answers(mode):
    guard = Guard(Policy(max_calls=2))
    inner = Agent(
        "inner", tools=[look], model=script(*[call("look", {"q": i}, f"i{i}") for i in range(4)])
    )
    outer_model = Asked(script(call("ask", {"input": "x"}, "o1"), "All I know.").replies)
    outer = Agent(
        "outer", tools=[inner.as_tool("ask", "Ask.")], model=outer_model, instructions="I"
    )
    played = play(guard_agent(outer, guard, last_answer=True), mode)
    assert played.result.final_output == "All I know."
    assert len(inner.model.calls) == 2
    assert played.stop is not None


class Report(BaseModel):
    text: str
    stopped: bool = False


def test_a_type_of_its_own_is_made_by_the_users_function(mode):
    def made(stop: Stop) -> Report:
        return Report(text=stop.reason, stopped=True)

    guard = Guard(Policy(max_calls=3))
    guarded = guard_agent(agent(asked(), output_type=Report), guard, final_output=made)
    played = play(guarded, mode)
    assert played.result.final_output == Report(text="ceiling", stopped=True)
    assert played.stop.reason == "ceiling"


@pytest.mark.parametrize("last_answer", [False, True])
def test_without_one_the_output_is_the_stop(mode, last_answer):
    guard = Guard(Policy(max_calls=3))
    guarded = guard_agent(agent(asked(), output_type=Report), guard, last_answer=last_answer)
    played = play(guarded, mode)
    assert isinstance(played.result.final_output, Stop)
    assert played.requests == 4


def test_a_last_answer_survives_copies():
    model = asked("Here is what I have.")
    made = guard_agent(agent(model), Guard(Policy(max_calls=3)), last_answer=True)
    result = asyncio.run(Runner.run(made, "hi"))
    for same in (
        copy.deepcopy(result.final_output),
        pickle.loads(pickle.dumps(result.final_output)),
    ):
        assert isinstance(same, StopText)
        assert same == "Here is what I have."
        assert same.stop.reason == "ceiling"
