"""A saved run through the same guard, with a fake runner and the recorded clock (requirement H1)."""

from __future__ import annotations

from collections import Counter
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Where
from lastcall.guard import Guard
from lastcall.policy import Policy
from lastcall.stop import Scope, Stop
from lastcall.stores.memory import MemoryStore
from lastcall.tool import PLAIN, ToolPolicy
from lastcall.transcripts.recorded import RecordedCall, Transcript

SHELL = ToolPolicy(shell=True)


class ReplayedStop(Struct, frozen=True):
    """The stop at the call of that index. *refused* is False when the call's answer was the stop."""

    index: int
    reason: str
    scope: Scope
    tool: str
    fingerprint: str
    status: int | None
    refused: bool


class Replayed(Struct, frozen=True):
    """What the guard would have done to one run."""

    file: str
    run: str
    format: str
    calls: int
    executed: int
    """Calls before the first that would have been refused."""
    stops: tuple[ReplayedStop, ...]
    """Those after the first refusal are what would have followed had the run gone on."""
    saved: int
    """Calls from the first refused one on."""

    @property
    def stopped(self) -> bool:
        """Whether the run would have been cut short: a call refused, or its turn or run ended."""
        return any(stop.refused or stop.scope not in ("call", "tool") for stop in self.stops)


class Replayer:
    """Replays one run after the other; memory does not grow with their number."""

    def __init__(self, policy: Policy | None = None) -> None:
        self._now = 0.0
        self._guard = Guard(policy, clock=lambda: self._now)
        self._anew()

    def replay(self, transcript: Transcript) -> Replayed:
        """What the guard would have done to *transcript*, which is one thread; each of its turns is a
        run of its own."""
        thread = f"{transcript.file}:{transcript.run}"
        sizes = Counter((call.turn, call.reply) for call in transcript.calls)
        stops: list[ReplayedStop] = []
        runs: set[str] = set()
        for index, recorded in enumerate(transcript.calls):
            # Recorded clocks jump; what happened later is never earlier.
            self._now = max(self._now if index else 0.0, recorded.ts or 0.0)
            run = f"{thread}#{recorded.turn}"
            runs.add(run)
            call = Call(
                recorded.tool,
                recorded.args,
                Where(run=run, turn=run, thread=thread, agent=recorded.agent),
                recorded.id,
                "malformed" if recorded.malformed else "tool",
                str(recorded.reply),
                size=sizes[recorded.turn, recorded.reply],
            )
            stop = self._judged(call, recorded)
            if stop is not None:
                stops.append(shown(index, stop))
        for run in runs:
            self._guard.finish(run)
        self._anew()
        total = len(transcript.calls)
        first = next((stop.index for stop in stops if stop.refused), total)
        return Replayed(
            transcript.file,
            transcript.run,
            transcript.format,
            total,
            first,
            tuple(stops),
            total - first,
        )

    def _anew(self) -> None:
        """Forget everything: what is counted beyond one run, for a user perhaps, is no affair of another
        transcript, whose clock may be years behind."""
        self._guard.store = self._store = MemoryStore(ttl=inf, keep=inf)

    def _judged(self, call: Call, recorded: RecordedCall) -> Stop | None:
        """The stop of one call, if any: the one that ends most, where several came together."""
        guard = self._guard
        verdict = guard.decide(call, SHELL if recorded.shell else PLAIN)
        if verdict.ticket is not None:
            outcome = guard.returned(
                verdict.ticket,
                recorded.result,
                failed=recorded.failed,
                status_code=recorded.status,
            )
            if recorded.result is None:
                outcome = replace(outcome, recorded=False)
            verdict = guard.observe(verdict.ticket, outcome)
        return verdict.ending or verdict.stop


def shown(index: int, stop: Stop) -> ReplayedStop:
    """*stop* as replay reports it."""
    return ReplayedStop(
        index,
        stop.reason,
        stop.scope,
        stop.tool,
        stop.fingerprint,
        stop.status,
        not stop.executed,
    )
