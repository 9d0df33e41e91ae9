"""Limits derived from healthy runs, not guessed (requirement B8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from lastcall.plural import counted
from lastcall.transcripts.recorded import Transcript

FEW = 100
"""Below so many values the 99th percentile is the greatest of them."""


class Spread(Struct, frozen=True):
    """How values are spread: the smallest of them that so many per cent of all do not exceed."""

    values: int
    """How many there are."""
    p50: int
    p95: int
    p99: int
    most: int

    @classmethod
    def of(cls, values: Sequence[int]) -> Spread:
        """That of *values*. Raises ValueError when there are none."""
        if not values:
            raise ValueError("nothing is spread")
        ordered = sorted(values)
        p50, p95, p99 = (ordered[-(-len(ordered) * share // 100) - 1] for share in (50, 95, 99))
        return cls(len(ordered), p50, p95, p99, ordered[-1])

    @property
    def alert(self) -> int:
        """The alert threshold: what all but one in a hundred healthy runs stay within."""
        return self.p99

    @property
    def limit(self) -> int:
        """The limit: twice that."""
        return 2 * self.p99


class Baseline:
    """What healthy runs spend. Each turn of a transcript is a run, as in a replay; memory grows by a few
    numbers a turn."""

    def __init__(self) -> None:
        self.transcripts = self.calls = self.silent = 0
        """*silent*: transcripts without a call, of which no turn is known."""
        self._calls: list[int] = []
        self._requests: list[int] = []
        self._whole: list[int] = []
        self._seconds: list[int] = []

    def add(self, transcript: Transcript) -> None:
        """Count one transcript."""
        self.transcripts += 1
        self.calls += len(transcript.calls)
        if not transcript.calls:
            self.silent += 1
            return
        self._whole.append(len(transcript.calls))
        turns = Counter(call.turn for call in transcript.calls)
        replies = Counter(
            turn for turn, _ in {(call.turn, call.reply) for call in transcript.calls}
        )
        self._calls += turns.values()
        # One more brings the answer that asks for nothing.
        self._requests += (replies[turn] + 1 for turn in turns)
        spans: dict[int, tuple[float, float]] = {}
        for call in transcript.calls:
            if call.ts is not None:
                first, last = spans.get(call.turn, (call.ts, call.ts))
                spans[call.turn] = (min(first, call.ts), max(last, call.ts))
        # The one time of a turn with one call says nothing of how long it took.
        self._seconds += (ceil(b - a) for turn, (a, b) in spans.items() if turns[turn] > 1)

    def spreads(self) -> dict[str, Spread]:
        """By quantity, of those of which something is known."""
        known = {
            "calls a run": self._calls,
            "requests a run": self._requests,
            "calls a transcript": self._whole,
            "seconds a run": self._seconds,
        }
        return {name: Spread.of(values) for name, values in known.items() if values}

    def untold(self) -> list[str]:
        """What could not be judged."""
        parts = ["tokens and money, which no transcript tells"]
        if not self._seconds:
            parts.append("seconds, since no call has a time")
        if self.silent:
            parts.append(f"{self.silent} without a call, of which no run is known")
        return parts

    def policy(self) -> str:
        """A policy file with these limits. Raises ValueError when no call was seen."""
        spreads = self.spreads()
        calls, requests = Spread.of(self._calls), Spread.of(self._requests)
        width = max(map(len, spreads))
        table = [
            f"# {name:<{width}} {one.values:>8} {one.p50:>8} {one.p95:>8} {one.p99:>8} {one.most:>8}"
            for name, one in spreads.items()
        ]
        head = f"# {'':<{width}} {'values':>8} {'p50':>8} {'p95':>8} {'p99':>8} {'max':>8}"
        runs = counted(calls.values, "run")
        few = f"# Of {runs} p99 is the greatest: derive it from more."
        files = counted(self.transcripts, "transcript")
        lines = [
            f"# By `lastcall baseline`, from {files} taken for healthy: {runs}, {counted(self.calls, 'call')}.",
            *([few] if calls.values < FEW else ()),
            "# An alert is the p99 of its own quantity, a limit twice that.",
            "# Not judged: " + "; ".join(self.untold()) + ".",
            "#",
            head,
            *table,
            "",
            'preset = "default"',
            "",
            "[rules.ceiling]",
            f"calls = {calls.limit}",
            f"alert = {calls.alert}",
            "",
            "[[rules.budget.limits]]",
            'quantity = "requests"',
            'per = "run"',
            "window = false",
            f"most = {requests.limit}",
            f"alert = {requests.alert}",
            "",
            "# The clock on the wall is yours to set: a queue, a person or a slow day are in its past.",
            "# [[rules.budget.limits]]",
            '# quantity = "seconds"',
            "# most = 600",
            "# alert = 0.8",
        ]
        return "\n".join(lines) + "\n"
