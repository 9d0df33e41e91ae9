"""Realtime sessions, on the SDK's own scripted transport: tools are refused, and each utterance is a run."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner, realtime_handoff
from agents.realtime.items import InputText, UserMessageItem
from agents.realtime.model_events import RealtimeModelItemUpdatedEvent, RealtimeModelToolCallEvent
from agents.realtime.model_inputs import RealtimeModelSendToolOutput, RealtimeModelSendUserInput
from agents.realtime.testing import RealtimeStep, ScriptedRealtimeModel

from lastcall import Guard, Policy
from lastcall.events import Event
from lastcall_openai_agents import coverage, guard_agent, guard_tools, instrument

pytestmark = pytest.mark.asyncio


@pytest.fixture(params=["guard_agent", "guard_tools", "instrument"])
def guarded(request) -> Iterator[Callable[[RealtimeAgent[Any], Guard], RealtimeAgent[Any]]]:
    undos: list[Callable[[], None]] = []

    def by(agent: RealtimeAgent[Any], guard: Guard) -> RealtimeAgent[Any]:
        if request.param == "guard_agent":
            return guard_agent(agent, guard)
        if request.param == "guard_tools":
            return agent.clone(tools=guard_tools(agent.tools, guard))
        undos.append(instrument(guard))
        return agent

    yield by
    for undo in undos:
        undo()


def asked(tool: str, args: Any, id: str) -> Any:
    return RealtimeModelToolCallEvent(name=tool, call_id=id, arguments=json.dumps(args))


def heard(text: str, id: str) -> Any:
    content = [InputText(type="input_text", text=text)]
    item = UserMessageItem(item_id=id, type="message", role="user", content=content)
    return RealtimeModelItemUpdatedEvent(item=item)


def stubborn(tool: str, args: Callable[[int], Any], times: int, *, spoken: int = 1) -> list[Any]:
    """A model that is spoken to *spoken* times and asks *times* times each, whatever it is told."""
    steps: list[Any] = []
    for turn in range(spoken):
        calls = [asked(tool, args(i), f"t{turn}-c{i}") for i in range(times)]
        said = heard("go", f"u{turn}")
        steps.append(RealtimeStep(RealtimeModelSendUserInput, [said, calls[0]]))
        steps += [
            RealtimeStep(RealtimeModelSendToolOutput, [said, call] if call else [])
            for call in (*calls[1:], None)
        ]
    return steps


async def told(agent: RealtimeAgent[Any], steps: list[Any], *, spoken: int = 1) -> list[str]:
    """What the model was told of its calls."""
    model = ScriptedRealtimeModel(steps)
    runner = RealtimeRunner(agent, model=model, config={"async_tool_calls": False})
    async with await runner.run() as session:
        for _ in range(spoken):
            await session.send_message("go")
        model.assert_complete()
    return [
        event.output
        for event in model.sent_events
        if isinstance(event, RealtimeModelSendToolOutput)
    ]


def agent_with(*tools: Any, **settings: Any) -> RealtimeAgent[Any]:
    return RealtimeAgent("Voice", tools=list(tools), **settings)


@function_tool
async def look(x: int) -> str:
    """Looks."""
    return "nothing"


class Missing(Exception):
    status_code = 404


@function_tool(failure_error_function=lambda ctx, error: "Please try again.")
async def order(x: int) -> str:
    """Looks an order up."""
    raise Missing("no such order")


async def test_a_runaway_is_refused(guarded):
    agent = guarded(agent_with(look), Guard(Policy(max_calls=3)))
    said = await told(agent, stubborn("look", lambda i: {"x": i}, 6))
    assert said[:3] == ["nothing"] * 3
    assert all(each.startswith("Stopped: look") for each in said[3:])
    assert len(said) == 6


async def test_equal_calls_are_seen_as_such(guarded):
    agent = guarded(agent_with(look), Guard())
    said = await told(agent, stubborn("look", lambda i: {"x": 1}, 6))
    assert said[:3] == ["nothing"] * 3
    assert all("Stopped: look" in each for each in said[3:])


async def test_a_final_status_reads_as_a_stop(guarded):
    agent = guarded(agent_with(order), Guard())
    said = await told(agent, stubborn("order", lambda i: {"x": i}, 5))
    for each in said:
        assert each.startswith("Stopped: order")
        assert "try again" not in each.lower()


async def test_what_the_user_says_next_begins_anew(guarded):
    agent = guarded(agent_with(look), Guard(Policy(max_calls=2)))
    steps = stubborn("look", lambda i: {"x": i}, 4, spoken=3)
    said = await told(agent, steps, spoken=3)
    assert [each == "nothing" for each in said] == [True, True, False, False] * 3


async def test_each_call_is_a_reply_of_its_own_and_counts_once(guarded):
    events: list[Event] = []
    guard = Guard(Policy.permissive(), listeners=[events.append])
    agent = guarded(guarded(agent_with(look), guard), guard)
    await told(agent, stubborn("look", lambda i: {"x": i}, 3))
    seen = [each for each in events if each.kind == "attempt"]
    assert [(each.call_id, each.agent) for each in seen] == [
        (f"t0-c{i}", "Voice") for i in range(3)
    ]


async def test_a_session_that_is_over_leaves_nothing(guarded):
    guard = Guard(Policy.permissive())
    agent = guarded(agent_with(look), guard)
    await told(agent, stubborn("look", lambda i: {"x": i}, 3, spoken=2), spoken=2)
    gc.collect()
    # Whoever asks next catches up.
    guard.here()
    assert len(guard.store) == 0


async def test_approvals_stay(guarded):
    @function_tool(needs_approval=True)
    async def careful(x: int) -> str:
        return f"did {x}"

    agent = guarded(agent_with(careful), Guard(Policy.permissive()))
    said = heard("go", "u0")
    steps = [
        RealtimeStep(RealtimeModelSendUserInput, [said, asked("careful", {"x": 1}, "c1")]),
        RealtimeStep(RealtimeModelSendToolOutput),
    ]
    model = ScriptedRealtimeModel(steps)
    async with await RealtimeRunner(agent, model=model).run() as session:
        await session.send_message("go")
        async for event in session:
            if event.type == "tool_approval_required":
                await session.approve_tool_call(event.call_id)
            if event.type == "tool_end":
                break
        model.assert_complete()
    outputs = [e.output for e in model.sent_events if isinstance(e, RealtimeModelSendToolOutput)]
    assert outputs == ["did 1"]


async def test_guard_agent_follows_hand_overs_and_says_what_it_cannot_stop():
    guard = Guard(Policy(max_calls=1))
    billing = RealtimeAgent("Billing", tools=[look])
    triage = RealtimeAgent("Triage", handoffs=[billing, realtime_handoff(billing, "to_billing")])
    billing.handoffs = [triage]
    copy = guard_agent(triage, guard)
    assert triage.handoffs[0] is billing
    assert copy.handoffs[0].handoffs[0] is copy
    assert guard_agent(copy, guard) is copy
    found = coverage(copy)
    assert found.guarded == ("look",)
    assert {gap.tool for gap in found.gaps} == {
        "transfer_to_billing",
        "transfer_to_triage",
        "to_billing",
    }
    said = heard("go", "u0")
    steps = [
        RealtimeStep(RealtimeModelSendUserInput, [said, asked("to_billing", {}, "c0")]),
        *([RealtimeStep(lambda event: True, [])] * 1),
        RealtimeStep(RealtimeModelSendToolOutput, [asked("look", {"x": 1}, "c1")]),
        RealtimeStep(RealtimeModelSendToolOutput, [asked("look", {"x": 2}, "c2")]),
        RealtimeStep(RealtimeModelSendToolOutput),
    ]
    outputs = await told(copy, steps)
    assert outputs[1] == "nothing"
    assert outputs[2].startswith("Stopped: look")
