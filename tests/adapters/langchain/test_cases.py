"""Cases from the field, through LangChain. K16 is in test_last_answer.py."""

from __future__ import annotations

import asyncio
import copy
import inspect
import itertools
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.tools import InjectedState, ToolRuntime
from langchain_core.tools import StructuredTool, ToolException, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, MessagesState, StateGraph

from lastcall import Guard, Policy, Stop, ToolPolicy
from lastcall_langchain import GuardMiddleware, RunStopped, guard_tools
from lastcall_langchain.stops import marked

from .playing import Played, build, config_of, play, tools_of
from .scripted import USER, asked_alone, asking, reply, scripted, stubborn, unanswered

entries = pytest.mark.parametrize("entry", ["middleware", "tools", "handler"])
modes = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])

REPETITIONS = 50
ASKED, CAP = 8, 6


def told(played: Played) -> list[Stop | None]:
    """The stop in the answer to each call, in the order of the calls."""
    return [marked(each) for each in played.saved if each.type == "tool"]


def refused(played: Played) -> list[bool]:
    """Whether each call was answered by the guard; a handler's refusals are but text."""
    return [each.text.startswith("Stopped: ") for each in played.saved if each.type == "tool"]


class Box:
    """Differs in every call; whoever looks into it fails."""

    def looked(self, *_: Any) -> Any:
        raise TypeError("not to be looked into")

    __repr__ = __str__ = __iter__ = __len__ = __reduce_ex__ = model_dump = looked


class Boxed(AgentState[Any]):
    box: Any


class Boxing(AgentMiddleware):
    """Puts a new box into the state before each request."""

    state_schema = Boxed

    def __init__(self) -> None:
        self.boxes: list[Box] = []

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        self.boxes.append(Box())
        return {"box": self.boxes[-1]}


@entries
@modes
def test_k06_injected_state_is_not_an_argument(entry: str, mode: str) -> None:
    received: list[Any] = []

    @tool
    def look(q: int, box: Annotated[Any, InjectedState("box")], runtime: ToolRuntime) -> str:
        """Look."""
        received.append(box)
        return f"found {q}"

    events: list[Any] = []
    guard, boxing = Guard(Policy(max_repeats=2), listeners=[events.append]), Boxing()
    ours = [GuardMiddleware(guard)] if entry == "middleware" else []
    agent = create_agent(
        scripted(*asked_alone("look", [{"q": 1}] * 3)),
        tools_of([look], guard, entry),
        middleware=[boxing, *ours],
    )
    config: Any = config_of(guard, entry)
    if mode == "invoke":
        agent.invoke(USER, config)
    else:
        asyncio.run(agent.ainvoke(USER, config))
    assert [each is box for each, box in zip(received, boxing.boxes, strict=False)] == [True] * 2
    assert [event.reason for event in events if event.kind == "refused"] == ["repeat"]
    assert len({event.fingerprint for event in events if event.tool == "look"}) == 1
    # A box that was held by an event would be looked into here.
    assert "Box" not in repr([event.fields() for event in events])


class TestK10:
    """Eight asked, six allowed: the check precedes the start and is atomic."""

    POLICIES = pytest.mark.parametrize(
        ("batch", "asked", "starts"),
        [("first", ASKED, CAP), ("all-or-none", ASKED, 0), ("all-or-none", CAP, CAP)],
    )

    def agent(self, entry: str, batch: Any, asked: int, body: Any) -> tuple[Any, Any]:
        """An agent without a checkpointer, since it runs often, and its config."""
        guard = Guard(Policy(max_calls=CAP, batch=batch))
        calls = (asking("look", {"q": i}, f"c{i}") for i in range(asked))
        middleware = [GuardMiddleware(guard)] if entry == "middleware" else []
        agent = create_agent(scripted(reply(*calls)), [tool(body)], middleware=middleware)
        return agent, {**config_of(guard, entry), "max_concurrency": ASKED}

    def check(self, messages: Sequence[Any], asked: int, starts: int, started: list[int]) -> None:
        assert len(started) == starts
        told = [each.text.startswith("Stopped: ") for each in messages if each.type == "tool"]
        assert sorted(told) == [False] * starts + [True] * (asked - starts)
        assert unanswered(messages) == []

    @POLICIES
    @pytest.mark.parametrize(("entry", "times"), [("middleware", 50), ("handler", 5)])
    def test_on_a_thread_pool(
        self, entry: str, times: int, batch: Any, asked: int, starts: int
    ) -> None:
        started: list[int] = []
        # Nobody leaves the body before all that are allowed are in it.
        inside = threading.Barrier(CAP)

        def look(q: int) -> str:
            """Look."""
            started.append(q)
            inside.wait(timeout=30)
            return f"found {q}"

        agent, config = self.agent(entry, batch, asked, look)
        for _ in range(times):
            started.clear()
            try:
                messages = agent.invoke(USER, config)["messages"]
            except RunStopped as stopped:
                messages = stopped.messages
            self.check(messages, asked, starts, started)

    @POLICIES
    @pytest.mark.parametrize(("entry", "times"), [("middleware", 50), ("handler", 5)])
    def test_on_asyncio(self, entry: str, times: int, batch: Any, asked: int, starts: int) -> None:
        started: list[int] = []

        async def repeated() -> None:
            inside = asyncio.Event()

            async def look(q: int) -> str:
                """Look."""
                started.append(q)
                if len(started) == CAP:
                    inside.set()
                await inside.wait()
                return f"found {q}"

            agent, config = self.agent(entry, batch, asked, look)
            for _ in range(times):
                started.clear()
                inside.clear()
                try:
                    messages = (await agent.ainvoke(USER, config))["messages"]
                except RunStopped as stopped:
                    messages = stopped.messages
                self.check(messages, asked, starts, started)

        asyncio.run(repeated())


@entries
@modes
class TestK11:
    """A model that ignores refusals is not asked for ever; a tool error is no refusal."""

    def test_a_for_ever(self, entry: str, mode: str) -> None:
        ran: list[int] = []

        def look(q: int) -> str:
            """Look."""
            ran.append(q)
            return f"found {q}"

        guard, model = Guard(Policy(max_calls=10)), stubborn(lambda i: {"q": i})
        played = play(
            build(entry, "create_agent", guard, model, look), config_of(guard, entry), mode
        )
        assert (len(ran), len(model.asked)) == (10, 11)
        assert played.stop is not None
        assert (played.stop.reason, played.stop.scope) == ("ceiling", "turn")

    def test_b_a_batch_that_fails(self, entry: str, mode: str) -> None:
        def look(q: int) -> str:
            """Look."""
            raise ToolException(f"no {q}")

        failing = tool(look)
        failing.handle_tool_error = True
        guard = Guard(Policy(max_calls=10))
        model = scripted(reply(*(asking("look", {"q": i}, f"c{i}") for i in range(4))))
        played = play(
            build(entry, "create_agent", guard, model, failing), config_of(guard, entry), mode
        )
        assert played.stop is None
        assert refused(played) == [False] * 4
        assert len(model.asked) == 2

    def test_c_one_executed_and_one_refused(self, entry: str, mode: str) -> None:
        def look(q: int) -> str:
            """Look."""
            return f"found {q}"

        # In any order: of two calls in one reply either may be the first.
        script = [
            reply(asking("look", {"q": i}, f"new{i}"), asking("look", {"q": -1}, f"old{i}"))
            for i in range(5)
        ]
        guard, model = Guard(Policy(max_repeats=1)), scripted(*script)
        played = play(
            build(entry, "create_agent", guard, model, look), config_of(guard, entry), mode
        )
        assert played.stop is None
        assert refused(played) == [False, False, *[False, True] * 4]
        assert played.saved[-1].content == "done"


@entries
@modes
def test_k12_a_warning_does_not_hide_the_limit(entry: str, mode: str) -> None:
    ran: list[int] = []
    events: list[Any] = []

    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    for order in itertools.islice(itertools.permutations(range(4)), 0, None, 4):
        ran.clear()
        events.clear()
        policy = Policy(tools={"look": ToolPolicy(reads=True, alert_calls=2, max_calls=3)})
        guard = Guard(policy, listeners=[events.append])
        model = scripted(reply(*(asking("look", {"q": q}, f"c{q}") for q in order)))
        played = play(
            build(entry, "create_agent", guard, model, look), config_of(guard, entry), mode
        )
        assert len(ran) == 3
        assert refused(played).count(True) == 1
        alerts = [event for event in events if event.kind == "alert"]
        assert [(event.observed, event.limit) for event in alerts] == [(2, 3)]


def test_k14_copies_share_the_counter() -> None:
    ran: list[int] = []

    @tool
    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    guard = Guard(Policy(max_calls=2))
    middleware, tools = [GuardMiddleware(guard)], guard_tools([look], guard)
    graph = StateGraph(MessagesState)
    for agent in "ab":
        both = reply(*(asking("look", {"q": i}, f"{agent}{i}") for i in range(2)))
        graph.add_node(
            agent,
            create_agent(
                scripted(both), copy.deepcopy(tools), middleware=copy.deepcopy(middleware)
            ),
        )
        graph.add_edge(START, agent)
    compiled = graph.compile()
    for _ in range(2):
        ran.clear()
        messages = compiled.invoke(USER)["messages"]
        refused = [each for each in messages if each.type == "tool" and each.status == "error"]
        assert (len(ran), len(refused)) == (2, 2)


class TestK15:
    """The message says how long."""

    @entries
    @modes
    def test_the_turn_and_no_longer(self, entry: str, mode: str) -> None:
        ran: list[int] = []
        events: list[Any] = []

        def look(q: int) -> str:
            """Look."""
            ran.append(q)
            return f"found {q}"

        guard = Guard(Policy(max_calls=2), listeners=[events.append])
        model = scripted(*asked_alone("look", ({"q": i} for i in range(3))))
        agent, config = build(entry, "create_agent", guard, model, look), config_of(guard, entry)
        first = play(agent, config, mode)
        text = [each.text for each in first.saved if each.type == "tool"][-1]
        assert "this turn" in text
        assert not re.search(
            r"\b(never|always|permanent\w*|any ?more|no longer|for ?ever)\b", text, re.IGNORECASE
        )
        events.clear()
        second = play(agent, config, mode)
        # The text of the first turn is still there for the model to read.
        assert [text in each.text for each in second.saved].count(True) >= 2
        assert ran == [0, 1, 0, 1]
        attempt = next(event for event in events if event.kind == "attempt")
        assert attempt.remaining["calls"] == 1

    @entries
    def test_a_function_of_the_user_replaces_the_text(self, entry: str) -> None:
        def look(q: int) -> str:
            """Look."""
            return f"found {q}"

        guard = Guard(Policy(max_calls=1), words=lambda stop: f"Genug: {stop.tool}, {stop.scope}.")
        model = scripted(*asked_alone("look", ({"q": i} for i in range(2))))
        played = play(build(entry, "create_agent", guard, model, look), config_of(guard, entry))
        assert played.saved[4].text == "Genug: look, turn."
        assert played.stop is not None
        assert played.stop.text == "Genug: look, turn."


class TestK21:
    """Neighbours: one guard, two users at once."""

    TIMES = {"ann": 3, "bob": 1}

    def agents(self, guard: Guard, body: Any) -> list[Any]:
        scripts = (asked_alone("look", [{"q": 1}] * times) for times in self.TIMES.values())
        middleware, tools = [GuardMiddleware(guard)], tools_of([body], guard, "middleware")
        return [create_agent(scripted(*each), tools, middleware=middleware) for each in scripts]

    def configs(self) -> list[Any]:
        return [{"configurable": {"user_id": user}} for user in self.TIMES]

    def check(self, events: list[Any], ended: list[Any]) -> None:
        counts = Counter((event.user, event.kind) for event in events if event.tool == "look")
        assert counts == {("ann", "attempt"): 2, ("ann", "refused"): 1, ("bob", "attempt"): 1}
        refused = next(event for event in events if event.kind == "refused")
        assert (refused.reason, refused.observed) == ("repeat", 3)
        assert [each["messages"][-1].content for each in ended] == ["done"] * 2
        events.clear()

    def test_on_threads(self) -> None:
        events: list[Any] = []
        arrived: list[int] = []
        both = threading.Barrier(2)

        def look(q: int) -> str:
            """Look."""
            arrived.append(q)
            # The first of either waits for that of the other.
            if len(arrived) <= 2:
                both.wait(timeout=30)
            return f"found {q}"

        guard = Guard(Policy(max_repeats=2), listeners=[events.append])
        agents = self.agents(guard, look)
        with ThreadPoolExecutor(2) as pool:
            for _ in range(100):
                arrived.clear()
                ended = pool.map(lambda each, at: each.invoke(USER, at), agents, self.configs())
                self.check(events, list(ended))

    def test_on_asyncio(self) -> None:
        events: list[Any] = []

        @tool
        async def look(q: int) -> str:
            """Look."""
            await asyncio.sleep(0)
            return f"found {q}"

        guard = Guard(Policy(max_repeats=2), listeners=[events.append])
        agents = self.agents(guard, look)

        async def every() -> None:
            for _ in range(100):
                runs = (
                    agent.ainvoke(USER, config)
                    for agent, config in zip(agents, self.configs(), strict=True)
                )
                self.check(events, await asyncio.gather(*runs))

        asyncio.run(every())


# K29 The wrapper is invisible.


def function(q: int, runtime: ToolRuntime, limit: int = 5) -> list[int]:
    """Search for *q*."""
    return [q] * limit


async def coroutine(q: int, runtime: ToolRuntime, limit: int = 5) -> list[int]:
    """Search for *q*."""
    return [q] * limit


class Search:
    """Searches."""

    def __call__(self, q: int, runtime: ToolRuntime, limit: int = 5) -> list[int]:
        """Search for *q*."""
        return [q] * limit


def tool_of(body: Callable[..., Any]) -> StructuredTool:
    func, coroutine = (None, body) if inspect.iscoroutinefunction(body) else (body, None)
    return StructuredTool.from_function(func, coroutine, name="search", description="Search.")


@pytest.mark.parametrize(
    ("body", "plain"),
    # An object is no tool to LangChain but by its method.
    [(function, function), (coroutine, coroutine), (Search(), Search().__call__)],
    ids=["def", "async def", "object"],
)
def test_k29_a_decorated_function_makes_the_same_tool(body: Any, plain: Any) -> None:
    guard = Guard(Policy.permissive())
    bare, wrapped = tool_of(plain), tool_of(guard.wrap(body))
    assert convert_to_openai_tool(wrapped) == convert_to_openai_tool(bare)
    assert wrapped.args == bare.args
    assert (wrapped.coroutine is None) == (bare.coroutine is None)
    answers = []
    for each in (bare, wrapped):
        model = scripted(reply(asking("search", {"q": 1, "limit": 2}, "a")))
        agent = create_agent(model, [each])
        answers.append(asyncio.run(agent.ainvoke(USER))["messages"][2].content)
    assert answers == ["[1, 1]"] * 2


# K30 Which statuses are final.

FINAL = (400, 401, 403, 404, 409, 422)
PASSING = (408, 429, 500, 503)


class OnItself(ToolException):
    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}: no")
        self.status_code = status


class OnItsResponse(ToolException):
    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}: no")
        self.response = type("Response", (), {"status_code": status, "headers": {}})()


@pytest.mark.parametrize("entry", ["middleware", "tools"])
@pytest.mark.parametrize("error", [OnItself, OnItsResponse])
class TestK30:
    """Which statuses are final."""

    def played(self, entry: str, error: Any, policy: Policy, status: int) -> tuple[int, Played]:
        ran: list[int] = []

        def look(q: int) -> str:
            """Look."""
            ran.append(q)
            raise error(status)

        failing = tool(look)
        failing.handle_tool_error = True
        guard = Guard(policy)
        model = scripted(*asked_alone("look", [{"q": 1}] * 4))
        agent = build(entry, "create_agent", guard, model, failing)
        played = play(agent, config_of(guard, entry))
        return len(ran), played

    def test_a_final_one_is_executed_once(self, entry: str, error: Any) -> None:
        for status in FINAL:
            ran, played = self.played(entry, error, Policy(max_repeats=3), status)
            assert ran == 1
            first, second = told(played)[:2]
            for stop in (first, second):
                assert stop is not None
                assert (stop.reason, stop.scope, stop.status) == (
                    "terminal",
                    "call",
                    status,
                )
                assert stop.executed == (stop is first)

    def test_a_passing_one_is_executed_three_times(self, entry: str, error: Any) -> None:
        for status in PASSING:
            for policy, reason in ((Policy(), "failing"), (Policy(max_repeats=3), "repeat")):
                ran, played = self.played(entry, error, policy, status)
                assert ran == 3
                *others, last = told(played)
                assert others == [None] * 3
                assert last is not None
                assert (last.reason, last.scope) == (reason, "call")

    def test_a_map_of_the_user_wins_both_ways(self, entry: str, error: Any) -> None:
        settings: Any
        for settings in (
            {"statuses": {404: "passing"}},
            {"tools": {"look": ToolPolicy(statuses={404: "passing"})}},
        ):
            ran, played = self.played(entry, error, Policy(**settings), 404)
            last = told(played)[-1]
            assert last is not None
            assert (ran, last.reason) == (3, "failing")
        for settings in ({"statuses": {503: "final"}}, {"terminal_statuses": (503,)}):
            ran, played = self.played(entry, error, Policy(**settings), 503)
            first = told(played)[0]
            assert first is not None
            assert (ran, first.reason) == (1, "terminal")
