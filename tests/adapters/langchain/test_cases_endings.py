"""Cases from the field about how a run ends, and what of it is kept (themes S and Z), through LangChain."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph

from lastcall import Guard, Policy, Stopped, ToolPolicy
from lastcall.call import Call, Kind
from lastcall.contracts import Claim
from lastcall.rules import Ceiling
from lastcall.stop import Stop
from lastcall_langchain import GuardCallbackHandler, GuardMiddleware, RunStopped, stop_of
from lastcall_langchain.runs import RUNS

from .playing import WAYS, build, config_of, play, tools_of
from .scripted import USER, asked_alone, asking, reply, scripted, stubborn

ENTRIES = ["middleware", "tools", "handler", "decorated"]
entries = pytest.mark.parametrize("entry", ENTRIES)
modes = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])

crossed = pytest.mark.parametrize(
    ("entry", "mode"),
    [
        ("middleware", "invoke"),
        ("tools", "ainvoke"),
        ("handler", "ainvoke"),
        ("decorated", "invoke"),
    ],
)
"""Every entry, sync or async, where how it is called makes no difference of its own."""
ways = pytest.mark.parametrize(("entry", "kind"), WAYS)


def at_once(name: str, *many: int) -> Any:
    """One reply with a call for each."""
    return reply(*(asking(name, {"q": q}, f"c{q}") for q in many))


def look(q: int) -> str:
    """Look."""
    return f"found {q}"


def counting(ran: list[int]) -> Callable[..., Any]:
    """A tool body that writes down its calls."""

    def seen(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    return seen


# K42 No work after the end.


@entries
@pytest.mark.parametrize("streamed", [False, True])
def test_k42_what_runs_beside_a_failing_call_is_called_off(entry: str, streamed: bool) -> None:
    error, events = ValueError("no such thing"), list[Any]()
    begun, effects, cancelled = list[int](), list[int](), list[int]()
    guard = Guard(listeners=[events.append])
    handler = GuardCallbackHandler(guard)
    config: Any = {**config_of(guard, entry), "callbacks": [handler] if entry == "handler" else []}

    async def ended() -> Any:
        together, go = asyncio.Event(), asyncio.Event()

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

        agent = build(entry, "create_agent", guard, scripted(at_once("work", 0, 1, 2)), work)
        caught = None
        try:
            if streamed:
                _ = [each async for each in agent.astream(USER, config)]
            else:
                await agent.ainvoke(USER, config)
        except ValueError as raised:
            caught = raised
        left = asyncio.all_tasks() - {asyncio.current_task()}
        go.set()
        for _ in range(5):
            await asyncio.sleep(0)
        return caught, left

    caught, left = asyncio.run(ended())
    assert caught is error
    assert left == set()
    assert (sorted(cancelled), effects) == ([1, 2], [])
    assert len(RUNS) == 0
    assert not guard.store.peek(("run", events[0].run), guard.clock())
    # What was called off is settled, and is no failure.
    outcomes = sorted(each.outcome for each in events if each.kind == "attempt")
    assert outcomes == ["cancelled", "cancelled", "error"]
    assert handler._open == {}


@entries
def test_k42_a_refused_call_takes_nobody_along(entry: str) -> None:
    guard, ran = Guard(Policy(max_calls=2)), list[int]()
    config = config_of(guard, entry)

    async def work(q: int) -> str:
        """Work."""
        for _ in range(20):
            await asyncio.sleep(0)
        ran.append(q)
        return f"worked on {q}"

    agent = build(entry, "create_agent", guard, scripted(at_once("work", 0, 1, 2)), work)

    async def ended() -> Any:
        try:
            await agent.ainvoke(USER, config)
        except RunStopped:
            assert entry != "middleware"
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(ended()) == set()
    assert len(ran) == 2
    saved = agent.get_state(config).values["messages"]
    texts = [each.text[:9] for each in saved if each.type == "tool"]
    assert sorted(texts) == ["Stopped: ", "worked on", "worked on"]


@ways
@pytest.mark.parametrize("how", ["stopped", "raised"])
def test_k42_on_threads_the_caller_waits_for_what_was_begun(
    entry: str, kind: str, how: str
) -> None:
    error, effects = ValueError("no such thing"), list[int]()
    begun, go = threading.Barrier(3 if how == "raised" else 2), threading.Event()
    guard = Guard(Policy(max_calls=2) if how == "stopped" else Policy())

    def work(q: int) -> str:
        """Work."""
        begun.wait(timeout=30)
        if how == "raised" and q == 0:
            go.set()
            raise error
        if how == "raised":
            go.wait(timeout=30)
        effects.append(q)
        return f"worked on {q}"

    agent = build(entry, kind, guard, scripted(at_once("work", 0, 1, 2)), work)
    played = play(agent, {**config_of(guard, entry), "max_concurrency": 3})
    assert len(effects) == 2
    if how == "raised":
        assert played.raised is error
    else:
        assert played.stop is not None
    # Only a turn that a stop ended by an exception waits, to be refused again.
    assert len(RUNS) == isinstance(played.raised, Stopped)


# What is kept.


@crossed
def test_r052_r078_r079_the_work_is_readable_whatever_way_the_run_ends(
    entry: str, mode: str
) -> None:
    guard = Guard(Policy(max_calls=3))
    model = scripted(*asked_alone("look", ({"q": i} for i in range(5))))
    played = play(build(entry, "create_agent", guard, model, look), config_of(guard, entry), mode)
    assert played.stop is not None
    found = [(each.call_id, each.tool, each.result) for each in played.stop.gathered]
    assert found == [(f"c{i}", "look", f"found {i}") for i in range(3)]
    assert (played.stop.limit, played.stop.observed) == (3, 4)
    if played.raised is not None:
        assert isinstance(played.raised, Stopped)
        assert played.raised.stop == played.stop


@crossed
def test_r086_a_stopped_run_is_not_a_failed_one(entry: str, mode: str) -> None:
    statuses = []
    for policy, calls in ((Policy(max_calls=2), 3), (Policy(), 1)):
        events: list[Any] = []
        guard = Guard(policy, listeners=[events.append])
        model = scripted(*asked_alone("look", ({"q": i} for i in range(calls))))
        play(build(entry, "create_agent", guard, model, look), config_of(guard, entry), mode)
        incident = guard.report(events[0].run)
        assert incident is not None
        statuses.append((incident.status, incident.totals.failed))
    assert statuses == [("stopped", 0), ("finished", 0)]


@ways
@modes
def test_r080_the_stop_comes_before_the_frameworks_own_limit(
    entry: str, kind: str, mode: str
) -> None:
    ran: list[int] = []
    guard, model = Guard(Policy(max_calls=5)), stubborn(lambda i: {"q": i}, "seen")
    config = {**config_of(guard, entry), "recursion_limit": 25}
    played = play(build(entry, kind, guard, model, counting(ran)), config, mode)
    assert ran == list(range(5))
    assert not isinstance(played.raised, GraphRecursionError)
    assert played.stop is not None


@crossed
def test_r080_the_frameworks_limit_is_its_own_where_it_is_lower(entry: str, mode: str) -> None:
    events: list[Any] = []
    guard = Guard(listeners=[events.append])
    model = stubborn(lambda i: {"q": i})
    config = {**config_of(guard, entry), "recursion_limit": 8}
    played = play(build(entry, "create_agent", guard, model, look), config, mode)
    assert isinstance(played.raised, GraphRecursionError)
    assert played.stop is None
    incident = guard.report(events[0].run)
    assert incident is not None
    assert incident.status == "finished"
    assert len(RUNS) == 0


@crossed
def test_r081_nodes_that_alternate_are_stopped_at_the_fifth_of_either(
    entry: str, mode: str
) -> None:
    ran: list[str] = []

    def body(name: str) -> Callable[..., Any]:
        def does(q: int) -> str:
            """Search, or read."""
            ran.append(name)
            return f"{name} {len(ran)}"

        does.__name__ = name
        return does

    guard = Guard(Policy(max_repeats=4))
    graph = StateGraph(MessagesState)
    names = ("search", "read")
    for name in names:
        model = scripted(reply(asking(name, {"q": 1}, name)))
        middleware = [GuardMiddleware(guard)] if entry == "middleware" else []
        agent = create_agent(model, tools_of([body(name)], guard, entry), middleware=middleware)
        # Each begins anew, and neither knows when enough was found.
        graph.add_node(name, lambda state, config, agent=agent: agent.invoke(USER, config))
    graph.add_edge(START, "search")
    graph.add_edge("search", "read")
    graph.add_edge("read", "search")
    app = graph.compile(checkpointer=InMemorySaver())
    played = play(app, {**config_of(guard, entry), "recursion_limit": 16}, mode)
    assert (ran.count("search"), ran.count("read")) == (4, 4)
    # The agents' refusals are rounds of one run, so the model that ignores them is not asked for ever.
    assert played.raised is not None


@crossed
@pytest.mark.parametrize("after", [1, 2])
def test_r085_a_direct_return_as_the_last_call_is_the_answer(
    entry: str, mode: str, after: int
) -> None:
    ran: list[int] = []
    direct = tool(return_direct=True)(counting(ran))
    guard = Guard(Policy(max_calls=after))
    script = asked_alone("look", ({"q": i} for i in range(after - 1)))
    model = scripted(*script, at_once("seen", 7))
    agent = build(entry, "create_agent", guard, model, look, direct)
    played = play(agent, config_of(guard, entry), mode)
    assert ran == [7]
    assert played.raised is None
    assert played.stop is None
    last = played.saved[-1]
    assert isinstance(last, ToolMessage)
    assert last.text == "found 7"


@crossed
def test_r087_a_limit_acts_inside_one_turn_of_one_agent(entry: str, mode: str) -> None:
    ran: list[int] = []
    guard, model = Guard(Policy(max_calls=3)), stubborn(lambda i: {"q": i}, "seen")
    middleware = [GuardMiddleware(guard)] if entry == "middleware" else []
    member = create_agent(
        model, tools_of([counting(ran)], guard, entry), middleware=middleware, name="member"
    )
    manager: list[str] = []

    def managed(state: Any) -> dict[str, Any]:
        manager.append("asked")
        return {}

    graph = StateGraph(MessagesState)
    graph.add_node("member", member)
    graph.add_node("manager", managed)
    graph.add_edge(START, "member")
    graph.add_edge("member", "manager")
    played = play(graph.compile(checkpointer=InMemorySaver()), config_of(guard, entry), mode)
    assert ran == [0, 1, 2]
    assert played.stop is not None
    # Where the stop is a result, the team's own conditions have their turn.
    assert manager == (["asked"] if entry == "middleware" else [])


class Replies(Ceiling, frozen=True):
    """At most so many replies of the model in one turn: a rule of one's own, in one line of set-up."""

    name: ClassVar[Literal["replies"]] = "replies"  # type: ignore[assignment]
    kinds: ClassVar[frozenset[Kind]] = frozenset({"model"})

    def stop(self, call: Call, claim: Claim, observed: int, now: float) -> Stop:
        said = super().stop(call, claim, observed, now)
        return said.model_copy(update={"reason": "replies", "rule": "replies"})


@ways
@modes
def test_r088_r226_r227_the_tools_of_the_last_allowed_reply_still_run(
    entry: str, kind: str, mode: str
) -> None:
    ran: list[int] = []
    guard = Guard(Policy().replaced(Replies(calls=3)))
    model = stubborn(lambda i: {"q": i}, "seen")
    played = play(build(entry, kind, guard, model, counting(ran)), config_of(guard, entry), mode)
    # Guarded tools have a part in a run from their first call on; the reply before it is not seen.
    seen = 3 if entry in ("middleware", "handler") else 4
    assert len(model.asked) == seen
    assert ran == list(range(seen))
    assert played.stop is not None
    assert (played.stop.reason, played.stop.limit) == ("replies", 3)
    assert played.unanswered == []


@modes
@pytest.mark.parametrize("entry", ["middleware", "handler"])
def test_r120_a_limit_on_replies_ends_agents_that_only_talk(entry: str, mode: str) -> None:
    guard = Guard(Policy().replaced(Replies(calls=6)))
    talk = scripted()
    middleware = [GuardMiddleware(guard)] if entry == "middleware" else []
    graph = StateGraph(MessagesState)
    for name, to in (("a", "b"), ("b", "a")):
        graph.add_node(name, create_agent(talk, [tool(look)], middleware=middleware, name=name))
        graph.add_edge(name, to)
    graph.add_edge(START, "a")
    config = {**config_of(guard, entry), "recursion_limit": 60}
    played = play(graph.compile(checkpointer=InMemorySaver()), config, mode)
    assert len(talk.asked) == 6
    # An agent that ends by a result leaves a graph without an end to the framework's own limit.
    ending = RunStopped if entry == "handler" else GraphRecursionError
    assert isinstance(played.raised, ending)


# One of a batch.


@ways
@modes
def test_r207_a_stopped_call_costs_its_siblings_nothing(entry: str, kind: str, mode: str) -> None:
    guard = Guard(Policy(tools={"shut": ToolPolicy(max_repeats=1)}))

    def shut(q: int) -> str:
        """Do it once."""
        return "done once"

    batch = reply(
        asking("look", {"q": 1}, "a"), asking("shut", {"q": 1}, "b"), asking("look", {"q": 2}, "c")
    )
    model = scripted(reply(asking("shut", {"q": 1}, "z")), batch)
    played = play(build(entry, kind, guard, model, look, shut), config_of(guard, entry), mode)
    answers = {each.tool_call_id: each.text for each in played.saved if each.type == "tool"}
    assert (answers["a"], answers["c"]) == ("found 1", "found 2")
    assert answers["b"].startswith("Stopped: shut")
    assert (played.stop, played.saved[-1].text) == (None, "done")


@crossed
def test_r209_of_27_calls_with_one_failure_26_run_and_none_of_them_failed(
    entry: str, mode: str
) -> None:
    ran: list[int] = []
    events: list[Any] = []

    def work(q: int) -> Any:
        """Work."""
        ran.append(q)
        return {"error": "no such thing"} if q == 13 else f"worked on {q}"

    guard = Guard(listeners=[events.append])
    model = scripted(at_once("work", *range(27)))
    played = play(build(entry, "create_agent", guard, model, work), config_of(guard, entry), mode)
    assert len(ran) == 27
    incident = guard.report(events[0].run)
    assert incident is not None
    totals = incident.totals
    assert (totals.executed, totals.failed, totals.refused) == (27, 1, 0)
    assert played.saved[-1].text == "done"
    assert played.unanswered == []


@crossed
def test_r184_the_first_result_is_quoted_where_the_second_call_is_stopped(
    entry: str, mode: str
) -> None:
    ran: list[int] = []
    guard = Guard(Policy(max_repeats=1, max_refusals=1))
    model = scripted(*asked_alone("seen", [{"q": 1}] * 3))
    played = play(
        build(entry, "create_agent", guard, model, counting(ran)), config_of(guard, entry), mode
    )
    assert ran == [1]
    assert played.stop is not None
    assert [each.result for each in played.stop.gathered] == ["found 1"]


@crossed
def test_r032_an_unknown_tool_is_answered_and_bounded(entry: str, mode: str) -> None:
    guard = Guard(Policy(max_calls=4))
    model = scripted(at_once("look", 1), *asked_alone("nothing", [{"q": i} for i in range(9)]))
    config = {**config_of(guard, entry), "recursion_limit": 30}
    played = play(build(entry, "create_agent", guard, model, look), config, mode)
    assert played.unanswered == []
    if entry == "middleware":
        assert played.stop is not None
        assert played.stop.reason == "malformed"
        assert len(model.asked) == 4
    else:
        # ToolNode answers by itself; a guard that sees tools alone is told nothing of it.
        assert played.raised is None
    assert stop_of(played.result) == played.stop
