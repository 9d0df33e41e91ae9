"""A guarded tool is the tool it was: schema, words, errors, approvals, guardrails and their order."""

from __future__ import annotations

import asyncio
import copy
import inspect
from typing import Any

import pytest
from agents import (
    Agent,
    CustomTool,
    FunctionTool,
    RunContextWrapper,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    WebSearchTool,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)
from agents.tool_context import ToolContext

from lastcall import Guard, Policy
from lastcall_openai_agents import GuardHooks, guard_agent, guard_tool, guard_tools

from .scripted import call, custom_call, play, script


class Boom(RuntimeError):
    pass


@function_tool
async def plain(x: int, note: str = "n") -> str:
    """Adds.

    Args:
        x: what to add
    """
    return f"plain {x} {note}"


@function_tool
def sync(x: int) -> dict[str, int]:
    """Counts."""
    return {"x": x}


@function_tool
async def fails(x: int) -> str:
    raise Boom("boom")


@function_tool(failure_error_function=lambda ctx, error: f"custom: {error}")
async def fails_custom(x: int) -> str:
    raise Boom("boom")


@function_tool(failure_error_function=None)
async def fails_through(x: int) -> str:
    raise Boom("boom")


@function_tool
async def with_context(ctx: ToolContext[Any], x: int) -> str:
    return f"{type(ctx).__name__} {ctx.tool_call_id}"


async def narrow(ctx: RunContextWrapper[Any], text: str) -> str:
    return type(ctx).__name__


narrow_tool = FunctionTool(
    name="narrow",
    description="d",
    params_json_schema={"type": "object", "properties": {}},
    on_invoke_tool=narrow,
    strict_json_schema=False,
)


class Own(FunctionTool):
    def __init__(self, label):
        self.label = label
        super().__init__(
            name="own",
            description="d",
            params_json_schema={"type": "object", "properties": {}},
            on_invoke_tool=self._invoke,
            strict_json_schema=False,
        )

    async def _invoke(self, ctx, text):
        return f"own {self.label}"


async def only_small(ctx, params, call_id):
    return params["x"] > 10


@function_tool(needs_approval=only_small)
async def careful(x: int, limit: int = 100) -> str:
    return f"careful {x} {limit}"


@function_tool(timeout=0.01)
async def slow(x: int) -> str:
    await asyncio.Event().wait()
    return "never"


CASES = [
    (plain, {"x": 1}),
    (plain, {"x": "no number"}),
    (plain, "{not json"),
    (plain, "[1]"),
    (sync, {"x": 1}),
    (fails, {"x": 1}),
    (fails_custom, {"x": 1}),
    (fails_through, {"x": 1}),
    (with_context, {"x": 1}),
    (narrow_tool, {}),
    (Own("L"), {}),
    (careful, {"x": 1, "limit": 5}),
    (careful, {"x": 1}),
    (careful, {"x": 11, "limit": 5}),
    (slow, {"x": 1}),
]


def seen(tool, args, mode, **options):
    agent = Agent("A", tools=[tool], model=script(call(tool.name, args), "done"))
    played = play(agent, mode, **options)
    if played.error is not None:
        return type(played.error), str(played.error), type(played.error.__cause__)
    paused = [each.tool_name for each in played.result.interruptions]
    return played.outputs, played.result.final_output, paused


@pytest.mark.parametrize(("tool", "args"), CASES, ids=lambda v: getattr(v, "name", str(v)))
def test_results_and_errors_are_the_same(tool, args, mode):
    assert seen(guard_tool(tool, Guard()), args, mode) == seen(tool, args, mode)


@pytest.mark.parametrize(("tool", "args"), CASES, ids=lambda v: getattr(v, "name", str(v)))
def test_hooks_change_neither(tool, args, mode):
    assert seen(tool, args, mode, hooks=GuardHooks(Guard())) == seen(tool, args, mode)


@pytest.mark.parametrize("tool", [case[0] for case in CASES], ids=lambda tool: tool.name)
def test_a_guarded_tool_looks_like_the_tool(tool):
    guarded = guard_tool(tool, Guard())
    for name in ("name", "description", "params_json_schema", "strict_json_schema", "is_enabled"):
        assert getattr(guarded, name) == getattr(tool, name)
    assert type(guarded) is type(tool)
    assert guarded.needs_approval is tool.needs_approval
    assert type(guarded.on_invoke_tool) is type(tool.on_invoke_tool) or tool.name in (
        "narrow",
        "own",
    )
    assert getattr(guarded, "__wrapped__", None) is getattr(tool, "__wrapped__", None)
    assert tool.tool_input_guardrails is None
    assert (
        inspect.iscoroutinefunction(guarded.on_invoke_tool)
        == inspect.iscoroutinefunction(tool.on_invoke_tool)
        or tool.name == "own"
    )


def test_a_plain_function_becomes_a_tool():
    def add(x: int) -> int:
        """Adds one."""
        return x + 1

    tool = guard_tool(add, Guard())
    assert (tool.name, tool.description) == ("add", "Adds one.")


def test_hosted_tools_come_back_as_they_are_and_are_named(caplog):
    search = WebSearchTool()
    assert guard_tools([search], Guard()) == [search]
    assert "web_search" in caplog.text


def test_guarding_twice_with_one_guard_guards_once():
    guard = Guard()
    once = guard_tool(plain, guard)
    assert guard_tool(once, guard) is once
    agent = guard_agent(Agent("A", tools=[plain]), guard)
    assert guard_agent(agent, guard) is agent
    assert guard_tool(agent.tools[0], guard) is agent.tools[0]
    custom = guard_tool(CustomTool(name="c", description="d", on_invoke_tool=str), guard)
    assert guard_tool(custom, guard) is custom


def test_two_guards_both_count():
    first, second = Guard(Policy(max_calls=1)), Guard(Policy(max_calls=2))
    agent = guard_agent(guard_agent(Agent("A", tools=[plain]), second), first)
    agent.model = script(*[call("plain", {"x": i}, f"c{i}") for i in range(5)], "done")
    played = play(agent)
    assert len(played.outputs) == 2
    assert played.stop.limit == 1


def test_the_own_guardrails_run_after_ours_in_their_order():
    order = []

    def noting(name):
        @tool_input_guardrail
        def check(data):
            order.append(name)
            return ToolGuardrailFunctionOutput.allow()

        return check

    @tool_output_guardrail
    def redact(data):
        order.append("output")
        return ToolGuardrailFunctionOutput.reject_content("redacted")

    @function_tool(
        tool_input_guardrails=[noting("a"), noting("b")], tool_output_guardrails=[redact]
    )
    async def work(x: int) -> str:
        order.append("body")
        return "secret"

    guarded = guard_tool(work, Guard())
    played = play(Agent("A", tools=[guarded], model=script(call("work", {"x": 1}), "done")))
    assert order == ["a", "b", "body", "output"]
    assert played.outputs == {"c1": "redacted"}


def test_a_call_that_another_guardrail_rejects_is_settled_as_cancelled():
    heard = []

    @tool_input_guardrail
    def no(data):
        return ToolGuardrailFunctionOutput.reject_content("not today")

    @function_tool(tool_input_guardrails=[no])
    async def work(x: int) -> str:
        raise AssertionError

    guard = Guard(listeners=[heard.append])
    replies = [call("work", {"x": 1}, f"c{i}") for i in range(3)]
    played = play(guard_agent(Agent("A", tools=[work], model=script(*replies, "done")), guard))
    assert played.result.final_output == "done"
    assert [event.outcome for event in heard if event.kind == "attempt"] == ["cancelled"] * 3
    assert len(guard.store) == 0


def test_a_refused_call_fires_no_hook_and_its_siblings_run_on():
    from agents import RunHooks

    started = []

    class Hooks(RunHooks):
        async def on_tool_start(self, context, agent, tool):
            started.append(context.tool_call_id)

    guard = Guard(Policy(tools={"plain": {"max_calls": 1}}))
    agent = guard_agent(
        Agent(
            "A",
            tools=[plain, sync],
            model=script(
                [
                    call("plain", {"x": 1}),
                    call("plain", {"x": 2}, "c2"),
                    call("sync", {"x": 3}, "c3"),
                ],
                "done",
            ),
        ),
        guard,
    )
    played = play(agent, hooks=Hooks())
    assert started == ["c1", "c3"]
    assert played.outputs["c2"].startswith("Stopped: plain")
    assert played.outputs["c3"] == "{'x': 3}"
    assert played.result.final_output == "done"


def test_after_a_final_answer_the_model_reads_the_stop_not_the_fixed_sentence():
    class NotFound(Exception):
        status_code = 404

    @function_tool
    async def get(x: int) -> str:
        raise NotFound("no invoice 7")

    agent = guard_agent(
        Agent("A", tools=[get], model=script(call("get", {"x": 7}), "done")), Guard()
    )
    played = play(agent)
    assert "HTTP 404" in played.outputs["c1"]
    assert "no invoice 7" in played.outputs["c1"]
    assert "again" not in played.outputs["c1"].split("refused again")[0]
    assert played.result.final_output == "done"


def test_a_tool_meant_to_raise_still_raises_after_a_final_answer():
    class NotFound(Exception):
        status_code = 404

    @function_tool(failure_error_function=None)
    async def get(x: int) -> str:
        raise NotFound("no invoice 7")

    agent = guard_agent(
        Agent("A", tools=[get], model=script(call("get", {"x": 7}), "done")), Guard()
    )
    played = play(agent)
    assert isinstance(played.error.__cause__, NotFound)


def test_malformed_calls_in_a_row_end_the_turn():
    guard = Guard()
    model = script(*[call("plain", f"{{broken {i}", f"c{i}") for i in range(10)], "done")
    played = play(guard_agent(Agent("A", tools=[plain], model=model), guard))
    assert played.requests == 3
    assert played.stop.reason == "malformed"
    assert played.outputs["c0"] == "An error occurred while running the tool. Please try again."


def test_custom_tools_are_guarded_at_their_body(mode):
    ran = []
    tool = CustomTool(
        name="cust", description="d", on_invoke_tool=lambda ctx, text: ran.append(text) or "same"
    )
    model = script(*[custom_call("cust", "x", f"c{i}") for i in range(20)], "done")
    played = play(guard_agent(Agent("A", tools=[tool], model=model), Guard()), mode)
    assert len(ran) == 3
    assert played.stop is not None
    assert played.requests <= 6
    assert not played.unanswered


@pytest.mark.parametrize("as_json", [False, True])
def test_an_approved_call_counts_once_and_its_turn_goes_on(as_json, mode):
    from agents import RunConfig, ToolExecutionConfig

    ran = []
    guard = Guard(Policy(max_calls=2))

    @function_tool(needs_approval=True)
    async def pay(x: int) -> str:
        ran.append(x)
        return "paid"

    model = script(
        call("pay", {"x": 1}), call("pay", {"x": 2}, "c2"), call("pay", {"x": 3}, "c3"), "no"
    )
    agent = guard_agent(Agent("A", tools=[pay], model=model), guard)
    config = RunConfig(tool_execution=ToolExecutionConfig(pre_approval_tool_input_guardrails=True))

    async def approving():
        started = "hi"
        for _ in range(5):
            if mode == "run":
                result = await Runner.run(agent, started, run_config=config)
            else:
                result = Runner.run_streamed(agent, started, run_config=config)
                async for _ in result.stream_events():
                    pass
            if not result.interruptions:
                break
            started = result.to_state()
            if as_json:
                started = await RunState.from_json(agent, started.to_json())
            started.approve(started.get_interruptions()[0])
        return result

    result = asyncio.run(approving())
    assert ran == [1, 2]
    assert result.final_output.stop.reason == "ceiling"
    assert result.final_output.stop.observed == 3
    assert len(guard.store) == 0


def test_a_cancelled_call_is_settled_and_frees_what_it_held():
    heard = []
    guard = Guard(listeners=[heard.append])

    async def cancelled():
        started = asyncio.Event()

        @function_tool
        async def wait(x: int) -> str:
            started.set()
            await asyncio.Event().wait()
            return "never"

        agent = guard_agent(Agent("A", tools=[wait], model=script(call("wait", {"x": 1}))), guard)
        task = asyncio.create_task(Runner.run(agent, "hi"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    asyncio.run(cancelled())
    assert [event.outcome for event in heard if event.kind == "attempt"] == ["cancelled"]
    assert len(guard.store) == 0


def test_a_time_out_is_a_failure():
    heard = []
    guard = Guard(listeners=[heard.append])
    agent = guard_agent(
        Agent("A", tools=[slow], model=script(call("slow", {"x": 1}), "done")), guard
    )
    assert play(agent).outputs["c1"] == "Tool 'slow' timed out after 0.01 seconds."
    assert [event.outcome for event in heard if event.kind == "attempt"] == ["error"]


def test_a_guarded_tool_can_be_invoked_by_hand():
    guard = Guard()
    tool = guard_tool(plain, guard)

    async def by_hand():
        context = ToolContext(None, tool_name="plain", tool_call_id="c", tool_arguments='{"x": 1}')
        return await tool.on_invoke_tool(context, '{"x": 1}')

    assert asyncio.run(by_hand()) == "plain 1 n"
    assert guard.here() is None
    assert len(guard.store) == 0


def test_copies_stay_guarded():
    guard = Guard(Policy(max_calls=1))
    tool = copy.deepcopy(guard_tool(plain, guard))
    model = script(*[call("plain", {"x": i}, f"c{i}") for i in range(4)], "done")
    played = play(Agent("A", tools=[tool], model=model))
    assert played.stop.limit == 1
    assert len(played.outputs) == 2
