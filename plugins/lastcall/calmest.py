"""The calmest levels at which no good run is stopped and as many bad ones as can be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lastcall.lattice import REPEAT, Dial, aside
from lastcall.sounding import Levels, Run


def calmest(base: Levels, good: Sequence[Run], bad: Sequence[Run]) -> dict[Dial, int]:
    """The levels: no dial stops a good run; as many bad ones are stopped as can be; the fewest steps away
    from *base*; and of equals, those next to which the fewest good runs are."""
    safe = {dial: allowed(dial, good) for dial in base}
    start = {dial: min(level, safe[dial]) for dial, level in base.items()}
    repeat = next((dial for dial in base if dial.rule == REPEAT), None)
    tries = [start]
    if repeat is not None:
        levels = range(start[repeat], safe[repeat] + 1)
        tries = [{**start, repeat: level} for level in levels]
    found = [tightened(one, safe, good, bad, start, keep=repeat) for one in tries]
    return min(found, key=lambda each: each[0])[1]


Rank = tuple[int, int, int, tuple[int, ...]]
"""Bad runs that are not caught, steps, good runs close by, the levels themselves."""


def tightened(
    levels: Levels,
    safe: Levels,
    good: Sequence[Run],
    bad: Sequence[Run],
    start: Levels,
    *,
    keep: Dial | None,
) -> tuple[Rank, dict[Dial, int]]:
    """*levels* with dials, all but *keep*, moved up to what *safe* allows, and how they rank."""
    moving = [dial for dial in levels if dial is not keep and not aside(dial, levels)]
    wants: set[tuple[tuple[Dial, int], ...]] = set()
    missed = 0
    for run in bad:
        if run.stopped(levels):
            continue
        ways = tuple(
            (dial, run.fires[dial])
            for dial in moving
            if dial in run.fires and run.fires[dial] <= safe[dial]
        )
        missed += not ways
        if ways:
            wants.add(ways)
    solved = cheapest(levels, sorted(wants, key=lambda ways: (len(ways), order(ways))))
    best: tuple[Rank, dict[Dial, int]] | None = None
    for one in solved:
        steps = sum(dial.steps(start[dial], level) for dial, level in one.items())
        close = sum(beyond(dial, level + 1, good) for dial, level in one.items() if level)
        rank: Rank = (missed, steps, close, tuple(one.values()))
        if best is None or rank < best[0]:
            best = (rank, one)
    assert best is not None  # noqa: S101 - `cheapest` gives one at least
    return best


def cheapest(
    levels: Levels, wants: Sequence[tuple[tuple[Dial, int], ...]]
) -> list[dict[Dial, int]]:
    """All ways with the fewest steps to move dials up so that each of *wants* has one of its."""
    within = 0
    while True:
        found: dict[tuple[int, ...], dict[Dial, int]] = {}
        seen: set[tuple[int, ...]] = set()
        descend(dict(levels), wants, within, found, seen, levels)
        if found:
            return [found[key] for key in sorted(found)]
        within += 1


def descend(
    at: dict[Dial, int],
    wants: Sequence[tuple[tuple[Dial, int], ...]],
    left: int,
    found: dict[tuple[int, ...], dict[Dial, int]],
    seen: set[tuple[int, ...]],
    start: Levels,
) -> None:
    """Try each way to satisfy the first of *wants* that is not, with *left* steps."""
    key = tuple(at.values())
    if key in seen:
        return
    seen.add(key)
    open_ = next((ways for ways in wants if all(at[dial] < level for dial, level in ways)), None)
    if open_ is None:
        found[key] = dict(at)
        return
    for dial, level in open_:
        more = dial.steps(at[dial], level)
        if more <= left:
            descend({**at, dial: level}, wants, left - more, found, seen, start)


def order(ways: tuple[tuple[Dial, int], ...]) -> tuple[tuple[str, int], ...]:
    """Something to sort by, that is the same on every machine."""
    return tuple((dial.name, level) for dial, level in ways)


def allowed(dial: Dial, good: Sequence[Run]) -> int:
    """The strictest level at which *dial* stops none of *good*."""
    return min(
        (run.fires[dial] - 1 for run in good if dial in run.fires), default=len(dial.levels) - 1
    )


def beyond(dial: Dial, level: int, runs: Iterable[Run]) -> int:
    """How many of *runs* the dial stops at *level*."""
    return sum(run.fires.get(dial, len(dial.levels)) <= level for run in runs)
