"""Of a run that is refused everyone who heard its start hears its end, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from uuid import UUID, uuid4

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.language_models import FakeListLLM
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool

from lastcall import Guard, Policy, Stopped
from lastcall.events import Event
from lastcall_langchain import GuardCallbackHandler, guard_tool, instrument
from lastcall_langchain.requests import REQUESTS
from lastcall_langchain.runs import RUNS

from .playing import build, config_of
from .scripted import USER, asked_alone, asking, reply, scripted
from .test_beside import MODES, STUBBORN, guarded, look, run

ways = pytest.mark.parametrize("way", ["tools", "handler", "instrument"])
modes = pytest.mark.parametrize("mode", MODES)
colours = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])

KINDS = ("chain", "tool", "llm", "chat_model", "retriever")


class Log(BaseCallbackHandler):
    """Writes down the starts and the ends of every run."""

    def __init__(self) -> None:
        self.begun, self.ended = Counter[UUID](), Counter[UUID]()
        self.stopped: list[str] = []
        """The events by which it was told of a stop."""


class LogInline(Log):
    run_inline = True


class LogInLoop(AsyncCallbackHandler, Log):
    pass


class LogWithoutModels(Log):
    """Hears of chat models that they end, and not that they begin: it wants nothing of them."""

    ignore_chat_model = True


def writes(event: str, cls: type[Log]) -> Any:
    def hear(self: Log, *args: Any, run_id: UUID, **kwargs: Any) -> None:
        (self.begun if event.endswith("start") else self.ended)[run_id] += 1
        if isinstance(args[0], Stopped):
            self.stopped.append(event)

    async def ahear(self: Log, *args: Any, **kwargs: Any) -> None:
        hear(self, *args, **kwargs)

    return ahear if cls is LogInLoop else hear


for cls in (Log, LogInLoop):
    for kind in KINDS:
        for what in ("start", "end", "error"):
            setattr(cls, f"on_{kind}_{what}", writes(f"on_{kind}_{what}", cls))

LOGS = {"plain": Log, "inline": LogInline, "async": LogInLoop}


@ways
@modes
@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("place", ["before", "after"])
def test_every_run_is_begun_and_ended_once(way: str, mode: str, kind: str, place: str) -> None:
    log = LOGS[kind]()
    with guarded(way, Guard(Policy(max_calls=2)), STUBBORN) as (agent, handlers):
        both = [log, *handlers] if place == "before" else [*handlers, log]
        assert isinstance(run(agent, mode, *both), Stopped)
    assert log.begun == log.ended
    assert set(log.begun.values()) == {1}
    assert log.stopped.count("on_llm_error") == 1
    assert log.stopped.count("on_tool_error") == (way == "handler")
    assert log.stopped[-1] == "on_chain_error"


@ways
@colours
def test_who_wants_no_starts_of_models_is_told_no_ends_of_those_refused(
    way: str, mode: str
) -> None:
    log = LogWithoutModels()
    with guarded(way, Guard(Policy(max_calls=2)), STUBBORN) as (agent, handlers):
        run(agent, mode, log, *handlers)
    # LangChain itself tells such a handler the ends of requests that were made.
    assert log.begun - log.ended == Counter()
    assert set(log.stopped) == {"on_chain_error", *(["on_tool_error"] if way == "handler" else [])}


@ways
def test_of_a_text_model_only_who_heard_the_start_hears_the_end(way: str) -> None:
    guard, model = Guard(Policy(max_calls=1)), FakeListLLM(responses=["again"])
    logs: dict[str, Log] = {kind: made() for kind, made in LOGS.items()}
    looking = guard_tool(look, guard) if way == "tools" else tool(look)

    async def loop(_: Any) -> None:
        for i in range(9):
            await model.ainvoke("what now?")
            try:
                await looking.ainvoke({"q": i})
            except Stopped:
                continue

    handlers = [*logs.values(), *([GuardCallbackHandler(guard)] if way == "handler" else [])]
    undo = instrument(guard) if way == "instrument" else None
    try:
        with pytest.raises(Stopped):
            asyncio.run(RunnableLambda(loop).ainvoke(0, {"callbacks": handlers}))
    finally:
        if undo is not None:
            undo()
    assert logs["inline"].begun == logs["inline"].ended
    assert logs["inline"].stopped.count("on_llm_error") == 1
    for kind in ("plain", "async"):
        # LangChain tells them nothing of the start; it tells of the end where a request was made.
        assert logs[kind].begun - logs[kind].ended == Counter()
        assert "on_llm_error" not in logs[kind].stopped
    assert (len(RUNS), len(REQUESTS)) == (0, 0)


@colours
def test_leave_of_one_guard_is_given_back_where_another_refuses(mode: str) -> None:
    events: list[Event] = []
    strict, easy = Guard(Policy(max_calls=1)), Guard(listeners=[events.append])
    agent = build("handler", "create_agent", strict, scripted(*STUBBORN[:2]), look)
    config, easily = config_of(strict, "handler"), GuardCallbackHandler(easy)
    # The one that allows is asked first, so it gave leave for what the other refuses.
    config["callbacks"].insert(0, easily)
    assert isinstance(invoke(agent, config, mode), Stopped)
    assert [each.outcome for each in events if each.kind == "attempt"] == ["ok", "cancelled"]
    assert not easily._open


def invoke(agent: Any, config: Any, mode: str) -> Any:
    """What comes of one turn; the exception."""
    try:
        if mode == "invoke":
            return agent.invoke(USER, config)
        return asyncio.run(agent.ainvoke(USER, config))
    except Exception as error:
        return error


@colours
def test_a_call_that_waits_for_a_person_is_ended_for_those_beside(mode: str) -> None:
    guard, log = Guard(Policy(max_calls=1, on_stop="ask")), Log()
    script = asked_alone("look", ({"q": i} for i in range(3)))
    agent = build("handler", "create_agent", guard, scripted(*script), look)
    config = config_of(guard, "handler")
    config["callbacks"].insert(0, log)
    assert invoke(agent, config, mode)["__interrupt__"]
    assert log.begun == log.ended
    assert set(log.begun.values()) == {1}


def test_whoever_tells_it_without_a_manager_is_raised_to_at_once() -> None:
    handler = GuardCallbackHandler(Guard(Policy(max_calls=1)))
    with handler.guard.within(run="r", turn="t"):
        for i in range(2):
            said: dict[str, Any] = {"run_id": uuid4(), "parent_run_id": None, "inputs": {"q": i}}
            if i:
                with pytest.raises(Stopped):
                    handler.on_tool_start({"name": "look"}, "", **said)
            else:
                handler.on_tool_start({"name": "look"}, "", **said)
                handler.on_tool_end("found", run_id=said["run_id"])
                RUNS.ended(said["run_id"])
    assert len(RUNS) == 0


def test_what_a_batch_is_told_of_is_ended_for_each() -> None:
    guard, log = Guard(Policy(max_calls=1)), Log()
    model = scripted(reply(asking("look", {"q": 1}, "a")))

    def work(_: Any, config: RunnableConfig) -> None:
        for i in range(2):
            try:
                guard_tool(look, guard).invoke({"q": i})
            except Stopped:
                continue
        for _ in range(9):
            model.generate([[], []], callbacks=config["callbacks"])

    with pytest.raises(Stopped):
        RunnableLambda(work).invoke(0, {"callbacks": [log]})
    assert log.begun == log.ended
    assert set(log.begun.values()) == {1}
    assert log.stopped.count("on_llm_error") == 2


def test_where_another_handler_raises_at_a_start_that_is_refused_nothing_is_left() -> None:
    class Broken(BaseCallbackHandler):
        raise_error = True

        def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
            raise ValueError("broken")

    handler = GuardCallbackHandler(Guard(Policy(max_calls=1)))
    with handler.guard.within(run="r", turn="t"):
        tool(look).invoke({"q": 1}, {"callbacks": [handler]})
        with pytest.raises(ValueError, match="broken"):
            tool(look).invoke({"q": 2}, {"callbacks": [handler, Broken()]})
    assert len(RUNS) == 0
