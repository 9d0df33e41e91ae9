"""Takes tools that are closed for the turn out of the model's request, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lastcall import Guard
from lastcall_langchain.answers import with_instruction, without_tools
from lastcall_langchain.places import run_of

if TYPE_CHECKING:
    from langchain.agents.middleware import ModelRequest


def withdrawn(guard: Guard, request: ModelRequest) -> ModelRequest:
    """*request* without the tools that every call would be refused of, and with a word on each."""
    run = run_of()
    return request if run is None else without(guard.closed(run.root.run), request)


async def awithdrawn(guard: Guard, request: ModelRequest) -> ModelRequest:
    """`withdrawn` for an event loop."""
    run = run_of()
    return request if run is None else without(await guard.aclosed(run.root.run), request)


def without(closed: dict[str, str], request: ModelRequest) -> ModelRequest:
    """*request* without the tools that are *closed*, each with the reason."""
    gone = [name for name in map(name_of, request.tools) if name in closed]
    if not gone:
        return request
    kept = [tool for tool in request.tools if name_of(tool) not in closed]
    less = request.override(tools=kept)
    if chosen(request.tool_choice) in closed or not kept:
        less = less.override(tool_choice=None)
    if not kept:
        less = less.override(model_settings=without_tools(request.model_settings))
    return with_instruction(less, " ".join(told(name, closed[name]) for name in gone))


def name_of(tool: Any) -> str | None:
    """The name of a tool, which may be but a description for the provider."""
    if isinstance(tool, Mapping):
        inner = tool.get("function")
        return (inner if isinstance(inner, Mapping) else tool).get("name")
    return getattr(tool, "name", None)


def chosen(choice: Any) -> str | None:
    """The one tool that the model is forced to call."""
    return name_of(choice) if isinstance(choice, Mapping) else choice


def told(tool: str, why: str) -> str:
    """What the model is told of a tool that is gone."""
    return (
        f"{tool} is closed for this turn ({why}): do without it, and tell the user what is missing."
    )
