"""K21 Neighbours: one guard, two users at once."""

from __future__ import annotations

import asyncio
import threading

from lastcall import Policy
from lastcall.testing import assert_stopped

from .playing import astop_of, at_once, stop_of

REPETITIONS = 100
TIMES = {"ann": 3, "bob": 1}


def check(guard, repetition, stops):
    ann, bob = stops
    assert ann[:2] == [None, None]
    stop = assert_stopped(ann[2], reason="repeat")
    assert (stop.user, stop.observed) == ("ann", 3)
    assert bob == [None]
    counts = [
        (report.totals.executed, report.totals.refused)
        for report in (guard.report(f"{user}{repetition}") for user in TIMES)
    ]
    assert counts == [(2, 1), (1, 0)]


def test_on_threads(make_guard):
    guard = make_guard(Policy(max_repeats=2))
    look = guard.wrap(lambda q: q, name="look")
    for repetition in range(REPETITIONS):
        between = threading.Barrier(2)

        def user(index, repetition=repetition, between=between):
            name = list(TIMES)[index]
            with guard.within(run=f"{name}{repetition}", user=name):
                stops = [stop_of(look, "x")]
                between.wait(timeout=30)
                return stops + [stop_of(look, "x") for _ in range(TIMES[name] - 1)]

        check(guard, repetition, at_once(2, user))


def test_on_asyncio(make_guard):
    guard = make_guard(Policy(max_repeats=2))

    async def look(q):
        await asyncio.sleep(0)
        return q

    tool = guard.wrap(look)

    async def user(name, repetition):
        with guard.within(run=f"{name}{repetition}", user=name):
            return [await astop_of(tool, "x") for _ in range(TIMES[name])]

    async def every():
        for repetition in range(REPETITIONS):
            stops = await asyncio.gather(*(user(name, repetition) for name in TIMES))
            check(guard, repetition, stops)

    asyncio.run(every())
