"""Graphs of agents: what leads where, hand-overs as calls, and agents that nobody has changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agents import (
    Agent,
    CodeInterpreterTool,
    HandoffInputData,
    RunConfig,
    RunHooks,
    Runner,
    ShellTool,
    WebSearchTool,
    function_tool,
    handoff,
)
from agents.extensions.handoff_filters import remove_all_tools

from lastcall import Guard, Policy
from lastcall.events import Event
from lastcall_openai_agents import GuardHooks, RunStopped, coverage, guard_agent, instrument

from .scripted import Script, aplay, call, play, script

ROADS = ("guard_agent", "hooks", "instrument")


class Road:
    """A way to guard an agent that hands over."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.undos: list[Callable[[], None]] = []

    def play(self, agent: Agent[Any], guard: Guard, mode: str = "run", **options: Any) -> Any:
        if self.name == "instrument":
            self.undos.append(instrument(guard))
        if self.name == "guard_agent":
            agent = guard_agent(agent, guard)
        if self.name == "hooks":
            options["hooks"] = GuardHooks(guard, options.get("hooks"))
        return play(agent, mode, **options)


@pytest.fixture(params=ROADS)
def road(request) -> Iterator[Road]:
    road = Road(request.param)
    yield road
    for undo in road.undos:
        undo()


def listened(policy: Policy | None = None) -> tuple[Guard, list[Event]]:
    events: list[Event] = []
    return Guard(policy or Policy.permissive(), listeners=[events.append]), events


def attempts(events: list[Event]) -> list[Event]:
    return [each for each in events if each.kind == "attempt"]


@function_tool
async def look(x: int) -> str:
    """Looks."""
    return f"found {x}"


def to(agent: str, id: str) -> Any:
    return call(f"transfer_to_{agent}", {}, id)


def pair(model: Any, **settings: Any) -> Agent[Any]:
    """Two agents that hand over to each other, on one model."""
    first: Agent[Any] = Agent("first", model=model, tools=[look])
    second: Agent[Any] = Agent("second", model=model, tools=[look], **settings)
    first.handoffs, second.handoffs = [second], [first]
    return first


def test_agents_that_defer_to_each_other_are_stopped(road, mode):
    agent = pair(script(*[to("second", f"a{i}") for i in range(20)]))
    agent.handoffs[0].model = script(*[to("first", f"b{i}") for i in range(20)])
    played = road.play(agent, Guard(), mode)
    assert played.stop is not None
    assert played.requests + len(agent.handoffs[0].model.calls) <= 12
    assert not played.unanswered


def test_three_of_each_may_happen_and_the_seventh_is_stopped(road, mode):
    guard, events = listened(Policy(max_repeats=3))
    agent = pair(script(*[to("second", f"a{i}") for i in range(20)]))
    agent.handoffs[0].model = script(*[to("first", f"b{i}") for i in range(20)])
    played = road.play(agent, guard, mode)
    assert [each.tool for each in attempts(events)] == [
        "transfer_to_second",
        "transfer_to_first",
    ] * 3
    assert played.stop.tool == "transfer_to_second"
    assert played.outputs["a3"].startswith("Stopped: transfer_to_second")


def test_a_hand_over_is_a_call_like_others(road, mode):
    guard, events = listened()
    model = script(call("look", {"x": 1}), to("second", "h1"), call("look", {"x": 2}, "c2"), "done")
    played = road.play(pair(model), guard, mode)
    assert played.result.final_output == "done"
    assert played.result.last_agent.name == "second"
    seen = [(each.tool, each.call_id, each.agent) for each in attempts(events)]
    assert seen == [
        ("look", "c1", "first"),
        ("transfer_to_second", "h1", "first"),
        ("look", "c2", "second"),
    ]
    assert len({each.fingerprint for each in attempts(events)}) == 3


def test_a_refused_hand_over_is_answered_and_the_agent_stays(road, mode):
    guard = Guard(Policy(tools={"transfer_to_*": {"max_calls": 1}}))
    model = script(to("second", "h1"), to("first", "h2"), call("look", {"x": 1}), "done")
    played = road.play(pair(model), guard, mode)
    assert played.result.final_output == "done"
    assert played.result.last_agent.name == "first"
    # Each way has a budget of its own.
    assert json.loads(played.outputs["h2"]) == {"assistant": "first"}
    model = script(to("second", "h1"), to("first", "h2"), to("second", "h3"), "sorry")
    played = road.play(pair(model), guard, mode)
    assert played.outputs["h3"].startswith("Stopped: transfer_to_second")
    assert played.result.final_output == "sorry"
    assert played.result.last_agent.name == "first"
    assert not played.unanswered


def test_several_hand_overs_in_one_reply_are_all_answered(road, mode):
    guard = Guard(Policy(max_calls=1))
    agent = pair(None)
    agent.handoffs = [*agent.handoffs, Agent("third")]
    agent.model = script(call("look", {"x": 1}), [to("second", "h1"), to("third", "h2")], "sorry")
    played = road.play(agent, guard, mode)
    assert set(played.outputs) == {"c1", "h1", "h2"}
    assert not played.unanswered


def test_a_hand_over_beside_a_refused_call_still_happens_or_is_refused_too(road, mode):
    guard = Guard(Policy(max_calls=1))
    model = script(
        [call("look", {"x": 1}), call("look", {"x": 2}, "c2"), to("second", "h")], "done"
    )
    played = road.play(pair(model), guard, mode)
    assert played.outputs["c1"] == "found 1"
    assert played.outputs["c2"].startswith("Stopped: look")
    assert played.outputs["h"].startswith("Stopped: transfer_to_second")
    assert not played.unanswered


class Noting(RunHooks[Any]):
    def __init__(self) -> None:
        self.events: list[Any] = []

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.events.append((from_agent.name, to_agent.name))

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.events.append(agent.name)


def only_what_is_new(data: HandoffInputData) -> HandoffInputData:
    return data.clone(input_history="only this", pre_handoff_items=())


HAND_OVERS: dict[str, Callable[[Agent[Any]], Any]] = {
    "agent": lambda agent: agent,
    "handoff": handoff,
    "filter": lambda agent: handoff(agent, input_filter=remove_all_tools),
    "own filter": lambda agent: handoff(agent, input_filter=only_what_is_new),
    "nested": lambda agent: handoff(agent, nest_handoff_history=True),
    "disabled": lambda agent: handoff(agent, is_enabled=lambda ctx, agent: ctx.context["open"]),
}


@pytest.mark.parametrize("lead", HAND_OVERS.values(), ids=HAND_OVERS)
@pytest.mark.parametrize("nests", [False, True])
def test_a_permissive_guard_changes_nothing(road, mode, lead, nests):
    def played(by: Callable[..., Any]) -> Any:
        told: list[Any] = []

        def instructions(ctx: Any, agent: Agent[Any]) -> str:
            told.append((agent.name, len(agent.tools)))
            return f"You are {agent.name}"

        model = script(
            call("look", {"x": 1}),
            [call("look", {"x": 2}, "c2"), to("second", "h1")],
            call("look", {"x": 3}, "c3"),
            "done",
        )
        second = Agent("second", model=model, tools=[look], instructions=instructions)
        agent = Agent("first", model=model, tools=[look], handoffs=[lead(second)])
        agent.instructions = instructions
        seen = Noting()
        config = RunConfig(nest_handoff_history=nests)
        found = by(agent, hooks=seen, context={"open": True}, run_config=config)
        return found.outputs, found.result.final_output, seen.events, told, found.model.calls

    guard = Guard(Policy.permissive())
    plain = played(lambda agent, **options: play(agent, mode, **options))
    assert played(lambda agent, **options: road.play(agent, guard, mode, **options)) == plain


def test_a_closed_way_stays_closed(road, mode):
    second = Agent("second", model=script("never"))
    closed = handoff(second, is_enabled=lambda ctx, agent: False)
    agent = Agent("first", model=script(to("second", "h1"), "done"), handoffs=[closed])
    played = road.play(agent, Guard(), mode)
    assert "transfer_to_second" in str(played.error)
    assert second.model.calls == []


def test_a_hand_over_that_fails_is_seen_and_still_fails(road, mode):
    guard, events = listened()

    def broken(ctx: Any) -> None:
        raise ValueError("HTTP 404: nobody is there")

    lead = handoff(Agent("second", model=script("never")), on_handoff=broken)
    played = road.play(
        Agent("first", model=script(to("second", "h")), handoffs=[lead]), guard, mode
    )
    assert "nobody is there" in str(played.error)
    assert [(each.tool, each.outcome) for each in attempts(events)] == [
        ("transfer_to_second", "error")
    ]


def test_who_has_the_conversation_takes_the_place_of_who_had_it(road):
    guard, _ = listened()
    paths: list[Any] = []

    @function_tool
    async def where(x: int) -> str:
        found = guard.here()
        paths.append(found and found.path)
        return "here"

    inner = Agent("inner", tools=[where], model=script(call("where", {"x": 1}), "ok"))
    tools = [where, inner.as_tool("ask", "a")]
    model = script(
        to("second", "h"), call("where", {"x": 1}), call("ask", {"input": "?"}, "c2"), "done"
    )
    second = Agent("second", model=model, tools=tools)
    road.play(Agent("first", model=model, handoffs=[second]), guard)
    assert paths == [("second",), ("second", "inner")]


@pytest.mark.asyncio
async def test_a_clone_of_a_guarded_agent_still_counts_its_hand_overs(mode):
    guard, events = listened()
    agent = guard_agent(pair(script(to("second", "h1"), "done")), guard)
    agent = guard_agent(agent.clone(name="clone"), guard)
    await aplay(agent, mode)
    assert [each.tool for each in attempts(events)] == ["transfer_to_second"]


@pytest.mark.parametrize("roads", [("guard_agent", "hooks"), ("instrument", "guard_agent"), ROADS])
def test_several_roads_count_a_hand_over_once(roads, mode):
    guard, events = listened()
    agent = pair(script(to("second", "h1"), to("first", "h2"), "done"))
    agent = guard_agent(agent, guard) if "guard_agent" in roads else agent
    undo = instrument(guard) if "instrument" in roads else None
    try:
        play(agent, mode, hooks=GuardHooks(guard) if "hooks" in roads else None)
    finally:
        if undo is not None:
            undo()
    assert [each.call_id for each in attempts(events)] == ["h1", "h2"]


@pytest.mark.asyncio
async def test_a_hand_over_after_a_pause_is_asked_about_once(road):
    guard, events = listened()

    @function_tool(needs_approval=True)
    async def sign(x: int) -> str:
        return "signed"

    model = script([call("sign", {"x": 1}), to("second", "h1")], "done")
    second = Agent("second", model=model)
    agent = Agent("first", model=model, tools=[sign], handoffs=[second])
    if road.name == "guard_agent":
        agent = guard_agent(agent, guard)
    if road.name == "instrument":
        road.undos.append(instrument(guard))
    hooks = GuardHooks(guard) if road.name == "hooks" else None
    played = await aplay(agent, hooks=hooks)
    (item,) = played.result.interruptions
    state = played.result.to_state()
    state.approve(item)
    resumed = await Runner.run(agent, state, hooks=hooks)
    assert resumed.final_output == "done"
    assert resumed.last_agent.name == "second"
    assert sorted(each.tool for each in attempts(events)) == ["sign", "transfer_to_second"]


def test_coverage_names_what_runs_here_and_what_does_not(caplog):
    inner = Agent("Inner", tools=[look, WebSearchTool()])
    shell = ShellTool(executor=print)
    hosted = ShellTool(name="far_shell", environment={"type": "container_auto"})
    tools = [inner.as_tool("ask", "a"), shell, hosted, CodeInterpreterTool({"type": "x"})]
    agent = Agent("A", tools=tools, handoffs=[Agent("B"), handoff(inner, "to_inner")])
    found = coverage(agent)
    assert found.guarded == ("ask", "look", "shell", "transfer_to_b", "to_inner")
    assert {gap.tool for gap in found.gaps} == {"web_search", "far_shell", "code_interpreter"}
    guard_agent(agent, Guard())
    for gap in found.gaps:
        assert f"{gap.tool} is not guarded: {gap.why}" in caplog.text
    assert coverage(guard_agent(agent, Guard())) == found


def test_nothing_of_the_users_is_changed():
    first = pair(script("done"))
    second = first.handoffs[0]
    before = [
        (dict(vars(agent)), list(agent.tools), list(agent.handoffs)) for agent in (first, second)
    ]
    tools = [dict(vars(tool)) for tool in first.tools]
    copied = guard_agent(first, Guard())
    for agent, (fields, its_tools, leads) in zip((first, second), before, strict=True):
        assert vars(agent) == fields
        assert all(now is then for now, then in zip(agent.tools, its_tools, strict=True))
        assert all(now is then for now, then in zip(agent.handoffs, leads, strict=True))
    assert [vars(tool) for tool in first.tools] == tools
    assert copied.handoffs[0].handoffs[0] is copied
    assert copied.handoffs[0] is not second


@pytest.mark.parametrize("fits", [True, False])
def test_a_hand_over_is_part_of_its_reply(road, fits, mode):
    guard, events = listened(Policy(max_calls=2 + fits, batch="all-or-none"))
    agent = pair(None)
    agent.handoffs = [*agent.handoffs, Agent("third")]
    # Of the second one nobody is asked: the SDK itself ignores it.
    reply = [call("look", {"x": i}, f"c{i}") for i in range(2)]
    agent.model = script([*reply, to("second", "h1"), to("third", "h2")], "sorry")
    agent.handoffs[0].model = script("taken over")
    played = road.play(agent, guard, mode)
    assert len(attempts(events)) == (3 if fits else 0)
    assert (played.stop is None) == fits
    assert not played.unanswered


def test_a_hand_over_that_is_refused_because_the_run_is_over_ends_it(road, mode):
    guard = Guard(Policy(max_calls=1))
    seen = Noting()
    played = road.play(
        pair(script(call("look", {"x": 1}), to("second", "h"))), guard, mode, hooks=seen
    )
    assert played.stop.reason == "ceiling"
    assert played.stop.tool == "transfer_to_second"
    assert played.outputs["h"].startswith("Stopped: transfer_to_second")
    assert not played.unanswered
    if road.name == "guard_agent":
        assert played.error is None
        assert played.result.final_output.stop == played.stop
        assert played.result.last_agent.name == "first"
    else:
        assert isinstance(played.error, RunStopped)


def test_no_hand_over_is_offered_for_a_last_answer(mode):
    guard = Guard(Policy(max_calls=1))
    model = Asked(script(call("look", {"x": 1}), to("second", "h"), "What I have.").replies)
    agent = pair(model)
    agent.handoffs = [*agent.handoffs, handoff(Agent("third"), is_enabled=lambda ctx, agent: True)]
    agent.handoffs.append(handoff(Agent("fourth"), is_enabled=False))
    played = play(guard_agent(agent, guard, last_answer=True), mode)
    assert played.result.final_output == "What I have."
    assert model.leads == [["transfer_to_second", "transfer_to_third"]] * 2 + [[]]
    assert played.stop.reason == "ceiling"


class Asked(Script):
    """Notes which hand-overs each request offers."""

    def __init__(self, replies: Any) -> None:
        super().__init__(replies)
        self.leads: list[list[str]] = []

    def note(self, given: tuple[Any, ...], more: dict[str, Any]) -> None:
        # Streamed, the SDK names no argument.
        leads = more["handoffs"] if "handoffs" in more else given[5]
        self.leads.append([each.tool_name for each in leads])

    async def get_response(self, *given: Any, **more: Any) -> Any:
        self.note(given, more)
        return await super().get_response(*given, **more)

    async def stream_response(self, *given: Any, **more: Any) -> Any:
        self.note(given, more)
        async for each in super().stream_response(*given, **more):
            yield each
