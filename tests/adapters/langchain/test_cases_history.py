"""Cases from the field about the history that a stop leaves behind (theme H), through LangChain."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import ToolException, tool
from langgraph.types import Command, interrupt

from lastcall import Guard, Policy, ToolPolicy
from lastcall.stores.memory import MemoryStore

from .playing import MODES, WAYS, build, config_of, play
from .scripted import Scripted, asked_alone, asking, reply

entries = pytest.mark.parametrize("entry", ["middleware", "tools", "handler", "decorated"])
ways = pytest.mark.parametrize(("entry", "kind"), WAYS)
modes = pytest.mark.parametrize("mode", MODES)
two_modes = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])

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


class Strict(Scripted):
    """A provider that takes no history with an unanswered call, with an answer too many, or with
    anything between a call and its answers."""

    requests: list[list[BaseMessage]] = []

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        assert in_place(messages)
        self.requests.append(messages)
        return super()._generate(messages, stop, run_manager, **kwargs)


def strict(*replies: AIMessage) -> Strict:
    return Strict(script=list(replies), asked=[], requests=[])


def in_place(messages: Sequence[BaseMessage]) -> bool:
    """Whether every call is answered once, in its place and in order, and nothing stands between."""
    open_calls: list[str | None] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not open_calls or open_calls.pop(0) != message.tool_call_id:
                return False
        elif open_calls:
            return False
        elif isinstance(message, AIMessage):
            open_calls = [call["id"] for call in message.tool_calls]
    return not open_calls


def at_once(name: str, *many: int) -> AIMessage:
    """One reply with a call for each."""
    return reply(*(asking(name, {"q": q}, f"c{q}") for q in many))


def look(q: int) -> str:
    """Look."""
    return f"found {q}"


@ways
@modes
def test_k17_a_history_the_provider_accepts(entry: str, kind: str, mode: str) -> None:
    events: list[Any] = []
    guard = Guard(Policy(max_calls=1), listeners=[events.append])
    model = strict(at_once("look", 1, 2, 3, 4))
    agent, config = build(entry, kind, guard, model, look), config_of(guard, entry)
    first, second = play(agent, config, mode), play(agent, config, mode)
    for turn, played in enumerate((first, second), 1):
        assert played.stop is not None
        assert (played.stop.reason, played.stop.scope) == ("ceiling", "turn")
        assert in_place(played.saved)
        answers = [each for each in played.saved if each.type == "tool"]
        assert [each.tool_call_id for each in answers] == ["c1", "c2", "c3", "c4"] * turn
    # Of the calls that it counts for the thread each was executed.
    counted = Counter((each.thread, each.kind) for each in events if each.tool == "look")
    assert counted == {("t", "attempt"): 2, ("t", "refused"): 6}
    # The provider took the second turn, with all of the first before it.
    assert len(model.requests) == 2
    assert model.requests[1][: len(first.saved)] == first.saved


@crossed
@pytest.mark.parametrize(
    "policy", [Policy(max_calls=2), Policy(max_repeats=1)], ids=["turn", "run"]
)
def test_r093_nothing_is_removed_and_only_answers_are_added(
    entry: str, mode: str, policy: Policy
) -> None:
    guard, model = Guard(policy), strict(*asked_alone("look", [{"q": 1}] * 6))
    played = play(build(entry, "create_agent", guard, model, look), config_of(guard, entry), mode)
    assert played.stop is not None
    for earlier, later in zip(model.requests, model.requests[1:], strict=False):
        assert later[: len(earlier)] == earlier
        assert [each.type for each in later[len(earlier) :]] == ["ai", "tool"]
    last = model.requests[-1]
    assert played.saved[: len(last)] == last
    # The refused reply itself is still there, with its calls.
    assert all(each.tool_calls for each in played.saved[1 : len(last) + 1 : 2])


class Refused(ToolException):
    """The service says 403."""

    status_code = 403


FAILING = [
    (entry, kind, how)
    for entry, kind in WAYS
    if kind != "react"
    for how in ("returned", "handled", "raised")
    # A handler alone cannot answer a raw exception (README, what it cannot stop).
    if (entry, how) != ("handler", "raised")
]


@two_modes
@pytest.mark.parametrize(("entry", "kind", "how"), FAILING)
def test_r094_each_call_of_a_batch_with_a_403_has_its_result(
    entry: str, kind: str, how: str, mode: str
) -> None:
    def fetch(q: int) -> Any:
        """Fetch."""
        if q == 2:
            return f"found {q}"
        if how == "returned":
            return {"status_code": 403, "error": "forbidden"}
        raise Refused("forbidden")

    made = tool(fetch)
    made.handle_tool_error = how == "handled"
    guard, model = Guard(), strict(at_once("fetch", 1, 2, 3))
    agent = build(entry, kind, guard, model, made)
    played = play(agent, config_of(guard, entry), mode)
    assert played.raised is None
    answers = [each for each in played.saved if isinstance(each, ToolMessage)]
    assert [each.tool_call_id for each in answers] == ["c1", "c2", "c3"]
    assert answers[1].text == "found 2"
    assert [len(model.requests), played.saved[-1].text] == [2, "done"]


class Breaking(MemoryStore):
    """Fails once it is told to."""

    broken = False

    def update(self, *args: Any) -> Any:
        if self.broken:
            raise ConnectionError("the store is down")
        return super().update(*args)

    async def aupdate(self, *args: Any) -> Any:
        if self.broken:
            raise ConnectionError("the store is down")
        return await super().aupdate(*args)


@crossed
@pytest.mark.parametrize("fault", ["words", "listener", "store"])
def test_r095_a_guard_that_fails_while_stopping_still_answers_once(
    entry: str, mode: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Breaking()

    def fails(_: Any) -> Any:
        raise RuntimeError("a fault of ours")

    class Telling(Strict):
        def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
            # The call of the second reply is the one to refuse.
            store.broken = fault == "store" and len(messages) > 1
            return super()._generate(messages, *args, **kwargs)

    ours: dict[str, Any] = {"words": {"words": fails}, "listener": {"listeners": [fails]}}
    guard = Guard(Policy(max_calls=1), store=store, **ours.get(fault, {}))
    script = asked_alone("look", [{"q": 1}, {"q": 2}])
    model = Telling(script=script, asked=[], requests=[])
    with caplog.at_level(logging.CRITICAL, "lastcall"):
        played = play(
            build(entry, "create_agent", guard, model, look), config_of(guard, entry), mode
        )
        store.broken = False
    assert in_place(played.saved)
    answers = [each for each in played.saved if isinstance(each, ToolMessage)]
    assert [each.tool_call_id for each in answers] == ["c0", "c1"]
    assert answers[1].text
    assert answers[1].status == "error"
    assert played.stop is not None
    assert played.stop.reason == ("fault" if fault == "store" else "ceiling")


@two_modes
@ways
def test_r096_an_error_is_neither_hidden_nor_doubled(entry: str, kind: str, mode: str) -> None:
    error, events = ValueError("no such thing"), list[Any]()

    def fetch(q: int) -> str:
        """Fetch."""
        raise error

    # The usual agents raise it again as they are.
    node = {"handle_tool_errors": False} if kind == "graph" else {}
    guard = Guard(listeners=[events.append])
    model = strict(at_once("fetch", 1))
    played = play(build(entry, kind, guard, model, fetch, **node), config_of(guard, entry), mode)
    assert played.raised is error
    assert played.stop is None
    assert [(each.kind, each.outcome) for each in events if each.tool == "fetch"] == [
        ("attempt", "error")
    ]


@crossed
def test_r039_a_warning_puts_nothing_between_a_call_and_its_answers(entry: str, mode: str) -> None:
    events: list[Any] = []
    policy = Policy(tools={"look": ToolPolicy(alert_calls=2, max_calls=6)})
    guard = Guard(policy, listeners=[events.append])
    model = strict(at_once("look", 1, 2, 3), at_once("look", 4))
    played = play(build(entry, "create_agent", guard, model, look), config_of(guard, entry), mode)
    assert [each.kind for each in events].count("alert") == 1
    assert played.stop is None
    assert in_place(played.saved)
    assert [each.type for each in played.saved] == [
        "human",
        "ai",
        *["tool"] * 3,
        "ai",
        "tool",
        "ai",
    ]


def told(message: BaseMessage) -> tuple[Any, ...]:
    """What of a message is the same in every run."""
    stop = message.response_metadata.get("lastcall") or {}
    calls = getattr(message, "tool_calls", None)
    status = getattr(message, "status", None)
    return message.type, message.text, calls, status, stop.get("reason"), stop.get("call_id")


@entries
def test_r077_a_stop_leaves_the_same_history_with_and_without_streaming(entry: str) -> None:
    histories = []
    for mode in MODES:
        # One call a reply: of those of a batch any may be the one that is refused.
        model = strict(*asked_alone("look", ({"q": i} for i in range(3))))
        guard = Guard(Policy(max_calls=2))
        agent = build(entry, "create_agent", guard, model, look)
        played = play(agent, config_of(guard, entry), mode)
        assert played.stop is not None
        histories.append([told(each) for each in played.saved])
        assert len({each.id for each in played.saved}) == len(played.saved)
    assert histories == [histories[0]] * len(MODES)


@crossed
def test_r083_a_turn_after_a_stop_goes_on_with_a_full_allowance(entry: str, mode: str) -> None:
    ran: list[int] = []

    def seen(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    guard = Guard(Policy(max_calls=3))
    model = strict(*asked_alone("seen", ({"q": i} for i in range(9))))
    agent, config = build(entry, "create_agent", guard, model, seen), config_of(guard, entry)
    first = play(agent, config, mode)
    assert ran == [0, 1, 2]
    asked = len(model.requests)
    second = play(agent, config, mode, {"messages": [("user", "continue")]})
    assert ran == [0, 1, 2] * 2
    texts = [each.text for each in model.requests[asked]]
    assert [each for each in texts if each[:5] == "found"] == ["found 0", "found 1", "found 2"]
    for played in (first, second):
        assert played.stop is not None
        assert played.stop.observed == 4


@crossed
def test_k37_the_result_stands_whatever_fails_after_it(
    entry: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    def sink(event: Any) -> None:
        raise RuntimeError("the sink is full")

    def charge(q: int) -> str:
        """Charge."""
        ran.append("charge")
        return "charged"

    def ask(q: int) -> str:
        """Ask a person."""
        said = interrupt("may I?")
        ran.append("ask")
        return str(said)

    guard = Guard(listeners=[sink])
    model = strict(reply(asking("charge", {"q": 1}, "a"), asking("ask", {"q": 2}, "b")))
    agent = build(entry, "create_agent", guard, model, charge, ask)
    config = config_of(guard, entry)
    with caplog.at_level(logging.ERROR, "lastcall"):
        play(agent, config, mode)
        played = play(agent, config, mode, Command(resume="yes"))
    assert ran == ["charge", "ask"]
    assert [each.text for each in played.saved if each.type == "tool"] == ["charged", "yes"]
    assert played.saved[-1].text == "done"
    assert "the sink is full" in caplog.text


def test_what_the_strict_provider_refuses() -> None:
    """The provider of these cases can fail them."""
    calls = at_once("look", 1, 2)
    one, two = (ToolMessage("x", tool_call_id=each) for each in ("c1", "c2"))
    assert in_place([calls, one, two])
    for wrong in (
        [calls, one],
        [calls, two, one],
        [calls, one, AIMessage("and"), two],
        [calls, one, two, two],
        [one],
    ):
        assert not in_place(wrong)
