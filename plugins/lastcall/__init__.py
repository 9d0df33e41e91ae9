"""Lastcall stands between an AI agent and its tools, and stops the runaway calls."""

from typing import TYPE_CHECKING

from lastcall import footing as _footing  # noqa: F401 - loaded before any room
from lastcall.doors import doors

if TYPE_CHECKING:
    from lastcall.call import Call, FirstResult, Outcome, Usage, Where
    from lastcall.events import Event
    from lastcall.guard import Guard, UnscopedError
    from lastcall.incident import Incident
    from lastcall.policy import Policy
    from lastcall.policy_file import PolicyError
    from lastcall.stop import Gathered, Stop, Stopped
    from lastcall.stores import MemoryStore
    from lastcall.switch import Kill, Switch
    from lastcall.tool import ToolPolicy
    from lastcall.verdict import Ticket, Verdict
else:
    # A command, a reader of transcripts or a test needs few of these rooms.
    __getattr__, __dir__ = doors(
        globals(),
        {
            "call": ("Call", "FirstResult", "Outcome", "Usage", "Where"),
            "events": ("Event",),
            "guard": ("Guard", "UnscopedError"),
            "policy": ("Policy",),
            "policy_file": ("PolicyError",),
            "incident": ("Incident",),
            "stop": ("Gathered", "Stop", "Stopped"),
            "stores": ("MemoryStore",),
            "switch": ("Kill", "Switch"),
            "tool": ("ToolPolicy",),
            "verdict": ("Ticket", "Verdict"),
        },
    )

__all__ = [
    "Call",
    "Event",
    "FirstResult",
    "Gathered",
    "Guard",
    "Incident",
    "Kill",
    "MemoryStore",
    "Outcome",
    "Policy",
    "PolicyError",
    "Stop",
    "Stopped",
    "Switch",
    "Ticket",
    "ToolPolicy",
    "UnscopedError",
    "Usage",
    "Verdict",
    "Where",
]
