"""`Policy(on_stop="ask")`: a person is asked by the SDK's approval before a call is refused."""

from __future__ import annotations

import asyncio
import json

import pytest
from agents import Agent, Runner, RunState, SQLiteSession, function_tool

from lastcall import Guard, Policy
from lastcall_openai_agents import guard_agent, snapshot_of, stop_of, stops_in
from lastcall_openai_agents.paused import PAUSED

from .scripted import call, play, script, stubborn, unanswered
from .test_mcp import Server, text


class Looking:
    def __init__(self, policy, model, **tool):
        self.ran = []
        self.guard = Guard(policy)

        @function_tool(**tool)
        def look(q: int, deep: bool = False) -> str:
            self.ran.append(q)
            return f"found {q}"

        self.agent = guard_agent(Agent("A", tools=[look], model=model), self.guard)


async def asked(agent, started, mode, session=None):
    if mode == "run":
        return await Runner.run(agent, started, session=session, max_turns=100)
    result = Runner.run_streamed(agent, started, session=session, max_turns=100)
    async for _ in result.stream_events():
        pass
    return result


def answered(result, approve=True):
    state = result.to_state()
    for item in state.get_interruptions():
        state.approve(item) if approve else state.reject(item)
    return state


def test_to_approve_gives_as_much_again_and_to_reject_ends_the_run(mode):
    looking = Looking(Policy(max_calls=2, on_stop="ask"), stubborn("look", lambda i: {"q": i}))

    async def played():
        session = SQLiteSession("s", ":memory:")
        result = await asked(looking.agent, "hi", mode, session)
        assert looking.ran == [0, 1]
        (stop,) = stops_in(result).values()
        assert (stop.reason, stop.limit, stop.tool) == ("ceiling", 2, "look")
        result = await asked(looking.agent, answered(result), mode, session)
        assert looking.ran == [0, 1, 2, 3]
        looking.guard.raise_limit(next(iter(stops_in(result).values())).run, 1)
        result = await asked(looking.agent, answered(result), mode, session)
        assert looking.ran == [0, 1, 2, 3, 4]
        result = await asked(looking.agent, answered(result, approve=False), mode, session)
        return result, await session.get_items()

    result, history = asyncio.run(played())
    assert looking.ran == [0, 1, 2, 3, 4]
    stop = stop_of(result)
    assert (stop.reason, stop.scope, stop.asked) == ("ceiling", "run", True)
    assert not unanswered(history)
    assert len(looking.guard.store) == 0


def test_a_repeat_that_is_approved_starts_anew(mode):
    looking = Looking(Policy(max_repeats=2, on_stop="ask"), stubborn("look", lambda i: {"q": 1}))

    async def played():
        started = "hi"
        for times in (2, 4, 6):
            result = await asked(looking.agent, started, mode)
            assert len(looking.ran) == times
            assert [each.reason for each in stops_in(result).values()] == ["repeat"]
            started = answered(result)

    asyncio.run(played())


def test_a_call_that_fills_in_a_default_is_not_asked_about(mode):
    looking = Looking(Policy(max_calls=5, on_stop="ask"), script(call("look", {"q": 1}), "done"))
    played = play(looking.agent, mode)
    assert played.result.interruptions == []
    assert played.result.final_output == "done"


@pytest.mark.parametrize("needed", [True, lambda context, args, call_id: args["q"] == 1])
def test_an_approval_of_the_tools_own_stays_what_it_was(mode, needed):
    looking = Looking(
        Policy(max_calls=5, on_stop="ask"),
        script(call("look", {"q": 1, "deep": True}), "done"),
        needs_approval=needed,
    )

    async def played():
        result = await asked(looking.agent, "hi", mode)
        assert len(result.interruptions) == 1
        assert stops_in(result) == {}
        return await asked(looking.agent, answered(result), mode)

    assert asyncio.run(played()).final_output == "done"
    assert looking.ran == [1]


def test_siblings_that_fit_run_and_the_others_wait(mode):
    reply = [call("look", {"q": i}, f"c{i}") for i in range(3)]
    looking = Looking(Policy(max_calls=1, on_stop="ask"), script(reply, "done"))

    async def played():
        result = await asked(looking.agent, "hi", mode)
        assert len(result.interruptions) == 2
        return await asked(looking.agent, answered(result), mode)

    assert asyncio.run(played()).final_output == "done"
    assert sorted(looking.ran) == [0, 1, 2]


def test_an_answer_in_another_process_is_an_answer(mode):
    first = Looking(
        Policy(max_calls=1, on_stop="ask"),
        script(call("look", {"q": 1}), call("look", {"q": 2}, "c2")),
    )
    second = Looking(Policy(max_calls=1, on_stop="ask"), script("done"))

    async def played():
        result = await asked(first.agent, "hi", mode)
        assert len(stops_in(result)) == 1
        saved, counts = json.dumps(result.to_state().to_json()), snapshot_of(result, first.guard)
        PAUSED._waiting.clear()
        second.guard.restore(counts)
        state = await RunState.from_json(second.agent, json.loads(saved))
        state.approve(state.get_interruptions()[0])
        return await asked(second.agent, state, mode)

    assert asyncio.run(played()).final_output == "done"
    assert (first.ran, second.ran) == ([1], [2])


class Shop:
    """An agent with an MCP server instead of a tool."""

    def __init__(self, policy, model, **settings):
        self.guard = Guard(policy)
        self.server = Server(lambda n: text(f"found {n}"), **settings)
        agent = Agent("A", mcp_servers=[self.server], model=model)
        self.agent = guard_agent(agent, self.guard)

    @property
    def ran(self):
        return [each["x"] for each in self.server.served]


def test_a_tool_of_a_server_waits_as_well(mode):
    shop = Shop(Policy(max_calls=2, on_stop="ask"), stubborn("order", lambda i: {"x": i}))

    async def played():
        result = await asked(shop.agent, "hi", mode)
        assert shop.ran == [0, 1]
        (stop,) = stops_in(result).values()
        assert (stop.reason, stop.limit, stop.tool) == ("ceiling", 2, "order")
        result = await asked(shop.agent, answered(result), mode)
        assert shop.ran == [0, 1, 2, 3]
        return await asked(shop.agent, answered(result, approve=False), mode)

    result = asyncio.run(played())
    assert shop.ran == [0, 1, 2, 3]
    assert (stop_of(result).reason, stop_of(result).asked) == ("ceiling", True)
    assert not unanswered(result.to_input_list())
    assert len(shop.guard.store) == 0


def test_the_stop_has_the_name_that_the_model_knows(mode):
    name = "mcp_shop__order"
    shop = Shop(Policy(max_calls=1, on_stop="ask"), stubborn(name, lambda i: {"x": i}))
    shop.agent.mcp_config = {"include_server_in_tool_names": True}
    result = asyncio.run(asked(shop.agent, "hi", mode))
    assert [each.tool for each in stops_in(result).values()] == [name]


def test_a_server_that_asks_anyway_asks_once(mode):
    model = script(call("order", {"x": 1}), call("order", {"x": 2}, "c2"), "done")
    shop = Shop(Policy(max_calls=1, on_stop="ask"), model, require_approval="always")

    async def played():
        result = await asked(shop.agent, "hi", mode)
        assert (len(result.interruptions), stops_in(result)) == (1, {})
        result = await asked(shop.agent, answered(result), mode)
        assert shop.ran == [1]
        return await asked(shop.agent, answered(result), mode)

    result = asyncio.run(played())
    # Who asks about every call was not told that this one is over the limit.
    assert shop.ran == [1]
    assert stop_of(result).reason == "ceiling"


def test_of_a_server_an_answer_in_another_process_is_an_answer(mode):
    policy = Policy(max_calls=1, on_stop="ask")
    first = Shop(policy, script(call("order", {"x": 1}), call("order", {"x": 2}, "c2")))
    second = Shop(policy, script("done"))

    async def played():
        result = await asked(first.agent, "hi", mode)
        saved, counts = json.dumps(result.to_state().to_json()), snapshot_of(result, first.guard)
        PAUSED._waiting.clear()
        second.guard.restore(counts)
        state = await RunState.from_json(second.agent, json.loads(saved))
        state.approve(state.get_interruptions()[0])
        return await asked(second.agent, state, mode)

    assert asyncio.run(played()).final_output == "done"
    assert (first.ran, second.ran) == ([1], [2])
