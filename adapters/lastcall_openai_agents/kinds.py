"""Guarded copies of tools that are no function tools, and why there may be none."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from agents import ComputerTool, ShellTool

from lastcall import Guard, ToolPolicy
from lastcall_openai_agents.calls import PLAIN
from lastcall_openai_agents.computers import ACTING, marked
from lastcall_openai_agents.guards import marks
from lastcall_openai_agents.native import FIELDS, Body, body_of, kind_of

HOSTED = "run by the model's provider; calls are counted where its answers show them"
HOSTED_SHELL = "its commands run in a container of the model's provider"
UNKNOWN = "this release of the SDK executes it in a way that is not known here"


def guarded_native(tool: Any, guard: Guard, declared: ToolPolicy = PLAIN) -> Any:
    """A copy of *tool* guarded by *guard*; *tool* itself when it is guarded, or cannot be."""
    if gap_of(tool) is not None or guard in guards_of_native(tool):
        return tool
    if isinstance(tool, ComputerTool):
        ACTING.keep()
        return marked(tool, guard)
    copied, (field, _) = copy.copy(tool), kind_of(tool)
    setattr(copied, field, body_of(tool, getattr(tool, field), guard, declared))
    return copied


def guards_of_native(tool: Any) -> Iterator[Guard]:
    """The guards that *tool* passes already."""
    if isinstance(tool, ComputerTool):
        yield from marks(tool)
    elif isinstance(tool, tuple(FIELDS)):
        body = getattr(tool, kind_of(tool)[0])
        while isinstance(body, Body):
            yield body.passage.guard
            body = body.inner


def gap_of(tool: Any) -> str | None:
    """Why no guard can stop *tool*, which is no function tool; None when one can."""
    if isinstance(tool, ShellTool) and tool.executor is None:
        return HOSTED_SHELL
    if isinstance(tool, ComputerTool):
        return None if ACTING.there else UNKNOWN
    return None if isinstance(tool, tuple(FIELDS)) else HOSTED
