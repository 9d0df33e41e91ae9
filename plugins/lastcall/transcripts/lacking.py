"""What a run does not tell, seen from its calls."""

from __future__ import annotations

from itertools import islice

from lastcall.transcripts.recorded import Aspect, RecordedCall, Transcript

MANY = 10_000
"""How many calls are looked at before something is taken to be missing in all of them."""


def _digested(call: RecordedCall) -> bool:
    """Whether a recording has the digest of a result: of one that is nothing, or was too long to be written."""
    live = call.live
    return live is not None and live.outcome is not None and live.outcome.digest is not None


def blank(transcript: Transcript) -> frozenset[Aspect]:
    """The aspects of which no call of *transcript* has anything; none where there are no calls."""
    missing: set[Aspect] = {"results", "statuses", "errors", "time"}
    for call in islice(transcript.calls, MANY):
        if call.result is not None or _digested(call):
            missing.discard("results")
        if call.status is not None:
            missing.discard("statuses")
        if call.failed is not None:
            missing.discard("errors")
        if call.ts is not None:
            missing.discard("time")
        if not missing:
            break
    if not transcript.calls:
        missing = set()
    return frozenset(missing) if transcript.replies else frozenset({*missing, "usage"})
