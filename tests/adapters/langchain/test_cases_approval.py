"""Cases from the field about approval (theme A): pauses, rejections and resumes, through LangGraph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ToolRetryMiddleware,
    hook_config,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, RetryPolicy, interrupt

from lastcall import Guard, Policy
from lastcall_langchain import GuardMiddleware, tool_node_wrappers
from lastcall_langchain.runs import RUNS

from .playing import Played, config_of, play, tools_of
from .scripted import USER, Scripted, asking, reply, scripted

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

YES: Any = Command(resume="yes")


class Desk:
    """Bodies of tools that write down what they did."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ran: list[str] = []

    def asking(self, *questions: str) -> Callable[..., Any]:
        """A tool that asks a person these *questions* before it does anything."""

        def ask(q: int) -> str:
            """Ask a person."""
            self.begun.append("ask")
            said = [interrupt(each) for each in questions]
            self.ran.append("ask")
            return " ".join(said)

        return ask

    def named(self, name: str) -> Callable[..., Any]:
        """A tool that simply does it."""

        def does(q: int) -> str:
            """Do it."""
            self.ran.append(name)
            return f"{name} done"

        does.__name__ = name
        return does


def agent_of(
    guard: Guard, entry: str, model: Scripted, *bodies: Any, others: Any = (), first: bool = True
) -> Any:
    """An agent guarded through *entry*, with *others* before its middleware, or after it."""
    ours = [GuardMiddleware(guard)] if entry == "middleware" else []
    middleware = [*others, *ours] if first else [*ours, *others]
    tools = tools_of(bodies, guard, entry)
    return create_agent(model, tools, middleware=middleware, checkpointer=InMemorySaver())


def graph_of(guard: Guard, entry: str, model: Scripted, body: Any, *, sub: bool = False) -> Any:
    """A hand-made graph whose tools are tried again; *sub*: inside another graph."""
    wrappers = tool_node_wrappers(guard) if entry == "node" else {}
    retry = RetryPolicy(max_attempts=3, initial_interval=0, jitter=False, retry_on=Exception)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node(
        "tools", ToolNode(tools_of([body], guard, entry), **wrappers), retry_policy=retry
    )
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    if not sub:
        return graph.compile(checkpointer=InMemorySaver())
    outer = StateGraph(MessagesState)
    outer.add_node("inner", graph.compile())
    outer.add_edge(START, "inner")
    return outer.compile(checkpointer=InMemorySaver())


def resumed(agent: Any, config: Any, mode: str, given: Any = YES) -> Played:
    """Go on for as long as somebody is asked."""
    played = play(agent, config, mode, given)
    for _ in range(9):
        if played.raised or not agent.get_state(config).next:
            break
        played = play(agent, config, mode, given)
    return played


def one_call(name: str = "ask") -> Scripted:
    return scripted(reply(asking(name, {"q": 1}, "a")))


# K41 A pause is not an error.


def paused_and_resumed(agent: Any, guard: Guard, entry: str, mode: str, events: list[Any]) -> None:
    config = config_of(guard, entry)
    first = play(agent, config, mode)
    assert first.raised is None
    assert [each.value for each in first.result["__interrupt__"]] == ["may I?"]
    incident = guard.report(events[0].run)
    assert incident is not None
    assert (incident.status, incident.totals.failed) == ("running", 0)
    assert (incident.totals.executed, incident.totals.attempts) == (1, 1)
    played = play(agent, config, mode, YES)
    assert [each.text for each in played.saved[2:]] == ["yes", "done"]
    assert {each.outcome for each in events if each.kind == "attempt"} == {"paused", "ok"}
    assert {each.kind for each in events} == {"attempt", "finished"}
    assert len(RUNS) == 0
    assert len(guard.store) == 0  # type: ignore[arg-type]


@entries
@modes
@pytest.mark.parametrize("first", [True, False])
def test_k41_a_pause_passes_a_wrapper_and_a_retry(entry: str, mode: str, first: bool) -> None:
    desk, events = Desk(), list[Any]()
    guard = Guard(listeners=[events.append])
    again = ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    body = desk.asking("may I?")
    agent = agent_of(guard, entry, one_call(), body, others=[again], first=first)
    paused_and_resumed(agent, guard, entry, mode, events)
    assert (desk.begun, desk.ran) == (["ask"] * 2, ["ask"])


@pytest.mark.parametrize("entry", ["tools", "handler", "decorated", "node"])
@modes
@pytest.mark.parametrize("sub", [False, True], ids=["alone", "in a graph"])
def test_k41_so_it_does_in_a_node_that_is_tried_again(entry: str, mode: str, sub: bool) -> None:
    desk, events = Desk(), list[Any]()
    guard = Guard(listeners=[events.append])
    agent = graph_of(guard, entry, one_call(), desk.asking("may I?"), sub=sub)
    paused_and_resumed(agent, guard, entry, mode, events)
    assert (desk.begun, desk.ran) == (["ask"] * 2, ["ask"])


@entries
@modes
def test_k41_a_tool_may_ask_as_many_questions_as_it_has(entry: str, mode: str) -> None:
    desk, guard = Desk(), Guard()
    body = desk.asking("who?", "what?", "when?", "how much?")
    agent, config = agent_of(guard, entry, one_call(), body), config_of(guard, entry)
    play(agent, config, mode)
    played = resumed(agent, config, mode)
    assert played.saved[2].text == "yes yes yes yes"
    assert desk.ran == ["ask"]


@entries
@modes
def test_k41_approvals_of_one_reply_may_come_one_by_one(entry: str, mode: str) -> None:
    desk, events = Desk(), list[Any]()
    guard = Guard(Policy(max_calls=4), listeners=[events.append])
    calls = (asking("ask", {"q": i}, f"c{i}") for i in range(3))
    model = scripted(
        reply(*calls, asking("look", {"q": 9}, "l")), reply(asking("look", {"q": 8}, "m"))
    )
    agent = agent_of(guard, entry, model, desk.asking("may I?"), desk.named("look"))
    config = config_of(guard, entry)
    play(agent, config, mode)
    for _ in range(3):
        waiting = [each.id for task in agent.get_state(config).tasks for each in task.interrupts]
        played = play(agent, config, mode, Command(resume={waiting[0]: "yes"}))
    assert desk.ran.count("ask") == 3
    # Of the four calls of the reply each counts once, however often it was begun.
    assert desk.ran.count("look") == 1
    assert played.stop is not None
    assert (played.stop.reason, played.stop.observed) == ("ceiling", 5)
    assert played.unanswered == []


# Not strict: on a busy machine a sibling may be over before the others wait, and is not begun again then.
AGAIN = pytest.mark.xfail(
    strict=False,
    reason="a call that went well and is begun again for its sibling uses up an attempt",
)


@AGAIN
@pytest.mark.parametrize("entry", ["tools", "handler", "decorated", "node"])
@modes
def test_k41_so_they_may_where_one_node_runs_the_whole_reply(entry: str, mode: str) -> None:
    desk, guard = Desk(), Guard()
    calls = (asking("ask", {"q": i}, f"c{i}") for i in range(3))
    agent = graph_of(guard, entry, scripted(reply(*calls)), desk.asking("may I?"))
    config = config_of(guard, entry)
    play(agent, config, mode)
    for _ in range(3):
        waiting = [each.id for task in agent.get_state(config).tasks for each in task.interrupts]
        played = play(agent, config, mode, Command(resume={waiting[0]: "yes"}))
    # Whom a person said yes to is not refused afterwards.
    assert [each.text for each in played.saved if each.type == "tool"] == ["yes"] * 3


# Rejections.


class Rerouting(AgentMiddleware):
    """Sends a batch to the tools, whatever was said of its calls; what the model calls for is done."""

    @hook_config(can_jump_to=["tools"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        last = next(each for each in reversed(state["messages"]) if each.type == "ai")
        return {"jump_to": "tools"} if last.tool_calls else None

    @hook_config(can_jump_to=["tools"])
    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return self.after_model(state, runtime)


def decided(*kinds: str) -> Any:
    """A person's decisions, in the order of the calls."""
    return Command(resume={"decisions": [{"type": kind} for kind in kinds]})


@entries
@modes
def test_r197_a_rejected_call_is_never_executed(entry: str, mode: str) -> None:
    desk, guard = Desk(), Guard()
    asked = HumanInTheLoopMiddleware(interrupt_on={"drop": True})
    agent = agent_of(guard, entry, one_call("drop"), desk.named("drop"), others=[asked])
    config = config_of(guard, entry)
    play(agent, config, mode)
    played = play(agent, config, mode, decided("reject"))
    assert desk.ran == []
    assert played.saved[-1].text == "done"
    assert played.unanswered == []


@pytest.mark.parametrize("entry", ["middleware"])
@modes
def test_r198_nor_on_another_route(entry: str, mode: str) -> None:
    desk, guard = Desk(), Guard()
    asked = HumanInTheLoopMiddleware(interrupt_on={"drop": True})
    both = reply(asking("look", {"q": 1}, "a"), asking("drop", {"q": 2}, "b"))
    agent = agent_of(
        guard,
        entry,
        scripted(both),
        desk.named("look"),
        desk.named("drop"),
        others=[Rerouting(), asked],
    )
    config = config_of(guard, entry)
    play(agent, config, mode)
    played = play(agent, config, mode, decided("reject"))
    assert desk.ran == ["look"]
    # And its answer stays the only one.
    answers = [each.tool_call_id for each in played.saved if each.type == "tool"]
    assert sorted(answers) == ["a", "b"]


@crossed
def test_r202_of_a_batch_with_one_refused_call_the_others_run(entry: str, mode: str) -> None:
    desk, guard = Desk(), Guard(Policy(max_repeats=1))
    asked = HumanInTheLoopMiddleware(interrupt_on={"drop": True, "look": False})
    batch = reply(
        asking("drop", {"q": 1}, "a"), asking("look", {"q": 2}, "b"), asking("sum", {"q": 1}, "c")
    )
    again = reply(asking("sum", {"q": 1}, "d"), asking("look", {"q": 3}, "e"))
    bodies = [desk.named(name) for name in ("drop", "look", "sum")]
    agent = agent_of(guard, entry, scripted(batch, again), *bodies, others=[asked])
    config = config_of(guard, entry)
    play(agent, config, mode)
    played = play(agent, config, mode, decided("reject"))
    assert sorted(desk.ran) == ["look", "look", "sum"]
    texts = {each.tool_call_id: each.text for each in played.saved if each.type == "tool"}
    assert texts["d"].startswith("Stopped: sum")
    assert texts["e"] == "look done"
    assert played.saved[-1].text == "done"


@entries
@modes
@pytest.mark.parametrize("decision", ["approve", "edit"])
def test_r203_an_approved_call_counts_once_whatever_the_resume_brings_along(
    entry: str, mode: str, decision: str
) -> None:
    desk, events = Desk(), list[Any]()
    guard = Guard(Policy(max_calls=2), listeners=[events.append])
    asked = HumanInTheLoopMiddleware(interrupt_on={"drop": True})
    script = [
        reply(asking("look", {"q": 0}, "l")),
        *(reply(asking("drop", {"q": i}, f"c{i}")) for i in range(1, 4)),
    ]
    agent = agent_of(
        guard, entry, scripted(*script), desk.named("look"), desk.named("drop"), others=[asked]
    )
    said: dict[str, Any] = {"type": decision}
    if decision == "edit":
        said["edited_action"] = {"name": "drop", "args": {"q": 77}}
    play(agent, config_of(guard, entry), mode)
    # A new config each time, with new handlers, and with more in it.
    for i in range(3):
        config = config_of(guard, entry)
        config["configurable"]["extra"] = i
        config["tags"] = [f"resume {i}"]
        if not agent.get_state(config).next:
            break
        played = play(agent, config, mode, Command(resume={"decisions": [said]}))
        if played.raised:
            break
    assert desk.ran == ["look", "drop"]
    assert [each.kind for each in events if each.tool == "drop"] == ["attempt", "refused"]
    assert played.stop is not None
    assert played.stop.observed == 3


@pytest.mark.parametrize("entry", ["tools", "handler", "decorated", "node"])
@modes
def test_k41_a_call_that_a_node_tries_again_counts_once_and_three_times_at_most(
    entry: str, mode: str
) -> None:
    begun: list[int] = []

    def ask(q: int) -> str:
        """Ask a service."""
        begun.append(q)
        raise ConnectionError("down")

    events: list[Any] = []
    guard = Guard(Policy(max_attempts=2), listeners=[events.append])
    played = play(graph_of(guard, entry, one_call(), ask), config_of(guard, entry), mode)
    assert begun == [1, 1]
    incident = guard.report(events[0].run)
    assert incident is not None
    assert (incident.totals.executed, incident.totals.attempts) == (1, 2)
    assert [each.reason for each in events if each.kind == "refused"] == ["attempts"]
    assert played.unanswered == []


# A person instead of a stop: the guard's own pause is one like any other.

ASKING = ["middleware", "tools", "handler"]


@pytest.mark.parametrize("entry", ASKING)
@modes
def test_k41_a_question_of_the_guard_is_no_failure_and_no_refusal(entry: str, mode: str) -> None:
    desk, events = Desk(), list[Any]()
    guard = Guard(Policy(max_calls=1, on_stop="ask"), listeners=[events.append])
    model = scripted(*(reply(asking("look", {"q": i}, f"c{i}")) for i in range(2)))
    again = ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    agent = agent_of(guard, entry, model, desk.named("look"), others=[again])
    config = config_of(guard, entry)
    first = play(agent, config, mode)
    assert first.raised is None
    (question,) = first.result["__interrupt__"]
    assert question.value["lastcall"]["reason"] == "ceiling"
    incident = guard.report(events[0].run)
    assert incident is not None
    assert (incident.totals.executed, incident.totals.failed) == (1, 0)
    played = play(agent, config, mode, Command(resume="go_on"))
    assert desk.ran == ["look"] * 2
    assert (played.stop, played.saved[-1].text) == (None, "done")
    incident = guard.report(events[0].run)
    assert incident is not None
    assert (incident.totals.executed, incident.totals.attempts, incident.totals.failed) == (2, 2, 0)


@pytest.mark.parametrize("entry", ASKING)
@modes
@pytest.mark.parametrize("answer", ["go_on", "end"])
def test_k41_so_is_one_of_a_nested_agent(entry: str, mode: str, answer: str) -> None:
    desk, guard = Desk(), Guard(Policy(max_calls=3, on_stop="ask"))
    script = [reply(asking("look", {"q": i}, f"c{i}")) for i in range(4)]
    middleware = [GuardMiddleware(guard)] if entry == "middleware" else []
    tools = tools_of([desk.named("look")], guard, entry)
    inner = create_agent(scripted(*script), tools, middleware=middleware, name="inner")

    def ask(q: int) -> str:
        """Ask another agent."""
        return str(inner.invoke(USER)["messages"][-1].text)

    async def aask(q: int) -> str:
        """Ask another agent."""
        return str((await inner.ainvoke(USER))["messages"][-1].text)

    aask.__name__ = "ask"
    agent = agent_of(guard, entry, one_call(), ask if mode == "invoke" else aask)
    config = config_of(guard, entry)
    first = play(agent, config, mode)
    (question,) = first.result["__interrupt__"]
    assert question.value["lastcall"]["tool"] == "look"
    # The delegation is one of the three.
    assert desk.ran == ["look"] * 2
    played = play(agent, config, mode, Command(resume=answer))
    assert desk.ran == ["look"] * (4 if answer == "go_on" else 2)
    assert played.unanswered == []
    if answer == "end":
        assert played.stop is not None
        assert played.stop.asked
    else:
        assert (played.stop, played.saved[-1].text) == (None, "done")


@modes
@pytest.mark.parametrize("entry", ASKING)
def test_r203_what_a_person_allowed_is_not_asked_again_on_the_next_resume(
    entry: str, mode: str
) -> None:
    desk, guard = Desk(), Guard(Policy(max_calls=1, on_stop="ask"))
    model = scripted(reply(asking("look", {"q": 0}, "c0")), reply(asking("ask", {"q": 1}, "c1")))
    agent = agent_of(guard, entry, model, desk.named("look"), desk.asking("may I?", "really?"))
    config = config_of(guard, entry)
    heard = []
    played = play(agent, config, mode)
    for answer in ("go_on", "yes", "yes"):
        (question,) = played.result["__interrupt__"]
        heard.append(question.value if isinstance(question.value, str) else "the guard's")
        played = play(agent, config, mode, Command(resume=answer))
    assert heard == ["the guard's", "may I?", "really?"]
    assert desk.ran == ["look", "ask"]
    assert played.saved[-1].text == "done"


@modes
def test_k41_where_nobody_can_be_asked_the_stop_stands(mode: str) -> None:
    desk, guard = Desk(), Guard(Policy(max_calls=1, on_stop="ask"))
    model = scripted(*(reply(asking("look", {"q": i}, f"c{i}")) for i in range(2)))
    agent = agent_of(guard, "decorated", model, desk.named("look"))
    played = play(agent, config_of(guard, "decorated"), mode)
    # A decorated function knows of no graph, so it asks nobody.
    assert desk.ran == ["look"]
    assert played.stop is not None
    assert not played.stop.asked
