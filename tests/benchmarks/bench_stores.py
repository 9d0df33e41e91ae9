"""Decide and observe on each store, beside the least that its server or library can do.

    python tests/benchmarks/bench_stores.py [memory] [sqlite] [redis] [--processes 1,2,4,8] [--keys N]

- latency: ours minus theirs and ours over theirs, where theirs is a bare EVALSHA (`return 1`, 700 bytes) from
  the same client, or a bare BEGIN IMMEDIATE, one upsert, COMMIT; both alternate in short blocks, since the
  machine changes its speed;
- contention: decisions a second and the slowest hundredth with 1, 2, 4, 8 processes, each with runs of its
  own, or all on one limit (which is granted exactly);
- growth: the same with many keys in the store (a million with `--keys 1000000`).
"""

from __future__ import annotations

import argparse
import multiprocessing
import sqlite3
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1]))

from redis_server import RedisServer

from lastcall import Call, Guard, Outcome, Policy, Where
from lastcall.rules import Budget, Ceiling
from lastcall.rules.budget import Limit
from lastcall.stores import open_store

SPAWN = multiprocessing.get_context("spawn")
BLOCK, BLOCKS = 100, 20
BODY = b"x" * 700
SETTLED = Outcome(content="x")


def pairs(guard, run, start, count):
    """The seconds of each decide and of each observe."""
    decided, observed = [], []
    for n in range(start, start + count):
        call = Call("search", {"q": n, "limit": 10}, Where(run, "t"), id=f"c{n}", reply=f"{n}")
        began = perf_counter()
        verdict = guard.decide(call)
        between = perf_counter()
        outcome = guard.returned(verdict.ticket, f"{n} x")
        again = perf_counter()
        guard.observe(verdict.ticket, outcome)
        observed.append(perf_counter() - again)
        decided.append(between - began)
    return decided, observed


def bare_redis(url):
    import redis

    client = redis.Redis.from_url(url)
    script = client.script_load("return 1")
    return lambda: client.evalsha(script, 1, "bare", BODY)


def bare_sqlite(path):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS bare (key TEXT PRIMARY KEY, value) WITHOUT ROWID"
    )

    def one():
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT OR REPLACE INTO bare VALUES ('k', ?)", (BODY,))
        connection.execute("COMMIT")

    return one


def latency(name, guard, bare):
    """One process, its own runs."""
    decided, observed, floor = [], [], []
    for block in range(BLOCKS):
        d, o = pairs(guard, f"run-{block // 5}", block * BLOCK, BLOCK)
        decided += d
        observed += o
        for _ in range(BLOCK if bare else 0):
            began = perf_counter()
            bare()
            floor.append(perf_counter() - began)
    for what, times in (("decide", decided), ("observe", observed)):
        median = statistics.median(times) * 1e6
        worst = sorted(times)[int(len(times) * 0.99)] * 1e6
        line = f"{name:<8}{what:<9}{median:7.0f} us  p99 {worst:7.0f} us"
        if floor:
            least = statistics.median(floor) * 1e6
            line += f"   bare {least:5.0f} us: +{median - least:4.0f} us, {median / least:4.1f} x"
        print(line, flush=True)


def worker(url, number, user, count, hot, go, results):
    limits = (Limit(per="user", window=None, most=count),) if hot else ()
    rules = Policy(max_calls=1_000_000).rules
    policy = Policy(rules=(Budget(limits=limits), *rules)) if hot else Policy(rules=rules)
    guard = Guard(policy, store=open_store(url, timeout=30), switch=False)
    go.wait()
    times, granted = [], 0
    for n in range(count):
        where = Where(f"{number}-{n // 50}", "t", user=user)
        call = Call("search", {"q": n}, where, id=f"c{n}", reply=f"{n}")
        began = perf_counter()
        verdict = guard.decide(call)
        times.append(perf_counter() - began)
        if verdict.ticket is not None:
            granted += 1
            guard.observe(verdict.ticket, SETTLED)
    results.put((times, granted))
    guard.close()


def contention(name, url, processes, hot, count):
    """*count* decisions by each process."""
    go, results = SPAWN.Event(), SPAWN.Queue()
    user = f"u{processes}"
    workers = [
        SPAWN.Process(target=worker, args=(url, f"{user}{hot}{n}", user, count, hot, go, results))
        for n in range(processes)
    ]
    for one in workers:
        one.start()
    began = perf_counter()
    go.set()
    rows = [results.get() for _ in workers]
    seconds = perf_counter() - began
    for one in workers:
        one.join()
    times = sorted(time for row in rows for time in row[0])
    granted = sum(row[1] for row in rows)
    shares = f", {granted} of {count} granted" if hot else ""
    print(
        f"{name:<8}{'one limit' if hot else 'own runs':<10}{processes} processes"
        f" {len(times) / seconds:7,.0f} decisions/s  p50 {times[len(times) // 2] * 1e6:6.0f}"
        f"  p99 {times[int(len(times) * 0.99)] * 1e6:7.0f} us{shares}",
        flush=True,
    )


def growth(name, guard, keys):
    """As more and more keys are in the store."""
    made, at = 0, 1000
    while at <= keys:
        while made < at:
            records = {(("run", f"old-{made + n}"), "turn"): None for n in range(1000)}
            guard.store.load(
                {key: guard_turn() for key in records},
                guard.clock(),
            )
            made += 1000
        decided, observed = pairs(guard, f"new-{made}", made, 500)
        print(
            f"{name:<8}{made:>9,} keys  decide {statistics.median(decided) * 1e6:5.0f} us"
            f"  observe {statistics.median(observed) * 1e6:5.0f} us",
            flush=True,
        )
        at *= 10


def guard_turn():
    from lastcall.turn import Turn

    return Turn("t", 3, "r", 1)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("stores", nargs="*", default=["memory", "sqlite", "redis"])
    options.add_argument("--processes", default="1,2,4,8")
    options.add_argument("--count", type=int, default=2000)
    options.add_argument("--keys", type=int, default=100_000)
    chosen = options.parse_args()
    policy = Policy().replaced(Ceiling(calls=None))
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer().start() if "redis" in chosen.stores else None
        urls = {
            "memory": "memory://",
            "sqlite": f"sqlite:///{folder}/fleet.db",
            "redis": server and server.url,
        }
        bares = {
            "memory": lambda: None,
            "sqlite": lambda: bare_sqlite(f"{folder}/bare.db"),
            "redis": lambda: bare_redis(urls["redis"]),
        }
        for name in chosen.stores:
            guard = Guard(policy, store=open_store(urls[name]), switch=False)
            latency(name, guard, bares[name]())
            if name != "memory":
                for hot in (False, True):
                    for processes in map(int, chosen.processes.split(",")):
                        contention(name, urls[name], processes, hot, chosen.count)
            growth(name, guard, chosen.keys)
            guard.close()
        if server is not None:
            server.stop()


if __name__ == "__main__":
    main()
