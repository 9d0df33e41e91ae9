"""How a run ends: with the stop as its final output, or with an exception of the SDK's own kind."""

from __future__ import annotations

import inspect
from typing import Any, Self, cast

from agents import (
    Agent,
    FunctionToolResult,
    RunContextWrapper,
    StopAtTools,
    ToolsToFinalOutputFunction,
    ToolsToFinalOutputResult,
)
from agents.exceptions import AgentsException

from lastcall import Call, Guard, Stop, Stopped, Where
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.answers import Final, due
from lastcall_openai_agents.around import at, inside
from lastcall_openai_agents.ask import rejected
from lastcall_openai_agents.frames import Frame
from lastcall_openai_agents.shown import show

ENDED = "_lastcall_stop"
"""Where a result keeps what it may not show: by which stop its run ended."""

Behavior = str | StopAtTools | ToolsToFinalOutputFunction[Any]


class RunStopped(AgentsException, Stopped):
    """Ends a run where the SDK leaves no other way. `.stop` is the whole story, `.run_data` what the run
    had brought; every call in it is answered."""


class StopText(str):
    """The text of a stop, or the model's last answer, as a final output, with the stop itself as `.stop`."""

    __slots__ = ("stop",)
    stop: Stop

    def __new__(cls, stop: Stop, text: str | None = None) -> Self:
        """*text*, or that of *stop*, which comes along."""
        made = super().__new__(cls, text or stop.text)
        made.stop = stop
        return made

    def __str__(self) -> str:
        # The SDK makes a plain text of every final output, by this.
        return self

    def __getnewargs__(self) -> tuple[Stop, str]:  # type: ignore[override]
        return (self.stop, str.__str__(self))


def stop_of(result: object) -> Stop | None:
    """The stop that ended a run: from its result, streamed or not, its final output, or the exception
    that it ended with. None for a run that ended by itself."""
    if isinstance(result, Stop):
        return result
    if isinstance(result, StopText | Stopped):
        return result.stop
    if isinstance(result, BaseException):
        cause = result.__cause__ or result.__context__
        return None if cause is None else stop_of(cause)
    final = getattr(result, "final_output", None)
    if isinstance(final, Stop | StopText):
        return stop_of(final)
    # A last answer is the model's own text, and an output may be made by the user's own function.
    told: Stop | None = getattr(getattr(result, ENDED, None), "stop", None)
    if told is not None:
        return told
    error = _sdk.streamed_error(cast("Any", result))
    return None if error is None else stop_of(error)


async def ending(guard: Guard, frame: Frame) -> Stop | None:
    """The stop that keeps the model of *frame* from being asked again; None when it may be."""
    await frame.run.ause(guard)
    stop = await rejected(guard, frame)
    if stop is not None:
        return stop
    agent = frame.agent.name if frame.agent else None
    with inside(frame):
        verdict = await guard.adecide(Call("model", kind="model", where=Where(agent=agent)))
    if verdict.ticket is not None:
        frame.grant(guard, verdict.ticket)
    if verdict.stop is None or verdict.stop.reason == "kill":
        return verdict.stop
    # What ended the run tells more than that the model may not be asked for it.
    report = guard.report(verdict.call.where.run or "")
    if report is None or report.stopped_by is None:
        return verdict.ending or verdict.stop
    return report.stopped_by.model_copy(update={"gathered": report.gathered})


async def end(frame: Frame) -> None:
    """Before a model is asked: raise RunStopped when a guard that was asked in this run says it is over."""
    for guard in tuple(frame.run.guards):
        if guard in frame.asked:
            continue
        stop = await ending(guard, frame)
        frame.asked.add(guard)
        if stop is not None:
            show(guard.hidden(stop))
            raise RunStopped(stop)


class Ending:
    """A `tool_use_behavior` that ends a stopped run as a normal result, and is *own* otherwise."""

    def __init__(
        self,
        guard: Guard,
        own: Any,
        agent: Agent[Any],
        final: Final = Final(),  # noqa: B008 - a constant
    ) -> None:
        self.guard = guard
        self.own = own
        self.final = final
        self._structured = structured(agent)

    def covers(self, guard: Guard) -> bool:
        """Whether *guard* is among those asked."""
        return self.guard is guard or (isinstance(self.own, Ending) and self.own.covers(guard))

    async def __call__(
        self, ctx: RunContextWrapper[Any], results: list[FunctionToolResult]
    ) -> ToolsToFinalOutputResult:
        """Ask the guard whether the model may be asked again."""
        said = await self.over(ctx)
        return await behaving(self.own, ctx, results) if said is None else said

    async def over(self, ctx: RunContextWrapper[Any]) -> ToolsToFinalOutputResult | None:
        """How a run ends that the guard has stopped, or goes on to its last answer; None for others."""
        frame = at(ctx)
        stop = await ending(self.guard, frame)
        frame.asked.add(self.guard)
        frame.answered += 1
        if stop is None:
            return None
        show(self.guard.hidden(stop))
        if self.final.last_answer and due(self.guard, frame, frame.agent, stop):
            return ToolsToFinalOutputResult(False, None)
        frame.told.stop = stop
        if not (structured(frame.agent) if frame.agent else self._structured):
            return ToolsToFinalOutputResult(True, StopText(stop))
        made = stop if self.final.output is None else self.final.output(stop)
        return ToolsToFinalOutputResult(True, made)


async def over(agent: Agent[Any], ctx: RunContextWrapper[Any]) -> ToolsToFinalOutputResult | None:
    """How a run ends in which *agent* is at work, by the first of its guards that has stopped it."""
    behavior: Any = agent.tool_use_behavior
    while isinstance(behavior, Ending):
        said = await behavior.over(ctx)
        if said is not None:
            return said
        behavior = behavior.own
    return None


def structured(agent: Agent[Any]) -> bool:
    """Whether the final output of *agent* is more than a text."""
    return agent.output_type is not None and agent.output_type is not str


async def behaving(
    own: Behavior, ctx: RunContextWrapper[Any], results: list[FunctionToolResult]
) -> ToolsToFinalOutputResult:
    """What the user's own `tool_use_behavior` says, by the SDK's rules."""
    if own == "stop_on_first_tool":
        return ToolsToFinalOutputResult(True, results[0].output)
    if isinstance(own, dict):
        names = own.get("stop_at_tool_names", [])
        for result in results:
            if result.tool.name in names or result.tool.qualified_name in names:
                return ToolsToFinalOutputResult(True, result.output)
    if not callable(own):
        return ToolsToFinalOutputResult(False, None)
    said = own(ctx, results)
    if inspect.isawaitable(said):
        said = await said
    return said
