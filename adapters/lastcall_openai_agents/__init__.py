"""Lastcall in the OpenAI Agents SDK."""

try:
    import agents as _agents
except ModuleNotFoundError as missing:
    raise ImportError(
        'lastcall_openai_agents needs the OpenAI Agents SDK: pip install "lastcall[openai-agents]"'
    ) from missing

from lastcall_openai_agents.ask import stops_in
from lastcall_openai_agents.coverage import Coverage, Gap, coverage
from lastcall_openai_agents.endings import RunStopped, StopText, stop_of
from lastcall_openai_agents.failures import SEAM as _FAILURES
from lastcall_openai_agents.graph import guard_agent
from lastcall_openai_agents.handovers import SEAM as _HAND_OVERS
from lastcall_openai_agents.hooks import GuardHooks
from lastcall_openai_agents.instrument import instrument
from lastcall_openai_agents.runner import install, snapshot_of
from lastcall_openai_agents.tools import guard_tool, guard_tools
from lastcall_openai_agents.unasked import SEAM as _UNASKED

del _agents
install()
_HAND_OVERS.keep()
_FAILURES.keep()
_UNASKED.keep()

__all__ = [
    "Coverage",
    "Gap",
    "GuardHooks",
    "RunStopped",
    "StopText",
    "coverage",
    "guard_agent",
    "guard_tool",
    "guard_tools",
    "instrument",
    "snapshot_of",
    "stop_of",
    "stops_in",
]
