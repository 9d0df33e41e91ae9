"""`instrument`: every run of the process is guarded, no code touched, and it can be undone."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from agents import (
    Agent,
    RunHooks,
    Runner,
    ToolGuardrailFunctionOutput,
    function_tool,
    tool_input_guardrail,
)
from agents import run as sdk_run

from lastcall import Guard, Policy
from lastcall.events import Event
from lastcall_openai_agents import GuardHooks, RunStopped, guard_agent, guard_tools, instrument
from lastcall_openai_agents.guards import EVERYWHERE
from lastcall_openai_agents.seams import Seam

from .scripted import aplay, call, play, script, stubborn, unanswered
from .test_invisible import CASES, careful, seen

SEAMS = [seam for _, seam in inspect.getmodule(instrument).SEAMS]


@pytest.fixture
def everywhere() -> Iterator[Callable[[Guard], Callable[[], None]]]:
    undos: list[Callable[[], None]] = []

    def instrumented(guard: Guard) -> Callable[[], None]:
        undos.append(instrument(guard))
        return undos[-1]

    yield instrumented
    for undo in undos:
        undo()


@function_tool
async def look(x: int) -> str:
    """Looks."""
    return "nothing"


class ApiError(Exception):
    """As an HTTP client raises it."""

    status_code = 404


def missing(failure: Any = ...) -> Any:
    options = {} if failure is ... else {"failure_error_function": failure}

    @function_tool(**options)
    async def order(x: int) -> str:
        """Looks an order up."""
        raise ApiError("no such order")

    return order


def kept() -> list[Any]:
    return [inspect.getattr_static(*seam.place, None) for seam in SEAMS]


def attempts(events: list[Event]) -> list[str | None]:
    return [each.tool for each in events if each.kind == "attempt"]


def listened(policy: Policy | None = None) -> tuple[Guard, list[Event]]:
    events: list[Event] = []
    return Guard(policy or Policy.permissive(), listeners=[events.append]), events


@pytest.mark.parametrize("way", ["run", "streamed", "sync"])
def test_an_agent_that_knows_nothing_is_ended(everywhere, way):
    everywhere(Guard(Policy(max_calls=3)))
    agent = Agent("A", tools=[look], model=stubborn("look", lambda i: {"x": i}))
    if way == "sync":
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        with closing(loop), pytest.raises(RunStopped) as ended:
            Runner.run_sync(agent, "hi", max_turns=100)
        asyncio.set_event_loop(None)
        stop = ended.value.stop
        assert not unanswered([each.raw_item for each in ended.value.run_data.new_items])
    else:
        played = play(agent, way)
        stop = played.stop
        assert not played.unanswered
    assert stop.reason in ("ceiling", "refusals")
    assert len(agent.model.calls) <= 6


def test_it_is_undone_and_leaves_no_trace(everywhere):
    before = kept()
    undo = everywhere(Guard(Policy(max_calls=1)))
    during = kept()
    assert any(now is not then for now, then in zip(during, before, strict=True))
    undo()
    undo()
    assert all(now is then for now, then in zip(kept(), before, strict=True))
    assert EVERYWHERE == []
    played = play(Agent("A", tools=[look], model=stubborn("look", lambda i: {"x": i}, 5)))
    assert played.result.final_output == "done"


def test_twice_is_once(everywhere):
    before = kept()
    guard, events = listened()
    everywhere(guard)
    once = kept()
    again = everywhere(guard)
    assert all(now is then for now, then in zip(kept(), once, strict=True))
    play(Agent("A", tools=[look], model=script(call("look", {"x": 1}), "done")))
    assert attempts(events) == ["look"]
    again()
    assert all(now is then for now, then in zip(kept(), before, strict=True))


def test_two_guards_come_and_go_in_any_order(everywhere):
    before = kept()
    (first, firsts), (second, seconds) = listened(), listened()
    undo_first, undo_second = everywhere(first), everywhere(second)

    def heard() -> list[int]:
        firsts.clear()
        seconds.clear()
        play(Agent("A", tools=[look], model=script(call("look", {"x": 1}), "done")))
        return [len(attempts(firsts)), len(attempts(seconds))]

    assert heard() == [1, 1]
    undo_first()
    assert heard() == [0, 1]
    undo_second()
    assert heard() == [0, 0]
    assert all(now is then for now, then in zip(kept(), before, strict=True))


def test_the_stricter_of_two_guards_refuses(everywhere):
    everywhere(Guard(Policy(max_calls=4)))
    everywhere(Guard(Policy(max_calls=2)))
    played = play(Agent("A", tools=[look], model=stubborn("look", lambda i: {"x": i})))
    assert played.stop.limit == 2
    assert [said for said in played.outputs.values() if said == "nothing"] == ["nothing"] * 2


@pytest.mark.parametrize("told", [True, False], ids=["wraps", "plain"])
def test_what_others_patch_round_it_stays(everywhere, monkeypatch, told):
    guard, events = listened()
    undo = everywhere(guard)
    owner, name = SEAMS[1].place
    ours, calls = getattr(owner, name), []

    async def theirs(**given: Any) -> Any:
        calls.append(given["function_tool"].name)
        return await ours(**given)

    if told:
        theirs = functools.wraps(ours)(theirs)
    monkeypatch.setattr(owner, name, theirs)
    undo()
    assert getattr(owner, name) is theirs

    def once() -> Any:
        return play(Agent("A", tools=[look], model=script(call("look", {"x": 1}), "done")))

    assert once().outputs == {"c1": "nothing"}
    assert (calls, attempts(events)) == (["look"], [])
    everywhere(guard)
    once()
    assert (calls, attempts(events)) == (["look"] * 2, ["look"])


@pytest.mark.parametrize("other", ["agent", "tools", "hooks", "decorated", "all"])
def test_with_another_entry_a_call_counts_once(everywhere, other, mode):
    guard, events = listened()
    everywhere(guard)
    every = other == "all"

    async def peek(x: int) -> str:
        return "nothing"

    tools: list[Any] = [function_tool(guard.wrap(peek) if every or other == "decorated" else peek)]
    if every or other == "tools":
        tools = guard_tools(tools, guard)
    calls = [call("peek", {"x": i}, f"c{i}") for i in range(3)]
    agent = Agent("A", tools=tools, model=script(calls[:2], calls[2], "done"))
    if every or other == "agent":
        agent = guard_agent(agent, guard)
    hooks = GuardHooks(guard) if every or other == "hooks" else None
    played = play(agent, mode, hooks=hooks)
    assert played.result.final_output == "done"
    assert attempts(events) == ["peek"] * 3


@pytest.mark.parametrize("road", ["instrument", "guard_agent"])
def test_a_refused_call_fires_no_hook_and_meets_no_guardrail(everywhere, road, mode):
    started: list[str] = []
    met: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            started.append(context.tool_call_id)

    @tool_input_guardrail
    def own(data: Any) -> ToolGuardrailFunctionOutput:
        met.append(data.context.tool_call_id)
        return ToolGuardrailFunctionOutput.allow()

    tool = copy.copy(look)
    tool.tool_input_guardrails = [own]
    guard = Guard(Policy(max_calls=1))
    agent = Agent("A", tools=[tool], model=stubborn("look", lambda i: {"x": i}, 5))
    if road == "instrument":
        everywhere(guard)
    else:
        agent = guard_agent(agent, guard)
    played = play(agent, mode, hooks=Hooks())
    assert played.stop is not None
    assert (started, met) == (["call-0"], ["call-0"])


def test_a_copy_that_lost_its_gate_counts_once_too(everywhere):
    guard, events = listened()
    everywhere(guard)
    (tool,) = guard_tools([look], guard)
    tool.tool_input_guardrails = None
    play(Agent("A", tools=[tool], model=script(call("look", {"x": 1}), "done")))
    assert attempts(events) == ["look"]


FAILURES = {
    "unset": ...,
    "custom": lambda ctx, error: f"Failed: {error}. Please try again.",
    "again": lambda ctx, error: "Please retry later.",
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("road", ["instrument", "guard_agent"])
def test_no_failure_function_tells_the_model_to_try_again(everywhere, failure, road, mode):
    guard = Guard()
    agent = Agent("A", tools=[missing(failure)], model=stubborn("order", lambda i: {"x": i}))
    if road == "instrument":
        everywhere(guard)
    else:
        agent = guard_agent(agent, guard)
    played = play(agent, mode)
    assert played.stop.status == 404
    assert played.requests <= 6
    for said in played.outputs.values():
        assert said.startswith("Stopped: order")
        assert "try again" not in said.lower()
        assert "retry" not in said.lower()


def test_a_failure_that_is_meant_for_the_caller_reaches_it(everywhere, mode):
    guard, events = listened(Policy())
    everywhere(guard)
    agent = Agent("A", tools=[missing(None)], model=script(call("order", {"x": 1}), "done"))
    played = play(agent, mode)
    assert isinstance(played.error.__cause__, ApiError)
    assert [each.status for each in events if each.kind == "attempt"] == [404]


@pytest.mark.parametrize(("tool", "args"), CASES, ids=lambda v: getattr(v, "name", str(v)))
def test_results_and_errors_are_the_same(everywhere, tool, args, mode):
    plain = seen(tool, args, mode)
    everywhere(Guard(Policy.permissive()))
    assert seen(tool, args, mode) == plain


def test_a_tool_keeps_its_own_state(everywhere):
    from .test_invisible import Own

    class Counting(Own):
        count = 0

        async def _invoke(self, ctx: Any, text: str) -> str:
            self.count += 1
            return str(self.count)

    everywhere(Guard(Policy.permissive()))
    tool = Counting("L")
    model = script(call("own", {}), call("own", {}, "c2"), "done")
    assert play(Agent("A", tools=[tool], model=model)).outputs == {"c1": "1", "c2": "2"}
    assert tool.count == 2


@pytest.mark.asyncio
async def test_a_call_that_a_person_let_pass_counts_once(everywhere):
    guard, events = listened()
    everywhere(guard)
    agent = Agent("A", tools=[careful], model=script(call("careful", {"x": 1}), "done"))
    played = await aplay(agent)
    (item,) = played.result.interruptions
    assert attempts(events) == []
    state = played.result.to_state()
    state.approve(item)
    resumed = await Runner.run(agent, state)
    assert resumed.final_output == "done"
    assert attempts(events) == ["careful"]


def test_runs_nested_in_a_tool_share_the_budget(everywhere, mode):
    everywhere(Guard(Policy(max_calls=3)))
    inner = Agent("Inner", tools=[look], model=stubborn("look", lambda i: {"x": i}))
    nested = inner.as_tool("nested", "n")
    agent = Agent("A", tools=[nested], model=stubborn("nested", lambda i: {"input": str(i)}))
    played = play(agent, mode)
    assert played.stop is not None
    assert len(inner.model.calls) + played.requests <= 8
    assert not played.unanswered


@pytest.mark.asyncio
async def test_a_pause_in_a_nested_run_is_no_second_call(everywhere):
    guard, events = listened()
    everywhere(guard)

    @function_tool(needs_approval=True)
    async def sign(x: int) -> str:
        return "signed"

    inner = Agent("Inner", tools=[sign], model=script(call("sign", {"x": 1}, "i1"), "signed"))
    tools = [inner.as_tool("ask", "a"), look]
    agent = Agent("A", tools=tools, model=script(call("ask", {"input": "?"}), "done"))
    played = await aplay(agent)
    (item,) = played.result.interruptions
    state = played.result.to_state()
    state.approve(item)
    resumed = await Runner.run(agent, state)
    assert resumed.final_output == "done"
    assert [(each.tool, each.outcome) for each in events if each.kind == "attempt"] == [
        ("sign", "ok"),
        ("ask", "ok"),
    ]


def test_another_runner_is_guarded_as_far_as_tools_go(everywhere, mode):
    framed = sdk_run.get_default_agent_runner()
    everywhere(Guard(Policy(max_calls=2)))
    sdk_run.set_default_agent_runner(None)
    try:
        played = play(Agent("A", tools=[look], model=stubborn("look", lambda i: {"x": i}, 5)), mode)
    finally:
        sdk_run.set_default_agent_runner(framed)
    told = list(played.outputs.values())
    assert told[:2] == ["nothing"] * 2
    assert all(said.startswith("Stopped: look") for said in told[2:])


def test_a_release_without_the_function_is_said_so(everywhere, monkeypatch, caplog):
    names = inspect.getmodule(instrument)
    gone = Seam(SEAMS[0].place._replace(name="_gone"), lambda inner: inner)
    monkeypatch.setattr(names, "INVOKING", [gone])
    with pytest.raises(RuntimeError, match="has no agents.tool._gone"):
        instrument(Guard())
    assert EVERYWHERE == []
    monkeypatch.undo()
    monkeypatch.setattr(names, "SEAMS", [*names.SEAMS, ("ShellTool", gone)])
    everywhere(Guard())
    assert "ShellTool is not guarded: this release of openai-agents has no _gone" in caplog.text
