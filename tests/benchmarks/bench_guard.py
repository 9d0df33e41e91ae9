"""Decide + observe in process, beside the bare floor: (orjson + sha256 + locked dict update) twice.

Floor and guard alternate in short blocks, since the machine changes its speed; ratios tell more than
microseconds. Run: python tests/benchmarks/bench_guard.py
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Sequence
from hashlib import sha256
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import orjson

from lastcall import Call, Guard, Policy, Where
from lastcall.recording import Recorder
from lastcall.replay import Replayer
from lastcall.rules import Ceiling
from lastcall.transcripts import RecordedCall, Transcript

BLOCK = 300
BLOCKS = 15
HERE = Where(run="r", turn="t")
LARGE = "A line of a log that says little and goes on for a while.\n" * 142


def floor(result: str) -> Callable[[int], None]:
    """What nobody could do without: two canonical forms, two digests, two counts."""
    lock, counts = threading.Lock(), dict[str, int]()

    def one(n: int) -> None:
        for value in (
            {"name": "search", "args": {"q": n, "limit": 10}},
            {"n": n, "result": result},
        ):
            key = sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
            with lock:
                counts[key] = counts.get(key, 0) + 1

    return one


def guarded(
    policy: Policy, result: str, calls_before: int = 0, listeners: Sequence[Any] = ()
) -> Callable[[int], None]:
    """One call through the guard, new each time, with a new result."""
    guard = Guard(policy, listeners=listeners)

    def one(n: int) -> None:
        call = Call("search", {"q": n, "limit": 10}, HERE, id=f"c{n}", reply=str(n))
        ticket = guard.decide(call).ticket
        assert ticket is not None
        guard.observe(ticket, guard.returned(ticket, f"{n} {result}"))

    for n in range(-calls_before, 0):
        one(n)
    return one


def seconds(work: Callable[[int], None], start: int) -> float:
    """One block."""
    begun = perf_counter()
    for n in range(start, start + BLOCK):
        work(n)
    return (perf_counter() - begun) / BLOCK


def compare(
    name: str, work: Callable[[int], None], bare: Callable[[int], None], beside: str = "the floor"
) -> None:
    """Print the best time and the median of the ratios."""
    pairs = [(seconds(work, k * BLOCK), seconds(bare, k * BLOCK)) for k in range(BLOCKS)]
    best = min(ours for ours, _ in pairs) * 1e6
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    print(f"{name:<44} {best:7.1f} us   {ratio:5.1f} x {beside}")


def threads(count: int) -> float:
    """Pairs a second through one guard by *count* threads."""
    work, each = guarded(Policy().replaced(Ceiling(calls=None)), "x"), 2000
    barrier = threading.Barrier(count + 1)

    def run(start: int) -> None:
        barrier.wait()
        for n in range(start, start + each):
            work(n)
        barrier.wait()

    workers = [threading.Thread(target=run, args=(k * each,)) for k in range(count)]
    for worker in workers:
        worker.start()
    barrier.wait()
    begun = perf_counter()
    barrier.wait()
    return count * each / (perf_counter() - begun)


def replayed() -> float:
    """Calls a second of transcripts with 1 KB results through the default policy."""
    calls = [
        RecordedCall("search", {"q": n, "page": n % 7}, reply=n, result=f"{n} " + LARGE[:1000])
        for n in range(100)
    ]
    runs = [Transcript("f", str(k), "jsonl", tuple(calls)) for k in range(40)]
    replayer = Replayer()
    begun = perf_counter()
    for run in runs:
        replayer.replay(run)
    return sum(len(run.calls) for run in runs) / (perf_counter() - begun)


def main() -> None:
    """Print the table."""
    default = Policy().replaced(Ceiling(calls=None))
    compare("default policy, small results", guarded(default, "found"), floor("found"))
    compare(
        "default policy, 10,000 calls before", guarded(default, "found", 10_000), floor("found")
    )
    compare("default policy, 8 KB results", guarded(default, LARGE), floor(LARGE))
    with TemporaryDirectory() as folder:
        for name, redactor in (("recorded", None), ("recorded with its secrets", False)):
            recorder = Recorder(folder, redactor=redactor)
            work = guarded(default, "found", listeners=[recorder])
            compare(f"default policy, {name}", work, guarded(default, "found"), "unrecorded")
            recorder.close()
    compare("permissive", guarded(Policy.permissive(), "found"), floor("found"))
    compare("no rule at all", guarded(Policy(rules=()), "found"), floor("found"))
    one = threads(1)
    for count in (1, 2, 4):
        pace = threads(count)
        print(f"{count} threads, one guard {pace:>29,.0f} calls/s   {pace / one:5.2f} x one thread")
    print(f"replay, 1 KB results {replayed():>31,.0f} calls/s")


if __name__ == "__main__":
    main()
