"""Which settings of the rules would stop a run, found out in the shadow, where rules decide and refuse nothing.

A rule stops a run whenever it would do so alone, since up to the first refusal no rule knows of another. So
several rules are sounded in one pass, and a line of what they said answers for every policy that can be made
of these settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from lastcall.call import Call, Outcome, Where
from lastcall.guard import Guard
from lastcall.lattice import REPEAT, Dial, aside, composed
from lastcall.policy import SUPERSEDED, Policy
from lastcall.rehearsal import Rehearsal
from lastcall.replay import Replayer
from lastcall.tool import PLAIN, ToolPolicy
from lastcall.transcripts.recorded import RecordedCall, Transcript
from lastcall.verdict import Ticket, Verdict

Levels = Mapping[Dial, int]


class Run(Struct, frozen=True):
    """One run in the table."""

    name: str
    key: str
    """Tells it from others wherever the files are."""
    calls: int
    fires: Mapping[Dial, int]
    """By dial the calmest level that stops it; a dial that does not at any is not there."""
    fixed: bool
    """Whether the policy stops it by what is on no dial."""

    def stopped(self, levels: Levels) -> bool:
        """Whether a policy with the dials at *levels* stops it."""
        return self.fixed or any(
            level <= levels[dial] and not aside(dial, levels) for dial, level in self.fires.items()
        )


class Table:
    """Sounds runs, one after the other."""

    def __init__(self, base: Policy, tried: Sequence[Dial]) -> None:
        self._dials = frozenset(tried)
        nothing = dict.fromkeys(tried, 0)
        self._fixed = Sounding(composed(base, nothing, alone=True))
        self._passes = [
            (probes, Sounding(composed(base, {**nothing, **probes}, alone=True)))
            for probes in passes(tried)
        ]

    def line(self, transcript: Transcript) -> Run:
        """What stops *transcript*."""
        fires: dict[Dial, int] = {}
        alive = set(self._dials)
        for probes, sounding in self._passes:
            # Strictest first: what does not stop a run there does not at a calmer level.
            if alive.isdisjoint(probes):
                continue
            fired = sounding.sound(transcript)
            for dial, level in probes.items():
                if dial in alive and dial.rule in fired:
                    fires[dial] = level
                else:
                    alive.discard(dial)
        fixed = bool(self._fixed.sound(transcript))
        file = Path(transcript.file)
        name = str(file) if transcript.run in file.name else f"{file} [{transcript.run}]"
        return Run(name, f"{file.name}:{transcript.run}", len(transcript.calls), fires, fixed)


class Listening(Guard):
    """A guard that keeps, by rule, what would have cut a run short."""

    def __init__(self, policy: Policy, **settings: Any) -> None:
        super().__init__(policy.replaced(enforce=False), **settings)
        self.fired: set[str] = set()

    def decide(self, call: Call, declared: ToolPolicy = PLAIN, **how: Any) -> Verdict:
        """As any guard, and listens."""
        return self.heard(super().decide(call, declared, **how))

    def observe(self, ticket: Ticket, outcome: Outcome) -> Verdict:
        """As any guard, and listens."""
        return self.heard(super().observe(ticket, outcome))

    def heard(self, verdict: Verdict) -> Verdict:
        """*verdict*, listened to."""
        for stop in verdict.shadow:
            if not stop.executed or stop.scope not in ("call", "tool"):
                self.fired.add(stop.rule or "")
        return verdict


class Sounding(Replayer):
    """Replays in the shadow."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._guard: Listening = Listening(policy, clock=lambda: self._rehearsal.now)
        self._rehearsal = Rehearsal(self._guard)

    def sound(self, transcript: Transcript) -> set[str]:
        """The names of the rules that would have cut it short."""
        self._guard.fired = set()
        self.replay(transcript)
        return self._guard.fired

    def _judged(self, recorded: RecordedCall, where: Where, size: int) -> Verdict:
        return self._guard.heard(super()._judged(recorded, where, size))


def passes(tried: Sequence[Dial]) -> list[dict[Dial, int]]:
    """Which level of which dial is sounded together with which: of each rule one a pass, the strictest
    first, and none of those that stand aside beside the one that makes them."""
    planned: list[dict[Dial, int]] = []
    for dial in tried:
        at = 0
        for level in range(len(dial.levels) - 1, 0, -1):
            while at < len(planned) and not fits(dial, planned[at]):
                at += 1
            if at == len(planned):
                planned.append({})
            planned[at][dial] = level
            at += 1
    return planned


def fits(dial: Dial, probes: Mapping[Dial, int]) -> bool:
    """Whether *dial* can be sounded beside *probes*."""
    rules = {each.rule for each in probes}
    if dial.rule == REPEAT:
        return not rules & (SUPERSEDED | {REPEAT})
    return dial.rule not in rules and not (dial.rule in SUPERSEDED and REPEAT in rules)
