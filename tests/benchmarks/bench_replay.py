"""How fast saved runs are read and replayed, and what memory that takes.

Run it by hand: `python tests/benchmarks/bench_replay.py [LINES]`. Reading is set beside orjson alone on the
same lines, in blocks that alternate, since many machines flip between two speeds; figures are medians.
The targets: a tenth of orjson's speed or better, 25,000 calls a second with results of 1 KB through the
default policy, and a peak of memory that does not grow with the file.
"""

from __future__ import annotations

import json
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import orjson

from lastcall.replay import Replayer
from lastcall.transcripts import Transcript, read

BLOCKS = 5
A_RUN = 20
"""Calls a run."""


def written(path: Path, lines: int, width: int) -> Path:
    """A plain log whose results have *width* characters."""
    with path.open("w") as file:
        for n in range(lines):
            row = {
                "ts": 1e9 + n, "run": f"run {n // A_RUN}", "turn": 0, "reply": n, "id": f"c{n}",
                "name": "get_order", "args": {"id": n % 7, "q": f"n{n}"}, "status": "ok",
                "result": (f"order {n} " + "is on its way " * (width // 14))[:width],
            }  # fmt: skip
            file.write(json.dumps(row) + "\n")
    return path


def alone(path: Path) -> int:
    """What the lines cost orjson."""
    with path.open("rb") as file:
        return sum(len(orjson.loads(line)) > 0 for line in file)


def ours(path: Path) -> int:
    """What they cost the reader of the plain log."""
    return sum(len(run.calls) for run in read(path) if isinstance(run, Transcript))


def seconds(work: Callable[[Path], int], path: Path) -> float:
    """Of one run of *work*."""
    start = perf_counter()
    work(path)
    return perf_counter() - start


def peak(path: Path) -> int:
    """The most bytes that reading and replaying a file takes."""
    replayer = Replayer()
    tracemalloc.start()
    for run in read(path):
        if isinstance(run, Transcript):
            replayer.replay(run)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def main() -> None:
    """Print the three figures."""
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.jsonl")
        for width in (50, 1000, 8000):
            written(path, lines, width)
            pairs = [(seconds(ours, path), seconds(alone, path)) for _ in range(BLOCKS)]
            speed = lines / median(one for one, _ in pairs)
            share = median(other / one for one, other in pairs)
            print(
                f"read, results of {width:>5}: {speed:>9,.0f} lines/s, {share:.2f} of orjson alone"
            )
        written(path, lines, 1000)
        runs = [run for run in read(path) if isinstance(run, Transcript)]
        speeds = []
        for _ in range(BLOCKS):
            replayer, start = Replayer(), process_time()
            for run in runs:
                replayer.replay(run)
            speeds.append(lines / (process_time() - start))
        print(f"replay, results of 1000: {median(speeds):>9,.0f} calls/s of processor time")
        for times in (5, 50):
            written(path, times * lines // 10, 1000)
            print(
                f"memory, {path.stat().st_size >> 20:>4} MiB: {peak(path) / 2**20:.1f} MiB at most"
            )


if __name__ == "__main__":
    main()
