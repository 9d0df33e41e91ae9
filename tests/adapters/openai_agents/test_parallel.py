"""Thirty calls in one reply, eight runs at once: counts are exact and belong to one run."""

from __future__ import annotations

import asyncio
import copy
import gc
import threading

import pytest
from agents import Agent, RunConfig, Runner, function_tool, trace

from lastcall import Guard, Policy
from lastcall_openai_agents import GuardHooks, guard_agent, guard_tools

from .scripted import aplay, call, script


def counting(kind, ran):
    if kind == "sync":

        @function_tool(name_override="work")
        def work(n: int) -> str:
            with lock:
                ran.append(n)
            return f"done {n}"

    else:

        @function_tool(name_override="work")
        async def work(n: int) -> str:
            await asyncio.sleep(0)
            ran.append(n)
            return f"done {n}"

    return work


lock = threading.Lock()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_of_thirty_calls_in_one_reply_exactly_ten_run(kind, mode):
    async def repeated():
        guard = Guard(Policy(max_calls=10))
        # Threads come in another order each time, coroutines of one loop do not.
        for _ in range(50 if kind == "sync" else 10):
            ran = []
            reply = [call("work", {"n": n}, f"c{n}") for n in range(30)]
            agent = guard_agent(
                Agent("A", tools=[counting(kind, ran)], model=script(reply, "done")), guard
            )
            played = await aplay(agent, mode)
            assert len(ran) == 10
            assert not played.unanswered
            assert played.stop.reason == "ceiling"
            assert played.requests == 1
        assert len(guard.store) == 0

    asyncio.run(repeated())


@pytest.mark.parametrize("way", ["agent", "tools", "decorated", "hooks"])
def test_runs_in_a_row_and_at_once_share_nothing(way, mode):
    ran = []
    guard = Guard(Policy(max_calls=2, max_repeats=2))
    options = {}

    @function_tool
    async def work(n: int) -> str:
        await asyncio.sleep(0)
        ran.append(n)
        return "the same"

    if way == "decorated":

        @function_tool
        @guard.wrap
        def work(n: int) -> str:
            with lock:
                ran.append(n)
            return "the same"

    if way == "hooks":
        options["hooks"] = GuardHooks(guard)

    def agent():
        model = script(call("work", {"n": 1}, "c1"), call("work", {"n": 1}, "c2"), "done")
        made = Agent("A", tools=[work], model=model)
        if way == "agent":
            return guard_agent(made, guard)
        return made.clone(tools=guard_tools([work], guard)) if way == "tools" else made

    async def all_of_them():
        for _ in range(6):
            assert (await aplay(agent(), mode, **options)).result.final_output == "done"
        assert len(ran) == 12
        at_once = await asyncio.gather(*(aplay(agent(), mode, **options) for _ in range(8)))
        assert [each.result.final_output for each in at_once] == ["done"] * 8
        assert len(ran) == 12 + 16
        gc.collect()
        assert len(guard.store) == 0

    asyncio.run(all_of_them())


@pytest.mark.parametrize("tracing", ["on", "off", "one trace around all"])
def test_a_decorated_tool_finds_its_run_with_tracing_and_without(tracing, monkeypatch):
    from agents import set_tracing_disabled

    ran = []
    guard = Guard(Policy(max_repeats=2))

    @function_tool
    @guard.wrap
    def work(n: int) -> str:
        with lock:
            ran.append(guard.here().run)
        return "the same"

    def agent():
        replies = [call("work", {"n": 1}, f"c{i}") for i in range(2)]
        return Agent("A", tools=[work], model=script(*replies, "done"))

    async def eight():
        runs = [
            aplay(agent(), run_config=RunConfig(tracing_disabled=tracing == "off"))
            for _ in range(8)
        ]
        if tracing == "one trace around all":
            with trace("all"):
                return await asyncio.gather(*runs)
        return await asyncio.gather(*runs)

    from agents.tracing import get_trace_provider

    set_tracing_disabled(False)
    get_trace_provider().set_processors([])
    try:
        played = asyncio.run(eight())
    finally:
        set_tracing_disabled(True)
    assert [each.stop for each in played] == [None] * 8
    assert len(ran) == 16
    assert len(set(ran)) == 8


def test_after_a_thousand_runs_nothing_is_left():
    guard = Guard()

    @function_tool
    async def work(n: int) -> str:
        return "ok"

    async def thousand():
        for i in range(1000):
            model = script([call("work", {"n": i}, "c1"), call("work", {"n": -i}, "c2")], "done")
            agent = guard_agent(Agent("A", tools=[work], model=model), guard)
            await Runner.run(agent, "hi")

    asyncio.run(thousand())
    gc.collect()
    assert len(guard.store) == 0


def test_run_sync_is_a_run_like_others():
    guard = Guard(Policy(max_calls=1))
    ran = []

    @function_tool
    async def work(n: int) -> str:
        ran.append(n)
        return "ok"

    model = script(*[call("work", {"n": i}, f"c{i}") for i in range(5)], "done")
    agent = guard_agent(Agent("A", tools=[work], model=model), guard)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        result = Runner.run_sync(agent, "hi")
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    assert result.final_output.stop.reason == "ceiling"
    assert ran == [0]


def test_copies_of_a_tool_share_its_counts():
    guard = Guard(Policy(max_calls=2))
    ran = []

    @function_tool
    async def work(n: int) -> str:
        ran.append(n)
        return f"ok {n}"

    tool = guard_tools([work], guard)[0]

    async def two_agents():
        for _ in range(2):
            ran.clear()
            inner = Agent(
                "inner",
                tools=[copy.deepcopy(tool)],
                model=script([call("work", {"n": 3}, "i1"), call("work", {"n": 4}, "i2")], "in"),
            )
            outer = Agent(
                "outer",
                tools=[copy.copy(tool), inner.as_tool("ask", "ask")],
                model=script(
                    [call("work", {"n": 1}, "o1"), call("work", {"n": 2}, "o2")],
                    call("ask", {"input": "q"}, "o3"),
                    "done",
                ),
            )
            played = await aplay(outer)
            assert ran == [1, 2]
            assert played.stop.reason == "ceiling"

    asyncio.run(two_agents())
