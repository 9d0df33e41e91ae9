"""Memory, SQLite, Redis and a plain model give the same verdicts (J2), whatever comes in whatever order."""

from __future__ import annotations

import itertools
import time
from enum import StrEnum
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastcall import Call, Guard, MemoryStore, Outcome, Policy, Where
from lastcall.contracts import Free, Give, Lease, Plan, Take
from lastcall.rules import Breaker, Budget, Ceiling, Concurrency, Cooling, Quarantine
from lastcall.rules.budget import Limit
from lastcall.stores.redis import RedisStore
from lastcall.stores.sqlite import SQLiteStore
from lastcall.switch import Switch
from lastcall.testing import FakeClock

NUMBERS = itertools.count()

AGAIN = {
    "sqlite": lambda store: {"path": store.path, "timeout": 20},
    "redis": lambda store: {"url": store._url, "prefix": store._prefix, "timeout": 20},
}
"""The settings of a second store of the same records."""


class Name(StrEnum):
    seven = "seven"


def reason(verdict):
    return verdict.stop and verdict.stop.reason


LOOSE = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

POLICY = Policy(max_calls=9).replaced(
    Quarantine(seconds=900),
    Concurrency(limit=2, per="user", ttl=60),
    Budget(
        limits=(
            Limit(per="user", window="hour", most=6),
            Limit(per="agent", window=30.0, most=5),
            Limit(per="user", window="day", zone="America/St_Johns", most=9),
        )
    ),
    Cooling(seconds=20),
    Breaker(failures=2, wait=25.0, ramp=True),
    tools={"pay": {"writes": True, "on_repeat": "replay"}},
)


@pytest.fixture
def stores(redis_server, tmp_path):
    """One of each, empty."""
    made = []

    def make():
        number = next(NUMBERS)
        fresh = {
            "memory": MemoryStore(),
            "sqlite": SQLiteStore(tmp_path / f"{number}.db", timeout=20),
            "redis": RedisStore(redis_server.url, prefix=f"same{number}", timeout=20),
        }
        made.extend(fresh.values())
        return fresh

    yield make
    for store in made:
        store.close()


@pytest.mark.parametrize("by", [7, 0, UUID(int=7), Name("seven")], ids=str)
def test_names_that_are_no_text_are_the_same_in_every_process(stores, by):
    """A store gives text back; a limit must not begin anew for that, nor a switch miss its user."""
    verdicts = {}
    for name, store in stores().items():
        said = []
        for n in range(4):
            # What a process keeps of a store's records is no help to the next one.
            other = store if name == "memory" else type(store)(**AGAIN[name](store))
            guard = Guard(POLICY, store=other, switch=Switch(other))
            if n == 3:
                guard.switch.kill(user=str(by), why="told by its number")
            where = Where(by, by, by, by, by, by)
            call = Call("t", {"n": n % 2}, where, id=by, reply=n)
            verdict = guard.decide(call)
            said.append((verdict.call.order, verdict.call.kind, reason(verdict)))
            if verdict.ticket:
                guard.observe(verdict.ticket, Outcome(content="x"))
            other.close()
        verdicts[name] = said
    assert verdicts["sqlite"] == verdicts["redis"] == verdicts["memory"]
    assert [order for order, *_ in verdicts["memory"]] == [1, 2, 3, 0]
    assert verdicts["memory"][-1][-1] == "kill"


def test_a_scope_set_by_hand_has_names_that_are_text():
    guard = Guard(Policy(max_calls=1))
    with guard.within(run=7, user=UUID(int=7)) as where:
        assert where == Where("7", "7", user=str(UUID(int=7)))
        assert guard.decide(Call("t", {"n": 1})).stop is None
        assert guard.decide(Call("t", {"n": 2})).stop.reason == "ceiling"
    assert len(guard.store) == 0
    assert guard.report(7).run == "7"


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("decide"),
            st.integers(0, 3),  # the argument
            st.sampled_from(["r1", "r2"]),
            st.sampled_from(["u1", "u2", None]),
            st.sampled_from(["search", "pay"]),
        ),
        st.tuples(
            st.just("observe"),
            st.integers(0, 5),
            st.sampled_from(
                [
                    Outcome(content="same"),
                    Outcome(content="other", kept='{"id":"ch_1"}'),
                    Outcome("error", "no such thing", 422, "final", "no such thing"),
                    Outcome("error", "busy", 503, "passing", "busy", 7.0),
                    Outcome("cancelled"),
                    Outcome("paused"),
                    Outcome("lost"),
                ]
            ),
        ),
        st.tuples(st.just("crash")),
        st.tuples(st.just("finish"), st.sampled_from(["r1", "r2"])),
        st.tuples(st.just("tick"), st.sampled_from([0.5, 21.0, 61.0, 901.0, 3600.0])),
        st.tuples(st.just("raise"), st.sampled_from(["r1", "r2"]), st.integers(1, 3)),
    ),
    min_size=4,
    max_size=40,
)


def told(verdict):
    """A verdict as far as it must be equal."""
    stops = [stop for stop in (verdict.stop, *verdict.also) if stop is not None]
    return [verdict.replay, *(stop.model_dump() for stop in stops)]


@LOOSE
@given(steps)
def test_verdicts_are_equal(stores, played):
    made = stores()
    clock = FakeClock()
    guards = {
        name: Guard(POLICY, store=store, clock=clock, switch=False) for name, store in made.items()
    }
    open_calls = []
    for number, (kind, *rest) in enumerate(played):
        if kind == "tick":
            clock.tick(rest[0])
        elif kind == "decide":
            n, run, user, tool = rest
            where = Where(run, "turn", "thread", "agent", user)
            call = Call(tool, {"n": n}, where, id=f"c{number}", reply=f"m{number // 2}", size=2)
            verdicts = {name: guard.decide(call) for name, guard in guards.items()}
            assert told(verdicts["sqlite"]) == told(verdicts["memory"])
            assert told(verdicts["redis"]) == told(verdicts["memory"])
            tickets = {name: verdict.ticket for name, verdict in verdicts.items()}
            if all(tickets.values()):
                assert len({str(ticket.remaining) for ticket in tickets.values()}) == 1
                open_calls.append(tickets)
        elif kind == "observe" and open_calls:
            at, outcome = rest
            tickets = open_calls.pop(at % len(open_calls))
            answers = [told(guards[name].observe(tickets[name], outcome)) for name in guards]
            assert answers[0] == answers[1] == answers[2]
        elif kind == "crash":
            # The worker is gone with all it knew; another one goes on with the same store.
            open_calls.clear()
            guards = {
                name: Guard(POLICY, store=reborn(store), clock=clock, switch=False)
                for name, store in made.items()
            }
        elif kind == "finish":
            for guard in guards.values():
                guard.finish(rest[0])
        elif kind == "raise":
            run, by = rest
            for guard in guards.values():
                guard.raise_limit(run, by)
    shards = [("run", "r1"), ("user", "u1"), ("agent", "agent"), ("thread", "thread")]
    for shard in (*shards, *made["memory"].shards("write", clock())):
        kept = {name: plain(guards[name].store.peek(shard, clock())) for name in guards}
        assert kept["sqlite"] == kept["memory"]
        assert kept["redis"] == kept["memory"]


def reborn(store):
    """A store as a new process opens it."""
    if isinstance(store, SQLiteStore):
        return SQLiteStore(store.path, timeout=20)
    if isinstance(store, RedisStore):
        return RedisStore(store._url, prefix=store._prefix, timeout=20)
    return store


def plain(records):
    """Records without leases that nobody holds, which a store may keep or not."""
    return {key: state for key, state in records.items() if state != {}}


USER = ("user", "u")
amounts = st.integers(0, 4)
windows = st.sampled_from([None, 10.0, 0.1, 3600.0])
claims = st.one_of(
    st.builds(
        lambda n, amount, limit, window, offset: Take(
            (USER, "n", f"{n}/{window}/{offset}"), amount, limit, window, offset
        ),
        st.integers(0, 2),
        amounts,
        st.one_of(st.none(), st.integers(0, 9)),
        windows,
        st.sampled_from([0.0, 7200.0, -12_600.0]),
    ),
    st.builds(
        lambda who, limit, ttl: Lease((USER, "places"), who, limit, ttl),
        st.sampled_from(["a", "b", '"c" \\ é', "1"]),
        st.integers(0, 3),
        st.sampled_from([5.0, 0.3, 1e-3]),
    ),
)
releases = st.one_of(
    st.builds(
        lambda n, amount, window, ago, offset: ("give", n, amount, window, ago, offset),
        st.integers(0, 2),
        amounts,
        windows,
        st.sampled_from([0.0, 1.0, 11.0]),
        st.sampled_from([0.0, 7200.0, -12_600.0]),
    ),
    st.builds(lambda who: Free((USER, "places"), who), st.sampled_from(["a", '"c" \\ é', "1"])),
)


@LOOSE
@given(
    st.lists(
        st.tuples(
            st.floats(-12, 30, allow_nan=False),
            st.lists(claims, max_size=3),
            st.lists(releases, max_size=2),
        ),
        max_size=25,
    )
)
def test_the_script_in_redis_and_its_python_twin_agree(stores, played):
    """Also under clocks that go back, and at the edges of windows of every length."""
    made = stores()
    for store in made.values():
        if hasattr(store, "learn"):
            store.learn({"a": tuple, "n": "counter", "places": "counter"})
    now = 1_800_000_000.0
    for step, asked, given_back in played:
        now += step
        back = [
            Give(
                (USER, "n", f"{each[1]}/{each[3]}/{each[5]}"),
                each[2],
                each[3],
                now - each[4],
                each[5],
            )
            if isinstance(each, tuple)
            else each
            for each in given_back
        ]
        answers = {name: answered(store, asked, back, now) for name, store in made.items()}
        assert answers["sqlite"] == answers["memory"]
        assert answers["redis"] == answers["memory"]
    kept = {name: plain(store.peek(USER, now)) for name, store in made.items()}
    assert kept["sqlite"] == kept["memory"]
    assert kept["redis"] == kept["memory"]


def answered(store, claims, releases, now):
    plan = Plan(None, [(0, (1,))], claims, releases, lambda index: [(0, (2, index))])
    key = (("run", "r"), "a")
    try:
        _, answer = store.update((key,), lambda _: plan, now)
    except ValueError as error:
        return str(error)
    return answer, store.peek(("run", "r"), now).get(key)


def test_a_ceiling_is_one_for_workers_with_clocks_of_their_own(stores):
    """A clock that is behind begins no window anew."""
    for store in stores().values():
        limit = Budget(limits=(Limit(per="user", window="minute", most=3),))
        policy = Policy(rules=[limit, Ceiling(calls=None)])
        base = time.time() // 60 * 60
        guards = [
            Guard(policy, store=store, clock=lambda skew=skew: base + skew, switch=False)
            for skew in (1.0, -1.0, 2.0)
        ]
        granted = 0
        for number in range(9):
            where = Where(f"r{number}", "t", user="u")
            call = Call("t", {"n": number}, where, id="c", reply="m")
            granted += guards[number % 3].decide(call).ticket is not None
        assert granted == 3
