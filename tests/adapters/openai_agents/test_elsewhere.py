"""A run that waits for a person goes on in another process, with its counts."""

from __future__ import annotations

import asyncio
import json

import pytest
from agents import Agent, Runner, RunState, SQLiteSession, function_tool

from lastcall import Guard, MemoryStore, Policy
from lastcall_openai_agents import GuardHooks, guard_agent, snapshot_of
from lastcall_openai_agents.paused import PAUSED

from .playing import Kept
from .scripted import call, script


class Paying:
    def __init__(self):
        self.ran = []

    def agent(self, guard, *replies):
        @function_tool(needs_approval=True)
        async def pay(x: int) -> str:
            self.ran.append(x)
            return "paid"

        return guard_agent(Agent("A", tools=[pay], model=script(*replies)), guard)


async def asked(agent, started, mode, **options):
    if mode == "run":
        return await Runner.run(agent, started, **options)
    result = Runner.run_streamed(agent, started, **options)
    async for _ in result.stream_events():
        pass
    return result


async def approved(agent, saved):
    state = await RunState.from_json(agent, json.loads(saved))
    for item in state.get_interruptions():
        state.approve(item)
    return state


@pytest.mark.parametrize("session", [None, "s1"])
@pytest.mark.parametrize("shared", [False, True])
def test_the_counts_go_on(mode, session, shared):
    paying, policy = Paying(), Policy(max_calls=2)

    async def played():
        kept = SQLiteSession(session, ":memory:") if session else None
        store = MemoryStore()
        first = Guard(policy, store=store if shared else None)
        agent = paying.agent(first, call("pay", {"x": 1}), call("pay", {"x": 2}, "c2"))
        result = await asked(agent, "hi", mode, session=kept)
        assert len(result.interruptions) == 1
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        result = await asked(agent, state, mode, session=kept)
        assert paying.ran == [1]
        saved, counts = json.dumps(result.to_state().to_json()), snapshot_of(result, first)

        PAUSED._waiting.clear()
        second = Guard(policy, store=store if shared else None)
        if not shared:
            second.restore(counts)
        agent = paying.agent(second, call("pay", {"x": 3}, "c3"), call("pay", {"x": 4}, "c4"), "no")
        result = await asked(agent, await approved(agent, saved), mode, session=kept)
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        result = await asked(agent, state, mode, session=kept)
        assert len(second.store) == 0
        return result

    result = asyncio.run(played())
    assert paying.ran == [1, 2]
    assert result.final_output.stop.reason == "ceiling"
    assert result.final_output.stop.observed == 3


def test_a_run_that_waits_for_nobody_has_nothing_to_go_on_with():
    guard = Guard()
    agent = guard_agent(Agent("A", model=script("done")), guard)
    result = asyncio.run(Runner.run(agent, "hi"))
    with pytest.raises(ValueError, match="waits for nobody"):
        snapshot_of(result, guard)


def test_what_another_process_paused_without_its_counts_is_a_run_of_its_own(mode):
    paying = Paying()

    async def played():
        first, second = Guard(Policy(max_calls=1)), Guard(Policy(max_calls=1))
        agent = paying.agent(first, call("pay", {"x": 1}))
        result = await asked(agent, "hi", mode)
        saved = json.dumps(result.to_state().to_json())
        PAUSED._waiting.clear()
        agent = paying.agent(second, "done")
        return await asked(agent, await approved(agent, saved), mode)

    assert asyncio.run(played()).final_output == "done"
    assert paying.ran == [1]


def test_hooks_hear_of_a_call_that_another_process_let_wait(mode):
    class Missing(Exception):
        status_code = 404

    def agent(*replies):
        @function_tool(needs_approval=True, failure_error_function=lambda ctx, error: "try again")
        async def pay(x: int) -> str:
            raise Missing("no such account")

        return Agent("A", tools=[pay], model=script(*replies))

    async def played():
        first, second = Guard(), Guard(listeners=[events.append])
        begun = agent(call("pay", {"x": 1}))
        result = await asked(begun, "hi", mode, hooks=GuardHooks(first))
        saved = json.dumps(result.to_state().to_json())
        second.restore(snapshot_of(result, first))
        PAUSED._waiting.clear()
        again = agent("done")
        result = await asked(again, await approved(again, saved), mode, hooks=GuardHooks(second))
        return result, [each.output for each in result.new_items if hasattr(each, "output")]

    events = []
    result, told = asyncio.run(played())
    assert result.final_output == "done"
    assert [each.status for each in events if each.kind == "attempt"] == [404]
    assert [said.startswith("Stopped: pay") for said in told] == [True]


class LosingOnce(Kept):
    """A session that fails after it has kept what it was given, once."""

    def __init__(self):
        super().__init__()
        self.fails = False

    async def add_items(self, items):
        await super().add_items(items)
        if self.fails:
            self.fails = False
            raise ConnectionError("no receipt")


def test_a_resume_that_fails_and_is_tried_again_leaves_nothing(mode):
    paying, guard, session = Paying(), Guard(Policy(max_calls=2)), LosingOnce()

    async def played():
        agent = paying.agent(guard, call("pay", {"x": 1}), "done")
        state = (await asked(agent, "hi", mode, session=session)).to_state()
        state.approve(state.get_interruptions()[0])
        session.fails = True
        with pytest.raises(ConnectionError):
            await asked(agent, state, mode, session=session)
        assert len(guard.store) == 0
        return await asked(agent, state, mode, session=session)

    assert asyncio.run(played()).final_output == "done"
    assert paying.ran == [1]
    assert len(guard.store) == 0
