"""Computers: a call is many small actions and one picture, so it is guarded around all of them."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any
from weakref import WeakKeyDictionary

from agents import ComputerTool

from lastcall import Guard
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.around import at
from lastcall_openai_agents.calls import Passage
from lastcall_openai_agents.frames import Frame
from lastcall_openai_agents.guards import EVERYWHERE, MARK, marks
from lastcall_openai_agents.native import Body
from lastcall_openai_agents.passing_on import guards_in
from lastcall_openai_agents.seams import Seam

BLANK = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC"
)
"""One white pixel: what a computer shows that was never allowed to show anything."""


def marked(tool: ComputerTool[Any], guard: Guard) -> ComputerTool[Any]:
    """A copy of *tool* that is known to be guarded."""
    copied = copy.copy(tool)
    _sdk.bind_computer(copied)
    setattr(copied, MARK, (*marks(tool), guard))
    return copied


PICTURES: WeakKeyDictionary[Frame, str] = WeakKeyDictionary()
"""The last picture of each run that uses a computer."""


def capturing(action: Any, given: dict[str, Any], guards: list[Guard]) -> Any:
    """*action*, the class that executes computer calls, for the one call in *given*."""
    ctx, agent, tool = given["context_wrapper"], given["agent"], given["action"].computer_tool
    bodies = [Body(Passage(guard), None, tool.name, agent) for guard in guards]

    async def captured(_: Any, computer: Any, call: Any) -> str:
        frame = at(ctx)

        async def body() -> str:
            picture: str = await getattr(action, _sdk.CAPTURE)(computer, call)
            PICTURES[frame] = picture
            return picture

        passed: Callable[[], Awaitable[str]] = body
        for each in bodies:
            passed = partial(
                each.passed,
                ctx,
                call.call_id,
                actions_of(call),
                passed,
                raises=lambda: True,
                # A picture is all that such a call can be answered with: that of before.
                answer=lambda *_: PICTURES.get(frame, BLANK),
            )
        return await passed()

    return type(action.__name__, (action,), {_sdk.CAPTURE: classmethod(captured)})


def actions_of(call: Any) -> dict[str, Any]:
    """What the model wants done, as the arguments of its call."""
    actions = call.actions or ([] if call.action is None else [call.action])
    return {"actions": [each.model_dump(exclude_none=True) for each in actions]}


def acting(execute: Callable[..., Any]) -> Callable[..., Any]:
    """*execute* of a computer, behind the guards of the tool, of the moment and of the run's hooks."""

    @wraps(execute)
    async def guarded(cls: Any, **given: Any) -> Any:
        own = marks(given["action"].computer_tool)
        guards = list(dict.fromkeys([*own, *EVERYWHERE, *guards_in(given["hooks"])]))
        return await execute(capturing(cls, given, guards) if guards else cls, **given)

    return guarded


ACTING = Seam(_sdk.NATIVE["ComputerTool"].place, acting)
"""Open once a computer is guarded, or there are guarding hooks: copies of the tool are only marked."""
