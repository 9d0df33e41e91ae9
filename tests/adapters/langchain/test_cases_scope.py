"""Cases from the field about where is counted, and how long (themes X and C), through LangChain."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from contextvars import Context
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallLimitMiddleware
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from lastcall import Guard, Policy, ToolPolicy
from lastcall.report import FINISHED
from lastcall_langchain import (
    GuardCallbackHandler,
    GuardMiddleware,
    RunStopped,
    guard_tool,
    instrument,
    tool_node_wrappers,
)
from lastcall_langchain.runs import RUNS

from .playing import WAYS, Played, build, config_of, play, tools_of
from .scripted import USER, Scripted, asked_alone, asking, reply, scripted, stubborn

entries = pytest.mark.parametrize("entry", ["middleware", "tools", "handler", "decorated"])
ways = pytest.mark.parametrize(("entry", "kind"), WAYS)
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

YES = Command(resume="yes")

AFTER = pytest.mark.xfail(
    strict=True,
    reason="LangGraph tells only a handler that it was given of a breakpoint after a node",
)


class Ran(list[Any]):
    """What was executed, and the bodies that write it down."""

    def look(self) -> Callable[..., Any]:
        def look(q: int) -> str:
            """Look."""
            self.append(("look", q))
            return f"found {q}"

        return look

    def ask(self) -> Callable[..., Any]:
        def ask(q: int) -> str:
            """Ask a person."""
            said = interrupt("may I?")
            self.append(("ask", q))
            return f"{said} {q}"

        return ask


def agent_of(guard: Guard, entry: str, model: Scripted, *bodies: Any, **settings: Any) -> Any:
    """A `create_agent` agent guarded through *entry*, with what else it is to have."""
    middleware = [GuardMiddleware(guard)] if entry == "middleware" else []
    tools = tools_of(bodies, guard, entry)
    settings.setdefault("checkpointer", InMemorySaver())
    return create_agent(
        model, tools, middleware=[*settings.pop("middleware", []), *middleware], **settings
    )


def at_once(name: str, *many: int) -> Any:
    """One reply with a call for each."""
    return reply(*(asking(name, {"q": q}, f"c{q}") for q in many))


def resumed(agent: Any, config: Any, mode: str = "invoke", given: Any = YES) -> Played:
    """Play on for as long as the agent waits, and no longer than anybody would."""
    played = play(agent, config, mode, given)
    for _ in range(9):
        if played.raised or not agent.get_state(config).next:
            break
        played = play(agent, config, mode, given)
    return played


# K20 The pause is not a new turn.


@entries
@modes
def test_k20_a_call_that_waited_counts_once_and_the_next_is_refused(entry: str, mode: str) -> None:
    ran, events = Ran(), list[Any]()
    guard = Guard(Policy(max_calls=1), listeners=[events.append])
    model = scripted(*asked_alone("ask", ({"q": i} for i in range(4))))
    agent, config = agent_of(guard, entry, model, ran.ask()), config_of(guard, entry)
    play(agent, config, mode)
    played = resumed(agent, config, mode)
    assert ran == [("ask", 0)]
    assert played.stop is not None
    assert (played.stop.reason, played.stop.observed) == ("ceiling", 2)
    seen = [each.outcome for each in events if each.kind == "attempt"]
    assert seen == ["paused", "ok"]
    incident = guard.report(played.stop.run or "")
    assert incident is not None
    assert (incident.totals.executed, incident.totals.attempts) == (1, 2)


@crossed
def test_k20_so_it_is_when_state_is_restored_in_a_fresh_guard(entry: str, mode: str) -> None:
    ran, saver = Ran(), InMemorySaver()
    script = [at_once("look", 0), *(at_once("ask", i) for i in range(1, 5))]
    policy = Policy(max_calls=2)

    def agent(guard: Guard) -> Any:
        return agent_of(guard, entry, scripted(*script), ran.look(), ran.ask(), checkpointer=saver)

    first = Guard(policy)
    play(agent(first), config_of(first, entry), mode)
    kept = first.snapshot(thread="t")
    # Another process knows nothing of the runs of this one.
    RUNS._paused.clear()
    fresh = Guard(policy)
    fresh.restore(kept)
    played = resumed(agent(fresh), config_of(fresh, entry), mode)
    assert ran == [("look", 0), ("ask", 1)]
    assert played.stop is not None
    assert (played.stop.reason, played.stop.observed) == ("ceiling", 3)


@entries
@modes
@pytest.mark.parametrize("where", ["before", "after"])
def test_k20_so_it_is_at_a_breakpoint(
    entry: str, mode: str, where: str, request: pytest.FixtureRequest
) -> None:
    if where == "after" and entry != "handler":
        request.applymarker(AFTER)
    ran, guard = Ran(), Guard(Policy(max_calls=2))
    model = stubborn(lambda i: {"q": i})
    agent = agent_of(guard, entry, model, ran.look(), **{f"interrupt_{where}": ["tools"]})
    config = config_of(guard, entry)
    play(agent, config, mode)
    played = resumed(agent, config, mode, None)
    assert ran == [("look", 0), ("look", 1)]
    assert played.stop is not None


@entries
def test_k20_so_it_is_after_a_node_where_a_handler_is_given_as_well(entry: str) -> None:
    ran, guard = Ran(), Guard(Policy(max_calls=2))
    model = stubborn(lambda i: {"q": i})
    agent = agent_of(guard, entry, model, ran.look(), interrupt_after=["tools"])
    config = config_of(guard, "handler")
    play(agent, config)
    assert resumed(agent, config, given=None).stop is not None
    assert ran == [("look", 0), ("look", 1)]


@crossed
def test_k20_so_it_is_under_another_name(entry: str, mode: str) -> None:
    ran, guard = Ran(), Guard(Policy(max_calls=2))
    model = scripted(at_once("look", 0), *(at_once("ask", i) for i in range(1, 5)))
    agent = agent_of(guard, entry, model, ran.look(), ran.ask())
    config = config_of(guard, entry)
    play(agent, {**config, "run_name": "the first request"}, mode)
    played = resumed(agent, {**config, "run_name": "the approval"}, mode)
    assert ran == [("look", 0), ("ask", 1)]
    assert played.stop is not None


@entries
@pytest.mark.parametrize("named", [True, False], ids=["thread told", "thread not told"])
def test_k20_so_it_is_inside_a_service(entry: str, named: bool) -> None:
    ran, guard = Ran(), Guard(Policy(max_calls=2))
    model = scripted(at_once("look", 0), *(at_once("ask", i) for i in range(1, 5)))
    agent = agent_of(guard, entry, model, ran.look(), ran.ask())
    config = config_of(guard, entry)

    def serve(request: str) -> Any:
        return agent.invoke(YES if request == "approve" else USER, config)

    service = RunnableLambda(serve)
    outer: Any = config if named else {}
    service.invoke("go", outer)
    for _ in range(4):
        if agent.get_state(config).next == ("tools",):
            with suppress(RunStopped):
                service.invoke("approve", outer)
    assert ran == [("look", 0), ("ask", 1)]


# K22 No keys in the shared state.


@crossed
def test_k22_two_sub_agents_in_one_step_share_no_key(entry: str, mode: str) -> None:
    events: list[Any] = []
    ran, guard = Ran(), Guard(listeners=[events.append])
    graph = StateGraph(MessagesState)
    graph.add_node("parent", lambda state: {"messages": []})
    graph.add_edge(START, "parent")
    for name, calls in (("a", 3), ("b", 2)):
        model = scripted(*asked_alone("look", ({"q": f"{name}{i}"} for i in range(calls))))

        def look(q: str) -> str:
            """Look."""
            ran.append(q)
            return f"found {q}"

        graph.add_node(name, agent_of(guard, entry, model, look, checkpointer=None, name=name))
        graph.add_edge("parent", name)
    agent, config = graph.compile(checkpointer=InMemorySaver()), config_of(guard, entry)
    played = play(agent, config, mode)
    assert played.raised is None
    assert set(played.result) == set(agent.get_state(config).values) == {"messages"}
    assert [each.text for each in played.saved].count("done") == 2
    assert sorted(ran) == ["a0", "a1", "a2", "b0", "b1"]
    counted = Counter((each.run, each.agent) for each in events if each.kind == "attempt")
    (run,) = {run for run, _ in counted}
    incident = guard.report(run)
    assert incident is not None
    assert incident.totals.executed == sum(counted.values()) == 5
    if entry != "decorated":
        assert counted == {(run, "a"): 3, (run, "b"): 2}


# K26 Worker threads.


class Cleared(GuardCallbackHandler):
    """A handler whose worker threads know no context variable."""

    def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
        Context().run(super().on_tool_start, *args, **kwargs)

    def on_tool_end(self, *args: Any, **kwargs: Any) -> None:
        Context().run(super().on_tool_end, *args, **kwargs)

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        Context().run(super().on_chat_model_start, *args, **kwargs)


@pytest.mark.parametrize(("kind", "times"), [("async", 50), ("sync", 10)])
def test_k26_counts_follow_the_run_and_not_the_context(kind: str, times: int) -> None:
    events: list[Any] = []
    guard = Guard(Policy(max_repeats=2), listeners=[events.append])

    @tool("look")
    async def alook(q: int) -> str:
        """Look."""
        await asyncio.sleep(0)
        return f"found {q}"

    @tool("look")
    def look(q: int) -> str:
        """Look."""
        return f"found {q}"

    agents = [
        create_agent(
            scripted(*asked_alone("look", [{"q": 1}] * calls)), [alook if kind == "async" else look]
        )
        for calls in (3, 2)
    ]

    async def both() -> None:
        for _ in range(times):
            handler = Cleared(guard)
            config: Any = {"callbacks": [handler]}
            a, b = await asyncio.gather(*(agent.ainvoke(USER, config) for agent in agents))
            counts = Counter((each.run, each.kind) for each in events if each.tool == "look")
            per_run = sorted((counts[run, "attempt"], counts[run, "refused"]) for run, _ in counts)
            assert per_run == [(2, 0), (2, 1), (2, 1)]
            assert [each.status for each in a["messages"] if each.type == "tool"] == [
                "success",
                "success",
                "error",
            ]
            assert [each.status for each in b["messages"] if each.type == "tool"] == ["success"] * 2
            assert not handler._open
            events.clear()

    asyncio.run(both())
    assert len(RUNS) == 0


# Caps (theme C) that a framework could undo.


@ways
@pytest.mark.parametrize("mode", ["invoke", "astream"])
def test_r060_the_body_runs_once_a_call(entry: str, kind: str, mode: str) -> None:
    ran, events = Ran(), list[Any]()
    guard = Guard(listeners=[events.append])
    model = scripted(at_once("look", 1), at_once("look", 2, 3))
    played = play(build(entry, kind, guard, model, ran.look()), config_of(guard, entry), mode)
    assert sorted(ran) == [("look", 1), ("look", 2), ("look", 3)]
    assert [each.kind for each in events if each.tool == "look"] == ["attempt"] * 3
    assert played.stop is None


@ways
@modes
def test_r062_only_the_excess_of_a_batch_is_refused_and_the_next_turn_is_new(
    entry: str, kind: str, mode: str
) -> None:
    ran, events = Ran(), list[Any]()
    guard = Guard(Policy(max_calls=2), listeners=[events.append])
    agent = build(entry, kind, guard, scripted(at_once("look", 1, 2, 3, 4, 5)), ran.look())
    for turn in (1, 2):
        played = play(agent, config_of(guard, entry), mode)
        assert len(ran) == 2 * turn
        assert played.stop is not None
        incident = guard.report(played.stop.run or "")
        assert incident is not None
        assert (incident.totals.executed, incident.totals.refused) == (2, 3)


@crossed
def test_r065_one_guard_enforces_a_map_of_ten_limits(entry: str, mode: str) -> None:
    ran = Counter[str]()
    limits = {f"tool{i}": i % 3 + 1 for i in range(10)}

    def body(name: str) -> Any:
        def named(q: int) -> str:
            """Do."""
            ran[name] += 1
            return f"{name} {q}"

        named.__name__ = name
        return named

    guard = Guard(Policy(tools={name: ToolPolicy(max_calls=n) for name, n in limits.items()}))
    script = [reply(*(asking(name, {"q": q}, f"{name}.{q}") for q in range(4))) for name in limits]
    agent = agent_of(guard, entry, scripted(*script), *map(body, limits))
    played = play(agent, config_of(guard, entry), mode)
    assert ran == limits
    assert (played.stop, played.saved[-1].text) == (None, "done")


@ways
@modes
def test_r066_calls_of_one_reply_count_toward_the_limit(entry: str, kind: str, mode: str) -> None:
    ran, events = Ran(), list[Any]()
    guard = Guard(Policy(max_calls=4), listeners=[events.append])
    model = scripted(at_once("look", 1, 2, 3), at_once("look", 4, 5, 6), at_once("look", 7))
    play(build(entry, kind, guard, model, ran.look()), config_of(guard, entry), mode)
    assert len(ran) == 4
    assert [each.kind for each in events if each.tool == "look"].count("refused") == 2
    assert len(model.asked) == 2


@crossed
@pytest.mark.parametrize(("theirs", "ours"), [(3, 5), (5, 3), (None, 4)])
def test_r018_r019_r067_r069_the_lower_of_two_limits_holds(
    entry: str, mode: str, theirs: int | None, ours: int
) -> None:
    # A model that has to call a tool in each reply, as under `tool_choice="any"`.
    ran, guard, model = Ran(), Guard(Policy(max_calls=ours)), stubborn(lambda i: {"q": i})
    limit = (
        [] if theirs is None else [ToolCallLimitMiddleware(run_limit=theirs, exit_behavior="end")]
    )
    agent = agent_of(guard, entry, model, ran.look(), middleware=limit)
    play(agent, config_of(guard, entry), mode)
    assert len(ran) == min(ours, theirs or ours)
    assert len(model.asked) == len(ran) + 1


@crossed
def test_r068_r008_one_execution_and_the_model_may_still_answer(entry: str, mode: str) -> None:
    ran = Ran()
    guard = Guard(Policy(tools={"look": ToolPolicy(max_calls=1)}))
    model = scripted(at_once("look", 1), at_once("look", 2))
    agent = agent_of(guard, entry, model, ran.look())
    played = play(agent, config_of(guard, entry), mode)
    assert ran == [("look", 1)]
    assert (played.stop, played.saved[-1].text) == (None, "done")


@entries
def test_r021_a_second_call_during_the_first_is_refused(entry: str) -> None:
    started = []

    async def slow(q: int) -> str:
        """Work."""
        started.append(q)
        for _ in range(10):
            await asyncio.sleep(0)
        return "done"

    guard = Guard(Policy(tools={"slow": ToolPolicy(max_calls=1)}))
    model = scripted(at_once("slow", 1, 2), at_once("slow", 3))
    agent = agent_of(guard, entry, model, slow)
    played = play(agent, config_of(guard, entry), "ainvoke")
    assert len(started) == 1
    assert played.saved[-1].text == "done"


# Nothing is left, and nothing is mixed.


@entries
def test_r082_r103_finished_runs_leave_nothing_behind(entry: str) -> None:
    guard = Guard(Policy(max_calls=3))
    agent = agent_of(
        guard,
        entry,
        scripted(at_once("look", 1), at_once("look", 2)),
        Ran().look(),
        checkpointer=None,
    )
    callbacks = config_of(guard, entry)["callbacks"]
    for i in range(20):
        agent.invoke(USER, {"callbacks": callbacks, "configurable": {"user_id": f"u{i}"}})
    assert len(guard.store) == 0  # type: ignore[arg-type]
    assert len(RUNS) == 0
    assert len(guard._reporter._ledger._running) == 0
    assert len(guard._reporter._ledger._finished) <= FINISHED


def test_r103_hundreds_of_runs_leave_nothing_behind() -> None:
    guard = Guard(Policy(max_calls=3))
    guarded = guard_tool(Ran().look(), guard)
    run = RunnableLambda(lambda q: guarded.invoke({"q": q}))
    for i in range(500):
        run.invoke(i, {"configurable": {"thread_id": f"t{i}", "user_id": f"u{i % 7}"}})
    assert len(guard.store) == 0  # type: ignore[arg-type]
    assert len(RUNS) == 0
    assert len(guard._reporter._ledger._running) == 0


@entries
@pytest.mark.parametrize("how", ["batch", "abatch"])
def test_k21_runs_of_one_batch_are_neighbours(entry: str, how: str) -> None:
    ran, guard = Ran(), Guard(Policy(max_repeats=2))
    script = [at_once("look", 1)] * 2
    agent = agent_of(guard, entry, scripted(*script), ran.look(), checkpointer=None)
    config: Any = {"callbacks": config_of(guard, entry)["callbacks"], "max_concurrency": 4}
    many = [USER] * 6
    ended = agent.batch(many, config) if how == "batch" else asyncio.run(agent.abatch(many, config))
    assert [each["messages"][-1].text for each in ended] == ["done"] * 6
    assert len(ran) == 12


@crossed
def test_r107_a_stop_names_its_scope(entry: str, mode: str) -> None:
    policies = {
        "call": Policy(max_repeats=1),
        "tool": Policy(tools={"look": ToolPolicy(max_calls=1)}),
        "turn": Policy(max_calls=1),
        "run": Policy(max_repeats=1, max_refusals=1),
    }
    for scope, policy in policies.items():
        events: list[Any] = []
        guard = Guard(policy, listeners=[events.append])
        model = scripted(*asked_alone("look", [{"q": 1}] * (2 if scope != "run" else 3)))
        agent = agent_of(guard, entry, model, Ran().look())
        played = play(agent, config_of(guard, entry), mode)
        scopes = [each.stop.scope for each in events if each.kind == "refused"]
        assert scope in scopes, scope
        refused = next(each for each in played.saved if each.text.startswith("Stopped"))
        named = {"call": "This exact call", "tool": "look", "turn": "This turn", "run": "This run"}
        assert named[scope] in refused.text or scope == "run"


@crossed
def test_r109_what_a_turn_stop_advises_holds(entry: str, mode: str) -> None:
    ran, guard = Ran(), Guard(Policy(max_calls=1))
    model = scripted(at_once("look", 1), at_once("look", 2))
    agent, config = agent_of(guard, entry, model, ran.look()), config_of(guard, entry)
    first = play(agent, config, mode)
    assert first.stop is not None
    assert (first.stop.scope, first.stop.retryable) == ("turn", False)
    assert "this turn" in first.stop.text
    play(agent, config, mode)
    assert ran == [("look", 1)] * 2


@entries
@pytest.mark.parametrize("by_hand", [False, True])
def test_r108_one_pause_restored_twice_is_two_runs(entry: str, by_hand: bool) -> None:
    ran, saver, policy = Ran(), InMemorySaver(), Policy(max_calls=2)
    script = [at_once("ask", i) for i in range(1, 6)]

    def agent(guard: Guard) -> Any:
        return agent_of(guard, entry, scripted(*script), ran.ask(), checkpointer=saver)

    def around(guard: Guard) -> Any:
        return guard.within(run="r", turn="t") if by_hand else nullcontext()

    first = Guard(policy)
    with around(first):
        play(agent(first), config_of(first, entry))
        kept = first.snapshot("r") if by_hand else first.snapshot(thread="t")
    paused = agent(first).get_state(config_of(first, entry)).config
    RUNS._paused.clear()
    for _ in range(2):
        ran.clear()
        guard = Guard(policy)
        guard.restore(kept)
        config = config_of(guard, entry)
        # Both begin where the first had paused.
        at = {**config, "configurable": paused["configurable"]}
        with around(guard):
            play(agent(guard), at, "invoke", YES)
            resumed(agent(guard), config)
        assert ran == [("ask", 1), ("ask", 2)]


def test_r108_two_resumes_of_one_guard_have_counters_of_their_own() -> None:
    ran, guard = Ran(), Guard(Policy(max_calls=2))
    script = [at_once("ask", i) for i in range(1, 6)]
    agent, config = (
        agent_of(guard, "tools", scripted(*script), ran.ask()),
        config_of(guard, "tools"),
    )
    play(agent, config)
    paused = agent.get_state(config).config
    for _ in range(2):
        ran.clear()
        play(agent, {**config, "configurable": paused["configurable"]}, "invoke", YES)
        resumed(agent, config)
        assert ran == [("ask", 1), ("ask", 2)]


@entries
def test_two_threads_paused_at_once_keep_their_own_counts(entry: str) -> None:
    ran, guard = Ran(), Guard(Policy(max_calls=2))
    model = stubborn(lambda i: {"q": i}, "ask")
    agent = agent_of(guard, entry, model, ran.ask())
    configs = [config_of(guard, entry, f"t{i}") for i in range(4)]
    together = threading.Barrier(4)

    def one(config: Any) -> Played:
        play(agent, config)
        together.wait(timeout=30)
        return resumed(agent, config)

    with ThreadPoolExecutor(4) as pool:
        ended: Sequence[Played] = list(pool.map(one, configs))
    assert Counter(ran) == {("ask", 0): 4, ("ask", 1): 4}
    assert all(each.stop is not None and each.stop.observed == 3 for each in ended)


# The entries that touch no agent: a whole process, and the ToolNode of a hand-made graph.

OTHERS = [("instrument", "create_agent"), ("instrument", "graph"), ("node", "graph")]


@contextmanager
def other(entry: str, kind: str, guard: Guard, model: Scripted, *bodies: Any) -> Iterator[Any]:
    """An agent guarded through one of these, for as long as that lasts."""
    undo = instrument(guard) if entry == "instrument" else lambda: None
    node: Any = tool_node_wrappers(guard) if entry == "node" else {}
    try:
        yield build(entry, kind, guard, model, *bodies, **node)
    finally:
        undo()


@pytest.mark.parametrize(("entry", "kind"), OTHERS)
@modes
def test_r062_of_a_batch_only_the_excess_is_refused_there_too(
    entry: str, kind: str, mode: str
) -> None:
    ran, guard = Ran(), Guard(Policy(max_calls=2))
    model = scripted(at_once("look", 1, 2, 3, 4, 5))
    with other(entry, kind, guard, model, ran.look()) as agent:
        for turn in (1, 2):
            played = play(agent, config_of(guard, entry), mode)
            assert len(ran) == 2 * turn
            assert played.stop is not None
            incident = guard.report(played.stop.run or "")
            assert incident is not None
            assert (incident.totals.executed, incident.totals.refused) == (2, 3)
            assert played.unanswered == []


@pytest.mark.parametrize(("entry", "kind"), OTHERS)
@modes
def test_k20_a_pause_is_not_a_new_turn_there_either(entry: str, kind: str, mode: str) -> None:
    ran, guard = Ran(), Guard(Policy(max_calls=2))
    model = scripted(at_once("look", 0), *(at_once("ask", i) for i in range(1, 5)))
    with other(entry, kind, guard, model, ran.look(), ran.ask()) as agent:
        config = config_of(guard, entry)
        play(agent, config, mode)
        played = resumed(agent, config, mode)
    assert ran == [("look", 0), ("ask", 1)]
    assert played.stop is not None
    assert (played.stop.reason, played.stop.observed) == ("ceiling", 3)


@pytest.mark.parametrize(("entry", "kind"), OTHERS)
@modes
def test_r060_the_body_runs_once_there_too(entry: str, kind: str, mode: str) -> None:
    ran, events = Ran(), list[Any]()
    guard = Guard(listeners=[events.append])
    with other(entry, kind, guard, scripted(at_once("look", 1, 2)), ran.look()) as agent:
        played = play(agent, config_of(guard, entry), mode)
    assert sorted(ran) == [("look", 1), ("look", 2)]
    assert [each.kind for each in events if each.tool == "look"] == ["attempt"] * 2
    assert played.stop is None
