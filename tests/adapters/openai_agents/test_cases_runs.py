"""Cases from the field, through the Agents SDK: nesting, approvals, cancellation, and how a run ends."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from functools import partial

import pytest
from agents import Agent, Runner, RunState, ToolsToFinalOutputResult, function_tool
from agents.exceptions import AgentsException, MaxTurnsExceeded

from lastcall import Guard, Policy, Stopped, Switch
from lastcall.rules import Refusals
from lastcall_openai_agents import GuardHooks, guard_agent, snapshot_of, stop_of

from .playing import ENTRIES, MODES, Kept, agent_of, aplay, guarding, play, tools_of
from .scripted import call, script, stubborn
from .test_cases import at_once, crossed, entries, looking, modes, one_by_one, refused
from .test_requests import Few

NESTING = [entry for entry in ENTRIES if entry != "GuardHooks"]
"""The entries that reach a nested run: hooks are not handed on to it."""

nesting = pytest.mark.parametrize("entry", NESTING)


# N: nested agents.


class Family:
    """An agent that asks another, and then calls tools itself."""

    def __init__(self, guard, entry, inner, outer, after=lambda: None, **settings):
        self.guard, self.entry, self.ran = guard, entry, Counter()

        def deep(q: int) -> str:
            """Look deeper."""
            self.ran["deep"] += 1
            after()
            return f"found {q} below"

        def look(q: int) -> str:
            """Look."""
            self.ran["look"] += 1
            return f"found {q}"

        self.inner = agent_of(
            guard,
            entry,
            script(*one_by_one("deep", *range(inner), ids="d"), "all below"),
            deep,
            name="inner",
        )
        ask = self.inner.as_tool("ask", "Ask.", max_turns=100, **settings)
        model = script(call("ask", {"input": "?"}, "o"), *one_by_one("look", *range(outer)), "done")
        (asking,) = tools_of([ask], guard, entry)
        self.outer = agent_of(guard, entry, model, look, name="outer")
        self.outer.tools = [*self.outer.tools, asking]

    def play(self, mode):
        return play(self.guard, self.entry, self.outer, mode)


@nesting
@modes
@pytest.mark.parametrize(
    ("inner", "outer", "inside"), [(8, 5, False), (12, 1, True), (6, 1, False)]
)
def test_k23_one_budget_for_the_family(entry, mode, inner, outer, inside):
    guard = Guard(Policy(max_calls=10))
    family = Family(guard, entry, inner, outer)
    played = family.play(mode)
    # Where tools are guarded the delegation is a call as well; a decorated function is all it has.
    asked = 0 if entry == "decorated" else 1
    over = asked + inner + outer > 10
    assert sum(family.ran.values()) + asked == (10 if over else asked + inner + outer)
    assert (played.stop is not None) == over
    assert not played.unanswered
    if over:
        assert (played.stop.reason, played.stop.scope) == ("ceiling", "turn")
        assert (played.stop.limit, played.stop.observed) == (10, 11)
        assert played.stop.agent == ("inner" if inside else "outer")
        # Whoever ran into it, the outer agent is not asked what to do about it.
        assert played.requests == (1 if inside else 1 + family.ran["look"] + 1)
        # That the call failed which asked the inner agent is remembered for the thread.
        assert not guard.store.peek(("run", played.stop.run), guard.clock())
    else:
        assert played.result.final_output == "done"
        assert len(guard.store) == 0


@nesting
@modes
def test_r114_a_smaller_budget_of_its_own_ends_the_inner_agent_alone(entry, mode):
    guard = Guard(Policy(max_calls=15, tools={"deep": {"max_calls": 5}}))
    family = Family(guard, entry, inner=6, outer=9)
    played = family.play(mode)
    assert family.ran == {"deep": 5, "look": 9}
    # The refusal of the inner agent is answered, and it comes to its own end.
    assert played.stop is None
    assert played.result.final_output == "done"


@nesting
@modes
def test_r113_a_sibling_of_a_stopped_agent_is_unharmed(entry, mode):
    guard = Guard(Policy(max_calls=300, tools={"dig": {"max_calls": 5}}))
    ran = Counter()

    # In no thread of its own: which of the two goes on when is known then.
    async def dig(q: int) -> str:
        """Dig."""
        ran["dig"] += 1
        return f"dug {q}"

    async def look(q: int) -> str:
        """Look."""
        ran["look"] += 1
        return f"found {q}"

    digger = agent_of(guard, entry, stubborn("dig", lambda i: {"q": i}), dig, name="digger")
    looker = agent_of(
        guard, entry, script(*one_by_one("look", 1, 2, 3), "looked"), look, name="looker"
    )
    tools = [digger.as_tool("digging", "Dig."), looker.as_tool("looking", "Look.")]
    both = [call(name, {"input": "?"}, name) for name in ("digging", "looking")]
    agent = agent_of(guard, entry, script(both, "done"), name="outer")
    agent.tools = tools_of(tools, guard, entry)
    played = play(guard, entry, agent, mode)
    assert ran == {"dig": 5, "look": 3}
    # R208: what the sibling found is there.
    assert played.outputs["looking"] == "looked"
    assert not played.unanswered


@nesting
@modes
@pytest.mark.parametrize("failure", ["unset", "custom"])
def test_r117_r164_an_inner_stop_is_no_tool_error_and_tells_whose_it_is(entry, mode, failure):
    events = []
    guard = Guard(Policy(max_calls=4), listeners=[events.append])
    how = {} if failure == "unset" else {"failure_error_function": lambda ctx, error: "failed"}
    family = Family(guard, entry, inner=9, outer=1, **how)
    played = family.play(mode)
    assert played.stop.agent == "inner"
    assert played.stop.path == ("outer", "inner")
    assert [each.agent for each in events if each.kind == "refused" and each.tool == "deep"] == [
        "inner"
    ]
    assert played.outputs["o"].startswith("Stopped: deep")
    assert played.requests == 1


@modes
def test_hooks_alone_do_not_reach_a_nested_run_and_count_the_call_that_asks_it(mode):
    guard = Guard(Policy(max_calls=2))
    family = Family(guard, "GuardHooks", inner=9, outer=9)
    played = family.play(mode)
    assert family.ran == {"deep": 9, "look": 1}
    assert played.stop.observed == 3


# A: approvals.


def paying(ran, **settings):
    @function_tool(needs_approval=True, **settings)
    async def pay(x: int) -> str:
        ran.append(x)
        return f"paid {x}"

    return pay


async def resumed(result, agent, options, mode="run", *, approve=True, **more):
    """The run of *result* goes on, after a person has decided on everything."""
    state = result.to_state()
    for item in state.get_interruptions():
        state.approve(item) if approve else state.reject(item)
    return await aplay(agent, mode, state, **{**options, **more})


APPROVING = [entry for entry in ENTRIES if entry != "decorated"]


@pytest.mark.parametrize("entry", APPROVING)
@pytest.mark.parametrize("mode", ["run", "streamed"])
def test_k41_a_pause_is_neither_a_failure_nor_a_refusal(entry, mode):
    ran, events = [], []
    guard = Guard(Policy(max_calls=1), listeners=[events.append])
    model = script(call("pay", {"x": 1}), "done")
    agent = agent_of(guard, entry, model, paying(ran))

    async def played():
        options = {"session": Kept()}
        with guarding(entry, guard, agent, options) as (guarded, more):
            first = await aplay(guarded, mode, "hi", **more)
            assert (ran, len(first.result.interruptions)) == ([], 1)
            assert [each.kind for each in events if each.tool == "pay"] == []
            return await resumed(first.result, guarded, more, mode)

    second = asyncio.run(played())
    assert second.result.final_output == "done"
    assert ran == [1]
    told = [(each.kind, each.outcome) for each in events if each.tool == "pay"]
    assert told == [("attempt", "ok")]
    assert len(guard.store) == 0


@pytest.mark.parametrize("entry", APPROVING)
@pytest.mark.parametrize("mode", ["run", "streamed"])
def test_k20_a_call_that_waited_counts_once_and_the_next_is_refused(entry, mode):
    ran, guard = [], Guard(Policy(max_calls=1))
    model = script(call("pay", {"x": 1}), call("look", {"q": 2}, "c2"), "done")
    agent = agent_of(guard, entry, model, paying(ran), looking(ran))

    async def played():
        with guarding(entry, guard, agent, {"session": Kept()}) as (guarded, more):
            first = await aplay(guarded, mode, "hi", **more)
            return await resumed(first.result, guarded, more, mode)

    second = asyncio.run(played())
    assert ran == [1]
    assert (second.stop.reason, second.stop.observed) == ("ceiling", 2)
    assert not second.unanswered


@pytest.mark.parametrize("mode", ["run", "streamed"])
def test_k20_so_it_is_when_state_is_restored_in_a_fresh_guard(mode):
    ran = []

    def made(guard, *replies):
        tools = [paying(ran), function_tool(looking(ran))]
        return guard_agent(Agent("A", tools=tools, model=script(*replies)), guard)

    async def played():
        session = Kept()
        before, after = Guard(Policy(max_calls=1)), Guard(Policy(max_calls=1))
        agent = made(before, call("pay", {"x": 1}))
        first = await aplay(agent, mode, "hi", session=session)
        saved, counts = (
            json.dumps(first.result.to_state().to_json()),
            snapshot_of(first.result, before),
        )
        after.restore(counts)
        agent = made(after, call("look", {"q": 2}, "c2"), "done")
        state = await RunState.from_json(agent, json.loads(saved))
        state.approve(state.get_interruptions()[0])
        return await aplay(agent, mode, state, session=session)

    second = asyncio.run(played())
    assert ran == [1]
    assert (second.stop.reason, second.stop.observed) == ("ceiling", 2)


@pytest.mark.parametrize("entry", APPROVING)
@pytest.mark.parametrize("mode", ["run", "streamed"])
def test_r197_r202_what_a_person_rejects_never_runs_and_the_others_do(entry, mode):
    ran, guard = [], Guard(Policy(max_calls=3))
    reply = [call("pay", {"x": 1}, "p"), call("look", {"q": 2}, "l")]
    agent = agent_of(guard, entry, script(reply, "done"), paying(ran), looking(ran))

    async def played():
        with guarding(entry, guard, agent, {"session": Kept()}) as (guarded, more):
            first = await aplay(guarded, mode, "hi", **more)
            assert ran == [2]
            return await resumed(first.result, guarded, more, mode, approve=False)

    second = asyncio.run(played())
    assert ran == [2]
    assert (second.result.final_output, second.stop) == ("done", None)
    assert not second.unanswered
    assert len(guard.store) == 0


@pytest.mark.parametrize("entry", APPROVING)
@pytest.mark.parametrize("mode", ["run", "streamed"])
def test_r203_an_approved_call_counts_once_whatever_context_comes_along(entry, mode):
    ran, guard = [], Guard(Policy(max_calls=1))
    agent = agent_of(guard, entry, script(call("pay", {"x": 1}), "done"), paying(ran))

    async def played():
        with guarding(entry, guard, agent, {"session": Kept()}) as (guarded, more):
            first = await aplay(guarded, mode, "hi", context={"user_id": "a"}, **more)
            return await resumed(first.result, guarded, more, mode, context={"user_id": "b"})

    second = asyncio.run(played())
    assert (ran, second.result.final_output) == ([1], "done")


# Z: cancellation, and what runs beside.


@entries
@pytest.mark.parametrize("mode", ["run", "streamed"])
def test_k42_what_runs_beside_a_failing_call_is_called_off(entry, mode):
    """As the SDK has it: a failure that is meant for the caller ends its siblings."""
    events, cancelled, effects = [], [], []
    guard, error = Guard(listeners=[events.append]), ValueError("no such thing")

    async def ended():
        begun, together, go = [], asyncio.Event(), asyncio.Event()

        async def work(q: int) -> str:
            """Work."""
            begun.append(q)
            if len(begun) == 3:
                together.set()
            await together.wait()
            if q == 0:
                raise error
            try:
                await go.wait()
            except asyncio.CancelledError:
                cancelled.append(q)
                raise
            effects.append(q)
            return f"worked on {q}"

        (tool,) = tools_of([work], guard, entry, failure_error_function=None)
        agent = Agent("A", tools=[tool], model=script(at_once("work", 0, 1, 2), "never"))
        with guarding(entry, guard, agent, {"session": None}) as (guarded, more):
            played = await aplay(guarded, mode, "hi", **more)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        go.set()
        for _ in range(5):
            await asyncio.sleep(0)
        return played, left

    played, left = asyncio.run(ended())
    assert error in (played.error, played.error.__cause__)
    assert left == set()
    assert (sorted(cancelled), effects) == ([1, 2], [])
    outcomes = sorted(each.outcome for each in events if each.tool == "work")
    assert outcomes == ["cancelled"] * 2 + ["error"]
    assert len(guard.store) == 0


@entries
@pytest.mark.parametrize("mode", ["run", "streamed"])
def test_k42_r207_a_refused_call_takes_nobody_along(entry, mode):
    ran, guard = [], Guard(Policy(max_calls=2))

    async def ended():
        async def work(q: int) -> str:
            """Work."""
            for _ in range(20):
                await asyncio.sleep(0)
            ran.append(q)
            return f"worked on {q}"

        agent = agent_of(guard, entry, script(at_once("work", 0, 1, 2), "done"), work)
        with guarding(entry, guard, agent, {"session": Kept()}) as (guarded, more):
            played = await aplay(guarded, mode, "hi", **more)
        return played, asyncio.all_tasks() - {asyncio.current_task()}

    played, left = asyncio.run(ended())
    assert (len(ran), left) == (2, set())
    assert sorted(said[:9] for said in played.outputs.values()) == [
        "Stopped: ",
        "worked on",
        "worked on",
    ]


@entries
def test_k42_on_threads_the_caller_waits_for_what_was_begun(entry):
    effects, begun = [], threading.Barrier(2)

    def work(q: int) -> str:
        """Work."""
        begun.wait(timeout=30)
        effects.append(q)
        return f"worked on {q}"

    guard = Guard(Policy(max_calls=2))
    agent = agent_of(guard, entry, script(at_once("work", 0, 1, 2), "done"), work)
    played = play(guard, entry, agent)
    assert len(effects) == 2
    assert len(refused(played)) == 1


@crossed
def test_r209_of_27_calls_with_one_failure_26_run_and_none_of_them_failed(entry, mode):
    events = []
    guard = Guard(listeners=[events.append])

    async def work(q: int) -> str:
        """Work."""
        if q == 13:
            raise ValueError("unlucky")
        return f"worked on {q}"

    agent = agent_of(guard, entry, script(at_once("work", *range(27)), "done"), work)
    played = play(guard, entry, agent, mode)
    outcomes = Counter(each.outcome for each in events if each.tool == "work")
    assert outcomes == {"ok": 26, "error": 1}
    assert len(played.outputs) == 27
    assert played.stop is None


@entries
@pytest.mark.parametrize("mode", ["run", "streamed"])
def test_a_run_that_is_cancelled_leaves_nothing(entry, mode):
    guard = Guard()

    async def ended():
        begun = asyncio.Event()

        async def work(q: int) -> str:
            """Wait for ever."""
            begun.set()
            await asyncio.Event().wait()
            return "never"

        agent = agent_of(guard, entry, script(at_once("work", 1), "never"), work)
        with guarding(entry, guard, agent, {}) as (guarded, more):
            if mode == "run":
                task = asyncio.ensure_future(Runner.run(guarded, "hi", **more))
                await begun.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                result = Runner.run_streamed(guarded, "hi", **more)
                await begun.wait()
                result.cancel()
                async for _ in result.stream_events():
                    pass
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(ended()) == set()
    assert len(guard.store) == 0


@nesting
@modes
def test_k43_a_switch_ends_the_whole_tree(entry, mode, tmp_path):
    events, switch = [], Switch(tmp_path / "switch.json", ttl=0)
    guard = Guard(switch=switch, listeners=[events.append])
    family = Family(guard, entry, inner=3, outer=3, after=partial(switch.kill, all=True))
    played = family.play(mode)
    # What ran is finished and kept; nothing begins after it, and no model is asked.
    assert family.ran == {"deep": 1}
    assert (played.requests, len(family.inner.model.calls)) == (1, 1)
    assert (played.stop.reason, played.stop.retryable) == ("kill", False)
    assert "found 0 below" in [each.result for each in played.stop.gathered]
    assert not played.unanswered
    # A new run under the switch is refused, and one after it is as any other.
    family.ran.clear()
    again = Family(guard, entry, inner=1, outer=1)
    assert again.play(mode).stop.reason == "kill"
    assert not again.ran
    switch.revive(all=True)
    assert Family(guard, entry, inner=1, outer=1).play(mode).result.final_output == "done"


# S: how it ends.


@entries
@modes
def test_r052_r078_r079_the_work_is_readable_whatever_way_the_run_ends(entry, mode):
    guard = Guard(Policy(max_calls=3))
    agent = agent_of(guard, entry, stubborn("look", lambda i: {"q": i}), looking())
    played = play(guard, entry, agent, mode)
    found = [(each.call_id, each.tool, each.result) for each in played.stop.gathered]
    assert found == [(f"call-{i}", "look", f"found {i}") for i in range(3)]
    if entry == "guard_agent":
        assert stop_of(played.result) == played.result.final_output.stop == played.stop
    else:
        assert isinstance(played.error, Stopped)
        assert isinstance(played.error, AgentsException)
        assert len(played.error.run_data.new_items) == 8


@modes
def test_r076_a_last_answer_is_one_request_and_a_call_in_it_does_not_run(mode):
    ran, guard = [], Guard(Policy(max_calls=1))
    agent = agent_of(guard, "made", stubborn("look", lambda i: {"q": i}), looking(ran))
    played = play(guard, "made", guard_agent(agent, guard, last_answer=True), mode)
    assert (len(ran), played.requests) == (1, 3)
    assert played.stop.reason == "ceiling"


@entries
def test_r077_the_history_is_the_same_streamed_or_not(entry):
    left = []
    for mode in MODES:
        guard = Guard(Policy(max_repeats=1))
        model = script(at_once("look", 1, 2), *one_by_one("look", *[1] * 9, ids="d"))
        session = play(guard, entry, agent_of(guard, entry, model, looking()), mode).session
        left.append(
            [(each.get("type"), each.get("call_id"), each.get("output")) for each in session]
        )
    assert left == left[:1] * len(MODES)
    assert len(left[0]) > 4


@crossed
def test_r083_a_turn_after_a_stop_has_a_full_allowance_and_sees_what_was_found(entry, mode):
    ran, session, guard = [], Kept(), Guard(Policy(max_calls=3))
    agent = agent_of(guard, entry, stubborn("look", lambda i: {"q": i}), looking(ran))
    assert play(guard, entry, agent, mode, session=session).stop is not None
    agent.model = script(*one_by_one("look", 7, 8, 9, ids="again"), "done")
    played = play(guard, entry, agent, mode, "go on", session=session)
    assert (len(ran), played.result.final_output) == (6, "done")
    assert "found 0" in str(agent.model.calls[0])


@crossed
def test_r080_the_stop_comes_before_the_sdks_own_limit_and_else_that_is_its_own(entry, mode):
    for turns, limit in ((10, 3), (3, 10)):
        guard = Guard(Policy(max_calls=limit))
        agent = agent_of(guard, entry, stubborn("look", lambda i: {"q": i}), looking())
        played = play(guard, entry, agent, mode, max_turns=turns)
        assert isinstance(played.error, MaxTurnsExceeded) == (turns < limit)
        assert (played.stop is None) == (turns < limit)
        assert len(guard.store) == 0


@crossed
def test_r085_a_direct_return_as_the_last_call_is_the_answer(entry, mode):
    for own in (
        "stop_on_first_tool",
        {"stop_at_tool_names": ["look"]},
        lambda ctx, results: ToolsToFinalOutputResult(True, results[0].output),
    ):
        guard = Guard(Policy(max_calls=1))
        agent = agent_of(guard, entry, script(*one_by_one("look", 1)), looking())
        agent.tool_use_behavior = own
        played = play(guard, entry, agent, mode)
        assert (played.result.final_output, played.stop) == ("found 1", None)


@crossed
def test_r088_r226_r227_the_tools_of_the_last_allowed_reply_still_run(entry, mode):
    ran, guard = [], Guard(Policy(rules=[Refusals(), Few(3)]))
    agent = agent_of(guard, entry, stubborn("look", lambda i: {"q": i}), looking(ran))
    played = play(guard, entry, agent, mode)
    # Who guards tools is known in the run from its first call on.
    requests = 4 if entry in ("guard_tools", "decorated", "guard_agent", "instrument") else 3
    assert played.requests in (3, requests)
    assert len(ran) == played.requests
    assert played.stop.reason == "requests"


@crossed
def test_r107_r109_a_stop_names_its_scope_and_what_it_advises_holds(entry, mode):
    for policy, scope in (
        (Policy(max_calls=1), "turn"),
        (Policy(max_repeats=1), "run"),
    ):
        guard = Guard(policy)
        agent = agent_of(guard, entry, stubborn("look", lambda i: {"q": 1}), looking())
        stop = play(guard, entry, agent, mode).stop
        assert stop.scope == scope
        assert f"This {scope} is ended" in stop.text


@modes
def test_r119_through_a_supervisor_the_stop_names_the_hand_over(mode):
    guard = Guard(Policy(max_repeats=3))
    back = lambda ids: [[call("transfer_to_boss", {}, f"{ids}{i}")] for i in range(9)]
    leads = [call(f"transfer_to_{name}", {}, f"{name}{i}") for i in range(9) for name in ("a", "b")]
    boss = Agent("boss", model=script(*leads))
    boss.handoffs = [
        Agent(name, model=script(*back(name + "-")), handoffs=[boss]) for name in ("a", "b")
    ]
    played = play(guard, "guard_agent", boss, mode)
    assert played.stop.tool.startswith("transfer_to_")
    assert not played.unanswered


@modes
def test_r120_turns_without_any_call_are_no_business_of_the_default(mode):
    guard = Guard()
    agent = Agent("A", model=script(*["nothing to do"] * 5))
    for _ in range(5):
        played = play(guard, "GuardHooks", agent, mode)
        assert (played.stop, played.result.final_output) == (None, "nothing to do")
    assert GuardHooks(guard).guard is guard
