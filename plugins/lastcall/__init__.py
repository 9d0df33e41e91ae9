"""Lastcall stands between an AI agent and its tools, and stops the runaway calls."""

from lastcall.call import Call, FirstResult, Outcome, Usage, Where
from lastcall.events import Event
from lastcall.guard import Guard, UnscopedError
from lastcall.policy import Policy
from lastcall.policy_file import PolicyError
from lastcall.report import Incident
from lastcall.stop import Gathered, Stop, Stopped
from lastcall.stores import MemoryStore
from lastcall.switch import Kill, Switch
from lastcall.tool import ToolPolicy
from lastcall.verdict import Ticket, Verdict

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
