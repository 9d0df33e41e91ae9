"""Where a call is made, for guarded functions in agents that know nothing of us."""

from __future__ import annotations

from lastcall import Guard, Where
from lastcall_openai_agents.runner import install
from lastcall_openai_agents.runs import around


class SdkScope:
    """Finds the run around a call: by the runner, which is installed once this is loaded."""

    def __init__(self) -> None:
        install()

    def find(self, guard: Guard) -> Where | None:
        """The root run and the agent at work; None outside any run."""
        frame = around()
        if frame is None:
            return None
        frame.run.use(guard)
        return frame.where()

    def covers(self, guard: Guard, tool: str) -> bool:  # noqa: ARG002 - the contract
        """Guarded tools mark their bodies, so nothing is covered unmarked."""
        return False


SCOPE = SdkScope()
