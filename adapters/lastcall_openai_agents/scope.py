"""Where a call is made, for guarded functions in agents that know nothing of us."""

from __future__ import annotations

from collections.abc import Awaitable

from lastcall import Call, Guard, Stop, Stopped, Where
from lastcall.contracts import Scope
from lastcall_openai_agents.around import around
from lastcall_openai_agents.endings import RunStopped
from lastcall_openai_agents.runner import install


class SdkScope(Scope):
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

    def ready(self, guard: Guard) -> Awaitable[None] | None:
        """Find out which run goes on that another process paused."""
        frame = around()
        return None if frame is None or frame.run.foreign is None else frame.run.ause(guard)

    def asked(self, call: Call) -> Call:
        """*call* with its reply, and its id where that is certain: a decorated function knows neither."""
        frame = around()
        return call if frame is None else frame.meant(call)

    def stopped(self, stop: Stop) -> Stopped:
        """An exception that the SDK hands on as it is, where a tool's failures are meant to end the run."""
        return RunStopped(stop)


SCOPE = SdkScope()
