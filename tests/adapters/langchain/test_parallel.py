"""Limits are exact under threads and asyncio, and runs never share a count."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.tools import tool

from lastcall import Guard, Policy

from .playing import build, config_of, play
from .scripted import USER, asking, reply, scripted

ENTRIES = ("middleware", "tools", "handler")
REPETITIONS = 50
"""Threads come in another order each time. Coroutines of one loop do not: what is left of one run is seen in
the next few."""

THIRTY = reply(*(asking("look", {"q": i}, f"c{i}") for i in range(30)))
TWICE = [reply(asking("look", {"q": 1}, "c1")), reply(asking("look", {"q": 1}, "c2"))]


class Counted:
    """A body that counts its executions under a lock of its own."""

    def __init__(self) -> None:
        self.ran = 0
        self._lock = threading.Lock()

    def look(self, q: int) -> str:
        """Look."""
        with self._lock:
            self.ran += 1
        return f"found {q}"


class Waiting:
    """A body that goes on when ten of it have started, so that all start before one ends."""

    def __init__(self) -> None:
        self.started, self.ten = 0, asyncio.Event()

    async def look(self, q: int) -> str:
        """Look."""
        self.started += 1
        if self.started == 10:
            self.ten.set()
        await self.ten.wait()
        return f"found {q}"


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_of_thirty_calls_in_one_reply_ten_run(entry: str, mode: str) -> None:
    counted, guard = Counted(), Guard(Policy(max_calls=10))
    agent = build(entry, "create_agent", guard, scripted(THIRTY), counted.look)
    for i in range(REPETITIONS):
        counted.ran = 0
        played = play(agent, config_of(guard, entry, f"t{i}"), mode)
        assert counted.ran == 10
        assert played.stop is not None
        assert (played.stop.reason, played.stop.scope) == ("ceiling", "turn")
        assert played.unanswered == []


@pytest.mark.parametrize("entry", ENTRIES)
def test_of_thirty_async_calls_that_all_wait_ten_run(entry: str) -> None:
    async def repeated() -> None:
        waiting, guard = Waiting(), Guard(Policy(max_calls=10))
        agent = build(entry, "create_agent", guard, scripted(THIRTY), tool(waiting.look))
        for i in range(REPETITIONS // 5):
            waiting.started, waiting.ten = 0, asyncio.Event()
            config = config_of(guard, entry, f"t{i}")
            await asyncio.gather(agent.ainvoke(USER, config), return_exceptions=True)
            assert waiting.started == 10

    asyncio.run(repeated())


@pytest.mark.parametrize("kind", ["create_agent", "react", "graph"])
@pytest.mark.parametrize("entry", ["tools", "handler", "decorated"])
def test_six_runs_in_a_row_share_nothing(entry: str, kind: str) -> None:
    counted, guard = Counted(), Guard(Policy(max_repeats=2))
    agent = build(entry, kind, guard, scripted(*TWICE), counted.look)
    for i in range(6):
        assert play(agent, config_of(guard, entry, f"t{i}")).stop is None
    assert counted.ran == 12


@pytest.mark.parametrize("entry", [*ENTRIES, "decorated"])
def test_turns_of_one_thread_share_nothing(entry: str) -> None:
    counted, guard = Counted(), Guard(Policy(max_repeats=2))
    agent = build(entry, "create_agent", guard, scripted(*TWICE), counted.look)
    for _ in range(6):
        assert play(agent, config_of(guard, entry)).stop is None
    assert counted.ran == 12


@pytest.mark.parametrize("entry", [*ENTRIES, "decorated"])
def test_eight_runs_at_once_in_threads_share_nothing(entry: str) -> None:
    counted, guard = Counted(), Guard(Policy(max_repeats=2))
    agent = build(entry, "create_agent", guard, scripted(*TWICE), counted.look)
    together = threading.Barrier(8)

    def one(i: int) -> Any:
        together.wait()
        return agent.invoke(USER, config_of(guard, entry, f"t{i}"))["messages"][-1].content

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(8))) == ["done"] * 8
    assert counted.ran == 16


@pytest.mark.parametrize("entry", [*ENTRIES, "decorated"])
def test_eight_runs_at_once_in_one_loop_share_nothing(entry: str) -> None:
    counted, guard = Counted(), Guard(Policy(max_repeats=2))
    agent = build(entry, "create_agent", guard, scripted(*TWICE), counted.look)

    async def all_at_once() -> list[Any]:
        configs = (config_of(guard, entry, f"t{i}") for i in range(8))
        return await asyncio.gather(*(agent.ainvoke(USER, config) for config in configs))

    ended = asyncio.run(all_at_once())
    assert [each["messages"][-1].content for each in ended] == ["done"] * 8
    assert counted.ran == 16
