"""Says of an agent which of its tools a guard can stop, and attaches one to it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.tools import BaseTool

from lastcall import Guard
from lastcall_langchain.callbacks import GuardCallbackHandler
from lastcall_langchain.usage import hosted_names

log = logging.getLogger("lastcall")

HOSTED = "run by the model's provider; calls are counted where its answers show them"
SCHEMA = "a call of a structured answer runs no tool"
DIRECT = (
    "called by `.func` or `._run`, past LangChain, these tools pass no guard but `guard.wrap`: %s"
)

R = TypeVar("R", bound=Runnable[Any, Any])


class Gap(NamedTuple):
    """Something that no guard can stop here, and why."""

    tool: str
    why: str


class Coverage(NamedTuple):
    """What a guard can stop of an agent, as far as the agent shows its tools."""

    guarded: tuple[str, ...]
    """The tools that run here; a guard that is attached sees every call of them."""
    gaps: tuple[Gap, ...]
    direct: tuple[str, ...] = ()
    """Those of the guarded whose own function no guard decorates: code of yours that calls it past
    LangChain, by `.func` or `._run`, is not seen. `guard.wrap` on the function closes that."""


def coverage(agent: Any) -> Coverage:
    """What a guard can stop of *agent*: a compiled graph, a runnable, or a list of tools.

    Tools that a node keeps to itself, and those that middleware adds to a request, show only when the
    model is asked; the guard names them in a log warning then.
    """
    tools: dict[str, BaseTool] = {}
    gaps: dict[str, Gap] = {}
    for found in tools_in(agent, {}):
        if isinstance(found, BaseTool):
            tools[found.name] = found
        elif isinstance(found, Gap):
            gaps[found.tool] = found
        else:
            for name in hosted_names([found]):
                gaps[name] = Gap(name, HOSTED)
    direct = [name for name, tool in tools.items() if not decorated(tool)]
    return Coverage(tuple(tools), tuple(gaps.values()), tuple(direct))


def attach(agent: R, guard: Guard) -> R:
    """*agent* with a handler of *guard*, a log warning for every tool that it cannot stop, and a note of
    those that code of yours might call past it."""
    found = coverage(agent)
    for gap in found.gaps:
        log.warning("%s is not guarded: %s", gap.tool, gap.why)
    if found.direct:
        log.info(DIRECT, ", ".join(found.direct))
    attached: Any = agent.with_config(callbacks=[GuardCallbackHandler(guard)])
    return attached  # type: ignore[no-any-return]


def decorated(tool: BaseTool) -> bool:
    """Whether a guard decorates the function of *tool* itself."""
    bodies = (getattr(tool, name, None) for name in ("func", "coroutine"))
    return any(hasattr(body, "__lastcall__") for body in bodies)


def tools_in(value: Any, seen: dict[int, Any]) -> Iterator[Any]:
    """Tools, descriptions of tools for a provider, and gaps, wherever *value* shows them."""
    if id(value) in seen:
        return
    # Kept alive too: an object that is gone leaves its id to another.
    seen[id(value)] = value
    if isinstance(value, BaseTool):
        yield value
    elif isinstance(value, Mapping):
        if "type" in value or len(value) == 1:
            yield value
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for each in value:
            yield from tools_in(each, seen)
    elif type(value).__name__ == "ToolStrategy":
        for spec in getattr(value, "schema_specs", ()):
            yield Gap(spec.name, SCHEMA)
    else:
        for part in parts(value):
            yield from tools_in(part, seen)


def parts(value: Any) -> Iterator[Any]:
    """What an agent is made of: nodes, steps, tools that are bound, and what a node's function keeps."""
    nodes = getattr(value, "nodes", None)
    if isinstance(nodes, Mapping):
        yield from [getattr(node, "bound", None) for node in nodes.values()]
    yield from [list(getattr(value, "tools_by_name", {}).values())]
    yield from [list(getattr(value, "steps", ()))]
    if isinstance(value, RunnableBindingBase):
        yield value.bound
        bound = value.kwargs.get("tools")
        yield list(bound) if isinstance(bound, Sequence) else None
    function = getattr(value, "func", None)
    if inspect.isfunction(function):
        yield from inspect.getclosurevars(function).nonlocals.values()
