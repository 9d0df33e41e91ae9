"""How a stop looks in LangChain: exceptions, marked messages, and `stop_of`, which reads both."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import new_class
from typing import Any, TypeVar

from langchain_core import exceptions
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from lastcall import Stop, Stopped

KEY = "lastcall"
"""Where a message made by the guard keeps the stop: `message.response_metadata["lastcall"]`."""

TOOL_NODES = ("langgraph.prebuilt.tool_node", "langchain.tools.tool_node")
"""Modules with a ToolNode; the second is that of the first langchain 1.0."""

DEPTH = 6
"""Stream chunks hold messages at most this deep."""

S = TypeVar("S", bound="Refused | RunStopped")


class Refused(Stopped):
    """One call was refused, where only an exception can say so."""

    def __repr__(self) -> str:
        # ToolNode(handle_tool_errors=True) shows the model the repr.
        return str(self)

    def __reduce__(self) -> tuple[type[Stopped], tuple[Stop]]:
        return Refused, (self.stop,)


class RunStopped(Stopped):
    """Raised at a request to the model: the run is ended, and every call before was answered.

    `.messages` are those that the model would have read.
    """

    def __init__(self, stop: Stop, messages: Sequence[Any] = ()) -> None:
        super().__init__(stop)
        self.messages = tuple(messages)

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return RunStopped, (self.stop, self.messages)


def answerable(kind: type[S]) -> type[S]:
    """*kind*, made such that the default error handling of ToolNode answers the call with its text.

    A nested agent that is ended thereby answers the call that asked for it, too.
    """
    # A ToolNode exists only where its module is loaded; without it there is nothing to answer.
    nodes = (sys.modules.get(name) for name in TOOL_NODES)
    found = (getattr(node, "ToolInvocationError", None) for node in nodes)
    key: Any = kind
    both: type[S] = joined(key, *dict.fromkeys(base for base in found if base is not None))
    return both


@cache
def joined(kind: Any, *bases: type[Any]) -> Any:
    """A class that is all of them; it pickles as *kind*."""
    if not bases:
        return kind

    class Answered(*bases):  # type: ignore[misc]
        def __init__(self, message: str) -> None:
            Exception.__init__(self, message)
            self.message = message
            self.tool_name = ""
            self.tool_kwargs: dict[str, Any] = {}
            self.source = self.filtered_errors = None

    same = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    return new_class(kind.__name__, (kind, Answered), exec_body=lambda space: space.update(same))


def refusal(stop: Stop) -> Refused:
    """The exception that refuses one call."""
    return answerable(Refused)(stop)


def ended(stop: Stop, messages: Sequence[Any] = ()) -> RunStopped:
    """The exception that ends the run. LangChain's own retries leave it alone: asking again cannot help."""
    kind: Any = answerable(RunStopped)
    error: RunStopped = final(kind)(stop, messages)
    return error


@cache
def final(kind: Any) -> Any:
    """*kind* as an error of a model that is not to be retried, where langchain-core has such."""
    error = getattr(exceptions, "ModelError", None)
    if error is None:
        return kind
    same = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    body = {**same, "is_retryable": False}
    return new_class(kind.__name__, (kind, error), exec_body=lambda space: space.update(body))


def mark(stop: Stop) -> dict[str, Any]:
    """The `response_metadata` of a message that the guard made."""
    return {KEY: stop.model_dump(mode="json")}


def answer(stop: Stop, call_id: str, name: str) -> ToolMessage:
    """The answer to a call that was refused, or whose own answer is a stop."""
    return ToolMessage(
        stop.text, tool_call_id=call_id, name=name, status="error", response_metadata=mark(stop)
    )


def farewell(stop: Stop) -> AIMessage:
    """The last message of a run that the guard ended."""
    return AIMessage(stop.text, response_metadata=mark(stop))


def stop_of(result: Any) -> Stop | None:
    """The stop that ended a run; None when it ended by itself.

    *result* is what the agent returned: its state, messages, one message, a chunk or a custom event of
    its stream, or the exception it raised.
    """
    if isinstance(result, BaseException):
        return next((found for each in chain(result) if (found := carried(each))), None)
    if isinstance(result, Mapping) and isinstance(result.get(KEY), Mapping):
        # The custom event of a stream.
        told = Stop.model_validate(result[KEY])
        return told if told.ends_run else None
    went_on = False
    for message in reversed(list(messages_in(result))):
        if message_type(message) == "human":
            # What stands before the last user message is told of an earlier turn.
            return None
        stop = marked(message)
        if message_type(message) == "ai":
            if stop is not None:
                return stop
            went_on = True
        elif (
            stop is not None and stop.ends_run and (not went_on or answers_its_call(message, stop))
        ):
            return stop
    return None


def answers_its_call(message: Any, stop: Stop) -> bool:
    """Whether *stop* was made of the very call that *message* answers. Where something was said after it,
    one that was not is that of an agent further in, and ended nothing of the outer one."""
    answered = (
        message.get("tool_call_id")
        if isinstance(message, Mapping)
        else getattr(message, "tool_call_id", None)
    )
    return stop.call_id is not None and stop.call_id == answered


def message_type(message: BaseMessage | Mapping[str, Any]) -> str:
    """Who said it; the chunks of a stream have types of their own."""
    if isinstance(message, Mapping):
        return str(message["type"])
    if isinstance(message, AIMessage):
        return "ai"
    return "human" if isinstance(message, HumanMessage) else message.type


def marked(message: BaseMessage | Mapping[str, Any]) -> Stop | None:
    """The stop that the guard left in *message*, which may be the JSON of one."""
    about: Any = (
        message.get("response_metadata")
        if isinstance(message, Mapping)
        else getattr(message, "response_metadata", None)
    )
    said = (about or {}).get(KEY)
    return Stop.model_validate(said) if isinstance(said, Mapping) else None


def carried(error: BaseException) -> Stop | None:
    """The stop that an exception carries; a drained graph is given one by the tracker."""
    stop = getattr(error, "stop", None)
    return stop if isinstance(stop, Stop) else None


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception, what it holds, and what it came from."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop(0)
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            waiting.extend(each.exceptions)
        waiting += [each.__cause__, each.__context__]


def messages_in(value: Any, depth: int = DEPTH) -> Iterator[BaseMessage | Mapping[str, Any]]:
    """Every message in a state, a list of them, or a chunk of a stream, in order."""
    if isinstance(value, BaseMessage):
        yield value
    elif depth == 0 or isinstance(value, str | bytes):
        return
    elif isinstance(value, Mapping) and "type" in value and "content" in value:
        # A server tells of messages in JSON.
        yield value
    elif isinstance(value, Mapping):
        # A state has its messages in one place; a chunk has one state for each node.
        for each in [value["messages"]] if "messages" in value else value.values():
            yield from messages_in(each, depth - 1)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from messages_in(each, depth - 1)
    elif hasattr(value, "messages"):
        yield from messages_in(value.messages, depth - 1)
    elif hasattr(value, "value") and hasattr(value, "interrupts"):
        # What LangGraph gives with `version="v2"`.
        yield from messages_in(value.value, depth - 1)


class Quiet(logging.Filter):
    """LangChain warns of every exception of a handler; a refusal is no mishap."""

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002
        """Whether anything else is being handled: LangChain logs where it catches."""
        error = sys.exc_info()[1]
        if isinstance(error, Refused | RunStopped):
            return False
        # Nor is a pause for a person.
        return all(each.__name__ != "GraphInterrupt" for each in type(error).__mro__)


QUIET = Quiet()


def keep_quiet() -> None:
    """Let LangChain say nothing of refusals. Adding a filter twice does nothing."""
    logging.getLogger("langchain_core.callbacks.manager").addFilter(QUIET)
