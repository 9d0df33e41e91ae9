"""The calmest policy that stops the bad runs and leaves the good ones alone, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct

from lastcall.calmest import beyond, calmest
from lastcall.lattice import OFF, Dial, aside, composed, dials
from lastcall.policy import Policy
from lastcall.sounding import Levels, Run, Table
from lastcall.transcripts.recorded import Transcript

FOLDS: Final = 5
"""Parts into which runs are split, to try each on a policy that was tuned without it."""


class Change(Struct, frozen=True):
    """A dial that was moved, and why."""

    dial: Dial
    before: int
    after: int
    runs: tuple[str, ...]
    """The good runs that it stopped before, or the bad ones that it is moved for."""

    @property
    def looser(self) -> bool:
        """Whether less is stopped by it."""
        return self.after < self.before


class Uncaught(Struct, frozen=True):
    """A bad run that is not stopped, and what would do it."""

    name: str
    calls: int
    dial: Dial | None
    """The dial that would stop it at the price of the fewest good runs; None: none that was tried."""
    level: int
    good: int
    """How many good runs that would stop."""


class Tuned(Struct, frozen=True):
    """What was found."""

    policy: Policy
    levels: Levels
    changes: tuple[Change, ...]
    uncaught: tuple[Uncaught, ...]
    good: int
    bad: int
    stopped_good: tuple[str, ...]
    """Good runs that are stopped all the same, by what is on no dial."""
    unseen: tuple[int, int] | None
    """Good runs stopped and bad ones caught by policies that were tuned without them; None: too few runs."""

    @property
    def caught(self) -> int:
        """Bad runs that are stopped."""
        return self.bad - len(self.uncaught)


class Tuner:
    """Sounds runs and finds a policy. Memory grows by a line of the table a run."""

    def __init__(self, base: Policy | None = None) -> None:
        self.base = Policy() if base is None else base
        self.dials = dials(self.base)
        self.good: list[Run] = []
        self.bad: list[Run] = []
        self.silent = 0
        """Runs without a call, which nothing can stop: they are not counted."""
        self._table = Table(self.base, self.dials)

    def add(self, transcript: Transcript, *, good: bool) -> None:
        """Sound one run."""
        if not transcript.calls:
            self.silent += 1
            return
        (self.good if good else self.bad).append(self._table.line(transcript))

    def tuned(self) -> Tuned:
        """The policy, and what is to be said of it. Raises ValueError when no bad run was added."""
        if not self.bad:
            raise ValueError("there is no bad run to catch")
        base = {dial: dial.at(self.base) for dial in self.dials}
        levels = calmest(base, self.good, self.bad)
        policy = composed(self.base, {d: level for d, level in levels.items() if level != base[d]})
        return Tuned(
            policy,
            levels,
            changes(base, levels, self.good, self.bad),
            tuple(uncaught(run, levels, self.good) for run in self.bad if not run.stopped(levels)),
            len(self.good),
            len(self.bad),
            tuple(run.name for run in self.good if run.stopped(levels)),
            unseen(base, self.good, self.bad),
        )


def changes(
    base: Levels, levels: Levels, good: Sequence[Run], bad: Sequence[Run]
) -> tuple[Change, ...]:
    """The dials that were moved."""
    made: list[Change] = []
    for dial, after in levels.items():
        before = base[dial]
        if before == after:
            continue
        between = range(min(before, after) + 1, max(before, after) + 1)
        runs = good if after < before else bad
        names = tuple(run.name for run in runs if run.fires.get(dial, 0) in between)
        made.append(Change(dial, before, after, names))
    return tuple(made)


def uncaught(run: Run, levels: Levels, good: Sequence[Run]) -> Uncaught:
    """Why *run* is not stopped."""
    ways = [
        (beyond(dial, level, good), place, dial, level)
        for place, (dial, level) in enumerate(run.fires.items())
        if not aside(dial, levels)
    ]
    if not ways:
        return Uncaught(run.name, run.calls, None, 0, 0)
    count, _, dial, level = min(ways, key=lambda way: way[:2])
    return Uncaught(run.name, run.calls, dial, level, count)


def unseen(base: Levels, good: Sequence[Run], bad: Sequence[Run]) -> tuple[int, int] | None:
    """How many of *good* are stopped and of *bad* are caught by a policy that was tuned on the others: each
    of `FOLDS` parts by one of the rest. None when there are too few to split."""
    if len(good) < FOLDS or len(bad) < FOLDS:
        return None
    stopped = caught = 0
    goods, bads = parts(good), parts(bad)
    for fold in range(FOLDS):
        others = [run for at, part in enumerate(goods) if at != fold for run in part]
        loops = [run for at, part in enumerate(bads) if at != fold for run in part]
        levels = calmest(base, others, loops)
        stopped += sum(run.stopped(levels) for run in goods[fold])
        caught += sum(run.stopped(levels) for run in bads[fold])
    return stopped, caught


def parts(runs: Sequence[Run]) -> list[list[Run]]:
    """*runs* in `FOLDS` parts of one size, shuffled by their names: the same on every machine."""
    mixed = sorted(runs, key=lambda run: sha256(run.key.encode("utf-8", "replace")).digest())
    return [mixed[at::FOLDS] for at in range(FOLDS)]


def level_text(dial: Dial, level: int) -> str:
    """A level for people."""
    value = dial.levels[level]
    return "off" if value is OFF else str(value)
