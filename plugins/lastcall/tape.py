"""What the tools of a saved run answered, for a run that is lived again: no tool's body runs in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from lastcall import status as statuses
from lastcall.call import Call, Outcome
from lastcall.fingerprint import exact
from lastcall.guard import Guard
from lastcall.policy import Policy
from lastcall.transcripts.recorded import RecordedCall

UNKNOWN = (
    "There is no recording of this call of {}. This is a saved run lived again: its tools answer only calls"
    " that were made then."
)
"""What the model reads where nothing was recorded; the arguments are its own, and it knows them."""


class RecordedFailure(Exception):  # noqa: N818 - as the tool's own exception, whose class is not known
    """What a tool failed with in a saved run. *status_code*: the HTTP status, where there was one."""

    def __init__(self, text: str, status_code: int | None = None) -> None:
        super().__init__(text)
        self.status_code = status_code


class Answer(Struct, frozen=True):
    """What a tool answers in place of its body.

    *failure* is set where *content* alone does not tell that it failed, or with which status.
    """

    content: Any
    failure: RecordedFailure | None = None
    call_id: str | None = None


class Tape:
    """The recorded results of one run, each equal call's in their order and the last one again: those of the
    turn at hand, else the last one before it, else those of the turn after it.

    *guard* is the one that judges the run that is lived again: of what it lets through, `answer` takes the
    place. Calls may come from many threads at once.
    """

    def __init__(self, calls: tuple[RecordedCall, ...], guard: Guard) -> None:
        self._guard = guard
        self._lock = threading.Lock()
        self._results: dict[str, dict[int, list[Answer]]] = {}
        """By fingerprint, then by turn."""
        for call in calls:
            if known(call):
                answer = answer_of(call)
                for key in fingerprints_of(call, guard.policy):
                    turns = self._results.setdefault(key, {})
                    turns.setdefault(call.turn, []).append(answer)
        self._turn = calls[0].turn if calls else 0
        self._given: dict[str, int] = {}
        self.names = tuple(dict.fromkeys(call.tool for call in calls))
        """The tools that were called, in the order of their first calls."""
        self.asked = 0
        """Calls so far."""
        self.unrecorded = 0
        """Calls that were made now and not then, or of whose results nothing was kept."""

    def begin(self, turn: int) -> None:
        """Go on to the turn of that number."""
        with self._lock:
            self._turn = turn
            self._given.clear()

    def answer(self) -> Answer:
        """What the call in whose body this is asked is answered. Raises RuntimeError outside of any."""
        body = self._guard.bodies.innermost()
        if body is None or body.ticket is None:
            raise RuntimeError("a tool's answer is asked for outside of a guarded call")
        return self.answer_to(body.ticket.call)

    def answer_to(self, call: Call) -> Answer:
        """What *call* is answered."""
        with self._lock:
            self.asked += 1
            for key in keys_of(call, self._guard.policy):
                turns = self._results.get(key)
                if turns:
                    results = due(turns, self._turn)
                    at = self._given.get(key, 0)
                    self._given[key] = at + 1
                    found = results[min(at, len(results) - 1)]
                    return Answer(found.content, found.failure, call.id)
            self.unrecorded += 1
        return Answer(UNKNOWN.format(call.name), None, call.id)


def due(turns: Mapping[int, list[Answer]], turn: int) -> list[Answer]:
    """What equal calls are answered in that *turn*, of what they were in some turns."""
    if turn in turns:
        return turns[turn]
    before = [each for each in turns if each < turn]
    return turns[max(before)][-1:] if before else turns[min(turns)]


def fingerprints_of(call: RecordedCall, policy: Policy) -> frozenset[str]:
    """By what a recorded call is known: the fingerprint of its arguments, and the one that was kept, which is that of
    the real ones, or keyed."""
    kept = None if call.live is None else call.live.fingerprint
    told = exact(call.tool, call.args, policy.tool(call.tool).volatile)
    return frozenset((told,) if kept is None else (told, kept))


def keys_of(call: Call, policy: Policy) -> Iterator[str]:
    """The fingerprints that *call* may have been recorded by. Most formats know neither a tool's server nor
    what was declared of it."""
    yield call.fingerprint
    yield exact(call.name, call.args, policy.tool(call.name).volatile)
    if call.server is not None:
        yield exact(call.tool, call.args, policy.tool(call.tool).volatile)


def known(call: RecordedCall) -> bool:
    """Whether the run tells what came of *call*."""
    if call.malformed or call.result is not None:
        return not call.malformed
    outcome = None if call.live is None else call.live.outcome
    # A result of None, or one that was too large to be written?
    return outcome is not None and outcome.known and outcome.digest == Outcome().digest


def answer_of(call: RecordedCall) -> Answer:
    """What *call* was answered, in such a way that a guard reads the same from it."""
    told = statuses.returned(call.result)
    failed = call.failed is True and told.kind != "error"
    if not failed and (call.status is None or call.status == told.status):
        return Answer(call.result)
    if not failed and statuses.returned(call.result, status=call.status).kind != "error":
        return Answer(call.result)
    text = call.result if isinstance(call.result, str) else told.encoded
    text = text if isinstance(text, str) else text.decode("utf-8", "replace")
    return Answer(call.result, RecordedFailure(text, call.status))
