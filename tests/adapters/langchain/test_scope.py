"""The run, the turn and the reply are found by themselves, and nothing of them is left behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt, ParentCommand
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from lastcall import Call, Guard, Policy, Where
from lastcall_langchain import (
    GuardCallbackHandler,
    GuardMiddleware,
    RunStopped,
    guard_tool,
    stop_of,
)
from lastcall_langchain import runs as running
from lastcall_langchain.roots import finish
from lastcall_langchain.runs import RUNS, Runs
from lastcall_langchain.scope import SCOPE

from .playing import MODES, build, config_of, play
from .scripted import USER, asked_alone, asking, reply, scripted, stubborn, unanswered

ENTRIES = ("middleware", "tools", "handler", "decorated")


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Any:
    yield
    if len(RUNS._runs):
        # A stream that was left half-way ends with its generator.
        gc.collect()
    assert len(RUNS._runs) == len(RUNS._roots) == 0


class Told:
    """A guard that writes down every call it was asked about."""

    def __init__(self, policy: Policy | None = None, **settings: Any) -> None:
        self.calls: list[Any] = []
        self.guard = Guard(policy, **settings)
        decide, adecide = self.guard.decide, self.guard.adecide

        def decided(call: Any, *args: Any, **given: Any) -> Any:
            verdict = decide(call, *args, **given)
            self.calls.append(verdict.call)
            return verdict

        async def adecided(call: Any, *args: Any, **given: Any) -> Any:
            verdict = await adecide(call, *args, **given)
            self.calls.append(verdict.call)
            return verdict

        self.guard.decide = decided  # type: ignore[method-assign, assignment]
        self.guard.adecide = adecided  # type: ignore[method-assign, assignment]

    @property
    def tools(self) -> list[Any]:
        return [call for call in self.calls if call.kind != "model"]


def look(q: int) -> str:
    """Look."""
    return f"found {q}"


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("kind", ["create_agent", "react", "graph"])
@pytest.mark.parametrize("entry", ["tools", "handler"])
def test_calls_of_one_message_share_a_reply_and_two_messages_never(
    entry: str, kind: str, mode: str
) -> None:
    told = Told()
    # The ids are the same in every reply: only the message tells them apart.
    message = reply(asking("look", {"q": 1}, "a"), asking("look", {"q": 2}, "b"))
    agent = build(entry, kind, told.guard, scripted(message, message, message), look)
    assert play(agent, config_of(told.guard, entry), mode).stop is None
    replies = [call.reply for call in told.tools]
    assert None not in replies
    assert [replies.count(each) for each in dict.fromkeys(replies)] == [2, 2, 2]
    assert {call.kind for call in told.tools} == {"tool"}
    assert {call.id for call in told.tools} == {"a", "b"}
    assert len({call.where.run for call in told.calls}) == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("entry", "kind"),
    [("middleware", "create_agent"), ("handler", "create_agent"), ("handler", "react")],
)
def test_how_many_calls_a_message_has_is_known(entry: str, kind: str, mode: str) -> None:
    told = Told()
    # The ids are those of the message before, but there are more of them.
    messages = [
        reply(*(asking("look", {"q": n * i}, name) for i, name in enumerate("abc"[:n])))
        for n in (2, 3, 1)
    ]
    agent = build(entry, kind, told.guard, scripted(*messages), look)
    play(agent, config_of(told.guard, entry), mode)
    places = [(call.index, call.size) for call in told.tools]
    assert [sorted(places[:2]), sorted(places[2:5]), places[5:]] == [
        [(0, 2), (1, 2)],
        [(0, 3), (1, 3), (2, 3)],
        [(0, 1)],
    ]


def test_a_nested_agent_has_messages_of_its_own_size() -> None:
    told = Told()
    inner = create_agent(
        scripted(reply(asking("look", {"q": 1}, "a"), asking("look", {"q": 2}, "b"))),
        [tool(look)],
    )

    @tool
    def delegate(q: int) -> str:
        """Ask another agent."""
        return str(inner.invoke(USER)["messages"][-1].content)

    message = reply(*(asking("delegate", {"q": i}, name) for i, name in enumerate("abc")))
    agent = create_agent(scripted(message), [delegate])
    agent.invoke(USER, {"callbacks": [GuardCallbackHandler(told.guard)]})
    sizes = {(call.tool, call.size) for call in told.tools}
    assert sizes == {("delegate", 3), ("look", 2)}


def test_who_calls_is_taken_from_the_config() -> None:
    for entry in ENTRIES:
        told = Told()
        model = scripted(reply(asking("look", {"q": 1}, "a")))
        agent = build(entry, "create_agent", told.guard, model, look).with_config(run_name="x")
        config = config_of(told.guard, entry, "thread-7")
        config["configurable"] |= {"user_id": "u", "tenant_id": 5}
        play(agent, config)
        where = told.tools[0].where
        assert (where.thread, where.user, where.tenant) == ("thread-7", "u", "5"), entry


def test_a_named_agent_is_named_in_its_calls() -> None:
    told = Told()
    model = scripted(reply(asking("look", {"q": 1}, "a")))
    agent = create_agent(
        model, [tool(look)], middleware=[GuardMiddleware(told.guard)], name="clerk"
    )
    agent.invoke(USER)
    assert {call.where.agent for call in told.calls} == {"clerk"}


@dataclass
class Who:
    user_id: str
    tenant_id: str | None = None


@pytest.mark.parametrize("context", [Who("u", "t"), {"user_id": "u", "tenant_id": "t"}])
@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_who_calls_is_taken_from_the_context_too(context: Any, mode: str) -> None:
    for entry in ENTRIES:
        told = Told()
        model = scripted(reply(asking("look", {"q": 1}, "a")))
        agent = build(entry, "create_agent", told.guard, model, look)
        config = config_of(told.guard, entry)
        if mode == "invoke":
            agent.invoke(USER, config, context=context)
        else:
            asyncio.run(agent.ainvoke(USER, config, context=context))
        assert {(call.where.user, call.where.tenant) for call in told.calls} == {("u", "t")}, entry


def test_the_user_whom_langgraphs_own_server_has_checked_wins_over_a_named_one() -> None:
    for given, user in (({}, "auth"), ({"user_id": "named"}, "auth")):
        told = Told()
        model = scripted(reply(asking("look", {"q": 1}, "a")))
        agent = build("tools", "create_agent", told.guard, model, look)
        config = config_of(told.guard, "tools")
        config["configurable"] |= {"langgraph_auth_user_id": "auth", **given}
        play(agent, config)
        assert told.tools[0].where.user == user


def test_a_function_of_ones_own_wins_over_all_keys() -> None:
    for entry in ENTRIES:
        told = Told(scope=lambda: Where(user="mine"))
        model = scripted(reply(asking("look", {"q": 1}, "a")))
        agent = build(entry, "create_agent", told.guard, model, look)
        config = config_of(told.guard, entry, "thread-7")
        config["configurable"] |= {"user_id": "u", "tenant_id": "t"}
        play(agent, config)
        where = told.tools[0].where
        assert (where.user, where.tenant, where.thread) == ("mine", "t", "thread-7"), entry


def test_the_path_names_the_agents_from_the_outermost_in() -> None:
    told = Told()

    def delegate(q: int) -> str:
        """Delegate."""
        inner = create_agent(
            scripted(reply(asking("look", {"q": q}, f"i{q}"))),
            [tool(look)],
            middleware=[GuardMiddleware(told.guard)],
            name="helper",
        )
        inner.invoke(USER)
        return "done"

    agent = create_agent(
        scripted(reply(asking("delegate", {"q": 1}, "a"))),
        [tool(delegate)],
        middleware=[GuardMiddleware(told.guard)],
        name="boss",
    )
    agent.invoke(USER)
    assert {call.tool: call.where.path for call in told.tools} == {
        "delegate": ("boss",),
        "look": ("boss", "helper"),
    }


def test_agents_of_one_name_at_once_have_lanes_of_their_own() -> None:
    told = Told()

    def delegate(q: int) -> str:
        """Delegate."""
        inner = create_agent(
            scripted(reply(asking("look", {"q": q}, f"i{q}"))), [tool(look)], name="helper"
        )
        inner.invoke(USER)
        return "done"

    message = reply(*(asking("delegate", {"q": i}, name) for i, name in enumerate("abc")))
    agent = create_agent(scripted(message), [tool(delegate)], name="boss")
    agent.invoke(USER, {"callbacks": [GuardCallbackHandler(told.guard)]})
    lanes = {(call.tool, call.where.lane) for call in told.tools}
    assert len([lane for name, lane in lanes if name == "look"]) == 3
    assert len([lane for name, lane in lanes if name == "delegate"]) == 1


def test_what_is_set_by_hand_wins() -> None:
    told = Told()
    agent = build(
        "tools", "graph", told.guard, scripted(reply(asking("look", {"q": 1}, "a"))), look
    )
    with told.guard.within(run="mine", user="me"):
        agent.invoke(USER, config_of(told.guard, "tools"))
    assert (told.tools[0].where.run, told.tools[0].where.user) == ("mine", "me")
    assert len(told.guard.store) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", ENTRIES)
def test_finished_runs_leave_nothing(entry: str) -> None:
    guard = Guard()
    script = asked_alone("look", ({"q": i} for i in range(2)))
    agent = create_agent(
        scripted(*script),
        [
            guard_tool(look, guard)
            if entry == "tools"
            else tool(guard.wrap(look))
            if entry == "decorated"
            else tool(look)
        ],
        middleware=[GuardMiddleware(guard)] if entry == "middleware" else [],
    )
    handlers: list[Any] = [GuardCallbackHandler(guard)] if entry == "handler" else []
    for _ in range(50):
        agent.invoke(USER, {"callbacks": handlers})
    assert len(guard.store) == 0  # type: ignore[arg-type]
    assert len(RUNS) == 0
    assert all(not handler._open for handler in handlers)


def test_a_run_that_fails_or_is_left_half_way_leaves_nothing() -> None:
    guard = Guard()

    def broken(q: int) -> str:
        """Break."""
        raise RuntimeError("broken")

    failing = scripted(reply(asking("broken", {"q": 1}, "a")))
    with pytest.raises(RuntimeError):
        create_agent(failing, [guard_tool(broken, guard)]).invoke(USER)
    assert len(guard.store) == 0  # type: ignore[arg-type]
    stream = create_agent(stubborn(lambda i: {"q": i}), [guard_tool(look, guard)]).stream(USER)
    for _ in range(4):
        next(stream)
    assert len(guard.store) > 0  # type: ignore[arg-type]
    stream.close()
    assert len(guard.store) == 0  # type: ignore[arg-type]


def test_a_cancelled_run_leaves_nothing() -> None:
    guard = Guard()

    async def cancelled() -> None:
        started = asyncio.Event()

        @tool
        async def wait(q: int) -> str:
            """Wait."""
            started.set()
            await asyncio.Event().wait()
            return "never"

        agent = build(
            "tools", "create_agent", guard, scripted(reply(asking("wait", {"q": 1}, "a"))), wait
        )
        task = asyncio.create_task(agent.ainvoke(USER, config_of(guard, "tools")))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert len(guard.store) == 0  # type: ignore[arg-type]


def test_runs_that_never_end_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MOST_RUNS", 10)
    runs, guard = Runs(), Guard()
    for _ in range(50):
        run = runs.began(uuid4(), None, {})
        runs.joined(run.root, guard)
        runs.began(uuid4(), run.id, {})
    assert len(runs._runs) <= 10
    assert len(runs._roots) <= 10


# Pauses.


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("entry", ["middleware", "tools", "handler"])
def test_a_resumed_run_goes_on_with_the_same_counts(entry: str, mode: str) -> None:
    ran: list[Any] = []
    told = Told(Policy(max_calls=3))

    def ask(q: int) -> str:
        """Ask a person."""
        said = interrupt("may I?")
        ran.append(q)
        return f"{said} {q}"

    script = asked_alone("ask", ({"q": i} for i in range(5)))
    agent = build(entry, "create_agent", told.guard, scripted(*script), ask)
    config = config_of(told.guard, entry)
    played = play(agent, config, mode)
    for _ in range(6):
        if not agent.get_state(config).next or played.raised:
            break
        played = play(agent, config, mode, Command(resume="yes"))
    assert ran == [0, 1, 2]
    assert played.stop is not None
    assert played.stop.reason == "ceiling"
    assert len({call.where.run for call in told.calls}) == 1
    assert [call.kind for call in told.tools] == ["tool", "attempt"] * 3 + ["tool"]
    # What was ended by an exception waits, to be refused again, until something new is said.
    waits = entry != "middleware"
    assert len(RUNS) == waits
    assert bool(len(told.guard.store)) == waits  # type: ignore[arg-type]


def test_a_pause_is_no_failure_and_no_result() -> None:
    guard = Guard()

    def ask(q: int) -> str:
        """Ask a person."""
        return f"{interrupt('may I?')} {q}"

    agent = build(
        "tools", "create_agent", guard, scripted(reply(asking("ask", {"q": 1}, "a"))), ask
    )
    config = config_of(guard, "tools")
    paused = agent.invoke(USER, config)
    assert paused["__interrupt__"]
    assert stop_of(paused) is None
    run = next(iter(RUNS._paused.values())).run
    incident = guard.report(run)
    assert incident is not None
    assert (incident.totals.failed, incident.status) == (0, "running")
    agent.invoke(Command(resume="yes"), config)
    assert len(RUNS) == 0


def test_a_new_message_gives_up_a_paused_run() -> None:
    guard = Guard()

    def ask(q: int) -> str:
        """Ask a person."""
        return f"{interrupt('may I?')} {q}"

    agent = build(
        "middleware", "create_agent", guard, scripted(reply(asking("ask", {"q": 1}, "a"))), ask
    )
    config = config_of(guard, "middleware")
    agent.invoke(USER, config)
    assert len(guard.store) > 0  # type: ignore[arg-type]
    first = next(iter(RUNS._paused.values())).run
    agent.invoke(USER, config)
    assert next(iter(RUNS._paused.values())).run != first
    incident = guard.report(first)
    assert incident is not None
    assert incident.status == "finished"
    finish(RUNS._paused.values())
    RUNS._paused.clear()


# Nested agents.


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("entry", ["middleware", "tools", "handler"])
def test_a_nested_agent_that_is_ended_ends_its_parent(entry: str, mode: str) -> None:
    ran: list[Any] = []
    guard = Guard(Policy(max_calls=10))
    inner_model = stubborn(lambda i: {"q": i})

    def deep(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    inner = create_agent(
        inner_model,
        [guard_tool(tool("look")(deep), guard) if entry == "tools" else tool("look")(deep)],
        middleware=[GuardMiddleware(guard)] if entry == "middleware" else [],
    )

    def delegate(q: int) -> str:
        """Ask another agent."""
        return str(inner.invoke(USER)["messages"][-1].content)

    async def adelegate(q: int) -> str:
        """Ask another agent."""
        return str((await inner.ainvoke(USER))["messages"][-1].content)

    outer_model = stubborn(lambda i: {"q": i}, "delegate")
    body = tool("delegate")(delegate if mode == "invoke" else adelegate)
    agent = build(entry, "create_agent", guard, outer_model, body)
    played = play(agent, config_of(guard, entry), mode)
    assert len(ran) <= 10
    assert len(outer_model.asked) == 1
    assert played.stop is not None
    assert played.stop.reason == "ceiling"
    assert played.unanswered == []


@pytest.mark.parametrize("entry", ["tools", "decorated"])
def test_guarded_tools_of_a_nested_agent_end_a_parent_that_knows_nothing(entry: str) -> None:
    ran: list[Any] = []
    guard = Guard(Policy(max_calls=5))

    def deep(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    inner = build(entry, "create_agent", guard, stubborn(lambda i: {"q": i}, "deep"), deep)

    @tool
    def delegate(q: int) -> str:
        """Ask another agent."""
        return str(inner.invoke(USER, {"configurable": {"thread_id": q}})["messages"][-1].content)

    outer_model = stubborn(lambda i: {"q": i}, "delegate")
    agent = create_agent(outer_model, [delegate], checkpointer=InMemorySaver())
    config = config_of(guard, entry)
    played = play(agent, config)
    assert len(ran) == 5
    assert len(outer_model.asked) == 1
    assert played.stop is not None
    if entry == "tools":
        assert played.unanswered == []


def test_nested_agents_have_replies_of_their_own() -> None:
    told = Told()
    inner = create_agent(
        scripted(reply(asking("look", {"q": 1}, "same"))), [guard_tool(look, told.guard)]
    )

    @tool
    def delegate(q: int) -> str:
        """Ask another agent, twice."""
        for _ in range(2):
            inner.invoke(USER)
        return "asked"

    message = reply(asking("delegate", {"q": 1}, "same"), asking("look", {"q": 1}, "same2"))
    agent = create_agent(
        scripted(message), [guard_tool(delegate, told.guard), guard_tool(look, told.guard)]
    )
    agent.invoke(USER)
    replies = {(call.tool, call.id): call.reply for call in told.tools}
    assert replies["delegate", "same"] == replies["look", "same2"]
    assert len({call.reply for call in told.tools}) == 3
    assert {call.kind for call in told.tools} == {"tool"}


# Outside LangGraph, and outside any run.


def test_a_chain_is_a_run_and_its_model_requests_part_the_replies() -> None:
    told = Told()
    guarded = guard_tool(look, told.guard)
    model = scripted(*(reply(asking("look", {"q": 1}, "same")) for _ in range(3)))

    def loop(_: Any) -> str:
        messages: list[Any] = [("user", "go")]
        for _ in range(3):
            said = model.invoke(messages)
            messages.append(said)
            messages += [guarded.invoke(call) for call in said.tool_calls]
        return "done"

    assert RunnableLambda(loop).invoke("go") == "done"
    assert len({call.reply for call in told.tools}) == 3
    assert len({call.where.run for call in told.tools}) == 1
    assert len(told.guard.store) == 0  # type: ignore[arg-type]


def test_a_tool_called_by_itself_is_a_run_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard(Policy(max_calls=1))
    guarded = guard_tool(look, guard)
    assert [guarded.invoke({"q": i}) for i in range(3)] == ["found 0", "found 1", "found 2"]
    assert [record.name for record in caplog.records] == ["lastcall"]
    assert len(guard.store) == 0  # type: ignore[arg-type]


def test_the_scope_is_none_outside_any_run() -> None:
    guard = Guard()
    assert SCOPE.find(guard) is None
    assert not SCOPE.covers(guard, "look")
    found: list[Where | None] = []
    RunnableLambda(lambda _: found.append(guard.here())).invoke(0)
    assert found[0] is not None
    assert found[0].run == found[0].turn


def test_a_graph_whose_model_is_nobodys_is_drained() -> None:
    ran: list[int] = []
    guard = Guard()

    def seen(q: int) -> str:
        """Look."""
        ran.append(q)
        return "nothing new"

    count = iter(range(100))

    def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [reply(asking("seen", {"q": 1}, f"c{next(count)}"))]}

    from langgraph.prebuilt import ToolNode, tools_condition

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([guard_tool(seen, guard)]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    agent = graph.compile(checkpointer=InMemorySaver())
    config = config_of(guard, "tools")
    with pytest.raises(Exception, match="lastcall") as raised:
        agent.invoke(USER, config)
    stop = stop_of(raised.value)
    assert stop is not None
    assert stop.reason == "refusals"
    assert ran == [1, 1, 1]
    assert unanswered(agent.get_state(config).values["messages"]) == []


def test_threads_that_tell_the_tracker_at_once_do_not_disturb_each_other() -> None:
    runs, guard = Runs(), Guard()
    together = threading.Barrier(8)
    faults: list[BaseException] = []

    def one() -> None:
        try:
            together.wait()
            for _ in range(300):
                root, child = uuid4(), uuid4()
                runs.began(root, None, {})
                run = runs.began(child, root, {})
                runs.joined(run.root, guard)
                runs.ended(child)
                runs.ended(root)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(runs) == 0


# What the scope tells the core of a decorated function, which knows neither its call nor LangGraph.


def test_a_decorated_function_is_told_its_call() -> None:
    told: list[Call] = []

    def look(q: int) -> str:
        """Look."""
        told.extend(SCOPE.asked(Call(name)) for name in ("look", "helper"))
        return "x"

    message = reply(asking("look", {"q": 1}, "a"), asking("look", {"q": 2}, "b"))
    create_agent(scripted(message), [tool(look)]).invoke(USER)
    assert sorted((call.tool, call.id or "") for call in told) == [
        ("helper", ""),
        ("helper", ""),
        ("look", "a"),
        ("look", "b"),
    ]
    assert len({call.reply for call in told}) == 1
    assert told[0].reply is not None
    assert SCOPE.asked(Call("look")) == Call("look")


def test_control_flow_is_no_failure() -> None:
    assert SCOPE.raised(ValueError("x")) is None
    paused, commanded = SCOPE.raised(GraphInterrupt()), SCOPE.raised(ParentCommand(Command()))
    assert paused is not None
    assert commanded is not None
    assert (paused.kind, commanded.kind) == ("paused", "ok")


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("kind", ["create_agent", "react", "graph"])
def test_a_refused_decorated_function_is_answered(kind: str, mode: str) -> None:
    guard = Guard()

    def same(q: int) -> str:
        """Look."""
        return "nothing new"

    agent = build("decorated", kind, guard, stubborn(lambda i: {"q": 1}, "same"), same)
    played = play(agent, config_of(guard, "decorated"), mode)
    assert isinstance(played.raised, RunStopped)
    assert played.unanswered == []


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_a_resumed_decorated_function_counts_once(mode: str) -> None:
    ran: list[int] = []
    guard = Guard(Policy(max_calls=3))

    def ask(q: int) -> str:
        """Ask a person."""
        said = interrupt("may I?")
        ran.append(q)
        return f"{said} {q}"

    script = asked_alone("ask", ({"q": i} for i in range(5)))
    agent = build("decorated", "create_agent", guard, scripted(*script), ask)
    config = config_of(guard, "decorated")
    played = play(agent, config, mode)
    while agent.get_state(config).next and not played.raised:
        played = play(agent, config, mode, Command(resume="yes"))
    assert ran == [0, 1, 2]
    assert played.stop is not None


def test_a_refused_tool_that_a_late_thread_tells_of_leaves_nothing() -> None:
    """LangChain asks handlers each in a thread of its own, and stops waiting when one refuses."""
    runs = Runs()
    root, call = uuid4(), uuid4()
    runs.began(root, None, None)
    runs.began(call, root, None, tool="look")
    runs.refused(call, ValueError("no"))
    runs.ended(root)
    assert runs.began(call, root, None, tool="look").tool == "look"
    assert len(runs) == 0
