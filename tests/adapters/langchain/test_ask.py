"""`Policy(on_stop="ask")`: a person is asked by LangGraph's interrupt before a call is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.types import Command, interrupt

from lastcall import Guard, Policy
from lastcall_langchain import instrument, stop_of

from .playing import agent_of, build, config_of
from .scripted import USER, asking, reply, scripted, stubborn, unanswered

ways = pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ("middleware", "create_agent"),
        ("tools", "create_agent"),
        ("tools", "graph"),
        ("tools", "react"),
        ("handler", "create_agent"),
        ("handler", "graph"),
    ],
)
modes = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])


def asked(agent: Any, given: Any, config: dict[str, Any], mode: str) -> Any:
    return (
        agent.invoke(given, config)
        if mode == "invoke"
        else asyncio.run(agent.ainvoke(given, config))
    )


def questions(result: Any) -> list[dict[str, Any]]:
    return [each.value for each in result.get("__interrupt__", ())]


def ended(call: Any) -> Any:
    """The stop of a run that ends by a result or by an exception."""
    try:
        return stop_of(call())
    except Exception as error:
        return stop_of(error)


def counted(model: Any, guard: Guard, entry: str, kind: str) -> tuple[Any, list[int]]:
    ran: list[int] = []

    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    return build(entry, kind, guard, model, look), ran


@ways
@modes
def test_go_on_gives_as_much_again(entry: str, kind: str, mode: str) -> None:
    guard = Guard(Policy(max_calls=2, on_stop="ask"))
    agent, ran = counted(stubborn(lambda i: {"q": i}), guard, entry, kind)
    config = config_of(guard, entry)
    result = asked(agent, USER, config, mode)
    (question,) = questions(result)
    assert question["lastcall"]["reason"] == "ceiling"
    assert question["answers"] == ["go_on", {"raise": 2}, "end"]
    assert ran == [0, 1]
    result = asked(agent, Command(resume="go_on"), config, mode)
    assert ran == [0, 1, 2, 3]
    assert questions(result)
    result = asked(agent, Command(resume={"raise": 3}), config, mode)
    assert ran == [0, 1, 2, 3, 4, 5, 6]
    assert questions(result)
    stop = ended(lambda: asked(agent, Command(resume="end"), config, mode))
    assert stop is not None
    assert (stop.reason, stop.scope, stop.asked) == ("ceiling", "run", True)
    assert ran == [0, 1, 2, 3, 4, 5, 6]
    assert not unanswered(agent.get_state(config).values["messages"])


@ways
@modes
def test_a_repeat_that_is_let_pass_starts_anew(entry: str, kind: str, mode: str) -> None:
    guard = Guard(Policy(max_repeats=2, on_stop="ask"))
    agent, ran = counted(stubborn(lambda i: {"q": 1}), guard, entry, kind)
    config = config_of(guard, entry)
    for times in (2, 4, 6):
        result = asked(agent, USER if times == 2 else Command(resume=True), config, mode)
        assert len(ran) == times
        assert questions(result)[0]["lastcall"]["reason"] == "repeat"


@modes
def test_a_wrong_answer_is_asked_again(mode: str) -> None:
    guard = Guard(Policy(max_calls=1, on_stop="ask"))
    agent, ran = counted(stubborn(lambda i: {"q": i}), guard, "middleware", "create_agent")
    config = config_of(guard, "middleware")
    asked(agent, USER, config, mode)
    for answer in ("maybe", {"raise": 0}, {"raise": True}, {"calls": 3}, 7):
        (question,) = questions(asked(agent, Command(resume=answer), config, mode))
        assert question["wrong"] == f"{answer!r} is no answer"
        assert ran == [0]
    asked(agent, Command(resume={"raise": 1}), config, mode)
    assert ran == [0, 1]


@pytest.mark.parametrize("entry", ["middleware", "tools", "handler"])
@modes
def test_the_tools_own_question_gets_its_own_answer(entry: str, mode: str) -> None:
    heard: list[Any] = []

    def book(q: int) -> str:
        """Book."""
        heard.append(interrupt(f"book {q}?"))
        return str(heard[-1])

    guard = Guard(Policy(max_calls=1, on_stop="ask"))
    model = scripted(reply(asking("book", {"q": 1}, "c1")), reply(asking("book", {"q": 2}, "c2")))
    agent, config = build(entry, "create_agent", guard, model, book), config_of(guard, entry)
    assert questions(asked(agent, USER, config, mode)) == ["book 1?"]
    (question,) = questions(asked(agent, Command(resume="yes, one"), config, mode))
    assert question["lastcall"]["reason"] == "ceiling"
    assert questions(asked(agent, Command(resume="go_on"), config, mode)) == ["book 2?"]
    result = asked(agent, Command(resume="yes, two"), config, mode)
    assert heard == ["yes, one", "yes, two"]
    assert not questions(result)


@modes
def test_parallel_calls_are_asked_one_by_one(mode: str) -> None:
    guard = Guard(Policy(max_calls=1, on_stop="ask"))
    model = scripted(reply(*(asking("look", {"q": i}, f"c{i}") for i in range(3))))
    agent, ran = counted(model, guard, "middleware", "create_agent")
    config = config_of(guard, "middleware")
    result = asked(agent, USER, config, mode)
    waiting = result["__interrupt__"]
    assert len(waiting) == 2
    answers = {waiting[0].id: "end", waiting[1].id: "end"}
    result = asked(agent, Command(resume=answers), config, mode)
    assert len(ran) == 1
    assert stop_of(result) is not None
    assert not unanswered(result["messages"])


@modes
def test_a_turn_that_an_answer_ended_is_asked_about_before_the_next_request(mode: str) -> None:
    class Gone(Exception):
        status_code = 404

    def find(q: int) -> str:
        """Find."""
        if q == 0:
            raise Gone
        return "found"

    guard = Guard(Policy.strict(on_stop="ask"))
    agent = build("middleware", "create_agent", guard, stubborn(lambda i: {"q": i}, "find"), find)
    config = config_of(guard, "middleware")
    (question,) = questions(asked(agent, USER, config, mode))
    assert question["lastcall"]["reason"] == "terminal"
    result = asked(agent, Command(resume="go_on"), config, mode)
    assert "found" in [each.content for each in result["messages"]]


def test_without_a_checkpointer_nobody_is_asked() -> None:
    from langchain.agents import create_agent

    from lastcall_langchain import GuardMiddleware

    guard = Guard(Policy(max_calls=1, on_stop="ask"))

    @tool
    def look(q: int) -> str:
        """Look."""
        return "x"

    agent = create_agent(stubborn(lambda i: {"q": i}), [look], middleware=[GuardMiddleware(guard)])
    stop = stop_of(agent.invoke(USER))
    assert stop is not None
    assert not stop.asked


@modes
def test_an_instrumented_process_asks_too(mode: str) -> None:
    guard = Guard(Policy(max_calls=1, on_stop="ask"))
    undo = instrument(guard)
    try:

        @tool
        def look(q: int) -> str:
            """Look."""
            return "x"

        agent = agent_of("create_agent", stubborn(lambda i: {"q": i}), [look])
        config = config_of(guard, "none")
        assert questions(asked(agent, USER, config, mode))
        stop = ended(lambda: asked(agent, Command(resume=False), config, mode))
        assert stop is not None
        assert stop.asked
    finally:
        undo()
