"""A write is made once, whichever worker is asked for it."""

from __future__ import annotations

import itertools

import pytest

from lastcall import Call, FirstResult, Outcome, ToolPolicy, Where
from lastcall.stores.redis import RedisStore
from lastcall.stores.sqlite import SQLiteStore

NUMBERS = itertools.count()
ONCE = {"writes": True, "identity": ("invoice",), "on_repeat": "replay"}


@pytest.fixture
def paid():
    return []


@pytest.fixture(params=["sqlite", "redis"])
def workers(request, tmp_path):
    """Makes a store of the same records for one more worker."""
    made = []
    if request.param == "sqlite":
        make = lambda: SQLiteStore(tmp_path / "writes.db")
    else:
        prefix = f"writes-{next(NUMBERS)}"
        server = request.getfixturevalue("redis_server")
        make = lambda: RedisStore(server.url, prefix=prefix)

    def worker():
        made.append(make())
        return made[-1]

    yield worker
    for store in made:
        store.close()


def test_workers_share_results(workers, make_guard, paid):
    for number in range(3):
        guard = make_guard(store=workers())

        @guard.wrap(**ONCE)
        def pay(invoice):
            paid.append(invoice)
            return {"charge": len(paid), "text": "ä \u2028 <b>"}

        with guard.within(run=f"r{number}"):
            assert pay(7) == {"charge": 1, "text": "ä \u2028 <b>"}
    assert paid == [7]


def test_workers_are_told_what_runs_elsewhere(workers, make_guard):
    policy, where = ToolPolicy(**ONCE), Where(run="r1")
    one, other = make_guard(store=workers()), make_guard(store=workers())
    call = Call("pay", {"invoice": 7}, where)
    running = one.decide(call, policy)
    assert other.decide(call, policy).stop.reason == "in_progress"
    one.observe(running.ticket, Outcome(content="paid", kept='"paid"'))
    assert other.decide(call, policy).replay == FirstResult('"paid"', one.clock(), "r1")
