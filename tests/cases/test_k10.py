"""K10 Eight asked, six allowed: the check precedes the start and is atomic."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lastcall import Policy, Stopped, ToolPolicy, Where
from lastcall.testing import assert_stopped

from .playing import astop_of, stop_of

REPETITIONS = 50
ASKED, CAP = 8, 6

CAPS = {
    "of the turn": (Policy(max_calls=CAP), "turn"),
    "of the tool": (Policy(tools={"look": ToolPolicy(max_calls=CAP)}), "tool"),
}


def check(stops, starts, scope):
    refused = [stop for stop in stops if stop is not None]
    assert (starts, len(refused)) == (CAP, ASKED - CAP)
    for stop in refused:
        assert_stopped(stop, reason="ceiling", scope=scope)
        assert stop.limit == CAP


@pytest.mark.parametrize(("policy", "scope"), CAPS.values(), ids=CAPS)
def test_on_a_thread_pool(make_guard, policy, scope):
    guard = make_guard(policy)
    with ThreadPoolExecutor(ASKED) as pool:
        for repetition in range(REPETITIONS):
            begin = threading.Barrier(ASKED)
            # Nobody leaves the body before all that are allowed are in it.
            inside = threading.Barrier(CAP)
            starts = []

            def look(n, starts=starts, inside=inside):
                starts.append(n)
                inside.wait(timeout=30)
                return n

            tool = guard.wrap(look)

            def ask(n, begin=begin, tool=tool, run=str(repetition)):
                with guard.within(run=run):
                    begin.wait(timeout=30)
                    return stop_of(tool, n)

            with guard.within(run=str(repetition)):
                stops = list(pool.map(ask, range(ASKED)))
            check(stops, len(starts), scope)


@pytest.mark.parametrize(("policy", "scope"), CAPS.values(), ids=CAPS)
def test_on_asyncio(make_guard, policy, scope):
    guard = make_guard(policy)

    async def once(repetition):
        inside = asyncio.Event()
        starts = []

        async def look(n):
            starts.append(n)
            if len(starts) == CAP:
                inside.set()
            await asyncio.wait_for(inside.wait(), 30)
            return n

        tool = guard.wrap(look)
        with guard.within(run=str(repetition)):
            stops = await asyncio.gather(*(astop_of(tool, n) for n in range(ASKED)))
        check(stops, len(starts), scope)

    async def every():
        for repetition in range(REPETITIONS):
            await once(repetition)

    asyncio.run(every())


def test_the_first_that_arrive_run(make_guard):
    guard = make_guard(Policy(max_calls=CAP))
    tool = guard.wrap(lambda n: n, name="look")
    with guard.within(run="r"):
        stops = [stop_of(tool, n) for n in range(ASKED)]
    assert [stop is None for stop in stops] == [True] * CAP + [False] * (ASKED - CAP)


class TestAllOrNone:
    """A reply that does not fit is refused as a whole; one that fits runs as a whole."""

    def check(self, guard, asked, started, stops):
        fits = asked <= CAP
        assert len(started) == (asked if fits else 0)
        assert len([stop for stop in stops if stop is not None]) == (0 if fits else asked)
        assert {stop.reason for stop in stops if stop is not None} <= {"ceiling"}

    @pytest.mark.parametrize("asked", [CAP, ASKED])
    def test_on_a_thread_pool(self, make_guard, asked):
        guard = make_guard(Policy(max_calls=CAP, batch="all-or-none"))
        with ThreadPoolExecutor(ASKED) as pool:
            for repetition in range(REPETITIONS):
                begin = threading.Barrier(asked)
                started = []

                def ask(n, begin=begin, started=started, run=str(repetition)):
                    begin.wait(timeout=30)
                    where = Where(run=run, turn=run)
                    try:
                        with guard.calling("look", n, where=where, reply="1", index=n, size=asked):
                            started.append(n)
                    except Stopped as stopped:
                        return stopped.stop
                    return None

                self.check(guard, asked, started, list(pool.map(ask, range(asked))))

    @pytest.mark.parametrize("asked", [CAP, ASKED])
    def test_on_asyncio(self, make_guard, asked):
        guard = make_guard(Policy(max_calls=CAP, batch="all-or-none"))

        async def ask(n, run, started):
            where = Where(run=run, turn=run)
            try:
                async with guard.acalling("look", n, where=where, reply="1", index=n, size=asked):
                    started.append(n)
                    await asyncio.sleep(0)
            except Stopped as stopped:
                return stopped.stop
            return None

        async def every():
            for repetition in range(REPETITIONS):
                started = []
                calls = (ask(n, str(repetition), started) for n in range(asked))
                self.check(guard, asked, started, await asyncio.gather(*calls))

        asyncio.run(every())
