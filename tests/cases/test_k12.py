"""K12 A warning must not hide the limit."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from lastcall import Policy, ToolPolicy
from lastcall.testing import assert_stopped

from .playing import astop_of, stop_of

POLICY = Policy(tools={"look": ToolPolicy(reads=True, alert_calls=2, max_calls=3)})
ORDERS = list(itertools.permutations("abcd"))


def check(stops, started, events):
    assert len(started) == 3
    assert [stop is None for stop in stops] == [True, True, True, False]
    assert_stopped(stops[3], reason="ceiling", scope="tool")
    alerts = [event for event in events if event.kind == "alert"]
    assert len(alerts) == 1
    assert (alerts[0].observed, alerts[0].limit, alerts[0].tool) == (2, 3, "look")


@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_one_warning_and_three_executions(make_guard, order):
    events, started = [], []
    guard = make_guard(POLICY, listeners=[events.append])

    def look(q):
        started.append(q)
        return q

    tool = guard.wrap(look)
    with guard.within(run="r"):
        stops = [stop_of(tool, q) for q in order]
    check(stops, started, events)
    assert guard.report("r").alerts == ("calls:look: 2 of 3",)


@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_the_same_with_coroutines_at_once(make_guard, order):
    events, started = [], []
    guard = make_guard(POLICY, listeners=[events.append])

    async def look(q):
        started.append(q)
        await asyncio.sleep(0)
        return q

    tool = guard.wrap(look)

    async def reply():
        with guard.within(run="r"):
            return await asyncio.gather(*(astop_of(tool, q) for q in order))

    check(asyncio.run(reply()), started, events)
