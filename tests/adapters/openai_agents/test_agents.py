"""Guarded copies of whole graphs: hand-overs, circles, agents as tools, own endings."""

from __future__ import annotations

import asyncio
import copy
import pickle

import pytest
from agents import (
    Agent,
    OutputGuardrailTripwireTriggered,
    RunHooks,
    Runner,
    ToolsToFinalOutputResult,
    function_tool,
    handoff,
)
from pydantic import BaseModel

from lastcall import Guard, Policy, Stop, Stopped
from lastcall_openai_agents import RunStopped, StopText, guard_agent, guard_tools, stop_of

from .scripted import aplay, call, play, script, stubborn

RAN = []


@pytest.fixture(autouse=True)
def fresh():
    RAN.clear()


@function_tool
async def look(q: str) -> str:
    RAN.append(q)
    return "the same"


def same(name="look", args=None):
    return stubborn(name, lambda i: args or {"q": "x"})


def test_the_agent_itself_stays_as_it_is():
    inner = Agent("inner", tools=[look])
    agent = Agent("A", tools=[look, inner.as_tool("ask", "ask")], handoffs=[inner, handoff(inner)])
    before = {**vars(agent)}, {**vars(inner)}
    lists = [*agent.tools], [*agent.handoffs]
    guarded = guard_agent(agent, Guard())
    assert ({**vars(agent)}, {**vars(inner)}) == before
    assert ([*agent.tools], [*agent.handoffs]) == lists
    assert guarded is not agent
    assert guarded.tools[0] is not agent.tools[0]
    assert guarded.handoffs[0].tools[0] is not look


@pytest.mark.parametrize("made", [lambda b: b, handoff], ids=["agent", "handoff"])
def test_the_target_of_a_hand_over_is_guarded(made, mode):
    billing = Agent("billing", tools=[look], model=same())
    triage = Agent("triage", handoffs=[made(billing)], model=script(call("transfer_to_billing")))
    played = play(guard_agent(triage, Guard()), mode)
    assert len(RAN) == 3
    assert played.error is None
    assert played.stop.agent == "billing"


def test_agents_that_lead_to_each_other_are_copied_once(mode):
    a, b = Agent("a", tools=[look]), Agent("b", tools=[look])
    a.handoffs, b.handoffs = [b], [handoff(a)]
    a.model = script(
        call("transfer_to_b", {}, "a"), *[call("look", {"q": "x"}, f"c{i}") for i in range(9)]
    )
    b.model = script(call("transfer_to_a", {}, "b"))
    guarded = guard_agent(a, Guard())
    assert guarded.handoffs[0].handoffs[0] is not b.handoffs[0]
    played = play(guarded, mode)
    assert played.stop.agent == "a"
    assert len(RAN) == 3


def test_a_turn_that_also_hands_over_ends_as_a_normal_result(mode):
    b = Agent("b", model=script("from b"))
    guard = Guard(Policy(max_calls=1))
    a = Agent(
        "a",
        tools=[look],
        handoffs=[b],
        model=script(
            [
                call("look", {"q": "1"}),
                call("look", {"q": "2"}, "c2"),
                call("transfer_to_b", {}, "c3"),
            ]
        ),
    )
    played = play(guard_agent(a, guard), mode)
    assert played.error is None
    assert played.result.final_output.startswith("Stopped: look")
    assert played.result.last_agent.name == "a"
    assert played.stop.reason == "ceiling"
    assert set(played.outputs) == {"c1", "c2", "c3"}
    assert not played.unanswered
    assert len(b.model.calls) == 0


class TestAgentsAsTools:
    def outer(self, inner, times=10, **settings):
        ask = inner.as_tool("ask", "ask", **settings)
        model = script(*[call("ask", {"input": f"q{i}"}, f"o{i}") for i in range(times)], "done")
        return Agent("outer", tools=[ask], model=model)

    def test_the_inner_agent_is_guarded_and_its_end_is_the_end_of_the_run(self, mode):
        inner = Agent("inner", tools=[look], model=same())
        played = play(guard_agent(self.outer(inner), Guard()), mode)
        assert len(RAN) == 3
        assert played.requests == 1
        assert len(inner.model.calls) == 5
        assert played.error is None
        assert played.stop.tool == "look"
        assert played.outputs["o0"].startswith("Stopped: look")

    def test_also_when_it_streams_inside(self, mode):
        events = []
        inner = Agent("inner", tools=[look], model=same())
        played = play(guard_agent(self.outer(inner, on_stream=events.append), Guard()), mode)
        assert len(RAN) == 3
        assert played.stop.tool == "look"
        assert events

    def test_it_is_found_two_levels_down(self, mode):
        inmost = Agent("inmost", tools=[look], model=same())
        inner = Agent(
            "inner",
            tools=[inmost.as_tool("deep", "d")],
            model=script(call("deep", {"input": "x"}), "in"),
        )
        played = play(guard_agent(self.outer(inner), Guard()), mode)
        assert played.stop.agent == "inmost"
        assert played.stop.path == ("outer", "inner", "inmost")
        assert len(RAN) == 3

    def test_with_guarded_tools_alone_the_run_ends_too(self, mode):
        guard = Guard()
        inner = Agent("inner", tools=guard_tools([look], guard), model=same())
        played = play(self.outer(inner), mode)
        assert len(RAN) == 3
        assert isinstance(played.error, RunStopped)
        assert played.stop.tool == "look"
        assert played.requests == 1

    def test_budgets_are_those_of_the_whole_run(self):
        inner = Agent("inner", tools=[look])
        inner.model = script(
            *[call("look", {"q": f"{i}"}, f"i{i}") if i % 2 == 0 else "in" for i in range(20)]
        )
        played = play(guard_agent(self.outer(inner), Guard(Policy(max_calls=5))))
        assert len(RAN) == 2
        assert played.stop.reason == "ceiling"

    def test_the_inner_agent_stays_unguarded_elsewhere(self):
        inner = Agent("inner", tools=[look])
        guard_agent(self.outer(inner), Guard(Policy(max_calls=1)))
        inner.model = script(*[call("look", {"q": f"{i}"}, f"i{i}") for i in range(4)], "in")
        assert play(inner).result.final_output == "in"

    def test_a_paused_inner_run_goes_on_where_it_was(self):
        @function_tool(needs_approval=True)
        async def pay(x: int) -> str:
            RAN.append(x)
            return "paid"

        guard = Guard(Policy(max_calls=3))
        inner = Agent("inner", tools=[pay])
        inner.model = script(
            call("pay", {"x": 1}, "i1"),
            call("pay", {"x": 2}, "i2"),
            call("pay", {"x": 3}, "i3"),
            "in",
        )
        agent = guard_agent(self.outer(inner), guard)

        async def approving():
            result = await Runner.run(agent, "hi")
            for _ in range(5):
                if not result.interruptions:
                    break
                state = result.to_state()
                state.approve(state.get_interruptions()[0])
                result = await Runner.run(agent, state)
            return result

        result = asyncio.run(approving())
        # One call of the agent tool and two of its own make three; pauses do not count again.
        assert RAN == [1, 2]
        assert stop_of(result).reason == "ceiling"
        assert len(guard.store) == 0


class TestOwnEndings:
    def test_stop_on_first_tool(self, mode):
        agent = Agent("A", tools=[look], tool_use_behavior="stop_on_first_tool", model=same())
        played = play(guard_agent(agent, Guard()), mode)
        assert played.result.final_output == "the same"
        assert played.stop is None

    def test_stop_at_tools(self, mode):
        @function_tool
        async def last(q: str) -> str:
            return "last"

        agent = Agent("A", tools=[look, last], tool_use_behavior={"stop_at_tool_names": ["last"]})
        agent.model = script(call("look", {"q": "x"}), call("last", {"q": "x"}, "c2"), "no")
        assert play(guard_agent(agent, Guard()), mode).result.final_output == "last"

    @pytest.mark.parametrize("awaited", [False, True])
    def test_a_function_of_ones_own(self, awaited, mode):
        def third(ctx, results):
            return ToolsToFinalOutputResult(len(RAN) == 3, "third")

        async def athird(ctx, results):
            return third(ctx, results)

        agent = Agent(
            "A", tools=[look], tool_use_behavior=athird if awaited else third, model=same()
        )
        assert play(guard_agent(agent, Guard()), mode).result.final_output == "third"


class Answer(BaseModel):
    text: str


def test_a_structured_agent_ends_with_the_stop_itself(mode):
    agent = Agent("A", tools=[look], output_type=Answer, model=same())
    played = play(guard_agent(agent, Guard()), mode)
    assert isinstance(played.result.final_output, Stop)
    assert played.stop is played.result.final_output


def test_hooks_and_output_guardrails_see_the_end(mode):
    from agents import GuardrailFunctionOutput, output_guardrail

    ended = []

    class Hooks(RunHooks):
        async def on_agent_end(self, context, agent, output):
            ended.append(output)

    @output_guardrail
    async def check(context, agent, output):
        return GuardrailFunctionOutput(output, tripwire_triggered=isinstance(output, StopText))

    agent = Agent("A", tools=[look], output_guardrails=[check], model=same())
    played = play(guard_agent(agent, Guard()), mode, hooks=Hooks())
    assert isinstance(played.error, OutputGuardrailTripwireTriggered)
    assert isinstance(ended[0], StopText)


def test_what_was_gathered_comes_with_the_stop_in_order(mode):
    @function_tool
    async def get(n: int) -> str:
        return f"result {n}"

    model = script(*[call("get", {"n": n}, f"c{n}") for n in range(1, 9)], "done")
    played = play(
        guard_agent(Agent("A", tools=[get], model=model), Guard(Policy(max_calls=3))), mode
    )
    assert [(each.call_id, each.tool, each.result) for each in played.stop.gathered] == [
        ("c1", "get", "result 1"),
        ("c2", "get", "result 2"),
        ("c3", "get", "result 3"),
    ]
    assert (played.stop.reason, played.stop.limit, played.stop.scope) == ("ceiling", 3, "turn")


def test_a_stop_survives_copies_and_pickles():
    agent = guard_agent(Agent("A", tools=[look], model=same()), Guard())
    text = play(agent).result.final_output
    for again in (copy.deepcopy(text), copy.copy(text), pickle.loads(pickle.dumps(text))):
        assert again == text
        assert again.stop == text.stop
    error = pickle.loads(pickle.dumps(RunStopped(text.stop)))
    assert isinstance(error, Stopped)
    assert stop_of(error) == text.stop
    assert stop_of(text) == stop_of(text.stop) == text.stop
    assert stop_of("done") is None
    assert stop_of(ValueError()) is None


def test_cloned_agents_stay_guarded_and_can_be_guarded_again():
    guard = Guard()
    guarded = guard_agent(Agent("A", tools=[look], model=same()), guard)
    again = guard_agent(guarded.clone(name="B"), guard)
    assert again.tools[0] is guarded.tools[0]
    assert again.tool_use_behavior is guarded.tool_use_behavior
    assert play(again).stop.agent == "B"
    assert len(RAN) == 3


def test_the_next_message_is_a_new_turn():
    guard = Guard(Policy(max_calls=1))

    async def two():
        from agents import SQLiteSession

        session = SQLiteSession("s", ":memory:")
        agent = guard_agent(Agent("A", tools=[look]), guard)
        for _ in range(2):
            agent.model = script(call("look", {"q": "1"}), call("look", {"q": "2"}, "c2"), "done")
            played = await aplay(agent, session=session)
            assert played.stop.scope == "turn"
            assert played.stop.thread == "s"
        assert RAN == ["1", "1"]

    asyncio.run(two())


def test_users_and_tenants_come_from_the_context():
    class Context:
        user_id = "u1"
        tenant_id = "t1"

    for context in (Context(), {"user_id": "u1", "tenant_id": "t1"}):
        played = play(guard_agent(Agent("A", tools=[look], model=same()), Guard()), context=context)
        assert (played.stop.user, played.stop.tenant) == ("u1", "t1")
