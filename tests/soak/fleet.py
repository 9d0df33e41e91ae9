"""Many workers, one limit, and a store in trouble: never one call more than granted (issue "Fleet").

    python tests/soak/fleet.py               # 100,000 decisions a store, 8 processes x 4 threads
    python tests/soak/fleet.py --decisions 4000 --processes 2 sqlite

For each store: a limit that is asked for three times over is granted exactly; workers killed by SIGKILL in the
middle hold no place for longer than its time, and never give one back early; and for Redis, killed, paused,
made read-only and flushed under load: no decision takes longer than twice its time-out and nothing raises.
Exits by 1 when something does not hold.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import threading
import time
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from redis_server import RedisServer

from lastcall import Call, Guard, MemoryStore, Outcome, Policy, ToolPolicy, Where
from lastcall.contracts import Lease, Plan
from lastcall.rules import Budget, Ceiling, Concurrency
from lastcall.rules.budget import Limit
from lastcall.stores import open_store

SPAWN = multiprocessing.get_context("spawn")
PATIENT = 30.0
"""Seconds that a decision may wait here: what is tried is exactness, on a machine with two cores."""

PLACES = 3

CENT = Decimal("0.01")
"""What a call costs."""


def policy(limit):
    return Policy(
        rules=(
            Concurrency(limit=PLACES, per="tenant", ttl=300),
            Budget(
                limits=(
                    Limit(per="user", window=None, most=limit),
                    # Reached by the same call, and reserved and settled each time.
                    Limit(quantity="money", per="user", window=None, most=limit * CENT),
                )
            ),
            Ceiling(calls=None),
        ),
        tools={"t": ToolPolicy(cost=CENT)},
    )


class Held:
    """How many calls of this process run at once, at most."""

    def __init__(self):
        self.now = self.most = self.granted = self.asked = self.faults = 0
        self.lock = threading.Lock()

    def took(self):
        with self.lock:
            self.now += 1
            self.granted += 1
            self.most = max(self.most, self.now)

    def gave(self):
        with self.lock:
            self.now -= 1


def asked(guard, held, worker, each):
    """One thread's work: every call granted is run and settled; a refused place is asked for again."""
    for n in range(each):
        where = Where(f"run-{worker}-{n // 50}", "t", user="u", tenant="acme", agent="a")
        call = Call("t", {"n": n}, where, id=f"{worker}-{n}", reply=f"{n}")
        while True:
            verdict = guard.decide(call)
            if verdict.stop is None or verdict.stop.reason != "concurrency":
                break
            time.sleep(0.002)  # as a caller would who was told to come again
        held.asked += 1
        if verdict.ticket is not None:
            held.took()
            time.sleep(0)
            held.gave()
            guard.observe(verdict.ticket, Outcome(content="x"))
        elif verdict.stop.reason not in ("budget", "ceiling"):
            held.faults += 1


def worker(url, number, threads, each, limit, results, go):
    events = []
    guard = Guard(
        policy(limit),
        store=MemoryStore() if url is None else open_store(url, timeout=PATIENT),
        switch=False,
        listeners=[lambda event: events.append(event.message) if event.kind == "fault" else None],
    )
    held = Held()
    go.wait()
    running = [
        threading.Thread(target=asked, args=(guard, held, f"{number}-{t}", each))
        for t in range(threads)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    results.put((held.granted, held.asked, held.faults, events[:3]))
    guard.close()


def exact(name, url, processes, threads, decisions):
    """A limit of a third of what is asked for."""
    if url is None:
        processes = 1
    each = max(decisions // (processes * threads), 1)
    limit = processes * threads * each // 3
    results, go = SPAWN.Queue(), SPAWN.Event()
    workers = [
        SPAWN.Process(target=worker, args=(url, n, threads, each, limit, results, go))
        for n in range(processes)
    ]
    for one in workers:
        one.start()
    began = time.monotonic()
    go.set()
    rows = [results.get(timeout=3600) for _ in workers]
    seconds = time.monotonic() - began
    for one in workers:
        one.join()
    granted, total = sum(row[0] for row in rows), sum(row[1] for row in rows)
    faults = [row[3] for row in rows if row[3]] + [row[2] for row in rows if row[2]]
    said = f"{name}: {processes} x {threads}, {total} decisions, {granted} of {limit} granted"
    return check(f"{said}, {total / seconds:,.0f}/s", granted == limit and not faults, faults)


def holding(url, ready, ttl):
    """Take a place and die with it."""
    store = open_store(url, timeout=PATIENT)
    lease = Lease((("tenant", "acme"), "concurrency"), f"pid {time.monotonic_ns()}", PLACES, ttl)
    store.update(((("run", "r"), "turn"),), lambda _: Plan(None, claims=(lease,)), 1000.0)
    ready.put(1)
    time.sleep(600)


def killed(name, url):
    """Workers killed by SIGKILL while they hold every place."""
    ready = SPAWN.Queue()
    workers = [SPAWN.Process(target=holding, args=(url, ready, 60.0)) for _ in range(PLACES)]
    for one in workers:
        one.start()
    for _ in workers:
        ready.get(timeout=60)
    for one in workers:
        one.kill()
        one.join()
    store = open_store(url, timeout=PATIENT)
    lease = Lease((("tenant", "acme"), "concurrency"), "me", PLACES, 60.0)
    ask = lambda now: (
        store.update(((("run", "r"), "turn"),), lambda _: Plan(None, claims=(lease,)), now)[
            1
        ].refused
    )
    early, late = ask(1059.9), ask(1060.0)
    store.close()
    return check(f"{name}: places of killed workers", early == 0 and late is None, (early, late))


def troubled(server, timeout, threads=8):  # noqa: PLR0915 - one story, told in order
    """Redis ill-treated while *threads* go on deciding; every mode of the policy."""
    good = True
    # What is measured is how long the store is waited for, not how long threads wait for each other: each of
    # those that never rest would have the interpreter for 5 ms at a time.
    sys.setswitchinterval(0.0005)
    for mode in ("closed", "open", "last-known"):
        slowest, raised, standby, refused, stop = [0.0], [], set(), set(), threading.Event()
        guard = Guard(
            Policy(max_calls=None, on_store=mode, max_staleness=60.0),
            store=open_store(server.url, timeout=timeout),
        )

        def work(number, guard=guard, slowest=slowest, raised=raised, stop=stop, standby=standby,
                 refused=refused):  # fmt: skip
            n = 0
            while not stop.is_set():
                n += 1
                where = Where(f"{number}-{n // 20}", "t", user="u")
                call = Call("t", {"n": n}, where, id=f"{n}", reply=f"{n}")
                began = time.monotonic()
                try:
                    verdict = guard.decide(call)
                    took = time.monotonic() - began
                    if verdict.ticket is not None:
                        standby.add(verdict.ticket.standby)
                        began = time.monotonic()
                        guard.observe(verdict.ticket, Outcome(content="x"))
                        took = max(took, time.monotonic() - began)
                    else:
                        refused.add(verdict.stop.reason)
                except BaseException as error:
                    raised.append(error)
                    return
                slowest[0] = max(slowest[0], took)

        running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
        for thread in running:
            thread.start()
        import redis

        time.sleep(1)
        server.pause()
        time.sleep(2)
        server.go_on()
        time.sleep(1)
        with redis.Redis.from_url(server.url) as bare:
            bare.flushall()
            time.sleep(0.5)
            bare.replicaof("127.0.0.1", 1)
            time.sleep(1.5)
            bare.replicaof("NO", "ONE")
        server.kill()
        time.sleep(1.5)
        server.start()
        time.sleep(2.5)
        stop.set()
        for thread in running:
            thread.join()
        # Threads of one interpreter wait for each other, too; half the time-out again is for that.
        bounded = slowest[0] <= 2.5 * timeout
        back = guard.decide(Call("t", {}, Where("end", "t"), id="1", reply="1")).ticket is not None
        expected = {"closed": (set(), {"store"}), "open": ({"open"}, set()),
                    "last-known": ({"last-known"}, set())}[mode]  # fmt: skip
        right = (standby - {None}, refused) == expected
        said = (
            f"redis in trouble, {mode}: slowest {slowest[0] * 1000:.0f} ms of {timeout * 1000:.0f}"
        )
        good &= check(
            said,
            bounded and back and right and not raised,
            (bounded, back, standby, refused, raised),
        )
        guard.close()
    return good


def check(said, holds, why):
    print(f"{'ok  ' if holds else 'FAIL'} {said}{'' if holds else f'  {why}'}", flush=True)
    return holds


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("stores", nargs="*", default=["memory", "sqlite", "redis"])
    options.add_argument("--decisions", type=int, default=100_000)
    options.add_argument("--processes", type=int, default=8)
    options.add_argument("--threads", type=int, default=4)
    options.add_argument("--no-trouble", action="store_true")
    chosen = options.parse_args()
    size = (chosen.processes, chosen.threads, chosen.decisions)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        if "memory" in chosen.stores:
            good &= exact("memory", None, *size)
        if "sqlite" in chosen.stores:
            url = f"sqlite:///{folder}/fleet.db"
            good &= exact("sqlite", url, *size)
            good &= killed("sqlite", f"sqlite:///{folder}/killed.db")
        if "redis" in chosen.stores:
            server = RedisServer().start()
            good &= exact("redis", server.url, *size)
            good &= killed("redis", f"{server.url}?prefix=killed")
            if not chosen.no_trouble:
                good &= troubled(server, 0.25)
            server.stop()
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
