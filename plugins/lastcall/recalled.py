"""A recorded call as the guard sees it."""

from __future__ import annotations

from msgspec.structs import replace

from lastcall import status
from lastcall.call import Call, Kind, Outcome
from lastcall.policy import Policy
from lastcall.rehearsal import SHELL
from lastcall.tool import PLAIN, ToolPolicy
from lastcall.transcripts.recorded import RecordedCall


def call_of(recorded: RecordedCall, policy: Policy) -> Call:
    """The call, with what *policy* says of its tool, so that its fingerprints are those of a replay."""
    declared = SHELL if recorded.shell else PLAIN
    kind: Kind = "malformed" if recorded.malformed else "tool"
    live = recorded.live
    if live is not None and live.tool:
        declared = ToolPolicy(**live.tool)
    call = Call(recorded.tool, recorded.args, id=recorded.id, kind=kind)
    call = replace(call, policy=policy.tool(call.name, declared))
    if live is not None:
        # Of the real arguments; those that were written may have been redacted.
        for name in ("fingerprint", "near"):
            if getattr(live, name) is not None:
                vars(call)[name] = getattr(live, name)
    return call


def outcome_of(recorded: RecordedCall, call: Call, policy: Policy) -> Outcome:
    """What came of it, read as the guard reads answers."""
    if recorded.live is not None:
        return recorded.live.outcome or Outcome("lost")
    return status.returned(
        recorded.result,
        call.policy,
        failed=recorded.failed,
        status=recorded.status,
        terminal=policy.terminal_statuses,
        statuses=policy.statuses,
    )
