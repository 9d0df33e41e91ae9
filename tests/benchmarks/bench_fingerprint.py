"""What a fingerprint costs, beside the bare floor of orjson and SHA-256 on the same value.

Run it by hand: `python tests/benchmarks/bench_fingerprint.py`. Blocks of both alternate, since many
machines flip between two speeds; the ratio is the median over the pairs of blocks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from statistics import median
from time import perf_counter

import orjson

from lastcall.fingerprint import digest, encoded, exact, loose, masked_digest


def raw(content):
    """The digest of a result as it is."""
    return digest(encoded(content))


def like(content):
    """The digest of a result without what changes by itself."""
    return masked_digest(encoded(content))


BLOCKS = 31
SECONDS_A_BLOCK = 0.01

SMALL = {"query": "weather in Berlin", "limit": 10, "fresh": True, "tags": ["a", "b"]}
ODD = {"query": "Café", "limit": 10.0, "fresh": None, "tags": ["a", "b"]}
TEXT = "The quick brown fox jumps over 12 lazy dogs before status 200. " * 130
ROWS = [{"id": row, "name": f"item {row}", "price": row * 1.37, "ok": True} for row in range(140)]
HOLES = [{**row, "note": None, "rate": 1.0} for row in ROWS]
LOG = "\n".join(f"2024-05-01T10:00:{row % 60:02}Z worker {row} took {row} ms" for row in range(190))


def floor(value: object) -> Callable[[], object]:
    """The least that a digest of *value* costs."""
    if isinstance(value, str):
        text = value
        return lambda: sha256(text.encode()).hexdigest()[:16]
    return lambda: sha256(orjson.dumps(value, None, orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def seconds(work: Callable[[], object], times: int) -> float:
    """Of one run of *work*, over *times* of them."""
    start = perf_counter()
    for _ in range(times):
        work()
    return (perf_counter() - start) / times


def compare(label: str, work: Callable[[], object], least: Callable[[], object]) -> None:
    """Print both and their ratio."""
    times = max(1, int(SECONDS_A_BLOCK / seconds(work, 3)))
    pairs = [(seconds(work, times), seconds(least, times)) for _ in range(BLOCKS)]
    ours, theirs = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    ratio = median(one / other for one, other in pairs)
    print(f"{label:<34}{ours * 1e6:10.2f}{theirs * 1e6:10.2f}{ratio:8.2f}")


def main() -> None:
    """Print the table."""
    print(f"{'':<34}{'us':>10}{'floor us':>10}{'ratio':>8}")
    call, written = floor({"args": SMALL, "name": "search"}), json.dumps(SMALL)
    compare("exact, small mapping", lambda: exact("search", SMALL), call)
    compare("exact, small, one volatile", lambda: exact("search", SMALL, ("limit",)), call)
    compare("exact, small JSON text", lambda: exact("search", written), call)
    odd = floor({"args": ODD, "name": "search"})
    compare("exact, small with 10.0, None, é", lambda: exact("search", ODD), odd)
    tagged = {**SMALL, "ids": {1, 2}}
    compare("exact, small with a set", lambda: exact("search", tagged), call)
    compare("loose, small mapping", lambda: loose("search", SMALL), call)
    compare("loose, small write", lambda: loose("search", SMALL, strict=True), call)
    compare("raw, small mapping", lambda: raw(SMALL), floor(SMALL))
    for label, value in (("text", TEXT), ("rows", ROWS), ("rows, nulls", HOLES), ("log", LOG)):
        size = len(value) if isinstance(value, str) else len(orjson.dumps(value))
        compare(f"raw, {label} of {size} bytes", partial(raw, value), floor(value))
        compare(f"like, {label} of {size} bytes", partial(like, value), floor(value))


if __name__ == "__main__":
    main()
