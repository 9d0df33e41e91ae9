"""A recording of our own through the guard once more, as it was: in the order in which things happened, by the
fingerprints and digests of then."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from lastcall import status
from lastcall.call import Call, Outcome
from lastcall.guard import Guard
from lastcall.tool import PLAIN, ToolPolicy
from lastcall.transcripts.live import Live
from lastcall.transcripts.recorded import RecordedCall, RecordedReply, Transcript
from lastcall.verdict import Ticket, Verdict


class Reliving:
    """One recorded run. *clock* sets the time that the guard goes by."""

    def __init__(self, guard: Guard, set_clock: Callable[[float], None]) -> None:
        self._guard = guard
        self._set_clock = set_clock
        self._tools: dict[str, ToolPolicy] = {}
        self._open: list[tuple[int, int | None, Live, Ticket]] = []

    def verdicts(self, transcript: Transcript) -> Iterator[tuple[int | None, Verdict]]:
        """Each verdict that says something, with the index of its call; None for a request to the model."""
        for index, recorded, live in in_order(transcript):
            yield from self._settled(live.begun)
            self._set_clock(recorded.ts or 0.0)
            verdict = self._guard.decide(call_of(recorded, live), self._tool(live))
            if verdict.ticket is not None:
                ended = live.ended
                if ended is None:
                    # Nobody knows what came of it.
                    continue
                heapq.heappush(self._open, (ended, index, live, verdict.ticket))
            yield index, verdict
        yield from self._settled(None)

    def _settled(self, before: int | None) -> Iterator[tuple[int | None, Verdict]]:
        """Settle what was settled by then."""
        while self._open and (before is None or self._open[0][0] < before):
            _, index, live, ticket = heapq.heappop(self._open)
            if live.outcome is None:
                continue
            self._set_clock(live.settled_at or 0.0)
            yield index, self._guard.observe(ticket, graded(live, ticket))

    def _tool(self, live: Live) -> ToolPolicy:
        if not live.tool:
            return PLAIN
        key = repr(live.tool)
        if key not in self._tools:
            self._tools[key] = ToolPolicy(**live.tool)
        return self._tools[key]


def in_order(
    transcript: Transcript,
) -> Iterator[tuple[int | None, RecordedCall | RecordedReply, Live]]:
    """Calls and requests to the model as they were decided about, with the index of each call."""
    calls = ((index, each, each.live) for index, each in enumerate(transcript.calls) if each.live)
    asked = ((None, each, each.live) for each in transcript.replies if each.live)
    return heapq.merge(calls, asked, key=lambda each: each[2].begun)


def call_of(recorded: RecordedCall | RecordedReply, live: Live) -> Call:
    """The call as it was asked for."""
    if isinstance(recorded, RecordedReply):
        return Call("model", kind="model", where=live.where)
    kind = live.kind if live.kind == "malformed" or live.inside else "tool"
    call = Call(
        recorded.tool,
        recorded.args,
        live.where,
        recorded.id,
        kind,
        live.reply,
        live.index,
        live.size,
        key=live.key,
        into=live.into,
        lived=tuple(live.tool.get("volatile", ())),
    )
    # Of the real arguments; what is written may have been redacted.
    for name in ("fingerprint", "near"):
        if getattr(live, name) is not None:
            vars(call)[name] = getattr(live, name)
    return call


def graded(live: Live, ticket: Ticket) -> Outcome:
    """What the call came to, by the policy of now."""
    outcome = live.outcome or Outcome("lost")
    policy = ticket.policy
    if policy is None or policy.version == live.policy or outcome.status is None:
        return outcome
    meaning = status.grade(
        outcome.status,
        ticket.call.policy,
        terminal=policy.terminal_statuses,
        statuses=policy.statuses,
        body=outcome.error or "",
    )
    kept = vars(outcome)
    if meaning == "ok":
        outcome = replace(outcome, kind="ok", grade=None)
    else:
        outcome = replace(outcome, kind="error", grade=None if meaning == "failed" else meaning)
    vars(outcome).update(kept)
    return outcome
