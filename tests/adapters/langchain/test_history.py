"""After every kind of stop the provider takes the thread's next turn (I5, K17): each call has one answer,
right after its reply, and nothing was removed. The real client, over HTTP, against a strict endpoint."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import httpx
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode, create_react_agent
from langgraph.types import Command, interrupt
from openai import BadRequestError
from pydantic import BaseModel

from lastcall import Guard, Policy, Stopped
from lastcall.stores.memory import MemoryStore
from lastcall_langchain import GuardMiddleware, RunStopped, instrument, tool_node_wrappers
from lastcall_langchain.runs import RUNS
from lastcall_langchain.stops import marked

from ..endpoint import Endpoint, Reply, Responses, asks, fails  # noqa: TID252 - a sibling folder
from .playing import MODES, WAYS, Played, agent_of, config_of, play, tools_of

EVERY_WAY = (
    *WAYS,
    *(("instrument", kind) for kind in ("create_agent", "react", "graph")),
    *(("node", kind) for kind in ("react", "graph")),
)
"""Every entry with every kind of agent that has it."""

ONE_WAY = (
    ("middleware", "create_agent"),
    ("tools", "react"),
    ("handler", "graph"),
    ("decorated", "create_agent"),
    ("instrument", "react"),
    ("node", "graph"),
)
"""Every entry once."""

GO: dict[str, Any] = {"messages": [("user", "go")]}
INSIDE: dict[str, Any] = {"messages": [("user", "inside")]}
THANKS: dict[str, Any] = {"messages": [("user", "thanks")]}

CALM = (asks(("look", {"q": 7})),)
"""What the model does after a word of thanks: nothing that anybody would stop."""


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def provider(served: Endpoint) -> Endpoint:
    """The strict provider, without scripts; a client costs more than a test, so all share its port."""
    served.forget()
    served.on("thanks", *CALM)
    return served


def model_of(provider: Endpoint, mode: str = "invoke", api: str = "chat") -> ChatOpenAI:
    return ChatOpenAI(
        model="m",
        base_url=provider.url,
        api_key="none",
        max_retries=0,
        streaming="stream" in mode,
        use_responses_api=api == "responses",
    )


def titled(value: Any) -> str:
    """How a parameter stands in the name of a test."""
    return "-".join(value) if isinstance(value, tuple) else str(value).replace(" ", "_")


one_way = pytest.mark.parametrize("way", ONE_WAY, ids=titled)
modes = pytest.mark.parametrize("mode", MODES)


class Talk:
    """A thread with one agent, guarded through one entry."""

    def __init__(
        self,
        provider: Endpoint,
        guard: Guard,
        way: tuple[str, str],
        mode: str,
        *bodies: Callable[..., Any] | BaseTool,
        api: str = "chat",
        **more: Any,
    ) -> None:
        self.provider, self.guard, self.mode = provider, guard, mode
        self.entry, kind = way
        model: Any = model_of(provider, mode, api)
        if kind == "graph":
            model = model.bind_tools(list(bodies))
        tools: Any = tools_of(bodies, guard, self.entry)
        if self.entry == "middleware":
            more.setdefault("middleware", [GuardMiddleware(guard)])
        if self.entry == "node":
            wrappers = tool_node_wrappers(guard)
            if kind == "react":
                tools = ToolNode(tools, **wrappers, **more)
            else:
                more |= wrappers
        self.agent = agent_of(kind, model, tools, **more)
        self.config = config_of(guard, self.entry)

    def say(self, given: Any = GO) -> Played:
        with ExitStack() as stack:
            if self.entry == "instrument":
                stack.callback(instrument(self.guard))
            return play(self.agent, self.config, self.mode, given)

    def begin_anew(self, thread: str) -> None:
        """Go to another thread, and forget what was asked in this one."""
        self.config["configurable"]["thread_id"] = thread
        self.provider.requests.clear()

    @property
    def saved(self) -> list[BaseMessage]:
        messages: list[BaseMessage] = self.agent.get_state(self.config).values["messages"]
        return messages


class Tools:
    """Two tools: one finds something, and one is told 422 whatever it asks for."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, int]] = []

    @property
    def bodies(self) -> tuple[Callable[..., Any], ...]:
        def look(q: int) -> str:
            """Look."""
            self.ran.append(("look", q))
            return f"found {q}"

        def order(q: int) -> dict[str, Any]:
            """Look up an order."""
            self.ran.append(("order", q))
            return {"status_code": 422, "error": f"no such order {q}"}

        return look, order


class Kind(NamedTuple):
    """A kind of stop: what leads to it, and what comes of it."""

    policy: Policy
    replies: tuple[Reply, ...]
    ran: int
    """How many calls are executed in a turn."""
    ends: str | None = None
    """The reason for which the run ends; None when the model comes to an end by itself."""


def each(name: str, *many: int) -> tuple[Reply, ...]:
    """Replies with one call each."""
    return tuple(asks((name, {"q": q})) for q in many)


def at_once(name: str, *many: int) -> Reply:
    """One reply with a call for each."""
    return asks(*((name, {"q": q}) for q in many), text="Let me see.")


KINDS = {
    "a call is refused": Kind(Policy(max_repeats=1), each("look", 1, 1, 2), ran=2),
    "a tool is closed": Kind(Policy(), (*each("order", 1, 2, 3, 4), *each("look", 1)), ran=4),
    "the ceiling falls within a reply": Kind(
        Policy(max_calls=3), (at_once("look", 1, 2), at_once("look", 3, 4, 5, 6)), 3, "ceiling"
    ),
    "refusals are ignored": Kind(Policy(max_repeats=1), each("look", *[1] * 9), 1, "refusals"),
    "an answer is final": Kind(
        Policy(), (asks(("order", {"q": 1}), ("look", {"q": 1})), *each("look", 2)), ran=3
    ),
    "the first final answer ends the turn": Kind(
        Policy.strict(), each("order", *range(9)), 1, "terminal"
    ),
    "it does so beside others": Kind(
        Policy.strict(), (at_once("order", 1, 2), *each("look", 2)), -1, "terminal"
    ),
    "a reply is too large": Kind(
        Policy(max_calls=3, batch="all-or-none"),
        (*each("look", 1), at_once("look", 2, 3, 4)),
        -1,
        "ceiling",
    ),
}


def in_place(messages: Sequence[BaseMessage]) -> bool:
    """Whether each call is answered once, in the order of the calls, right after its reply, and no
    answer stands anywhere else."""
    waiting: list[str | None] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not waiting or waiting.pop(0) != message.tool_call_id:
                return False
        elif waiting:
            return False
        elif isinstance(message, AIMessage):
            waiting = [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)]
    return not waiting


def nothing_removed(provider: Endpoint, said: str = "go") -> bool:
    """Whether each request of the thread has all that the one before it had, word for word."""
    sent = [
        [message for message in request.history if message.get("role") != "system"]
        for request in provider.requests
    ]
    sent = [each for each in sent if each[0]["content"] == said]
    return all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(sent))


def accepted(talk: Talk, *turns: Played) -> None:
    """Check that the provider took every request, and that every turn left what was there before it."""
    assert talk.provider.refused == []
    assert nothing_removed(talk.provider)
    for turn in turns:
        assert in_place(turn.saved)
        assert talk.saved[: len(turn.saved)] == turn.saved


ROUND = [
    (name, way, MODES[(at + nth) % len(MODES)])
    for at, name in enumerate(KINDS)
    for nth, way in enumerate(EVERY_WAY)
]
"""Every kind of stop in every way, and either of them in every mode; all three would take minutes."""


@pytest.mark.parametrize(("name", "way", "mode"), ROUND, ids=titled)
def test_the_next_turn_is_accepted_when(
    name: str, way: tuple[str, str], mode: str, provider: Endpoint
) -> None:
    kind, tools = KINDS[name], Tools()
    provider.on("go", *kind.replies)
    talk = Talk(provider, Guard(kind.policy), way, mode, *tools.bodies)
    first = talk.say()
    spent = Counter(name for name, _ in tools.ran)
    assert kind.ran in (-1, len(tools.ran))
    if kind.ends is None:
        assert first.stop is None
    else:
        assert first.stop is not None
        assert first.stop.reason == kind.ends
        # What was refused is not counted as done.
        told = talk.guard.report(first.stop.run or "")
        assert told is not None
        assert told.totals.executed == len(tools.ran)
    # The same again: as much is allowed as in the first turn.
    tools.ran.clear()
    second = talk.say()
    assert kind.ran < 0 or Counter(name for name, _ in tools.ran) == spent
    assert (second.stop is None) == (kind.ends is None)
    accepted(talk, first, second)


@one_way
@pytest.mark.parametrize(
    ("name", "mode"),
    [("refusals are ignored", "stream"), ("the ceiling falls within a reply", "ainvoke")],
)
def test_the_responses_api_accepts_it_as_well_when(
    name: str, way: tuple[str, str], mode: str, provider: Endpoint
) -> None:
    kind, tools = KINDS[name], Tools()
    provider.on("go", *kind.replies)
    talk = Talk(provider, Guard(kind.policy), way, mode, *tools.bodies, api="responses")
    turns = [talk.say(), talk.say(THANKS)]
    assert {request.api for request in provider.requests} == {Responses}
    assert [turn.stop.reason if turn.stop else None for turn in turns] == [kind.ends, None]
    accepted(talk, *turns)


@one_way
@pytest.mark.parametrize("mode", ["ainvoke", "stream"])
def test_the_next_turn_is_accepted_when_no_such_tool_exists(
    way: tuple[str, str], mode: str, provider: Endpoint
) -> None:
    provider.on("go", *each("nothing", *range(5)))
    talk = Talk(provider, Guard(), way, mode, *Tools().bodies)
    turns = [talk.say(), talk.say(THANKS)]
    # Who guards tools is not asked about one that there is not.
    reason = "malformed" if way[0] in ("middleware", "node") else None
    assert [turn.stop.reason if turn.stop else None for turn in turns] == [reason, None]
    accepted(talk, *turns)


@pytest.mark.parametrize("way", [way for way in ONE_WAY if way[0] != "handler"], ids=titled)
@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_a_403_that_is_raised_beside_a_success_is_one_result_of_two(
    way: tuple[str, str], mode: str, provider: Endpoint
) -> None:
    def fetch(q: int) -> str:
        """Fetch."""
        if q == 1:
            request = httpx.Request("GET", "http://desk.test/fetch")
            httpx.Response(403, request=request).raise_for_status()
        return f"fetched {q}"

    look, _ = Tools().bodies
    provider.on("go", at_once("fetch", 1, 2))
    talk = Talk(provider, Guard(), way, mode, fetch, look)
    first = talk.say()
    said = [message.text for message in first.saved if message.type == "tool"]
    assert said[0].startswith("Stopped: fetch")
    assert "HTTP 403" in said[0]
    assert said[1:] == ["fetched 2"]
    accepted(talk, first, talk.say(THANKS))


@pytest.mark.parametrize("way", [way for way in EVERY_WAY if way[1] != "graph"], ids=titled)
def test_the_next_turn_is_accepted_when_a_tool_that_returns_directly_is_refused(
    way: tuple[str, str], provider: Endpoint
) -> None:
    ran: list[int] = []

    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    direct = tool(look, return_direct=True)
    provider.on("go", at_once("look", 1, 2))
    talk = Talk(provider, Guard(Policy(max_calls=1)), way, "ainvoke", direct)
    turns = [talk.say(), talk.say()]
    assert len(ran) == 2
    # Refused or not, such a tool ends the run, and the model is not asked again.
    assert len(provider.requests) == 2
    turns.append(talk.say(THANKS))
    assert ran[2:] == [7]
    assert turns[-1].stop is None
    accepted(talk, *turns)


@pytest.mark.parametrize("mode", ["stream", "ainvoke"])
@one_way
def test_the_next_turn_is_accepted_when_a_nested_agent_ends_its_parent(
    way: tuple[str, str], mode: str, provider: Endpoint
) -> None:
    guard, tools = Guard(Policy(max_calls=4)), Tools()
    provider.on("go", *each("delegate", 1, 2, 3))
    provider.on("inside", *each("look", *range(9)))
    model = model_of(provider, mode)
    inside = tools_of(tools.bodies[:1], guard, way[0])
    inner: Any
    if way[0] == "node":
        inner = create_react_agent(model, ToolNode(inside, **tool_node_wrappers(guard)))
    else:
        middleware = [GuardMiddleware(guard)] if way[0] == "middleware" else []
        inner = create_agent(model, inside, middleware=middleware)

    def delegate(q: int) -> str:
        """Ask another agent."""
        return str(inner.invoke(INSIDE)["messages"][-1].text)

    async def adelegate(q: int) -> str:
        """Ask another agent."""
        return str((await inner.ainvoke(INSIDE))["messages"][-1].text)

    body = adelegate if mode.startswith("a") else delegate
    body.__name__ = "delegate"
    look, _ = Tools().bodies
    talk = Talk(provider, guard, way, mode, body, look)
    first = talk.say()
    assert first.stop is not None
    assert (first.stop.reason, len(tools.ran)) == ("ceiling", 3)
    second, third = talk.say(), talk.say(THANKS)
    assert (len(tools.ran), third.stop, third.saved[-1].text) == (6, None, "done")
    accepted(talk, first, second, third)


class Found(BaseModel):
    """What was found."""

    count: int


@pytest.mark.parametrize(
    ("api", "mode"),
    [*(("chat", mode) for mode in MODES), ("responses", "ainvoke"), ("responses", "stream")],
)
@pytest.mark.parametrize("fallen", [False, True], ids=["answered", "fallen"])
def test_the_next_turn_is_accepted_when_a_last_answer_was_asked_for(
    fallen: bool, api: str, mode: str, provider: Endpoint
) -> None:
    provider.on("go", *each("look", 1, 2, 3, 4, 5))
    if fallen:
        provider.bare = fails(500)
    guard = Guard(Policy(max_calls=3))
    ours = [GuardMiddleware(guard, last_answer=True)]
    talk = Talk(
        provider,
        guard,
        ("middleware", "create_agent"),
        mode,
        *Tools().bodies,
        api=api,
        middleware=ours,
    )
    first = talk.say()
    # As many requests as it takes to be refused, and one without tools.
    assert [bool(request.tools) for request in provider.requests] == [True] * 4 + [False]
    assert first.stop is not None
    assert [each.result for each in first.stop.gathered] == ["found 1", "found 2", "found 3"]
    assert first.saved[-1].text == (first.stop.text if fallen else provider.bare.text)
    second, third = talk.say(), talk.say(THANKS)
    assert second.stop is not None
    assert (third.stop, third.saved[-1].text) == (None, "done")
    accepted(talk, first, second, third)


@pytest.mark.parametrize("last", [False, True], ids=["ended", "answered"])
@pytest.mark.parametrize("mode", ["invoke", "astream"])
def test_the_next_turn_is_accepted_when_a_schema_was_asked_for(
    last: bool, mode: str, provider: Endpoint
) -> None:
    provider.on("go", *each("look", *range(9)))
    # Beside a call that nobody needs any more, the answer is a call as well.
    provider.on("thanks", asks(("Found", {"count": 1}), ("look", {"q": 7})))
    guard, tools = Guard(Policy(max_calls=3)), Tools()
    agent = create_agent(
        model_of(provider, mode),
        [tool(body) for body in tools.bodies],
        middleware=[GuardMiddleware(guard, last_answer=last)],
        response_format=ToolStrategy(Found),
        checkpointer=InMemorySaver(),
    )
    config = config_of(guard, "middleware")
    turns = [play(agent, config, mode, given) for given in (GO, GO, THANKS)]
    assert [turn.stop is None for turn in turns] == [False, False, True]
    assert agent.get_state(config).values["structured_response"] == Found(count=1)
    assert provider.refused == []
    assert nothing_removed(provider)
    assert all(in_place(turn.saved) for turn in turns)


class Unreliable(MemoryStore):
    """Fails at the step that is named."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def update(self, *args: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise ConnectionError("the store is down")
        return super().update(*args)


@one_way
def test_each_call_has_its_result_when_the_guard_itself_fails(
    way: tuple[str, str], provider: Endpoint
) -> None:
    for at in range(1, 8):
        provider.requests.clear()
        provider.on("go", at_once("look", 1, 2), *each("order", 3))
        guard, mode = Guard(Policy(max_calls=2), store=Unreliable(at)), MODES[at % len(MODES)]
        talk = Talk(provider, guard, way, mode, *Tools().bodies)
        accepted(talk, talk.say(), talk.say(THANKS))


def test_a_stop_leaves_the_same_history_streamed_or_not(provider: Endpoint) -> None:
    provider.on(
        "go", *each("look", 1), asks(("look", {"q": 1}), text="Once more."), *each("look", 1)
    )
    for way in ONE_WAY:
        left = []
        for mode in MODES:
            talk = Talk(provider, Guard(Policy(max_repeats=1)), way, mode, *Tools().bodies)
            left.append(likened(talk.say().saved))
        assert left == left[:1] * len(MODES), way
        assert len(left[0]) > 4


# K20: a pause is not a new turn, and no orphan.


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize(
    ("entry", "restarted"),
    [
        pytest.param(
            entry,
            restarted,
            id=f"{entry}-{'restarted' if restarted else 'resumed'}",
        )
        for entry in ("middleware", "tools", "handler", "decorated", "instrument")
        for restarted in (False, True)
    ],
)
def test_a_turn_that_paused_and_was_stopped_is_followed_by_one_that_is_accepted(
    entry: str, restarted: bool, mode: str, provider: Endpoint
) -> None:
    ran: list[int] = []

    def pay(q: int) -> str:
        """Pay, if a person agrees."""
        said = interrupt("may I?")
        ran.append(q)
        return f"{said}: paid {q}"

    look, _ = Tools().bodies
    provider.on("go", *each("pay", 1, 2, 3))
    guard, way = Guard(Policy(max_calls=1)), (entry, "create_agent")
    talk = Talk(provider, guard, way, mode, pay, look)
    with ExitStack() as process:
        if restarted:
            process.enter_context(guard.within(run="r", turn="r"))
        paused = talk.say()
        assert (paused.stop, ran) == (None, [])
        if restarted:
            # The same thread in another process: nothing is known there but what was saved.
            saved, checkpoints = guard.snapshot("r"), talk.agent.checkpointer
            process.close()
            RUNS._paused.clear()
            guard = Guard(Policy(max_calls=1))
            guard.restore(saved)
            talk = Talk(provider, guard, way, mode, pay, look)
            talk.agent.checkpointer = checkpoints
            process.enter_context(guard.within(run="r", turn="r"))
        first = talk.say(Command(resume="yes"))
    # Seen before the pause and after it, the first call counts once, and the second is refused.
    assert ran == [1]
    assert first.stop is not None
    assert (first.stop.reason, first.stop.observed) == ("ceiling", 2)
    second = talk.say(THANKS)
    assert (second.stop, second.saved[-1].text) == (None, "done")
    accepted(talk, first, second)


@pytest.mark.parametrize("mode", ["invoke", "astream"])
@pytest.mark.parametrize(
    "way",
    [("middleware", "create_agent"), ("tools", "graph"), ("handler", "react"), ("node", "graph")],
    ids=titled,
)
@pytest.mark.parametrize("answer", ["go_on", {"raise": 1}, "end"], ids=["go_on", "raise", "end"])
def test_the_next_turn_is_accepted_when_a_person_was_asked_instead(
    answer: Any, way: tuple[str, str], mode: str, provider: Endpoint
) -> None:
    tools = Tools()
    provider.on("go", *each("look", 1), at_once("look", 2, 3))
    talk = Talk(provider, Guard(Policy(max_calls=2, on_stop="ask")), way, mode, *tools.bodies)
    talk.say()
    assert len(tools.ran) == 2
    first = talk.say(Command(resume=answer))
    # A body beside the one that was waited for may have been started again: its node was.
    ran = len(set(tools.ran))
    assert (ran, first.stop is None) == ((2, False) if answer == "end" else (3, True))
    second = talk.say(THANKS)
    assert (second.stop, second.saved[-1].text) == (None, "done")
    accepted(talk, first, second)


class OneAtATime(AgentMiddleware):
    """Sets what a provider takes only beside tools."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(model_settings={"parallel_tool_calls": False}))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request.override(model_settings={"parallel_tool_calls": False}))


@modes
@pytest.mark.parametrize(
    "left",
    [
        pytest.param(0, id="none_is_left"),
        pytest.param(1, id="one_is_left"),
    ],
)
def test_the_next_turn_is_accepted_when_closed_tools_were_withdrawn(
    left: int, mode: str, provider: Endpoint
) -> None:
    tools = Tools()
    look, order = tools.bodies
    provider.on("go", *each("order", 1, 2, 3))
    guard = Guard()
    ours = [OneAtATime(), GuardMiddleware(guard, withdraw=True)]
    bodies = (order, look)[: 1 + left]
    talk = Talk(provider, guard, ("middleware", "create_agent"), mode, *bodies, middleware=ours)
    first = talk.say()
    assert [len(request.tools) for request in provider.requests] == [1 + left] * 3 + [left]
    assert (first.raised, len(tools.ran)) == (None, 3)
    talk.say({"messages": [("user", "nothing more")]})
    # A new turn offers them again.
    assert len(provider.requests[-1].tools) == 1 + left
    accepted(talk, first)


# What LangChain itself leaves unanswered, guarded or not, and what its user does about it.


def answer_what_is_open(talk: Talk) -> None:
    """Answer the calls of the last reply that were not; do it before the user speaks again."""
    at = max(i for i, message in enumerate(talk.saved) if isinstance(message, AIMessage))
    reply, *after = talk.saved[at:]
    known = {each.tool_call_id: each for each in after if isinstance(each, ToolMessage)}
    answers = [
        known.get(call["id"])
        or ToolMessage("Not executed.", tool_call_id=call["id"], name=call["name"], status="error")
        for call in (*reply.tool_calls, *reply.invalid_tool_calls)  # type: ignore[attr-defined]
    ]
    # What siblings found is listed too: LangGraph drops it from a task that did not end.
    talk.agent.update_state(talk.config, {"messages": answers}, as_node="tools")


def refused_until_answered(talk: Talk, left: Callable[[], Any]) -> None:
    """Check that *left* leaves calls open, that the provider refuses them, and that answering helps."""
    left()
    assert not in_place(talk.saved)
    refused = talk.say(THANKS).raised
    # `create_react_agent` looks for itself before it asks.
    assert isinstance(refused, BadRequestError) or "INVALID_CHAT_HISTORY" in str(refused)
    # The same once more, and not gone on with before it is repaired.
    talk.begin_anew("another")
    left()
    answer_what_is_open(talk)
    after = talk.say(THANKS)
    assert (after.raised, after.stop, after.saved[-1].text) == (None, None, "done")
    accepted(talk, after)


@modes
@pytest.mark.parametrize("way", [("handler", "graph"), ("decorated", "graph")], ids=titled)
def test_langgraph_leaves_a_refused_call_open_where_a_tool_node_handles_no_errors(
    way: tuple[str, str], mode: str, provider: Endpoint
) -> None:
    provider.on("go", *each("look", 1, 2))
    guard = Guard(Policy(max_calls=1))
    talk = Talk(provider, guard, way, mode, *Tools().bodies, handle_tool_errors=False)

    def left() -> None:
        assert isinstance(talk.say().raised, Stopped)

    refused_until_answered(talk, left)


@modes
@pytest.mark.parametrize("entry", ["tools", "node", "instrument"])
def test_an_entry_that_answers_by_messages_leaves_none_open_in_such_a_node(
    entry: str, mode: str, provider: Endpoint
) -> None:
    provider.on("go", *each("look", 1, 2))
    guard = Guard(Policy(max_calls=1))
    talk = Talk(provider, guard, (entry, "graph"), mode, *Tools().bodies, handle_tool_errors=False)
    first = talk.say()
    assert isinstance(first.raised, RunStopped)
    accepted(talk, first, talk.say(THANKS))


@pytest.mark.parametrize("mode", ["invoke", "astream"])
@pytest.mark.parametrize("way", [("nobody", "create_agent"), *ONE_WAY], ids=titled)
def test_langgraph_leaves_a_call_open_whose_tool_raised_and_the_guard_neither_hides_nor_doubles_it(
    way: tuple[str, str], mode: str, provider: Endpoint
) -> None:
    def fall(q: int) -> str:
        """Fall."""
        raise ValueError(f"fell over {q}")

    look, _ = Tools().bodies
    provider.on("go", asks(("look", {"q": 1}), ("fall", {"q": 2}), ("look", {"q": 3})))
    talk = Talk(provider, Guard(), way, mode, look, fall)

    def left() -> None:
        raised = talk.say().raised
        assert isinstance(raised, ValueError)
        assert raised.args == ("fell over 2",)

    refused_until_answered(talk, left)


@pytest.mark.parametrize("entry", ["nobody", "middleware", "tools", "handler"])
def test_langgraph_leaves_a_call_open_where_the_user_speaks_instead_of_resuming(
    entry: str, provider: Endpoint
) -> None:
    def pay(q: int) -> str:
        """Pay, if a person agrees."""
        return f"{interrupt('may I?')}: paid {q}"

    look, _ = Tools().bodies
    provider.on("go", *each("pay", 1))
    talk = Talk(provider, Guard(), (entry, "create_agent"), "invoke", pay, look)
    refused_until_answered(talk, talk.say)


@pytest.mark.parametrize("entry", ["middleware", "tools", "handler"])
def test_langgraph_leaves_a_call_open_where_the_user_speaks_instead_of_answering_the_guard(
    entry: str, provider: Endpoint
) -> None:
    provider.on("go", *each("look", 1, 2))
    guard = Guard(Policy(max_calls=1, on_stop="ask"))
    talk = Talk(provider, guard, (entry, "create_agent"), "invoke", *Tools().bodies)
    refused_until_answered(talk, talk.say)
    # To say that the run is to end is enough, too.
    talk.begin_anew("a third")
    talk.say()
    talk.say(Command(resume="end"))
    after = talk.say(THANKS)
    assert (after.raised, after.stop, after.saved[-1].text) == (None, None, "done")
    accepted(talk, after)


@pytest.mark.parametrize("entry", ["nobody", "middleware", "tools", "handler"])
def test_langgraph_leaves_a_call_open_where_a_run_is_cancelled(
    entry: str, provider: Endpoint
) -> None:
    begun: list[asyncio.Event] = []

    async def wait(q: int) -> str:
        """Wait for ever."""
        begun[-1].set()
        await asyncio.Event().wait()
        return "never"

    look, _ = Tools().bodies
    provider.on("go", *each("wait", 1))
    talk = Talk(provider, Guard(), (entry, "create_agent"), "ainvoke", wait, look)

    async def cancelled() -> None:
        begun.append(asyncio.Event())
        run = asyncio.ensure_future(talk.agent.ainvoke(GO, talk.config))
        await begun[-1].wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    refused_until_answered(talk, lambda: asyncio.run(cancelled()))


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("entry", ["middleware", "tools", "handler"])
@pytest.mark.parametrize("beside", [(), (("look", {"q": 1}),)], ids=["alone", "beside_another"])
def test_arguments_that_are_no_json_are_answered_in_what_create_agent_sends(
    beside: tuple[Any, ...], entry: str, mode: str, provider: Endpoint
) -> None:
    provider.on("go", asks(("look", "{bad"), *beside))
    talk = Talk(provider, Guard(), (entry, "create_agent"), mode, *Tools().bodies)
    first, second = talk.say(), talk.say(THANKS)
    assert (first.raised, second.raised, second.saved[-1].text) == (None, None, "done")
    assert provider.refused == []


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize(
    "way", [("nobody", "react"), ("tools", "react"), ("node", "graph")], ids=titled
)
def test_langgraph_leaves_a_call_open_whose_arguments_are_no_json(
    way: tuple[str, str], mode: str, provider: Endpoint
) -> None:
    provider.on("go", asks(("look", "{bad")))
    talk = Talk(provider, Guard(), way, mode, *Tools().bodies)
    refused_until_answered(talk, talk.say)


def likened(messages: Sequence[BaseMessage]) -> list[Any]:
    """What two histories of the same turn have in common."""
    calls: list[str | None] = []
    told: list[Any] = []
    for message in messages:
        asked = message.tool_calls if isinstance(message, AIMessage) else []
        calls += [call["id"] for call in asked]
        answers = calls.index(message.tool_call_id) if isinstance(message, ToolMessage) else None
        stop = marked(message)
        told.append(
            (
                message.type,
                message.text,
                [(call["name"], call["args"]) for call in asked],
                answers,
                getattr(message, "status", None),
                stop and (stop.reason, stop.scope, stop.text, len(stop.gathered)),
            )
        )
    return told
