"""Hooks alone: refused before execution, read by the model, ended at the next request."""

from __future__ import annotations

import asyncio

from agents import Agent, CustomTool, ModelSettings, function_tool
from agents.run_config import RunConfig

from lastcall import Guard, Policy
from lastcall_openai_agents import GuardHooks, RunStopped, guard_agent

from .scripted import call, custom_call, needs_errors, play, script, stubborn


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


@needs_errors
def test_a_final_answer_that_was_raised_is_read_as_a_stop(mode):
    def body(n):
        raise Missing("no invoice")

    played = play(
        agent(body, script(call("work", {"n": 1}), "done")), mode, hooks=GuardHooks(Guard())
    )
    assert "HTTP 404" in played.outputs["c1"]
    assert "Please try again" not in played.outputs["c1"]


@needs_errors
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
