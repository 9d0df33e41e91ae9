"""Guards the ToolNode of a hand-made graph: `ToolNode(tools, **tool_node_wrappers(guard))`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from langchain_core.messages import AIMessage, ToolMessage

from lastcall import Call, Guard
from lastcall_langchain.passing import Passage, apassed, passed
from lastcall_langchain.places import PLAIN
from lastcall_langchain.stops import TOOL_NODES
from lastcall_langchain.tools import aliases_of, declared_by, heard_tool

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest

    Handler = Callable[[ToolCallRequest], Any]
    AsyncHandler = Callable[[ToolCallRequest], Awaitable[Any]]


class Wrappers(TypedDict):
    """The two arguments of a ToolNode."""

    wrap_tool_call: Callable[[ToolCallRequest, Handler], Any]
    awrap_tool_call: Callable[[ToolCallRequest, AsyncHandler], Awaitable[Any]]


def tool_node_wrappers(guard: Guard) -> Wrappers:
    """What a ToolNode takes to have every call guarded: `ToolNode(tools, **tool_node_wrappers(guard))`.

    Refusals are answered whatever its `handle_tool_errors` is. The run ends by `RunStopped` at the next
    request to a model; where the graph asks no LangChain model, LangGraph is asked to drain.
    """

    def wrap(request: ToolCallRequest, handler: Handler) -> Any:
        said = answered(request)
        if said is not None:
            return said
        passage, asked = passage_of(guard, "node", request, handler)
        return passed(passage, lambda: handler(asked))

    async def awrap(request: ToolCallRequest, handler: AsyncHandler) -> Any:
        said = answered(request)
        if said is not None:
            return said
        passage, asked = passage_of(guard, "node", request, handler)
        return await apassed(passage, lambda: handler(asked))

    return {"wrap_tool_call": wrap, "awrap_tool_call": awrap}


def passage_of(
    guard: Guard, seam: str, request: ToolCallRequest, handler: Callable[..., Any]
) -> tuple[Passage, ToolCallRequest]:
    """How the call of a ToolNode passes *guard* at *seam*, and what is then asked of the tool."""
    asked, tool = request.tool_call, request.tool
    index, size = position(request.state, asked["id"])
    call = Call(
        asked["name"],
        asked["args"],
        id=asked["id"],
        kind="malformed" if tool is None and last(handler) else "tool",
        index=index,
        size=size,
    )
    declared = PLAIN if tool is None else declared_by(tool)
    aliases = frozenset() if tool is None else aliases_of(tool, guard)
    passage = Passage(guard, seam, call, request.runtime.config, declared, aliases)
    if tool is not None:
        # Text is made of its result, and of the exception that has the status, before it comes back here.
        request = request.override(tool=heard_tool(tool))
    return passage, request


def answered(request: ToolCallRequest) -> ToolMessage | None:
    """The answer that the call has already: somebody rejected it, and it came here by another way. Given
    back it takes its own place in the history, by its id."""
    state, call_id = request.state, request.tool_call["id"]
    messages = (
        state.get("messages") if isinstance(state, dict) else getattr(state, "messages", state)
    )
    if isinstance(messages, Sequence):
        for message in reversed(messages):
            if isinstance(message, ToolMessage) and message.tool_call_id == call_id:
                return message
            if isinstance(message, AIMessage):
                break
    return None


def last(handler: Callable[..., Any]) -> bool:
    """Whether ToolNode itself comes next; another middleware may know a tool that it does not."""
    return getattr(handler, "__module__", "") in TOOL_NODES


def position(state: Any, call_id: str | None) -> tuple[int, int | None]:
    """The place of a call in the message that asked for it, and how many calls that has."""
    messages = (
        state.get("messages") if isinstance(state, dict) else getattr(state, "messages", state)
    )
    if isinstance(messages, Sequence):
        for message in reversed(messages):
            if isinstance(message, AIMessage):
                ids = [call["id"] for call in message.tool_calls]
                if call_id in ids:
                    return ids.index(call_id), len(ids)
                break
    return 0, None
