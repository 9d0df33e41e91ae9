"""The course of a run that is lived again, beside the recording: where it leaves it, and where it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from msgspec import Struct

from lastcall.call import Call, Outcome
from lastcall.events import Event
from lastcall.policy import Policy
from lastcall.replay import ReplayedStop, shown
from lastcall.stop import Stop
from lastcall.tape import fingerprints_of, keys_of
from lastcall.transcripts.recorded import RecordedCall


class Diverged(Struct, frozen=True):
    """The first call that is not the recorded one. *index* counts calls from 0."""

    index: int
    tool: str | None
    """What was called; None: the run ended where the recording goes on."""
    recorded: str | None
    """What had been called then; None: the recording was over."""


class Course:
    """A witness of the guard: all calls and stops of one run."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._lock = threading.Lock()
        self.calls: list[tuple[str, frozenset[str]]] = []
        """The name of each call, and by which fingerprints it may be recorded."""
        self.requests = 0
        """Requests to models."""
        self.stops: list[ReplayedStop] = []

    def __call__(self, event: Event) -> None:
        """Events tell nothing beyond what is witnessed."""

    def decided(self, call: Call, stops: Sequence[Stop], now: float) -> None:  # noqa: ARG002
        """*call* was allowed, or refused by *stops*."""
        with self._lock:
            at = len(self.calls)
            if call.kind == "model":
                self.requests += not stops
            else:
                keys = frozenset(keys_of(call, self._policy))
                self.calls.append((call.name, keys))
                call.mark(self, at)
            self._stopped(at, stops)

    def settled(
        self,
        call: Call,
        outcome: Outcome,  # noqa: ARG002
        stops: Sequence[Stop],
        now: float,  # noqa: ARG002
    ) -> None:
        """What *call* came to led to *stops*."""
        with self._lock:
            at = call.marked(self)
            self._stopped(len(self.calls) if at is None else at, stops)

    def _stopped(self, at: int, stops: Sequence[Stop]) -> None:
        if stops:
            stop = next((each for each in stops if each.ends_run), stops[0])
            self.stops.append(shown(at, stop))

    def diverged(
        self, recorded: Sequence[RecordedCall], *, ended: bool, since: int = 0
    ) -> Diverged | None:
        """Where a turn left the recording, of which *recorded* are its calls; calls of one reply may come in any
        order. *since*: the index of the first call of the turn. *ended*: the turn came to its end by itself, so
        that a call of the recording that is missing is a difference too."""
        with self._lock:
            made = self.calls[since:]
        due: list[tuple[str, frozenset[str]]] = []
        at = 0
        for index, (name, keys) in enumerate(made, since):
            if not due:
                due, at = _reply(recorded, at, self._policy)
            match = next((each for each in due if each[1] & keys), None)
            if match is None:
                return Diverged(index, name, due[0][0] if due else None)
            due.remove(match)
        if ended and (due or at < len(recorded)):
            return Diverged(since + len(made), None, due[0][0] if due else recorded[at].tool)
        return None


def _reply(
    recorded: Sequence[RecordedCall], at: int, policy: Policy
) -> tuple[list[tuple[str, frozenset[str]]], int]:
    """The calls of the reply that begins at *at*, each with its fingerprints, and where the next begins."""
    found: list[tuple[str, frozenset[str]]] = []
    while at < len(recorded) and (not found or _together(recorded[at - 1], recorded[at])):
        found.append((recorded[at].tool, fingerprints_of(recorded[at], policy)))
        at += 1
    return found, at


def _together(one: RecordedCall, other: RecordedCall) -> bool:
    return (one.turn, one.reply) == (other.turn, other.reply)
