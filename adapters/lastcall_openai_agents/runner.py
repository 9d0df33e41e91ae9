"""The runner that tells us where a run begins and ends, whoever starts it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agents import Agent, Handoff, RunConfig, RunResult, RunResultStreaming, RunState
from agents.lifecycle import RunHooksBase
from agents.tool_context import ToolContext

from lastcall import Guard, Stop, Stopped
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.endings import ENDED, RunStopped, StopText, stop_of
from lastcall_openai_agents.hooks import GuardHooks, Passing, Watch
from lastcall_openai_agents.runs import PAUSED, SWAPS, Frame, Run, hash_of, here, inside, waiting_in

log = logging.getLogger("lastcall")


def install() -> None:
    """Have every run of this process begin and end in a frame. Doing it twice does it once."""
    runner = _sdk.default_runner()
    if not isinstance(runner, FramedRunner):
        _sdk.set_default_runner(FramedRunner(runner))


class FramedRunner(_sdk.AgentRunner):
    """Runs agents as *inner* does, each run in a frame of its own."""

    def __init__(self, inner: _sdk.AgentRunner) -> None:
        self.inner = inner

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 - the SDK's name
        """As the SDK's."""
        with framed(starting_agent, input, options) as (frame, agent):
            pending: tuple[Any, ...] = ()
            try:
                result = await self.inner.run(agent, input, **options)
                pending = waits_for(frame, result)
            except Exception as error:
                if frame.last is None or isinstance(error, Stopped):
                    raise
                raise not_given(error, frame.last) from error
            finally:
                frame.close(pending)
            return marked(result, frame)

    def run_sync(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 - the SDK's name
        """As the SDK's."""
        with framed(starting_agent, input, options) as (frame, agent):
            pending: tuple[Any, ...] = ()
            try:
                result = self.inner.run_sync(agent, input, **options)
                pending = waits_for(frame, result)
            except Exception as error:
                if frame.last is None or isinstance(error, Stopped):
                    raise
                raise not_given(error, frame.last) from error
            finally:
                frame.close(pending)
            return marked(result, frame)

    def run_streamed(
        self,
        starting_agent: Agent[Any],
        input: Any,  # noqa: A002 - the SDK's name
        **options: Any,
    ) -> RunResultStreaming:
        """As the SDK's; the frame ends with the task that does the work."""
        with framed(starting_agent, input, options) as (frame, agent):
            try:
                result = self.inner.run_streamed(agent, input, **options)
            except BaseException:
                frame.close()
                raise
        task = result.run_loop_task
        if task is None:
            frame.close()
        else:
            task.add_done_callback(lambda _: frame.close(waits_for(frame, result)))
        setattr(result, ENDED, frame.told)
        return result


def marked(result: RunResult, frame: Frame) -> RunResult:
    """*result*, which knows the stop that it may not show."""
    setattr(result, ENDED, frame.told)
    if frame.last is not None and isinstance(result.final_output, str):
        result.final_output = StopText(frame.last, result.final_output)
    return result


def not_given(error: Exception, stop: Stop) -> RunStopped:
    """What a run ends with whose model could not be asked for a last answer."""
    log.warning("no last answer was given: %r", error)
    ended = RunStopped(stop)
    ended.run_data = getattr(error, "run_data", None)
    return ended


@contextmanager
def framed(
    starting_agent: Agent[Any], started: Any, options: dict[str, Any]
) -> Iterator[tuple[Frame, Agent[Any]]]:
    """A frame for one run, the agent to start with, and in *options* the hooks that watch it."""
    agent = starting_agent
    swaps = SWAPS.get()
    while id(agent) in swaps:
        agent = swaps[id(agent)]
    frame = opened(agent, started, options)
    hooks = options.get("hooks")
    if hooks is None or isinstance(hooks, RunHooksBase):
        options["hooks"] = Watch(frame, hooks)
    formatted(agent, options)
    with inside(frame):
        yield frame, agent


def opened(agent: Agent[Any], started: Any, options: dict[str, Any]) -> Frame:
    """The frame of a run that begins, or that of the paused one that goes on."""
    outer = here()
    pending: tuple[Any, ...] = ()
    if isinstance(started, RunState):
        pending = pending_of(0 if outer is None else 1, started.get_interruptions())
        paused = PAUSED.take(pending)
        if paused is not None:
            return paused
    frame = Frame(outer.run if outer else Run(), outer, options.get("context"))
    frame.agent = agent
    frame.path = (*(outer.path if outer else ()), agent.name)
    session = getattr(options.get("session"), "session_id", None)
    thread = session or options.get("conversation_id")
    frame.thread = thread if isinstance(thread, str) else frame.thread
    if pending and frame.root:
        frame.run.foreign = waiting_in(pending, frame.thread), hash_of(pending)
        frame.run.waiting.append(frame)
    return frame


def waits_for(frame: Frame, result: RunResult | RunResultStreaming) -> tuple[Any, ...]:
    """What names the pause of *frame*; empty when the run is over."""
    items = result.interruptions
    return pending_of(0 if frame.root else 1, items) if items else ()


def snapshot_of(result: RunResult | RunResultStreaming, guard: Guard) -> bytes:
    """The counts of a run that waits for a person, to go on with in another process: there
    `guard.restore(...)` comes before the run is resumed from its state. Raises ValueError when *result*
    waits for nobody."""
    pending = pending_of(0, result.interruptions) if result.interruptions else ()
    frame = PAUSED.find(pending)
    if frame is None:
        raise ValueError("this run waits for nobody, so there is nothing to go on with elsewhere")
    return guard.snapshot(thread=waiting_in(pending, frame.thread))


def pending_of(depth: int, items: list[Any]) -> tuple[Any, ...]:
    """The calls that a person has to decide on, as they are also found in a state from JSON."""
    calls = (
        tuple(str(field(item.raw_item, name)) for name in ("call_id", "id", "name", "arguments"))
        for item in items
    )
    return (depth, *sorted(calls))


def field(item: Any, name: str) -> Any:
    """A field of an item, which is an object before and a mapping after JSON."""
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)


def formatted(agent: Agent[Any], options: dict[str, Any]) -> None:
    """Put a formatter in *options* through which the model reads the stop that a failing tool ends in.
    Only where it is needed: tools that are merely decorated, or hooks."""
    guards = tuple(hooks_in(options.get("hooks")))
    if not _sdk.SHOWS_ERRORS or not (guards or decorated(agent)):
        return
    config: RunConfig | dict[str, Any] | None = options.get("run_config")
    if isinstance(config, RunConfig):
        own: Any = config.tool_error_formatter
    else:
        own = (config or {}).get("tool_error_formatter")

    async def formatter(args: Any) -> str | None:
        said = await spoken(args, guards)
        if said is None and own is not None:
            said = own(args)
            said = await said if hasattr(said, "__await__") else said
        return said

    if isinstance(config, RunConfig):
        options["run_config"] = replace(config, tool_error_formatter=formatter)
    else:
        # A mapping, so that the SDK still makes, and closes, the model provider itself.
        options["run_config"] = {**(config or {}), "tool_error_formatter": formatter}


async def spoken(args: Any, guards: tuple[GuardHooks, ...]) -> str | None:
    """What the model should read of a failure; None for what it would have read anyway."""
    error, ctx = getattr(args, "error", None), args.run_context
    if error is None or not isinstance(ctx, ToolContext):
        return None
    for hooks in guards:
        said = await hooks.failed(ctx, error)
        if said is not None:
            return said
    stop = stop_of(error) if isinstance(error, Stopped) else None
    return None if stop is None else stop.text


def hooks_in(hooks: Any) -> Iterator[GuardHooks]:
    """The guarding ones among hooks that pass on to others."""
    while isinstance(hooks, Passing):
        if isinstance(hooks, GuardHooks):
            yield hooks
        hooks = hooks.hooks


def decorated(agent: Agent[Any]) -> bool:
    """Whether a tool of *agent*, or of one that it may hand over to, is a guarded function."""
    waiting, seen = [agent], {id(agent)}
    while waiting:
        at = waiting.pop()
        if any(hasattr(_sdk.function_of(tool), "__lastcall__") for tool in at.tools):
            return True
        for lead in at.handoffs:
            target = _sdk.target_of(lead) if isinstance(lead, Handoff) else lead
            if isinstance(target, Agent) and id(target) not in seen:
                seen.add(id(target))
                waiting.append(target)
    return False
