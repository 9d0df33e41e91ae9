"""Cases from the field about agents in agents and hand-overs (theme N), through LangChain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain.tools import InjectedToolCallId
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from lastcall import Guard, Policy, ToolPolicy
from lastcall_langchain import GuardMiddleware, stop_of

from .playing import build, config_of, play, tools_of
from .scripted import USER, Scripted, asked_alone, asking, reply, scripted, stubborn

entries = pytest.mark.parametrize("entry", ["middleware", "tools", "handler", "decorated"])
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


def agent_of(guard: Guard, entry: str, model: Scripted, *bodies: Any, **settings: Any) -> Any:
    """A `create_agent` agent guarded through *entry*; a handler travels by itself."""
    middleware = [GuardMiddleware(guard)] if entry == "middleware" else []
    return create_agent(model, tools_of(bodies, guard, entry), middleware=middleware, **settings)


def delegate_to(inner: Any, mode: str, around: Callable[[], Any] = nullcontext) -> Any:
    """A tool that asks the agent *inner*."""

    def delegate(q: int) -> str:
        """Ask another agent."""
        with around():
            return str(inner.invoke(USER)["messages"][-1].text)

    async def adelegate(q: int) -> str:
        """Ask another agent."""
        with around():
            return str((await inner.ainvoke(USER))["messages"][-1].text)

    adelegate.__name__ = "delegate"
    return delegate if mode == "invoke" else adelegate


def seen_by(ran: list[Any], name: str) -> Callable[..., Any]:
    """A tool body that writes down its calls."""

    def body(q: int) -> str:
        """Look."""
        ran.append((name, q))
        return f"found {q}"

    body.__name__ = name
    return body


class Family:
    """An outer agent that delegates, then works itself; and an inner one that only works."""

    def __init__(self, entry: str, mode: str, guard: Guard, **script: Any) -> None:
        self.ran: list[Any] = []
        self.entry, self.mode, self.guard = entry, mode, guard
        inner, outer = script.get("inner", 8), script.get("outer", 5)
        self.inner_model = scripted(*asked_alone("deep", ({"q": i} for i in range(inner))))
        self.outer_model = scripted(
            *(reply(asking("delegate", {"q": i}, f"d{i}")) for i in range(script.get("times", 1))),
            *asked_alone("look", ({"q": i} for i in range(outer))),
        )
        within = script.get("within", nullcontext)
        worker = agent_of(
            script.get("inner_guard", guard),
            entry,
            self.inner_model,
            seen_by(self.ran, "deep"),
            name="worker",
        )
        self.agent = agent_of(
            guard,
            entry,
            self.outer_model,
            delegate_to(worker, mode, within),
            seen_by(self.ran, "look"),
            checkpointer=InMemorySaver(),
            name="boss",
        )

    def play(self) -> Any:
        return play(self.agent, config_of(self.guard, self.entry), self.mode)


@entries
@modes
@pytest.mark.parametrize(
    ("inner", "outer", "inside"), [(8, 5, False), (10, 0, True), (6, 1, False)]
)
def test_k23_one_budget_for_the_family(
    entry: str, mode: str, inner: int, outer: int, inside: bool
) -> None:
    family = Family(entry, mode, Guard(Policy(max_calls=10)), inner=inner, outer=outer)
    played = family.play()
    # The delegation is a tool call of the family, too.
    spent = Counter(name for name, _ in family.ran)
    assert sum(spent.values()) + 1 == min(10, 1 + inner + outer)
    over = 1 + inner + outer > 10
    assert (played.stop is not None) == over
    assert played.unanswered == []
    if not over:
        assert played.saved[-1].text == "done"
        return
    assert (played.stop.reason, played.stop.scope) == ("ceiling", "turn")
    assert (played.stop.limit, played.stop.observed) == (10, 11)
    # Whoever ran into it, the outer agent is not asked what to do about it.
    assert len(family.outer_model.asked) == (1 if inside else 1 + spent["look"] + 1)


@entries
@modes
def test_k23_r114_a_smaller_budget_of_its_own_ends_the_inner_agent_alone(
    entry: str, mode: str
) -> None:
    policy = Policy(max_calls=15, tools={"deep": ToolPolicy(max_calls=5)})
    family = Family(entry, mode, Guard(policy), inner=6, outer=9)
    played = family.play()
    assert Counter(name for name, _ in family.ran) == {"deep": 5, "look": 9}
    # The refusal of the inner agent is answered, and it comes to its own end.
    assert played.stop is None
    assert played.saved[-1].text == "done"


@modes
@pytest.mark.parametrize("entry", ["middleware", "tools", "decorated"])
def test_r114_so_does_a_run_of_its_own(entry: str, mode: str) -> None:
    small = Guard(Policy(max_calls=5))
    family = Family(
        entry,
        mode,
        Guard(Policy(max_calls=12)),
        inner=8,
        outer=10,
        times=2,
        inner_guard=small,
        within=lambda: small.within(run=uuid4().hex),
    )
    played = family.play()
    spent = Counter(name for name, _ in family.ran)
    # Two delegations, each with a budget of its own: of the parent's 12 they take two.
    assert spent == {"deep": 10, "look": 10}
    assert played.raised is None
    assert played.saved[-1].text == "done"
    incident_stops = [stop_of(each) for each in played.saved if each.type == "ai"]
    assert incident_stops == [None] * len(incident_stops)


@modes
@pytest.mark.parametrize("entry", ["middleware", "tools", "decorated"])
def test_r114_the_stop_of_a_run_inside_is_not_that_of_the_outer(entry: str, mode: str) -> None:
    small = Guard(Policy(max_calls=2))
    family = Family(
        entry,
        mode,
        Guard(),
        inner=8,
        outer=1,
        inner_guard=small,
        within=lambda: small.within(run="smaller"),
    )
    played = family.play()
    assert played.saved[-1].text == "done"
    assert stop_of(played.result) is None


@crossed
def test_r113_a_limit_of_the_parent_is_inherited_and_a_sibling_is_unharmed(
    entry: str, mode: str
) -> None:
    ran: list[Any] = []
    guard = Guard(Policy(max_calls=300, tools={"dig": ToolPolicy(max_calls=25)}))
    diggers = agent_of(guard, entry, stubborn(lambda i: {"q": i}, "dig"), seen_by(ran, "dig"))
    lookers = agent_of(
        guard,
        entry,
        scripted(*asked_alone("look", ({"q": i} for i in range(3)))),
        seen_by(ran, "look"),
    )
    first, second = delegate_to(diggers, mode), delegate_to(lookers, mode)
    first.__name__, second.__name__ = "digging", "looking"
    both = reply(asking("digging", {"q": 1}, "a"), asking("looking", {"q": 2}, "b"))
    model = scripted(both)
    agent = agent_of(guard, entry, model, first, second, checkpointer=InMemorySaver())
    played = play(agent, config_of(guard, entry), mode)
    spent = Counter(name for name, _ in ran)
    assert spent == {"dig": 25, "look": 3}
    answers = {each.tool_call_id: each.text for each in played.saved if each.type == "tool"}
    assert answers["b"] == "done"
    assert played.unanswered == []


@crossed
def test_r208_a_sub_agent_that_is_stopped_takes_no_sibling_along(entry: str, mode: str) -> None:
    ran: list[Any] = []
    guard = Guard(Policy(max_repeats=2, max_refusals=1))
    names = ("stuck", "fine", "well")
    bodies = []
    for name in names:
        script = [{"q": 1}] * 9 if name == "stuck" else [{"q": i} for i in range(4)]
        worker = agent_of(
            guard,
            entry,
            scripted(*asked_alone(f"look_{name}", script)),
            seen_by(ran, f"look_{name}"),
            name=name,
        )
        bodies.append(delegate_to(worker, mode, partial(guard.within, run=name)))
        bodies[-1].__name__ = name
    together = reply(*(asking(name, {"q": 1}, name) for name in names))
    agent = agent_of(guard, entry, scripted(together), *bodies, checkpointer=InMemorySaver())
    played = play(agent, config_of(guard, entry), mode)
    spent = Counter(name for name, _ in ran)
    assert spent == {"look_stuck": 2, "look_fine": 4, "look_well": 4}
    answers = {each.tool_call_id: each.text for each in played.saved if each.type == "tool"}
    assert (answers["fine"], answers["well"]) == ("done", "done")
    assert answers["stuck"].startswith("Stopped: look_stuck")
    assert played.saved[-1].text == "done"


@crossed
def test_r117_an_inner_stop_is_seen_with_the_inner_agents_name(entry: str, mode: str) -> None:
    events: list[Any] = []
    guard = Guard(Policy(max_calls=4), listeners=[events.append])
    family = Family(entry, mode, guard, inner=9, outer=3)
    family.play()
    refused = [each for each in events if each.kind == "refused" and each.tool == "deep"]
    assert len(refused) == 1
    assert refused[0].run == events[0].run
    assert refused[0].agent == "worker"
    # Its depth is the length of the path.
    assert refused[0].stop.path == ("boss", "worker")


HANDLINGS = [
    ("middleware", None),
    *(
        (entry, handling)
        for entry in ("tools", "handler", "decorated")
        for handling in (None, True, "Something went wrong.")
    ),
]


@modes
@pytest.mark.parametrize(("entry", "handling"), HANDLINGS)
def test_r164_an_inner_stop_is_not_flattened_into_an_error(
    entry: str, handling: Any, mode: str
) -> None:
    ran: list[Any] = []
    guard = Guard(Policy(max_calls=3))
    inner = agent_of(guard, entry, stubborn(lambda i: {"q": i}, "deep"), seen_by(ran, "deep"))
    node = {} if handling is None else {"handle_tool_errors": handling}
    kind = "create_agent" if entry == "middleware" else "graph"
    model = scripted(reply(asking("delegate", {"q": 1}, "d")), reply(asking("delegate", {}, "e")))
    agent = build(
        entry, kind, guard, model, delegate_to(inner, mode), **(node if kind == "graph" else {})
    )
    played = play(agent, config_of(guard, entry), mode)
    assert len(ran) == 2
    assert len(model.asked) == 1
    assert played.stop is not None
    assert (played.stop.reason, played.stop.tool, played.stop.limit) == ("ceiling", "deep", 3)
    assert len(played.stop.gathered) >= 2
    assert played.unanswered == []


@crossed
def test_r020_a_nested_agent_used_as_a_forced_tool_shares_the_ceiling(
    entry: str, mode: str
) -> None:
    ran: list[Any] = []
    guard = Guard(Policy(max_calls=4))
    inner = agent_of(guard, entry, scripted(*asked_alone("deep", [{"q": 1}])), seen_by(ran, "deep"))
    model = stubborn(lambda i: {"q": i}, "delegate")
    agent = build(entry, "create_agent", guard, model, delegate_to(inner, mode))
    played = play(agent, config_of(guard, entry), mode)
    # Twice: the delegation and the call that it led to.
    assert len(ran) == 2
    assert played.stop is not None
    assert len(model.asked) == 3


MIXED = [
    (outer, inner)
    for outer in ("middleware", "tools", "handler", "decorated")
    for inner in ("middleware", "tools", "handler", "decorated")
]


@pytest.mark.parametrize(("outer", "inner"), MIXED)
def test_k23_an_agent_that_calls_itself_under_one_name_is_counted_at_every_level(
    outer: str, inner: str
) -> None:
    depth: list[int] = []
    guard = Guard(Policy(max_calls=4))

    def delegate(q: int) -> str:
        """Ask another agent of this kind."""
        depth.append(q)
        if len(depth) > 9:
            return "deep enough"
        again = agent_of(guard, inner, scripted(*asked_alone("delegate", [{"q": q + 1}])), delegate)
        callbacks = config_of(guard, inner)["callbacks"]
        config: Any = {"callbacks": callbacks} if callbacks and outer != "handler" else None
        return str(again.invoke(USER, config)["messages"][-1].text)

    model = scripted(*asked_alone("delegate", [{"q": 0}]))
    agent = agent_of(guard, outer, model, delegate, checkpointer=InMemorySaver())
    play(agent, config_of(guard, outer))
    assert len(depth) == 4


# Hand-overs.


def handing_over(name: str, ran: list[str]) -> Any:
    """A tool by which an agent hands over to *name*, as in a swarm."""

    def hand_over(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Hand over."""
        ran.append(name)
        answer = ToolMessage(f"over to {name}", tool_call_id=call_id)
        return Command(goto=name, graph=Command.PARENT, update={"messages": [answer]})

    hand_over.__name__ = f"to_{name}"
    return hand_over


class Handing(Scripted):
    """Hands over for ever, whatever it is told."""

    to: str

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        name = f"to_{self.to}"
        result = super()._generate(messages, *args, **kwargs)
        result.generations[0].message = reply(asking(name, {}, f"{name}.{len(messages)}"))
        return result


def swarm(guard: Guard, entry: str, ran: list[str], pairs: dict[str, str]) -> tuple[Any, Any]:
    """Agents of which each hands over to another, and their models."""
    graph = StateGraph(MessagesState)
    models = {}
    for name, to in pairs.items():
        models[name] = Handing(script=[], asked=[], to=to)
        agent = agent_of(guard, entry, models[name], handing_over(to, ran), name=name)
        graph.add_node(name, agent)
    graph.add_edge(START, next(iter(pairs)))
    return graph.compile(checkpointer=InMemorySaver()), models


@modes
@pytest.mark.parametrize("entry", ["middleware", "tools", "handler", "decorated"])
def test_r118_two_agents_that_hand_over_for_ever_are_stopped_at_the_seventh(
    entry: str, mode: str
) -> None:
    ran: list[str] = []
    guard = Guard(Policy(max_repeats=3))
    agent, models = swarm(guard, entry, ran, {"a": "b", "b": "a"})
    played = play(agent, config_of(guard, entry), mode)
    assert ran == ["b", "a"] * 3
    assert played.stop is not None
    assert played.stop.reason == "refusals"
    assert played.stop.tool == "to_b"
    assert sum(len(each.asked) for each in models.values()) <= 9


@modes
@pytest.mark.parametrize("entry", ["middleware", "tools", "handler", "decorated"])
def test_r118_so_they_are_by_default(entry: str, mode: str) -> None:
    ran: list[str] = []
    guard = Guard()
    agent, _ = swarm(guard, entry, ran, {"a": "b", "b": "a"})
    config = {**config_of(guard, entry), "recursion_limit": 40}
    played = play(agent, config, mode)
    assert len(ran) <= 8
    assert played.stop is not None


@modes
@entries
def test_r118_a_hand_over_to_where_one_came_from_is_ordinary(entry: str, mode: str) -> None:
    ran: list[str] = []
    guard = Guard()
    graph = StateGraph(MessagesState)
    scripts = {
        "triage": scripted(
            reply(asking("to_billing", {}, "a")), reply(asking("look", {"q": 1}, "l"))
        ),
        "billing": scripted(reply(), reply(asking("to_triage", {}, "b"))),
    }
    for name, to in (("triage", "billing"), ("billing", "triage")):
        agent = agent_of(
            guard, entry, scripts[name], handing_over(to, ran), seen_by([], "look"), name=name
        )
        graph.add_node(name, agent)
    graph.add_edge(START, "triage")
    agent = graph.compile(checkpointer=InMemorySaver())
    played = play(agent, config_of(guard, entry), mode)
    assert played.stop is None
    assert ran[0] == "billing"


@crossed
def test_r119_through_a_supervisor_the_stop_names_the_hand_over(entry: str, mode: str) -> None:
    ran: list[str] = []
    guard = Guard(Policy(max_repeats=3, max_refusals=1))
    agent, _ = swarm(guard, entry, ran, {"supervisor": "worker", "worker": "supervisor"})
    played = play(agent, config_of(guard, entry), mode)
    assert ran == ["worker", "supervisor"] * 3
    assert played.stop is not None
    assert played.stop.tool == "to_worker"


@modes
@pytest.mark.parametrize("entry", ["middleware", "tools", "handler"])
def test_r120_turns_without_any_tool_call_are_no_business_of_the_default(
    entry: str, mode: str
) -> None:
    guard = Guard()
    talk = Scripted(script=[], asked=[])
    graph = StateGraph(MessagesState)
    for name, to in (("a", "b"), ("b", "a")):
        graph.add_node(name, agent_of(guard, entry, talk, seen_by([], "look"), name=name))
        graph.add_edge(name, to)
    graph.add_edge(START, "a")
    agent = graph.compile(checkpointer=InMemorySaver())
    config = {**config_of(guard, entry), "recursion_limit": 12}
    played = play(agent, config, mode)
    # The framework's own limit ends it, and the guard says nothing.
    assert type(played.raised).__name__ == "GraphRecursionError"
    assert played.stop is None
    assert len(talk.asked) >= 11
