"""Lastcall for LangChain and LangGraph: a handler, a middleware, and a wrapper for tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import langchain_core  # noqa: F401 - asked for, so that its absence is explained
except ModuleNotFoundError as missing:
    raise ImportError(
        'lastcall_langchain needs LangChain: pip install "lastcall[langchain]"'
    ) from missing

from lastcall_langchain.callbacks import GuardCallbackHandler
from lastcall_langchain.coverage import Coverage, Gap, attach, coverage
from lastcall_langchain.instrument import instrument
from lastcall_langchain.nodes import tool_node_wrappers
from lastcall_langchain.stops import RunStopped, stop_of
from lastcall_langchain.tools import guard_tool, guard_tools

if TYPE_CHECKING:
    from lastcall_langchain.middleware import GuardMiddleware

__all__ = [
    "Coverage",
    "Gap",
    "GuardCallbackHandler",
    "GuardMiddleware",
    "RunStopped",
    "attach",
    "coverage",
    "guard_tool",
    "guard_tools",
    "instrument",
    "stop_of",
    "tool_node_wrappers",
]


def __getattr__(name: str) -> Any:
    # The middleware needs the whole of langchain; callbacks and tools need langchain-core only.
    if name != "GuardMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from lastcall_langchain.middleware import GuardMiddleware  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise ImportError(
            'GuardMiddleware needs langchain: pip install "lastcall[langchain]"'
        ) from missing
    return GuardMiddleware
