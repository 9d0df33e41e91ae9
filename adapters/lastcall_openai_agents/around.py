"""Which `Runner.run` something belongs to: the one around it, or the one whose usage it shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from agents import Agent, RunContextWrapper

from lastcall import Guard
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.frames import Frame
from lastcall_openai_agents.gone import catch_up, when_gone
from lastcall_openai_agents.guards import EVERYWHERE
from lastcall_openai_agents.runs import Run

FRAME: ContextVar[Frame | None] = ContextVar("lastcall_openai_agents_frame", default=None)
SWAPS: ContextVar[Mapping[int, Agent[Any]]] = ContextVar("lastcall_openai_agents_swaps", default={})  # noqa: B039 - never written to
"""The guarded copies to run in place of the agents of agent tools, by the id of the agent."""
_ANCHORED: dict[int, Frame] = {}


def here() -> Frame | None:
    """The innermost `Runner.run` around us that is still going on."""
    frame = FRAME.get()
    return frame if frame is not None and frame.run.open else None


def around() -> Frame | None:
    """The same, also where another runner than ours is in use."""
    catch_up()
    frame = here()
    if frame is not None:
        return frame
    owner = _sdk.enclosing_run()
    return None if owner is None else anchored(owner)


def at(ctx: RunContextWrapper[Any]) -> Frame:
    """The `Runner.run` that *ctx* belongs to. Its usage object is shared by all of a root run."""
    return here() or anchored(ctx.usage, ctx.context)


@contextmanager
def inside(frame: Frame) -> Iterator[Frame]:
    """Let what is asked in the block be asked in *frame*."""
    token = FRAME.set(frame)
    try:
        yield frame
    finally:
        FRAME.reset(token)


def anchored(anchor: object, context: Any = None) -> Frame:
    """The frame of a run of which only *anchor* is known, an object that lives as long as it."""
    frame = _ANCHORED.get(id(anchor))
    if frame is None:
        made = Frame(Run(), context=context)
        # Two threads of one run may come at once; the first frame is that of both.
        frame = _ANCHORED.setdefault(id(anchor), made)
        if frame is made:
            when_gone(anchor, partial(loosened, id(anchor)))
    return frame


def loosened(anchor: int) -> None:
    """The anchor of a frame is gone, so its run is over."""
    frame = _ANCHORED.pop(anchor, None)
    if frame is not None:
        frame.close()


async def aloosened(anchor: int) -> None:
    """`loosened` for an event loop."""
    frame = _ANCHORED.pop(anchor, None)
    if frame is not None:
        await frame.aclose()


def passed_by(ctx: RunContextWrapper[Any], call: str, arguments: str) -> list[Guard]:
    """The guards that *call* meets where the SDK executes it: those of the moment, those of the run's hooks,
    and those that have let it pass and wait for what comes of it."""
    frame = here() or _ANCHORED.get(id(ctx.usage))
    if frame is None:
        return list(EVERYWHERE)
    return list(dict.fromkeys([*EVERYWHERE, *frame.hooked, *frame.leave(call, arguments)]))
