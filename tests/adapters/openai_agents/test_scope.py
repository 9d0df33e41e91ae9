"""Every call finds its run: nested, in threads, beside others, under other runners, after a pause."""

from __future__ import annotations

import asyncio
import gc
import threading
from uuid import UUID

import pytest
from agents import Agent, AgentHooks, RunHooks, Runner, RunState, function_tool
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

from lastcall import Guard, Policy
from lastcall_openai_agents import GuardHooks, guard_agent, guard_tools, stop_of
from lastcall_openai_agents.runner import FramedRunner, install
from lastcall_openai_agents.scope import SCOPE

from .scripted import aplay, call, play, script, stubborn


def noting(guard, seen, name="note"):
    """A tool that is only decorated, and notes where it was called."""

    @function_tool(name_override=name)
    @guard.wrap(name=name)
    def note(n: int = 0) -> str:
        seen.append((guard.here(), threading.current_thread() is threading.main_thread()))
        return f"noted {n}"

    return note


def test_outside_any_run_there_is_none():
    guard = Guard()
    assert SCOPE.find(guard) is None
    assert guard.here() is None


def test_a_decorated_function_in_a_thread_finds_run_agent_and_thread(mode):
    guard, seen = Guard(), []
    agent = Agent("A", tools=[noting(guard, seen)], model=script(call("note"), "done"))
    assert play(agent, mode, context={"user_id": "u"}).error is None
    where, in_main = seen[0]
    assert not in_main
    assert where.run.startswith("oa-")
    assert (where.agent, where.thread, where.user, where.path) == ("A", "s", "u", ("A",))


@pytest.mark.parametrize("user", ["u", 7, UUID(int=7)], ids=["text", "number", "uuid"])
def test_users_may_have_numbers_and_uuids_for_names(mode, user):
    """Whose call it is must not be lost: limits and the kill switch go by it."""
    guard, seen = Guard(), []
    agent = Agent("A", tools=[noting(guard, seen)], model=script(call("note"), "done"))
    assert play(agent, mode, context={"user_id": user}).error is None
    assert seen[0][0].user == str(user)


def test_nested_runs_belong_to_the_root(mode):
    guard, seen = Guard(), []
    note = noting(guard, seen)
    inner = Agent("inner", tools=[note], model=script(call("note", {}, "i"), "in"))
    by_hand = Agent("by hand", tools=[note], model=script(call("note", {"n": 2}, "h"), "in"))

    @function_tool
    async def start(q: str) -> str:
        return str((await Runner.run(by_hand, q)).final_output)

    outer = Agent(
        "outer",
        tools=[note, inner.as_tool("ask", "ask"), start],
        model=script(
            [
                call("note", {"n": 1}, "o1"),
                call("ask", {"input": "q"}, "o2"),
                call("start", {"q": "q"}, "o3"),
            ],
            "done",
        ),
    )
    played = play(outer, mode)
    assert played.result.final_output == "done"
    assert len({where.run for where, _ in seen}) == 1
    assert {where.agent for where, _ in seen} == {"outer", "inner", "by hand"}


def test_a_run_that_outlives_the_one_that_started_it_is_its_own(mode):
    guard, seen, tasks = Guard(), [], []
    later = Agent("later", tools=[noting(guard, seen)], model=script(call("note"), "done"))

    async def scene():
        over = asyncio.Event()

        async def background():
            await over.wait()
            await Runner.run(later, "hi")

        @function_tool
        @guard.wrap
        async def start(q: str) -> str:
            seen.append((guard.here(), True))
            tasks.append(asyncio.create_task(background()))
            return "started"

        await aplay(
            Agent("A", tools=[start], model=script(call("start", {"q": "x"}), "done")), mode
        )
        over.set()
        await asyncio.gather(*tasks)

    asyncio.run(scene())
    assert len({where.run for where, _ in seen}) == 2
    assert len(guard.store) == 0


class Foreign(AgentRunner):
    """Somebody else's runner, set after ours."""


@pytest.fixture
def foreign():
    before = get_default_agent_runner()
    set_default_agent_runner(Foreign())
    yield
    set_default_agent_runner(before)


@function_tool
async def work(n: int) -> str:
    return "the same"


def test_under_another_runner_a_guarded_agent_still_stops(foreign, mode):
    guard = Guard()
    agent = guard_agent(Agent("A", tools=[work], model=stubborn("work", lambda i: {"n": 1})), guard)
    set_default_agent_runner(Foreign())
    played = play(agent, mode)
    assert played.stop.tool == "work"
    assert played.requests <= 6
    del played
    gc.collect()
    assert guard.here() is None
    assert len(guard.store) == 0


def test_under_another_runner_runs_still_share_nothing(foreign, mode):
    guard, seen = Guard(Policy(max_calls=2)), []
    note = noting(guard, seen)
    set_default_agent_runner(Foreign())

    async def eight():
        def agent():
            return Agent(
                "A",
                tools=[note],
                model=script([call("note"), call("note", {"n": 1}, "c2")], "done"),
            )

        return await asyncio.gather(*(aplay(agent(), mode) for _ in range(8)))

    played = asyncio.run(eight())
    assert [each.result.final_output for each in played] == ["done"] * 8
    assert len(seen) == 16
    assert len({where.run for where, _ in seen}) == 8


def test_the_runner_is_put_around_another_once(foreign):
    install()
    mine = get_default_agent_runner()
    assert isinstance(mine, FramedRunner)
    assert isinstance(mine.inner, Foreign)
    install()
    assert get_default_agent_runner() is mine


def test_own_hooks_go_on_as_before(mode):
    heard = []

    class Mine(RunHooks):
        async def on_agent_start(self, context, agent):
            heard.append("agent start")

        async def on_agent_end(self, context, agent, output):
            heard.append("agent end")

        async def on_llm_start(self, context, agent, system_prompt, input_items):
            heard.append("llm start")

        async def on_llm_end(self, context, agent, response):
            heard.append("llm end")

        async def on_tool_start(self, context, agent, tool):
            heard.append("tool start")

        async def on_tool_end(self, context, agent, tool, result):
            heard.append("tool end")

        async def on_handoff(self, context, from_agent, to_agent):
            heard.append("handoff")

    class Agents(AgentHooks):
        async def on_start(self, context, agent):
            heard.append("own start")

    def agent():
        b = Agent("b", model=script("done"))
        replies = script(call("work", {"n": 1}), call("transfer_to_b", {}, "c2"))
        return Agent("A", tools=[work], handoffs=[b], hooks=Agents(), model=replies)

    runs = []
    for hooks in (Mine(), GuardHooks(Guard(), Mine())):
        heard.clear()
        assert play(agent(), mode, hooks=hooks).result.final_output == "done"
        runs.append(list(heard))
    assert runs[0] == runs[1]
    assert {
        "agent start",
        "agent end",
        "llm start",
        "llm end",
        "tool start",
        "tool end",
        "handoff",
    } < set(runs[0])


def test_wrong_hooks_are_the_sdks_business():
    agent = Agent("A", model=script("done"))
    assert isinstance(play(agent, hooks=AgentHooks()).error, TypeError)


def test_scopes_set_by_hand_win():
    guard = Guard(Policy(max_calls=3))
    ran = []

    @function_tool
    @guard.wrap
    def count(n: int) -> str:
        ran.append(n)
        return f"ok {n}"

    async def two_runs():
        def agent(first):
            replies = [call("count", {"n": first + i}, f"c{i}") for i in range(2)]
            return Agent("A", tools=[count], model=script(*replies, "done"))

        with guard.within(run="mine", user="me"):
            first = await aplay(agent(0))
            second = await aplay(agent(2))
        return first, second

    first, second = asyncio.run(two_runs())
    assert first.stop is None
    # Two runs of the SDK in one block are two turns of one run.
    assert second.stop is None
    assert ran == [0, 1, 2, 3]
    assert guard.report("mine").totals.executed == 4
    assert len(guard.store) == 0


def test_two_paused_runs_with_equal_calls_do_not_mix():
    ran = []
    guard = Guard(Policy(max_calls=1))

    @function_tool(needs_approval=True)
    async def pay(x: int) -> str:
        ran.append(x)
        return "paid"

    async def scene():
        def agent():
            return guard_agent(
                Agent("A", tools=[pay], model=script(call("pay", {"x": 1}), "done")), guard
            )

        agents = [agent(), agent()]
        results = [await Runner.run(each, "hi") for each in agents]
        for each, result in zip(agents, results, strict=True):
            state = await RunState.from_json(each, result.to_state().to_json())
            state.approve(state.get_interruptions()[0])
            assert (await Runner.run(each, state)).final_output == "done"

    asyncio.run(scene())
    assert ran == [1, 1]
    assert len(guard.store) == 0


def test_a_sync_tool_that_ends_after_its_run_leaves_nothing():
    guard = Guard()

    async def scene():
        started, over = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()
        done = threading.Event()

        @function_tool
        @guard.wrap
        def wait(n: int) -> str:
            loop.call_soon_threadsafe(started.set)
            over.wait()
            return "late"

        agent = Agent("A", tools=[wait], model=script(call("wait", {"n": 1})))
        task = asyncio.create_task(Runner.run(agent, "hi"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        over.set()
        await asyncio.to_thread(done.wait, 0)
        await loop.shutdown_default_executor()

    asyncio.run(scene())
    gc.collect()
    assert guard.here() is None
    assert len(guard.store) == 0


def test_tools_of_one_reply_share_it_and_two_replies_differ_though_ids_repeat(mode):
    """Refusal rounds count replies: one of five refused calls is one round."""
    guard = Guard(Policy(tools={"work": {"max_calls": 1}}, max_refusals=2))
    reply = [call("work", {"n": n}, f"c{n}") for n in range(5)]
    again = [call("work", {"n": n}, f"d{n}") for n in range(5)]
    third = [call("work", {"n": n}, f"e{n}") for n in range(5)]
    agent = Agent("A", tools=guard_tools([work], guard), model=script(reply, again, third, "done"))
    played = play(agent, mode)
    # The first reply is mixed; the second is a round, the third another.
    assert played.requests == 3
    assert played.stop.reason == "refusals"


def test_stop_of_reads_a_streamed_run_whose_exception_was_seen_elsewhere():
    async def scene():
        tools = guard_tools([work], Guard())
        agent = Agent("A", tools=tools, model=stubborn("work", lambda i: {"n": 1}))
        result = Runner.run_streamed(agent, "hi", max_turns=100)
        with pytest.raises(Exception, match="Stopped"):
            async for _ in result.stream_events():
                pass
        return stop_of(result)

    assert asyncio.run(scene()).tool == "work"


class TestDecoratedAlone:
    def reply(self, n, start=0):
        return [call("note", {"n": start + i}, f"c{start + i}") for i in range(n)]

    def test_thirty_calls_of_one_reply_are_one_round(self, mode):
        guard, seen = Guard(Policy(tools={"note": {"max_calls": 10}})), []
        model = script(self.reply(30), self.reply(1, 40), self.reply(1, 50), "done")
        played = play(Agent("A", tools=[noting(guard, seen)], model=model), mode)
        assert len(seen) == 10
        assert played.requests == 3
        assert played.stop.reason == "refusals"

    def test_a_failure_meant_to_raise_ends_the_run_with_the_stop(self, mode):
        guard = Guard(Policy(max_calls=1))
        ran = []

        @function_tool(failure_error_function=None)
        @guard.wrap
        def note(n: int) -> str:
            ran.append(n)
            return "ok"

        model = script(self.reply(1), self.reply(1, 1), "done")
        played = play(Agent("A", tools=[note], model=model), mode)
        assert played.stop.reason == "ceiling"
        assert ran == [0]

    @pytest.mark.parametrize("hooks", [False, True])
    def test_what_is_declared_at_the_function_holds_when_its_agent_is_guarded(self, mode, hooks):
        guard = Guard()
        ran = []

        @function_tool(name_override="other")
        @guard.wrap(max_calls=1)
        def note(n: int) -> str:
            ran.append(n)
            return f"ok {n}"

        model = script(*[call("other", {"n": i}, f"c{i}") for i in range(4)], "done")
        agent = Agent("A", tools=[note], model=model)
        if hooks:
            played = play(agent, mode, hooks=GuardHooks(guard))
        else:
            played = play(guard_agent(agent, guard), mode)
        assert ran == [0]
        assert played.stop.tool == "other"
