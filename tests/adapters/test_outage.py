"""The store fails just where an adapter asks something beside decisions: nobody's run breaks, it is seen, and
what a person said holds as far as it can."""

from __future__ import annotations

import asyncio
import json
import os

os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")
os.environ.setdefault("OPENAI_API_KEY", "none")

from typing import Any

import pytest
from agents import Agent, Runner, RunState, function_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from lastcall import Guard, Policy
from lastcall.testing import FailingStore
from lastcall_langchain import GuardMiddleware, stop_of
from lastcall_langchain.runs import RUNS
from lastcall_openai_agents import guard_agent, instrument
from lastcall_openai_agents import stop_of as sdk_stop_of
from lastcall_openai_agents.paused import PAUSED

from .langchain import playing, scripted
from .openai_agents import scripted as sdk


class Breaking(FailingStore):
    """A store that fails at updates of one kind alone, named by its step or by a record that it is about,
    the next *times*."""

    def __init__(self) -> None:
        super().__init__()
        self.breaks: str | None = None
        self.times = 0

    def break_at(self, what: str, times: int = 1000) -> None:
        self.breaks, self.times = what, times

    def update(self, keys: Any, step: Any, now: float) -> Any:
        self._set(keys, step)
        return super().update(keys, step, now)

    async def aupdate(self, keys: Any, step: Any, now: float) -> Any:
        self._set(keys, step)
        return await super().aupdate(keys, step, now)

    def _set(self, keys: Any, step: Any) -> None:
        about = {getattr(step, "func", step).__name__, *(name for _, name, *_ in keys)}
        failing = self.breaks in about and self.times > 0
        self.times -= failing
        self.trouble = "refused" if failing else None


class Work:
    """Two calls, of which the second waits for a person, and then more."""

    def __init__(self, **policy: Any) -> None:
        self.store = Breaking()
        self.policy = Policy(**policy)
        self.ran: list[int] = []
        self.runs: list[str | None] = []
        self.events: list[Any] = []
        self.elsewhere()

    def elsewhere(self) -> None:
        """What follows is in a process that has seen nothing yet."""
        RUNS._runs.clear()
        RUNS._roots.clear()
        RUNS._paused.clear()
        PAUSED._waiting.clear()
        self.guard = Guard(self.policy, store=self.store, listeners=[self.events.append])
        self.build()

    def build(self) -> None:
        """Make the agent anew."""

    def run(self, q: int) -> str:
        here = self.guard.here()
        self.ran.append(q)
        self.runs.append(here and here.run)
        return f"did {q}"

    @property
    def faults(self) -> int:
        return sum(event.kind == "fault" for event in self.events)


class LangChainWork(Work):
    def __init__(self, entry: str, mode: str, *, waits: bool = True, **policy: Any) -> None:
        self.entry, self.mode, self.waits = entry, mode, waits
        self.saver = InMemorySaver()
        self.model = scripted.scripted(
            *(scripted.reply(scripted.asking("work", {"q": q}, f"c{q}")) for q in range(12))
        )
        super().__init__(**policy)

    def work(self, q: int) -> str:
        """Work."""
        if self.waits and q == 1:
            interrupt("sure?")
        return self.run(q)

    def build(self) -> None:
        middleware = [GuardMiddleware(self.guard, withdraw=True)]
        self.agent = playing.create_agent(
            self.model,
            playing.tools_of([self.work], self.guard, self.entry),
            middleware=middleware if self.entry == "middleware" else [],
            checkpointer=self.saver,
        )

    def go(self, given: Any = scripted.USER) -> Any:
        config = playing.config_of(self.guard, self.entry)
        try:
            if self.mode == "invoke":
                return self.agent.invoke(given, config)
            return asyncio.run(self.agent.ainvoke(given, config))
        except Exception as error:
            return error

    def told(self) -> list[str]:
        """What the model was told, by call."""
        messages = self.agent.get_state(playing.config_of(self.guard, self.entry)).values
        return [each.text for each in messages["messages"] if each.type == "tool"]


class SdkWork(Work):
    def __init__(self, mode: str, *, waits: bool = True, **policy: Any) -> None:
        self.mode, self.waits = mode, waits
        self.model = sdk.script(*(sdk.call("work", {"q": q}, f"c{q}") for q in range(12)), "done")
        super().__init__(**policy)

    async def work(self, q: int) -> str:
        """Work."""
        return self.run(q)

    def guarded(self, agent: Any) -> Any:
        return guard_agent(agent, self.guard)

    def build(self) -> None:
        def waits(_: Any, args: Any, __: str) -> bool:
            return self.waits and args["q"] == 1

        tool = function_tool(self.work, needs_approval=waits)
        self.agent = self.guarded(Agent("A", tools=[tool], model=self.model))

    async def go(self, given: Any = "hi") -> Any:
        started = given
        if not isinstance(given, str):
            before, approved = given
            saved = json.loads(json.dumps(before.to_state().to_json()))
            started = await RunState.from_json(self.agent, saved)
            for item in started.get_interruptions():
                started.approve(item) if approved else started.reject(item)
        try:
            if self.mode == "run":
                return await Runner.run(self.agent, started, max_turns=30)
            result = Runner.run_streamed(self.agent, started, max_turns=30)
            async for _ in result.stream_events():
                pass
        except Exception as error:
            return error
        return result


entries = pytest.mark.parametrize("entry", ["middleware", "tools", "handler"])
modes = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
runs = pytest.mark.parametrize("mode", ["run", "streamed"])


@entries
@modes
class TestLangChain:
    def test_a_pause_that_is_not_kept_goes_on_here(self, entry: str, mode: str) -> None:
        work = LangChainWork(entry, mode, max_calls=3)
        work.store.break_at("paused")
        assert [each.value for each in work.go()["__interrupt__"]] == ["sure?"]
        assert work.faults
        stop = stop_of(work.go(Command(resume="yes")))
        assert stop is None or stop.reason == "ceiling"
        assert work.ran == [0, 1, 2]
        assert len(set(work.runs)) == 1

    def test_a_pause_that_cannot_be_read_is_asked_for_again(self, entry: str, mode: str) -> None:
        work = LangChainWork(entry, mode, max_calls=4)
        work.go()
        work.elsewhere()
        work.store.break_at("paused", 1)
        work.go(Command(resume="yes"))
        assert work.ran[:3] == [0, 1, 2]
        assert work.faults
        # The first call after it was decided in the dark; then it is known whose run it is.
        assert work.runs[2] == work.runs[0]

    def test_leave_that_cannot_be_kept_refuses_the_call(self, entry: str, mode: str) -> None:
        work = LangChainWork(entry, mode, waits=False, max_calls=2, on_stop="ask")
        assert work.go()["__interrupt__"][0].value["lastcall"]["reason"] == "ceiling"
        work.store.break_at("pardoning")
        result = work.go(Command(resume="go_on"))
        assert work.ran == [0, 1]
        assert work.faults
        assert "store" in work.told()[-1]
        if entry != "middleware":
            # Nobody can be asked where a request to the model is refused: the turn is over.
            stop = stop_of(result)
            assert stop is not None
            assert stop.reason == "ceiling"
            return
        assert result["__interrupt__"][0].value["lastcall"]["reason"] == "ceiling"
        work.store.break_at("nothing")
        work.go(Command(resume="go_on"))
        assert work.ran == [0, 1, 3, 4]

    def test_what_a_person_ended_is_over(self, entry: str, mode: str) -> None:
        work = LangChainWork(entry, mode, waits=False, max_calls=2, on_stop="ask")
        work.go()
        work.store.break_at("ending", 1)
        stop = stop_of(work.go(Command(resume="end")))
        assert work.faults
        assert stop is not None
        assert (stop.reason, stop.scope, stop.asked) == ("ceiling", "run", True)
        assert work.ran == [0, 1]

    def test_nobody_is_asked_whether_to_go_on_without_the_store(
        self, entry: str, mode: str
    ) -> None:
        work = LangChainWork(entry, mode, waits=False, on_stop="ask")
        work.store.break_at("deciding")
        stop = stop_of(work.go())
        assert stop is not None
        assert stop.reason == "store"
        assert work.ran == []


@modes
def test_tools_that_may_be_closed_are_offered(mode: str) -> None:
    work = LangChainWork("middleware", mode, waits=False, max_calls=2)
    work.store.break_at("reading")
    stop = stop_of(work.go())
    assert work.faults
    assert stop is not None
    assert stop.reason == "ceiling"
    assert work.ran == [0, 1]


@runs
class TestTheSdk:
    def test_a_pause_that_is_not_kept_goes_on_here(self, mode: str) -> None:
        work = SdkWork(mode, max_calls=3)
        work.store.break_at("paused")

        async def played() -> Any:
            result = await work.go()
            assert len(result.interruptions) == 1
            return await work.go((result, True))

        stop = sdk_stop_of(asyncio.run(played()))
        assert work.faults
        assert stop is not None
        assert stop.reason == "ceiling"
        assert work.ran == [0, 1, 2]
        assert len(set(work.runs)) == 1

    def test_a_pause_that_cannot_be_read_is_asked_for_again(self, mode: str) -> None:
        work = SdkWork(mode, max_calls=4)

        async def played() -> None:
            result = await work.go()
            work.elsewhere()
            work.store.break_at("paused", 1)
            await work.go((result, True))

        asyncio.run(played())
        assert work.ran[:3] == [0, 1, 2]
        assert work.faults
        assert work.runs[2] == work.runs[0]

    def test_leave_that_cannot_be_kept_refuses_the_call(self, mode: str) -> None:
        work = SdkWork(mode, waits=False, max_calls=2, on_stop="ask")

        async def played() -> Any:
            result = await work.go()
            assert len(result.interruptions) == 1
            work.store.break_at("pardoning")
            result = await work.go((result, True))
            assert work.ran == [0, 1]
            told = [each.output for each in result.new_items if hasattr(each, "output")]
            assert "store" in told[-1]
            return result

        # What led to the stop was not forgotten, so the turn is over.
        stop = sdk_stop_of(asyncio.run(played()))
        assert work.faults
        assert stop is not None
        assert stop.reason == "ceiling"

    def test_what_a_person_ended_is_over(self, mode: str) -> None:
        work = SdkWork(mode, waits=False, max_calls=2, on_stop="ask")

        async def played() -> Any:
            result = await work.go()
            work.store.break_at("ending", 1)
            return await work.go((result, False))

        stop = sdk_stop_of(asyncio.run(played()))
        assert work.faults
        assert stop is not None
        assert (stop.reason, stop.scope, stop.asked) == ("ceiling", "run", True)
        assert work.ran == [0, 1]

    def test_nobody_is_asked_whether_to_go_on_without_the_store(self, mode: str) -> None:
        work = SdkWork(mode, waits=False, on_stop="ask")
        work.store.break_at("deciding")
        stop = sdk_stop_of(asyncio.run(work.go()))
        assert stop is not None
        assert stop.reason == "store"
        assert work.ran == []


@runs
def test_a_guard_of_the_whole_process_goes_on_with_what_another_paused(mode: str) -> None:
    class Plain(SdkWork):
        def guarded(self, agent: Any) -> Any:
            return agent

    work = Plain(mode, max_calls=3)

    async def played() -> Any:
        undo = instrument(work.guard)
        try:
            result = await work.go()
        finally:
            undo()
        work.elsewhere()
        undo = instrument(work.guard)
        try:
            return await work.go((result, True))
        finally:
            undo()

    stop = sdk_stop_of(asyncio.run(played()))
    assert work.ran == [0, 1, 2]
    assert len(set(work.runs)) == 1
    assert stop is not None
    assert stop.observed == 4


class Stuck(FailingStore):
    """A store that, in an event loop, never comes to an end with keeping that a run waits."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def aupdate(self, keys: Any, step: Any, now: float) -> Any:
        if keys[0][1] == "paused":
            self.begun.set()
            await asyncio.Event().wait()
        return await super().aupdate(keys, step, now)


@runs
def test_a_run_that_is_called_off_while_it_is_closed_is_closed(mode: str) -> None:
    work = SdkWork(mode, max_calls=3)

    async def played() -> Guard:
        store = Stuck()
        work.guard = Guard(work.policy, store=store)
        work.build()
        task = asyncio.create_task(work.go())
        await store.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return work.guard

    guard = asyncio.run(played())
    ((kind, thread),) = guard.store.shards("thread", guard.clock())
    assert kind == "thread"
    assert len(PAUSED._waiting) == 1
    ((_, _, pending),) = guard.store.peek((kind, thread), guard.clock())
    pause = guard.pauses.find(str(thread), pending)
    assert pause is not None
    assert pause.run == work.runs[0]
