"""A store outside the process never blocks the event loop in which an agent runs, in both frameworks.

`Patient` proves it without a clock: it keeps the store locked until the event loop has gone round a few times.
Whoever waits for the store within the loop waits for himself, until the time-out makes a stop of it, and that is
in the verdicts. `blockbuster` looks for whatever else blocks.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import traceback

os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")
os.environ.setdefault("OPENAI_API_KEY", "none")

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, RunState, function_tool
from blockbuster import BlockBuster
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from lastcall import Guard, Policy
from lastcall.stores import open_store
from lastcall.stores.sqlite import SQLiteStore
from lastcall.stores.worker import in_event_loop
from lastcall_langchain import GuardMiddleware, stop_of
from lastcall_langchain.runs import RUNS
from lastcall_openai_agents import GuardHooks, guard_agent, guard_tools, stops_in
from lastcall_openai_agents import stop_of as sdk_stop_of
from lastcall_openai_agents.paused import PAUSED

from ..redis_server import RedisServer  # noqa: TID252 - what all tests share
from .langchain import playing, scripted
from .openai_agents import scripted as sdk

ROUNDS = 3
"""How often the event loop goes round before the store is free again."""


class Patient:
    """A SQLite store that others hold, each time it is asked, until the event loop has gone on."""

    shared = True

    def __init__(self, path: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.store = SQLiteStore(path, timeout=10)
        self.loop = loop
        self.within: list[str] = []
        """Where it was asked within the event loop for what has to be waited for."""
        self.held = 0
        self._others = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False
        )
        self._lock = threading.Lock()
        self._holding = False

    async def aupdate(self, *asked: Any) -> Any:
        self._hold()
        return await self.store.aupdate(*asked)

    def update(self, *asked: Any) -> Any:
        return self._asked(self.store.update, *asked)

    def peek(self, *asked: Any) -> Any:
        return self._asked(self.store.peek, *asked)

    def load(self, *asked: Any) -> Any:
        return self._asked(self.store.load, *asked)

    def shards(self, *asked: Any) -> Any:
        return self._asked(self.store.shards, *asked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def _asked(self, work: Any, *asked: Any) -> Any:
        if in_event_loop():
            self.within.append("".join(traceback.format_stack(limit=12)))
        self._hold()
        return work(*asked)

    def _hold(self) -> None:
        with self._lock:
            if self._holding:
                return
            try:
                self._others.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                # Somebody is at work in it.
                return
            self._holding = True
            self.held += 1
        self.loop.call_soon_threadsafe(self._wait, ROUNDS)

    def _wait(self, rounds: int) -> None:
        if rounds:
            self.loop.call_soon(self._wait, rounds - 1)
            return
        with self._lock:
            self._others.execute("ROLLBACK")
            self._holding = False

    def over(self) -> None:
        """Nobody was ever kept waiting in the loop."""
        self._others.close()
        self.store.close()
        assert self.held
        assert not self.within, self.within[0]


class Work:
    """What the agents do: two looks at once, a booking that a person allows, and then looks without end."""

    policy = Policy(max_calls=3, on_stop="ask")

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def look(self, q: int) -> str:
        """Look."""
        self.ran.append(f"look {q}")
        return f"found {q}"


class LangChainWork(Work):
    def __init__(self, entry: str) -> None:
        super().__init__()
        self.entry = entry
        self.saver = InMemorySaver()
        ask = scripted.asking
        self.model = scripted.scripted(
            scripted.reply(ask("look", {"q": 0}, "c0"), ask("look", {"q": 1}, "c1")),
            scripted.reply(ask("book", {"q": 2}, "c2")),
            *(scripted.reply(ask("look", {"q": q}, f"c{q}")) for q in range(3, 12)),
        )

    async def book(self, q: int) -> str:
        """Book."""
        interrupt("sure?")
        self.ran.append(f"book {q}")
        return "booked"

    async def goes_on(self, store: Any, given: Any) -> Any:
        """The next part, in a process that has seen nothing yet."""
        RUNS._runs.clear()
        RUNS._roots.clear()
        RUNS._paused.clear()
        guard = Guard(self.policy, store=store)
        tools = playing.tools_of([self.look, self.book], guard, self.entry)
        middleware = [GuardMiddleware(guard, withdraw=True)] if self.entry == "middleware" else []
        agent = playing.create_agent(
            self.model, tools, middleware=middleware, checkpointer=self.saver
        )
        try:
            return await agent.ainvoke(given, playing.config_of(guard, self.entry))
        except Exception as error:
            return error


async def in_langchain(store: Any, entry: str) -> None:
    work = LangChainWork(entry)
    result = await work.goes_on(store, scripted.USER)
    assert [each.value for each in result["__interrupt__"]] == ["sure?"]
    assert sorted(work.ran) == ["look 0", "look 1"]
    result = await work.goes_on(store, Command(resume="yes"))
    if entry == "decorated":
        # A function alone can ask nobody.
        stop = stop_of(result)
        assert stop is None or stop.reason == "ceiling"
        assert work.ran[2:] == ["book 2"]
        return
    assert result["__interrupt__"][0].value["lastcall"]["observed"] == 4
    assert work.ran[2:] == ["book 2"]
    result = await work.goes_on(store, Command(resume="go_on"))
    assert result["__interrupt__"][0].value["lastcall"]["observed"] == 7
    assert work.ran[3:] == ["look 3", "look 4", "look 5"]
    stop = stop_of(await work.goes_on(store, Command(resume="end")))
    assert stop is not None
    assert (stop.reason, stop.scope, stop.asked) == ("ceiling", "run", True)
    assert len(work.ran) == 6


class SdkWork(Work):
    def __init__(self, entry: str, mode: str) -> None:
        super().__init__()
        self.entry, self.mode = entry, mode
        looks = [[sdk.call("look", {"q": q}, f"c{q}")] for q in range(3, 12)]
        self.model = sdk.script(
            [sdk.call("look", {"q": 0}, "c0"), sdk.call("look", {"q": 1}, "c1")],
            [sdk.call("book", {"q": 2}, "c2")],
            *looks,
            "done",
        )

    async def book(self, q: int) -> str:
        """Book."""
        self.ran.append(f"book {q}")
        return "booked"

    async def goes_on(self, store: Any, given: Any) -> Any:
        """The next part, in a process that has seen nothing yet. *given* is the result of the part before,
        and whether what it waits for is approved."""
        PAUSED._waiting.clear()
        self.agent, self.hooks = self.guarded(Guard(self.policy, store=store))
        return await self.here(given)

    def guarded(self, guard: Guard) -> tuple[Any, Any]:
        tools: list[Any] = [
            function_tool(self.look),
            function_tool(self.book, needs_approval=True),
        ]
        if self.entry == "tools":
            tools = guard_tools(tools, guard)
        agent = Agent("A", tools=tools, model=self.model)
        if self.entry == "agent":
            agent = guard_agent(agent, guard)
        return agent, GuardHooks(guard) if self.entry == "hooks" else None

    async def here(self, given: Any) -> Any:
        """The next part, in the same process."""
        agent, hooks, started = self.agent, self.hooks, given
        if not isinstance(given, str):
            before, approved = given
            saved = json.loads(json.dumps(before.to_state().to_json()))
            started = await RunState.from_json(agent, saved)
            for item in started.get_interruptions():
                started.approve(item) if approved else started.reject(item)
        try:
            if self.mode == "run":
                return await Runner.run(agent, started, hooks=hooks, max_turns=30)
            result = Runner.run_streamed(agent, started, hooks=hooks, max_turns=30)
            async for _ in result.stream_events():
                pass
        except Exception as error:
            return error
        return result


async def in_the_sdk(store: Any, entry: str, mode: str) -> None:
    work = SdkWork(entry, mode)
    result = await work.goes_on(store, "hi")
    assert len(result.interruptions) == 1
    assert sorted(work.ran) == ["look 0", "look 1"]
    result = await work.goes_on(store, (result, True))
    assert work.ran[2:] == ["book 2"]
    if entry == "hooks":
        # Hooks alone ask nobody.
        stop = sdk_stop_of(result)
        assert stop is not None
        assert (stop.reason, stop.observed) == ("ceiling", 4)
        return
    (stop,) = stops_in(result).values()
    assert stop.observed == 4
    result = await work.goes_on(store, (result, True))
    (stop,) = stops_in(result).values()
    assert stop.observed == 7
    assert work.ran[3:] == ["look 3", "look 4", "look 5"]
    ended = sdk_stop_of(await work.here((result, False)))
    assert ended is not None
    assert (ended.reason, ended.scope, ended.asked) == ("ceiling", "run", True)
    assert len(work.ran) == 6


WAYS = [
    *(
        pytest.param(in_langchain, (entry,), id=f"langchain-{entry}")
        for entry in ("middleware", "tools", "handler", "decorated")
    ),
    *(
        pytest.param(in_the_sdk, (entry, mode), id=f"sdk-{entry}-{mode}")
        for entry in ("agent", "tools", "hooks")
        for mode in ("run", "streamed")
    ),
]
ways = pytest.mark.parametrize(("play", "how"), WAYS)


@ways
def test_whoever_waits_for_the_store_lets_the_loop_go_on(
    tmp_path: Any, play: Any, how: Any
) -> None:
    async def played() -> Patient:
        store = Patient(tmp_path / "lastcall.db", asyncio.get_running_loop())
        await play(store, *how)
        return store

    asyncio.run(played()).over()


@pytest.fixture(scope="module")
def redis() -> Iterator[str]:
    server = RedisServer().start()
    yield server.url
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of its own for each test."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/lastcall.db"
    return f"{request.getfixturevalue('redis')}?prefix={tmp_path.name}"


@contextmanager
def nothing_blocks() -> Iterator[None]:
    """What blocks an event loop on behalf of the guard raises. The frameworks themselves read files there, and
    below our runner no frame tells them from us."""
    buster = BlockBuster(["lastcall"])
    buster.activate()
    try:
        yield
    finally:
        buster.deactivate()


@ways
def test_nothing_of_the_guard_blocks_the_loop(url: str, play: Any, how: Any) -> None:
    # A program opens its store, and loads what it needs for that, before its event loop is busy.
    store = open_store(url)
    Guard(store=store).here()

    async def played() -> None:
        with nothing_blocks():
            await play(store, *how)
        await store.aclose()

    asyncio.run(played())
