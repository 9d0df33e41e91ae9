"""What a tool's answer means to the guard: the raw result where it was heard, else what LangChain made
of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from langchain_core.messages import ToolMessage

from lastcall import Guard, Outcome, Stopped, Ticket
from lastcall.idempotency import remembered
from lastcall_langchain.control import bubbles, pauses

HEARD: ContextVar[list[Any] | None] = ContextVar("lastcall_heard", default=None)
"""Where a tool's body leaves its raw result or exception, before LangChain makes text of it."""


def hear(what: Any) -> None:
    """Tell whoever guards this call what its body returned or raised."""
    heard = HEARD.get()
    if heard is not None:
        heard[:] = [what]


def returned(guard: Guard, ticket: Ticket, value: Any, heard: list[Any]) -> Outcome:
    """The outcome of a call that gave *value*, whose body left *heard*."""
    outcome = read(guard, ticket, value, heard)
    result = value.content if isinstance(value, ToolMessage) else value
    return remembered(ticket, outcome, result)


def message(result: Any, call_id: str, tool: str) -> ToolMessage:
    """*result*, what a call brought, as the answer to another one."""
    shown = isinstance(result, str) or (isinstance(result, list) and all(map(is_block, result)))
    text = result if shown else json.dumps(result, ensure_ascii=False)
    return ToolMessage(text, tool_call_id=call_id, name=tool)


def is_block(part: Any) -> bool:
    """Whether *part* of a list is a part of a message; of other lists LangChain makes text."""
    return isinstance(part, str) or (isinstance(part, dict) and "type" in part)


def read(guard: Guard, ticket: Ticket, value: Any, heard: list[Any]) -> Outcome:
    """What the guard reads from it."""
    raw = heard[0] if heard else value
    if is_command(value) or isinstance(value, list):
        # Where the graph goes on is decided by it, so no answer on the wire is put in its place.
        return guard.bodies.paid(Outcome("ok", visible(value)))
    if not isinstance(value, ToolMessage):
        return guard.returned(ticket, raw)
    if value.status == "error":
        # `handle_tool_error` made a text of the exception that has the status.
        if isinstance(raw, BaseException):
            return raised(guard, ticket, raw)
        return guard.returned(ticket, value.content, failed=True)
    # A tuple is a text and an artifact; a message that a tool made itself is like any other.
    model_sees = value.content if isinstance(raw, ToolMessage | tuple) else raw
    return guard.returned(ticket, model_sees)


def raised(guard: Guard, ticket: Ticket, error: BaseException) -> Outcome:
    """The outcome of a call that raised *error*."""
    outcome = flow(error)
    if outcome is not None:
        return guard.bodies.paid(outcome)
    if isinstance(error, Stopped):
        # Somebody inside was stopped. The status it names is not this call's.
        return guard.bodies.seen(ticket, Outcome("error", str(error), error=str(error)))
    return guard.raised(ticket, error)


def flow(error: BaseException) -> Outcome | None:
    """The outcome where *error* is LangGraph's control flow: a pause, or a command to a parent."""
    if pauses(error):
        return Outcome("paused")
    if bubbles(error):
        return Outcome("ok", visible(error.args[0] if error.args else None))
    return None


def visible(value: Any) -> Any:
    """The part of a result that the model sees, in which equal results are equal."""
    if isinstance(value, ToolMessage):
        return value.content
    if isinstance(value, list):
        return [visible(each) for each in value]
    if is_command(value):
        update = value.update
        if isinstance(update, Mapping) and update.get("messages"):
            return [getattr(each, "content", None) for each in update["messages"]]
        return [str(value.goto), update]
    return value


def is_command(value: Any) -> bool:
    """Whether *value* is LangGraph's Command, which langchain-core alone does not have."""
    return type(value).__name__ == "Command" and hasattr(value, "goto")
