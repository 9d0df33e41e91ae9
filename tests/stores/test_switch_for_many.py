"""One agent is stopped for one user while two hundred runs go on: at once for those, and for nobody else."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from lastcall import Call, Guard, Outcome, Policy, Where
from lastcall.stores.redis import RedisStore
from lastcall.stores.sqlite import SQLiteStore
from lastcall.switch import Switch
from lastcall.testing import FakeClock

NUMBERS = itertools.count()


@pytest.fixture(params=["sqlite", "redis"])
def opened(request, tmp_path):
    """Opens the store once more, as each process does."""
    if request.param == "sqlite":
        return lambda: SQLiteStore(tmp_path / "lastcall.db", timeout=20)
    server = request.getfixturevalue("redis_server")
    prefix = f"switch{next(NUMBERS)}"
    return lambda: RedisStore(server.url, prefix=prefix, timeout=20)


def test_two_hundred_runs_and_one_that_is_stopped(opened):
    clock, calls = FakeClock(), itertools.count()
    guards = [Guard(Policy(), store=opened(), clock=clock) for _ in range(2)]
    runs = [
        (guards[n % 2], Where(f"run-{n}", "t", agent=f"agent-{n % 4}", user=f"user-{n % 10}"))
        for n in range(200)
    ]

    async def round_():
        """Every run makes one call; gives the agents and users of those that were stopped."""

        async def one(guard, where):
            number = next(calls)
            call = Call("t", {"n": number}, where, id=f"c{number}", reply=f"r{number}")
            verdict = await guard.adecide(call)
            if verdict.ticket is not None:
                await guard.aobserve(verdict.ticket, Outcome(content=f"{number}"))
                return None
            assert verdict.stop.reason == "kill"
            assert "set by pager" in verdict.stop.detail
            return where.agent, where.user

        stopped = await asyncio.gather(*(one(guard, where) for guard, where in runs))
        return [each for each in stopped if each is not None]

    async def main():
        assert await round_() == []
        desk = opened()
        operator = Switch(desk, clock=clock)
        await operator.akill(agent="agent-3", user="user-7", by="pager", why="books twice")
        clock.tick(1.0)
        stopped = await round_()
        assert set(stopped) == {("agent-3", "user-7")}
        assert len(stopped) == sum(
            (where.agent, where.user) == ("agent-3", "user-7") for _, where in runs
        )
        await operator.arevive(agent="agent-3", user="user-7")
        clock.tick(1.0)
        assert await round_() == []
        await desk.aclose()
        for guard in guards:
            await guard.aclose()

    asyncio.run(main())
