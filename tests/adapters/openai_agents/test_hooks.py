"""Hooks alone: refused before execution, read by the model, ended at the next request."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from agents import Agent, CustomTool, ModelSettings, RunHooks, function_tool
from agents.lifecycle import RunHooksBase
from agents.run_config import RunConfig

from lastcall import Guard, Policy, Switch
from lastcall_openai_agents import GuardHooks, RunStopped, guard_agent
from lastcall_openai_agents.functions import INVOKING

from .playing import Kept
from .scripted import aplay, call, custom_call, play, script, stubborn
from .test_tool_kinds import ASKS, Noting, outputs, tool_of, whole


class Missing(Exception):
    status_code = 404


def agent(body, model, **settings):
    @function_tool(name_override="work", **settings)
    async def work(n: int) -> str:
        return body(n)

    return Agent("A", tools=[work], model=model)


def test_a_refused_call_never_starts_and_the_model_reads_why(mode):
    ran = []
    guard = Guard(Policy(tools={"work": {"max_calls": 2}}))
    model = script([call("work", {"n": n}, f"c{n}") for n in range(3)], "done")
    played = play(agent(lambda n: ran.append(n) or "ok", model), mode, hooks=GuardHooks(guard))
    assert ran == [0, 1]
    assert played.outputs["c2"].startswith("Stopped: work")
    assert played.result.final_output == "done"
    assert len(guard.store) == 0


def test_a_final_answer_that_was_raised_is_read_as_a_stop(mode):
    def body(n):
        raise Missing("no invoice")

    played = play(
        agent(body, script(call("work", {"n": 1}), "done")), mode, hooks=GuardHooks(Guard())
    )
    assert "HTTP 404" in played.outputs["c1"]
    assert "Please try again" not in played.outputs["c1"]


def test_the_formatter_of_ones_own_still_speaks(mode):
    def body(n):
        raise ValueError("plain")

    config = RunConfig(tool_error_formatter=lambda args: f"own words: {args.error}")
    played = play(
        agent(body, script(call("work", {"n": 1}), "done")),
        mode,
        hooks=GuardHooks(Guard()),
        run_config=config,
    )
    assert played.outputs["c1"] == "own words: plain"
    assert config.tool_error_formatter is not None

    async def awaited(args):
        return "awaited words"

    played = play(
        agent(body, script(call("work", {"n": 1}), "done")),
        mode,
        hooks=GuardHooks(Guard()),
        run_config={"tool_error_formatter": awaited},
    )
    assert played.outputs["c1"] == "awaited words"


def test_the_fixed_sentence_counts_as_a_failure():
    heard = []
    guard = Guard(listeners=[heard.append])

    def body(n):
        raise ValueError("plain")

    play(agent(body, script(call("work", {"n": 1}), "done")), hooks=GuardHooks(guard))
    assert [event.outcome for event in heard if event.kind == "attempt"] == ["error"]


def test_tools_that_are_guarded_already_are_left_to_it():
    guard = Guard(Policy(max_calls=3))
    model = script(*[call("work", {"n": n}, f"c{n}") for n in range(6)], "done")
    guarded = guard_agent(agent(lambda n: f"ok {n}", model), guard)
    played = play(guarded, hooks=GuardHooks(guard))
    assert len(played.outputs) == 4
    assert played.stop.observed == 4
    assert played.error is None


def test_custom_tools_are_refused_too(mode):
    ran = []
    tool = CustomTool(
        name="cust", description="d", on_invoke_tool=lambda c, t: ran.append(t) or "same"
    )
    calls = [custom_call("cust", "x", f"c{i}") for i in range(9)]
    played = play(
        Agent("A", tools=[tool], model=script(*calls, "done")), mode, hooks=GuardHooks(Guard())
    )
    assert len(ran) == 3
    assert isinstance(played.error, RunStopped)
    assert not played.unanswered


def test_hand_overs_are_no_calls():
    guard = Guard(Policy(max_calls=1))
    b = Agent("b", model=script("from b"))
    a = Agent("a", handoffs=[b], model=script(call("transfer_to_b")))
    assert play(a, hooks=GuardHooks(guard)).result.final_output == "from b"


def test_unknown_tools_are_malformed_calls():
    config = RunConfig(tool_not_found_behavior="return_error_to_model")
    model = script(*[call("nowhere", {"n": n}, f"c{n}") for n in range(9)], "done")
    played = play(agent(str, model), hooks=GuardHooks(Guard()), run_config=config)
    assert played.requests == 3
    assert played.stop.reason == "malformed"


def test_an_approval_between_is_no_second_call():
    from agents import Runner

    ran = []
    guard = Guard(Policy(max_calls=1))
    made = agent(
        lambda n: ran.append(n) or "ok", script(call("work", {"n": 1}), "done"), needs_approval=True
    )
    made.model_settings = ModelSettings()

    async def scene():
        hooks = GuardHooks(guard)
        result = await Runner.run(made, "hi", hooks=hooks)
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        return await Runner.run(made, state, hooks=hooks)

    assert asyncio.run(scene()).final_output == "done"
    assert ran == [1]
    assert len(guard.store) == 0


def test_one_runaway_by_hooks_and_guarded_agent_with_two_guards():
    hooks_guard, agent_guard = Guard(Policy(max_calls=4)), Guard()
    model = stubborn("work", lambda i: {"n": i})
    guarded = guard_agent(agent(lambda n: f"ok {n}", model), agent_guard)
    played = play(guarded, hooks=GuardHooks(hooks_guard))
    assert played.stop.limit == 4
    assert played.requests == 5


def test_servers_that_are_guarded_already_are_left_to_it():
    from .test_mcp import Server, text

    guard = Guard(Policy(max_calls=2))
    server = Server(lambda n: text(f"answer {n}"))
    model = script(*[call("order", {"x": n}, f"c{n}") for n in range(6)], "done")
    guarded = guard_agent(Agent("A", mcp_servers=[server], model=model), guard)
    played = play(guarded, hooks=GuardHooks(guard))
    assert len(server.served) == 2
    assert played.stop.observed == 3
    assert played.error is None


def test_servers_that_are_not_guarded_are_watched_by_name():
    from .test_mcp import Server, text

    server = Server(lambda n: text("the same"))
    model = stubborn("order", lambda i: {"x": 1})
    played = play(Agent("A", mcp_servers=[server], model=model), hooks=GuardHooks(Guard()))
    assert len(server.served) == 3
    assert isinstance(played.error, RunStopped)


@pytest.mark.parametrize("kind", ["custom", "function"])
@pytest.mark.parametrize("raises", [True, False])
def test_what_came_of_a_call_is_heard_where_it_is_executed(kind, raises, mode):
    shown = []

    class Mine(RunHooks):
        async def on_tool_start(self, context, agent, tool):
            shown.append(tool)

        async def on_tool_end(self, context, agent, tool, result):
            shown.append(tool)

    def answer():
        if raises:
            raise Missing("no such order")
        return {"status_code": 404, "error": "no such order; please try again"}

    tool = tool_of(kind, [], answer)
    if raises and kind == "function":
        tool = function_tool(
            lambda: answer(),
            name_override="function",
            failure_error_function=lambda ctx, error: f"{error}. Please try again.",
        )
    guard = Guard()
    agent = Agent("A", tools=[tool], model=script(ASKS[kind](1, "c1"), "done"))
    played = play(agent, mode, hooks=GuardHooks(guard, Mine()))
    assert played.outputs["c1"].startswith(f"Stopped: {kind}")
    assert "HTTP 404" in played.outputs["c1"]
    assert "try again" not in played.outputs["c1"].lower()
    assert [each is tool for each in shown] == [True, True]


def test_hooks_of_ones_own_may_pass_events_on(mode):
    class Passing(RunHooks):
        def __init__(self, inner):
            for name in vars(RunHooksBase):
                if name.startswith("on_"):
                    setattr(self, name, getattr(inner, name))

    def body(n):
        raise Missing("no invoice")

    made = agent(
        body,
        script(call("work", {"n": 1}), "done"),
        failure_error_function=lambda ctx, error: "Please try again.",
    )
    played = play(made, mode, hooks=Passing(GuardHooks(Guard())))
    assert played.outputs["c1"].startswith("Stopped: work")


def test_runs_without_them_are_none_of_their_business(mode):
    heard = []
    GuardHooks(Guard(Policy(max_calls=1), listeners=[heard.append]))
    model = script(*[call("work", {"n": n}, f"c{n}") for n in range(3)], "done")
    played = play(agent(lambda n: f"ok {n}", model), mode)
    assert list(played.outputs.values()) == ["ok 0", "ok 1", "ok 2"]
    assert heard == []


def test_a_release_that_executes_tools_otherwise_leaves_what_the_model_reads(monkeypatch, mode):
    heard = []
    guard = Guard(listeners=[heard.append])
    hooks = GuardHooks(guard)
    for seam in INVOKING:
        monkeypatch.setattr(*seam.place, inspect.unwrap(getattr(*seam.place)))

    def body(n):
        if n:
            raise ValueError("plain")
        return {"status_code": 404, "error": "no such order"}

    asks = [call("work", {"n": n}, f"c{i}") for i, n in enumerate([1, 0, 0])]
    played = play(agent(body, script(*asks, "done")), mode, hooks=hooks)
    assert [each.outcome for each in heard if each.kind == "attempt"] == ["error", "error"]
    # That the answer was final is read when the call is made again.
    assert [said.startswith("Stopped: ") for said in played.outputs.values()] == [0, 0, 1]


@pytest.mark.parametrize("kind", ASKS)
def test_every_kind_of_tool_is_guarded(kind, mode):
    done, heard = [], []
    guard = Guard(Policy(max_calls=3), listeners=[heard.append])
    asks = [ASKS[kind](i, f"c{i}") for i in range(10)]
    made = Agent("A", tools=[tool_of(kind, done)], model=script(*asks, "done"))
    played = play(made, mode, hooks=GuardHooks(guard))
    assert len(done) == 3
    assert (played.stop.reason, played.requests) == ("ceiling", 4)
    assert isinstance(played.error, RunStopped)
    assert [each.outcome for each in heard if each.kind == "attempt"] == ["ok"] * 3
    assert whole(played)
    if kind != "computer":
        assert "Stopped: " in str(outputs(played)[3])


@pytest.mark.parametrize("kind", ASKS)
def test_a_permissive_guard_changes_nothing_of_any_kind(kind, mode):
    def played(guarding):
        seen = Noting()
        asks = [[ASKS[kind](1, "c1"), ASKS[kind](2, "c2")], ASKS[kind](1, "c3"), "done"]
        made = Agent("A", tools=[tool_of(kind, [])], model=script(*asks))
        found = play(made, mode, hooks=guarding(seen))
        return outputs(found), found.result.final_output, seen.events

    permissive = lambda seen: GuardHooks(Guard(Policy.permissive()), seen)
    assert played(permissive) == played(lambda seen: seen)


def test_what_is_stopped_from_outside_while_a_person_is_asked_does_not_begin(mode, tmp_path):
    ran, session = [], Kept()
    switch = Switch(tmp_path / "switch.json", ttl=0)
    guard = Guard(switch=switch)
    model = script([call("work", {"n": n}, f"c{n}") for n in range(2)], "never")
    made = agent(lambda n: ran.append(n) or "ok", model, needs_approval=True)

    async def scene():
        options = {"hooks": GuardHooks(guard), "session": session}
        state = (await aplay(made, mode, **options)).result.to_state()
        for item in state.get_interruptions():
            state.approve(item)
        switch.kill(all=True)
        return await aplay(made, mode, state, **options)

    played = asyncio.run(scene())
    assert ran == []
    assert isinstance(played.error, RunStopped)
    assert played.stop.reason == "kill"
    # Both calls are answered, and none was called off in the middle.
    assert [said.startswith("Stopped: ") for said in played.outputs.values()] == [True, True]
    assert not played.unanswered
