"""What is Redis's alone: one trip, stale copies, a server in trouble, clusters and sentinels. All real."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import sys
import threading
import time
import weakref

import pytest
import redis
import redis.asyncio
from blockbuster import BlockBuster

from lastcall import Call, Guard, Outcome, Policy, Where
from lastcall.contracts import Free, Lease, Plan, Take
from lastcall.stores import StoreError, UnreadableRecordError, open_store
from lastcall.stores.redis import RedisStore

RUN = ("run", "r1")
A, B = (RUN, "a"), (RUN, "b")
USER = ("user", "u")
TYPES = {"a": tuple, "b": tuple, "n": "counter", "places": "counter"}
NOW = 1_000.0
NUMBERS = itertools.count()


@pytest.fixture
def prefix():
    return f"own{next(NUMBERS)}"


@pytest.fixture
def make(redis_server, prefix):
    """Makes stores that share their records."""
    made = []

    def make(url=None, **settings):
        if "client" not in settings:
            settings |= {"url": url or redis_server.url}
        store = RedisStore(**{"prefix": prefix, "timeout": 20, **settings})
        store.learn(TYPES)
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture
def bare(redis_server):
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        yield client


@pytest.fixture
def own_server(tmp_path):
    """A server that this test may ill-treat; what it was told is there after a restart."""
    from conftest_redis import RedisServer

    server = RedisServer(tmp_path).start()
    yield server
    server.stop()


def write(store, value, key=A, now=NOW):
    store.update((key,), lambda _: Plan(None, [(0, value)]), now)


def read(store, key=A, now=NOW):
    return store.update((key,), lambda found: Plan(found[0]), now)[0]


def take(store, limit=100, **plan):
    plan = Plan(None, claims=(Take((USER, "n"), 1, limit),), **plan)
    return store.update((A,), lambda _: plan, NOW)[1].refused is None


def trips(bare):
    stats = bare.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval"))


# What it looks like.


def test_an_operator_reads_it_with_redis_cli(make, bare, prefix):
    store = make()
    write(store, (1, "x"))
    take(store)
    kept = bare.hgetall(f"{prefix}:run:r1")
    assert kept["a"] == '1 [1,"x"]'
    assert bare.hgetall(f"{prefix}:user:u")["n"] == "1 [0,1]"


def test_every_key_expires(make, bare, prefix):
    store = make(ttl=100.0, keep=1000.0)
    write(store, (1,))
    take(store)
    hour = Take((("tenant", "t"), "n"), 1, 5, 36_000.0)
    store.update((A,), lambda _: Plan(None, claims=(hour,)), NOW)
    expiries = {name: bare.ttl(name) for name in bare.scan_iter(f"{prefix}:*")}
    assert 90 <= expiries[f"{prefix}:run:r1"] <= 100
    assert 990 <= expiries[f"{prefix}:user:u"] <= 1000
    assert 71_000 <= expiries[f"{prefix}:tenant:t"] <= 72_000


def test_prefixes_do_not_see_each_other(make):
    write(make(prefix="acme*"), (1,))
    other = make(prefix="acme")
    assert read(other) is None
    assert other.shards("run", NOW) == []
    assert make(prefix="acme*").shards("run", NOW) == [RUN]


# One trip.


def test_one_trip_for_a_decision_and_one_for_its_settlement(make, bare):
    guard = Guard(Policy(max_calls=5), store=make(), switch=False)
    before = trips(bare)
    for n in range(5):
        call = Call("t", {"n": n}, Where("r", "t"), id=f"c{n}", reply=f"{n}")
        verdict = guard.decide(call)
        guard.observe(verdict.ticket, guard.returned(verdict.ticket, "x"))
    assert trips(bare) - before == 10
    for n in range(5, 8):
        call = Call("t", {"n": n}, Where("r", "t"), id=f"c{n}", reply=f"{n}")
        assert guard.decide(call).stop is not None
    assert trips(bare) - before == 13, "a refusal is one trip, its own counter included"


def test_a_stale_copy_is_told_and_runs_again(make):
    one, other = make(), make()
    write(one, (1,))
    write(other, (2,))
    assert read(one) == (2,)
    runs = []
    other_wrote = iter([True])

    def step(found):
        runs.append(found[0])
        if next(other_wrote, False):
            write(other, (3,))
        return Plan(found[0], [(0, (found[0][0] + 1,))])

    assert one.update((A,), step, NOW)[0] == (3,)
    assert runs == [(2,), (3,)]
    assert read(other) == (4,)


def test_a_record_of_a_large_shard_is_asked_for_alone(make, bare):
    one = make()
    keys = [(RUN, "a", str(n)) for n in range(400)]
    one.update(keys, lambda _: Plan(None, [(i, (i,)) for i in range(400)]), NOW)
    other = make()
    assert read(other, keys[7]) == (7,)
    assert read(other, keys[399]) == (399,), "not known yet: one more trip, no wrong answer"
    before = trips(bare)
    assert read(other, (RUN, "a", "never")) is None
    assert trips(bare) - before == 1, "what is not known is taken for absent, and was"


def test_a_limit_that_somebody_else_used_up_is_refused_with_what_is_written_then(make):
    """It did not look full from here, so what is written when it is goes along with a second trip."""
    one, other = make(), make()
    for _ in range(3):
        assert take(one, 3)
    assert not take(other, 3, writes=[(0, ("go",))], otherwise=lambda i: [(0, ("no", i))])
    assert read(one) == ("no", 0)


def test_more_copies_than_are_kept_cost_a_trip_and_nothing_else(make, monkeypatch):
    monkeypatch.setattr("lastcall.stores.copies.REMEMBERED", 4)
    store = make()
    for n in range(12):
        write(store, (n,), (("run", str(n)), "a"))
    assert [read(store, (("run", str(n)), "a")) for n in range(12)] == [(n,) for n in range(12)]


def test_a_shard_dropped_and_begun_again_is_new(make):
    one, other = make(), make()
    write(one, (1,))
    assert read(other) == (1,)
    one.drop(RUN)
    write(one, (2,), B)
    assert read(other) is None
    assert read(other, B) == (2,)


# Event loops.


def test_every_event_loop_has_connections_of_its_own(make):
    store = make()

    async def main(n):
        await store.aupdate((A,), lambda _: Plan(None, [(0, (n,))]), NOW)
        found = await store.aupdate((A,), lambda found: Plan(found[0]), NOW)
        await store.aclose()
        return found[0]

    assert [asyncio.run(main(n)) for n in range(3)] == [(0,), (1,), (2,)]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_connections_of_event_loops_that_are_closed_are_let_go(make):
    """A worker that begins one for every job would run out of them; who closes none is warned of it."""
    store = make()
    loops = []

    async def main():
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await store.aupdate((A,), lambda _: Plan(None), NOW)

    for _ in range(5):
        asyncio.run(main())
    gc.collect()
    assert [loop() for loop in loops[:-1]] == [None] * 4
    # The last of them is warned of here, and not in another test.
    store._loops.clear()
    gc.collect()


def test_within_an_event_loop_the_synchronous_face_works_too(make):
    store = make()

    async def main():
        write(store, (1,))
        store.drop(RUN)
        await store.aupdate((B,), lambda _: Plan(None, [(0, (2,))]), NOW)
        found = await store.aupdate((A, B), lambda found: Plan(list(found)), NOW)
        await store.aclose()
        return found[0], store.peek(RUN, NOW)

    assert asyncio.run(main()) == ([None, (2,)], {B: (2,)})


def test_parallel_calls_of_one_run_do_not_make_each_other_stale(make, bare):
    store = make()

    async def main():
        add = lambda found: Plan(None, [(0, ((found[0] or (0,))[0] + 1,))])
        await asyncio.gather(*(store.aupdate((A,), add, NOW) for _ in range(30)))
        found = await store.aupdate((A,), lambda found: Plan(found[0]), NOW)
        await store.aclose()
        return found[0]

    before = trips(bare)
    assert asyncio.run(main()) == (30,)
    assert trips(bare) - before == 31


LEASE = Lease((USER, "places"), "me", 1, 300.0)


class Placed:
    """One place for all."""

    name, kinds, enforce = "places", frozenset({"tool"}), True
    takes = staticmethod(lambda call: (LEASE,))
    alert_at = staticmethod(lambda call, claim: None)
    budget = staticmethod(lambda call, claim: ("places", 1))
    settle = staticmethod(lambda call, outcome, taken_at: (Free(LEASE.key, LEASE.holder),))
    stop = staticmethod(lambda call, claim, observed, now: None)


def test_a_settlement_called_off_is_made_all_the_same(make):
    """Who is called off a second time, while the first is settled, has a place to give back too."""
    store = make()
    events = []
    guard = Guard(Policy(rules=[Placed()]), store=store, switch=False, listeners=[events.append])

    async def main():
        call = Call("t", {}, Where("r", "t"), id="c", reply="1")
        verdict = await guard.adecide(call)
        assert store.peek(USER, time.time())
        settling = asyncio.create_task(guard.aobserve(verdict.ticket, Outcome("cancelled")))
        await asyncio.sleep(0)
        settling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await settling
        async with asyncio.timeout(30):
            while guard._settlements:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert not store.peek(USER, time.time())
        await guard.aclose()

    asyncio.run(main())
    assert [event.kind for event in events] == ["attempt"]


def test_a_decision_called_off_gives_back_what_it_took(redis_server, prefix):
    """Nobody waits for the answer any more, and the place must not be held for its whole time."""
    held, go_on = threading.Event(), threading.Event()

    class Slow(RedisStore):
        async def aupdate(self, keys, step, now):
            found = await super().aupdate(keys, step, now)
            held.set()
            await asyncio.to_thread(go_on.wait)
            return found

    store = Slow(redis_server.url, prefix=prefix, timeout=20)
    guard = Guard(Policy(rules=[Placed()]), store=store, switch=False)

    async def main():
        task = asyncio.create_task(guard.adecide(Call("t", {}, Where("r", "t"), id="c", reply="1")))
        await asyncio.to_thread(held.wait)
        assert store.peek(USER, time.time())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        async with asyncio.timeout(30):
            while guard._settlements or store.peek(USER, time.time()):  # noqa: ASYNC110
                await asyncio.sleep(0)
        await guard.aclose()

    asyncio.run(main())


# Time is the server's.


def test_the_clock_is_the_servers(make, monkeypatch):
    store = make()
    ahead = time.time
    monkeypatch.setattr("lastcall.stores.redis.time.time", lambda: ahead() + 3600)
    assert store.clock() > ahead() + 3000
    read(store)
    assert abs(store.clock() - ahead()) < 5
    assert Guard(store=store).clock == store.clock


def test_an_event_loop_is_not_blocked_by_making_connections(make):
    """Nothing is looked up on the disk for that; LangGraph's server forbids it."""
    store = make()

    async def main():
        blocks = BlockBuster()
        blocks.activate()
        try:
            return await store.aupdate((A,), lambda found: Plan(found[0]), NOW)
        finally:
            blocks.deactivate()
            await store.aclose()

    assert asyncio.run(main())[0] is None


def test_a_child_process_makes_a_thread_of_its_own(make):
    """The synchronous face within an event loop works in a thread, and a fork takes none along."""
    store = make()

    async def main():
        return read(store)

    async def drop():
        store.drop(A[0])

    write(store, (1,))
    asyncio.run(main())
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        # What waits for ever is ended.
        signal.alarm(20)
        try:
            found = (asyncio.run(main()), store.peek(A[0], NOW), asyncio.run(drop()), read(store))
            os.write(writing, b"ok" if found == ((1,), {A: (1,)}, None, None) else b"no")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    assert os.read(reading, 2) == b"ok"
    os.close(reading)
    assert read(store) is None


# Trouble.


def test_scripts_are_loaded_again_after_a_flush(make, bare):
    store = make()
    write(store, (1,))
    bare.script_flush()
    assert read(store) == (1,)


def test_flushed_records_begin_anew(make, bare):
    store = make()
    write(store, (1,))
    bare.flushall()
    assert read(store) is None
    write(store, (2,))
    assert read(store) == (2,)


def test_a_lost_connection_is_made_again_and_nothing_is_done_twice(make, bare):
    store = make()
    take(store, writes=[(0, (1,))])
    for _ in range(3):
        bare.client_kill_filter(_type="normal", skipme=True)
        assert take(store, writes=[(0, (1,))])
    assert store.peek(USER, NOW) == {(USER, "n"): (0, 4)}


def test_an_answer_that_was_lost_is_not_counted_twice(make, monkeypatch):
    """The server did what it was asked and the connection broke: the same is sent again and recognised."""
    store = make()
    sent = []
    evalsha = redis.Redis.evalsha

    def lossy(self, *args):
        answer = evalsha(self, *args)
        sent.append(args)
        if len(sent) == 1:
            raise redis.exceptions.ConnectionError("lost before the answer")
        return answer

    write(store, (0,))
    monkeypatch.setattr(redis.Redis, "evalsha", lossy)
    assert take(store, 5, writes=[(0, (1,))])
    assert len(sent) == 2
    assert store.peek(USER, NOW) == {(USER, "n"): (0, 1)}
    assert read(store) == (1,)


def test_a_server_that_does_not_answer_is_given_up_in_time(own_server):
    store = RedisStore(own_server.url, timeout=0.2)
    write(store, (1,))
    own_server.pause()
    began = time.monotonic()
    with pytest.raises(StoreError, match="Timeout"):
        read(store)
    assert time.monotonic() - began < 10, "bounded; how close is a benchmark's business"

    async def main():
        with pytest.raises(StoreError):
            await store.aupdate((A,), lambda _: Plan(None), NOW)
        await store.aclose()

    asyncio.run(main())
    own_server.go_on()
    store = RedisStore(own_server.url, timeout=20)
    store.learn(TYPES)
    assert read(store) == (1,)
    store.close()


def test_a_server_that_went_away_and_came_back_is_used_again(own_server):
    store = RedisStore(own_server.url, timeout=20)
    store.learn(TYPES)
    write(store, (1,))
    own_server.kill()
    with pytest.raises(StoreError, match="Redis cannot be used"):
        read(store)
    own_server.start()
    assert read(store) == (1,)

    async def main():
        own_server.kill()
        with pytest.raises(StoreError):
            await store.aupdate((A,), lambda found: Plan(found[0]), NOW)
        own_server.start()
        found = await store.aupdate((A,), lambda found: Plan(found[0]), NOW)
        await store.aclose()
        return found[0]

    assert asyncio.run(main()) == (1,)


def test_a_replica_that_takes_no_writes_is_said(own_server, redis_server):
    store = RedisStore(own_server.url, timeout=20)
    store.learn(TYPES)
    write(store, (1,))
    with redis.Redis.from_url(own_server.url) as bare:
        bare.replicaof("127.0.0.1", 1)
        with pytest.raises(StoreError, match="READONLY|read only replica"):
            write(store, (2,))
        bare.replicaof("NO", "ONE")
    assert read(store) == (1,)
    store.close()


def test_a_full_server_is_said(own_server):
    store = RedisStore(own_server.url, timeout=20)
    store.learn(TYPES)
    write(store, (1,))
    with redis.Redis.from_url(own_server.url) as bare:
        bare.config_set("maxmemory", 1)
        with pytest.raises(StoreError, match="OutOfMemory|OOM"):
            write(store, (2,))
        bare.config_set("maxmemory", 0)
    assert read(store) == (1,)
    store.close()


@pytest.mark.parametrize("value", ["", "[0,1]", "2 [0,1]", "1 [0", "1 7"])
def test_a_damaged_counter_is_said(make, bare, prefix, value):
    store = make()
    take(store)
    bare.hset(f"{prefix}:user:u", "n", value)
    with pytest.raises(UnreadableRecordError, match="'n'"):
        take(store)


def test_a_damaged_record_is_said(make, bare, prefix):
    write(make(), (1,))
    bare.hset(f"{prefix}:run:r1", "a", b"1 \xff\xfe")
    with pytest.raises(UnreadableRecordError, match="'a' of 'run:r1'"):
        read(make())


# Other deployments.


def test_clients_of_redis_pys_own_classes(make, redis_server):
    client = redis.Redis.from_url(redis_server.url)
    aclient = redis.asyncio.Redis.from_url(redis_server.url)
    store = make(client=client, aclient=aclient)
    write(store, (1,))

    async def main():
        found = await store.aupdate((A,), lambda found: Plan(found[0]), NOW)
        await store.aclose()
        await aclient.aclose()
        return found[0]

    assert asyncio.run(main()) == (1,)
    assert client.ping(), "what we were given is not ours to close"
    client.close()


def test_a_cluster_keeps_a_prefix_on_one_node(tmp_path):
    from conftest_redis import RedisServer

    server = RedisServer(
        None, "--cluster-enabled", "yes", "--cluster-config-file", str(tmp_path / "nodes.conf")
    ).start()
    try:
        with redis.Redis.from_url(server.url) as bare:
            bare.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
            while bare.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                time.sleep(0.01)  # a process is awaited, not the clock of a test
        client = redis.RedisCluster.from_url(server.url)
        store = RedisStore(client=client, prefix="acme", timeout=20)
        store.learn(TYPES)
        guard = Guard(Policy(max_calls=2), store=store)
        for n in range(3):
            call = Call("t", {"n": n}, Where("r", "t", "thread", user="u"), id=f"{n}", reply=f"{n}")
            verdict = guard.decide(call)
            if verdict.ticket:
                guard.observe(verdict.ticket, Outcome("error", "x", 422, "final"))
        assert verdict.stop.reason == "ceiling"
        assert take(store)
        assert all(key.startswith(b"{acme}:") for key in client.scan_iter("*"))
        assert store.shards("run", time.time()) == [("run", "r")]
        store.drop(("run", "r"))
        assert store.shards("run", time.time()) == []

        async def main():
            aclient = redis.asyncio.RedisCluster.from_url(server.url)
            other = RedisStore(aclient=aclient, prefix="acme", timeout=20)
            other.learn(TYPES)
            await other.aupdate((A,), lambda _: Plan(None, [(0, (1,))]), NOW)
            found = await other.aupdate((A,), lambda found: Plan(found[0]), NOW)
            await aclient.aclose()
            return found[0]

        assert asyncio.run(main()) == (1,)
        client.close()
    finally:
        server.stop()


def test_a_sentinel_names_the_master(tmp_path, redis_server):
    from conftest_redis import RedisServer, free_port

    config = tmp_path / "sentinel.conf"
    config.write_text(f"sentinel monitor main 127.0.0.1 {redis_server.port} 1\n")
    server = RedisServer.sentinel(config, free_port()).start()
    try:
        sentinel = redis.Sentinel([("127.0.0.1", server.port)], socket_timeout=20)
        client = sentinel.master_for("main", socket_timeout=20)
        store = RedisStore(client=client, prefix=f"sentinel{next(NUMBERS)}", timeout=20)
        store.learn(TYPES)
        write(store, (1,))
        assert read(store) == (1,)
        client.close()
        for each in sentinel.sentinels:
            each.close()
    finally:
        server.stop()


# Wrong use.


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "either a URL or clients"),
        ({"url": "redis://h", "client": object()}, "either a URL or clients"),
        ({"url": "redis://h", "timeout": 0}, "timeout must be between"),
        ({"url": "redis://h", "prefix": ""}, "prefix must be"),
        ({"url": "redis://h", "prefix": "a{b}"}, "without braces"),
        ({"url": "redis://h", "ttl": -1}, "ttl must be more than 0"),
        ({"url": "redis://h?color=red"}, "takes no such setting.*color"),
        ({"client": redis.Redis(decode_responses=True)}, "decode_responses=False"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        RedisStore(**settings)


def test_a_store_without_a_client_for_that_says_which_is_missing():
    store = RedisStore(client=redis.Redis())
    with pytest.raises(StoreError, match="give `aclient` too"):
        asyncio.run(store.aupdate((A,), lambda _: Plan(None), NOW))
    other = RedisStore(aclient=redis.asyncio.Redis())
    with pytest.raises(StoreError, match="give `client` too"):
        read(other)


def test_without_redis_py_the_cure_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setitem(sys.modules, "redis.exceptions", None)
    with pytest.raises(ImportError, match=r'pip install "lastcall\[redis\]"'):
        open_store("redis://127.0.0.1:1")
