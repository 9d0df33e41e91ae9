"""What a page shows of a run, as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from lastcall.page.findings import Finding
from lastcall.page.folds import Fold
from lastcall.replay import ReplayedStop

FAILED, WELL = 1, 2
"""What a bar stands for; both, where it stands for several calls."""


class Cut(Struct, frozen=True):
    """A text of which only the beginning is kept. *length*: characters in all; None: this is all."""

    text: str
    length: int | None = None


class Lane(Struct, frozen=True):
    """The calls of one fingerprint, or of all that have no lane of their own."""

    letter: str
    """Empty for the others."""
    tool: str
    fingerprint: str
    arguments: str
    """In one line, as those of its first call."""
    calls: int
    failed: int
    answers: tuple[tuple[str, int], ...]
    """What they brought, most often first."""
    bars: tuple[tuple[int, int], ...]
    """Where it has calls, in order: the bar's number from 0, and FAILED, WELL or their sum."""
    first: int
    last: int
    """The numbers of its first and its last call, from 1."""


class Line(Struct, frozen=True, array_like=True):
    """One call. Numbers are places in the lists of the run; of *lane*, -1 is none of its own."""

    lane: int
    tool: int
    arguments: int
    result: int | None
    answer: int
    failed: bool
    turn: int
    seconds: float | None
    """Since the first call of the run, where that is known."""
    stop: str | None
    """What a stop at this call is for."""


class Saved(Struct, frozen=True):
    """What ending the run there would have saved, as far as it is known."""

    calls: int
    cost: Decimal | None = None
    """In the currency of the policy or of the transcript; None: not told."""
    all_cost: Decimal | None = None
    """What the whole run cost."""
    tokens: int | None = None
    seconds: float | None = None
    untold: bool = False
    """Whether it is not known of all model messages what they cost."""


class RunPage(Struct, frozen=True):
    """One run."""

    name: str
    """What people call it."""
    file: str
    run: str
    format: str
    calls: int
    failed: int
    executed: int
    """Calls before the first that would not have been made; all, where there is none."""
    stop: ReplayedStop | None
    """The stop that cut the run short."""
    finding: Finding
    saved: Saved
    bars: int
    """How many bars there are across."""
    lanes: tuple[Lane, ...]
    first: int
    """The number of the first listed call, from 1."""
    lines: tuple[Line, ...]
    folds: tuple[Fold, ...]
    tools: tuple[str, ...]
    arguments: tuple[Cut, ...]
    results: tuple[Cut, ...]
    answers: tuple[str, ...]
    turns: int
    seconds: float | None
    """From its first call to its last."""
    lacks: tuple[str, ...]
    not_judged: tuple[str, ...]

    @property
    def weight(self) -> int:
        """Characters of its results."""
        return sum(len(one.text) for one in self.results)

    @property
    def untold(self) -> bool:
        """Whether the transcript does not say which calls failed."""
        return {"errors", "statuses"} <= set(self.lacks)

    @property
    def share(self) -> int:
        """The saved calls in percent."""
        return round(100 * self.saved.calls / self.calls) if self.calls else 0


class Page(Struct, frozen=True):
    """Several runs."""

    runs: tuple[RunPage, ...]
    policy: str
    redacted: bool = True
    unreadable: tuple[str, ...] = ()
    """Problems of files that could not be read."""

    @property
    def calls(self) -> int:
        """Of all runs."""
        return sum(one.calls for one in self.runs)

    @property
    def stopped(self) -> int:
        """Runs that would have been cut short."""
        return sum(one.stop is not None for one in self.runs)

    @property
    def saved(self) -> int:
        """Calls, in all runs."""
        return sum(one.saved.calls for one in self.runs)


def named(runs: Sequence[RunPage]) -> tuple[RunPage, ...]:
    """*runs* with names that tell them apart: of the file, of the run where a file has several, and of the
    folder where files share a name."""
    in_file = Counter(run.file for run in runs)
    alike = Counter({run.file: run.name for run in runs}.values())
    return tuple(
        replace(
            run,
            name=(run.file if alike[run.name] > 1 else run.name)
            + (f" [{run.run}]" if in_file[run.file] > 1 else ""),
        )
        for run in runs
    )


def tail(file: str) -> str:
    """The last part of a path."""
    return file.replace("\\", "/").rsplit("/", 1)[-1]


def entries(run: RunPage) -> Iterator[tuple[int, Line]]:
    """The listed calls with their numbers."""
    return enumerate(run.lines, run.first)
