"""The runner that tells us where a run begins and ends, whoever starts it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import ref

from agents import Agent, RunResult, RunResultStreaming, RunState, ToolCallOutputItem
from agents.exceptions import RunErrorDetails
from agents.lifecycle import RunHooksBase

from lastcall import Guard, Stop, Stopped
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.around import SWAPS, here, inside
from lastcall_openai_agents.endings import ENDED, RunStopped, StopText
from lastcall_openai_agents.frames import Frame
from lastcall_openai_agents.hooks import Watch
from lastcall_openai_agents.passing_on import guards_in
from lastcall_openai_agents.paused import PAUSED, hash_of, waiting_in
from lastcall_openai_agents.read import formatted
from lastcall_openai_agents.runs import Run

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
            try:
                result = await self.inner.run(agent, input, **options)
                pending = waits_for(frame, result)
            except Exception as error:
                await frame.aclose()
                if frame.last is None or isinstance(error, Stopped):
                    raise
                raise not_given(error, frame, frame.last) from error
            except BaseException:
                # Not awaited: what is being cancelled may not get to run again.
                frame.close()
                raise
            await frame.aclose(pending)
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
                raise not_given(error, frame, frame.last) from error
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
            result.run_loop_task = closing(task, frame, result)
        setattr(result, ENDED, frame.told)
        frame.on_last = partial(stopping, ref(result), frame)
        return result


def closing(task: asyncio.Task[Any], frame: Frame, result: RunResultStreaming) -> asyncio.Task[Any]:
    """*task*, the work of a streamed run, as one that ends once *frame* is closed too: a callback of a task
    could not wait for a store without blocking the event loop."""
    begun: list[bool] = []
    outer = asyncio.create_task(closed_after(task, frame, result, begun))

    def called_off(_: asyncio.Task[Any]) -> None:
        # One that was cancelled before it began has passed nothing on.
        if outer.cancelled():
            task.cancel()

    outer.add_done_callback(called_off)
    task.add_done_callback(lambda _: None if begun else frame.close(waits_for(frame, result)))
    return outer


async def closed_after(
    task: asyncio.Task[Any], frame: Frame, result: RunResultStreaming, begun: list[bool]
) -> Any:
    """What *task* comes to."""
    begun.append(True)
    try:
        value = await task
    except asyncio.CancelledError:
        # Not awaited: what is being cancelled may not get to run again.
        frame.close(waits_for(frame, result))
        raise
    except BaseException:
        await frame.aclose(waits_for(frame, result))
        # The SDK sees to it that no error keeps the data of its run alive.
        del frame, result
        raise
    await frame.aclose(waits_for(frame, result))
    return value


def marked(result: RunResult, frame: Frame) -> RunResult:
    """*result*, which knows the stop that it may not show."""
    setattr(result, ENDED, frame.told)
    if frame.last is not None and isinstance(result.final_output, str):
        result.final_output = StopText(frame.last, result.final_output)
    return result


def not_given(error: Exception, frame: Frame, stop: Stop) -> RunStopped:
    """What the run of *frame* ends with whose model could not be asked for a last answer."""
    log.warning("no last answer was given: %r", error)
    ended = RunStopped(stop)
    # The SDK gives data to errors of its own alone; what a provider raised brings none.
    ended.run_data = getattr(error, "run_data", None) or data_of(frame)
    return ended


def data_of(frame: Frame) -> RunErrorDetails | None:
    """What the run of *frame* had brought when its model was asked for a last answer: the last reply, the
    answers to its calls, and as the input all that was before."""
    if frame.sent is None or frame.response is None:
        return None
    context, agent, sent = frame.sent
    before: list[Any] = []
    answers: list[Any] = []
    for item in sent:
        if str(item.get("type")).endswith("_output") and frame.holds(str(item.get("call_id"))):
            answers.append(
                ToolCallOutputItem(agent=agent, raw_item=item, output=item.get("output"))
            )
        else:
            before.append(item)
    return RunErrorDetails(
        input=before,
        new_items=answers,
        raw_responses=[frame.response],
        last_agent=agent,
        context_wrapper=context,
        input_guardrail_results=[],
        output_guardrail_results=[],
    )


def stopping(result: ref[RunResultStreaming], frame: Frame) -> None:
    """Let *result*, streamed, end with the stop when its model cannot be asked for a last answer. It tells
    of an error by the task that does the work, so another one takes its place."""
    streamed, stop = result(), frame.last
    task = None if streamed is None else streamed.run_loop_task
    if streamed is None or task is None or stop is None:
        return

    async def work() -> Any:
        try:
            return await task
        except Exception as error:
            if isinstance(error, Stopped):
                raise
            raise not_given(error, frame, stop) from error

    def called_off(outer: asyncio.Task[Any]) -> None:
        # One that was cancelled before it began has passed nothing on.
        if outer.cancelled():
            task.cancel()

    streamed.run_loop_task = asyncio.create_task(work())
    streamed.run_loop_task.add_done_callback(called_off)


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
    frame.hooked = tuple(guards_in(hooks))
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
