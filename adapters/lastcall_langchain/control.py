"""LangGraph's own control flow, as it looks from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pauses(error: BaseException) -> bool:
    """Whether *error* is LangGraph's way to wait for a person."""
    return any(each.__name__ == "GraphInterrupt" for each in type(error).__mro__)


def bubbles(error: BaseException) -> bool:
    """Whether *error* is LangGraph's control flow and no failure: a pause, or a command to a parent."""
    return any(each.__name__ == "GraphBubbleUp" for each in type(error).__mro__)


def resumes(inputs: Any) -> bool:
    """Whether a graph is started to go on: with nothing new, or with the answer to a question."""
    return inputs is None or getattr(inputs, "resume", None) is not None


def before_tools(outputs: Any) -> bool:
    """Whether a graph ended before its tools were called: a breakpoint tells of itself by nothing else."""
    messages = outputs.get("messages") if isinstance(outputs, Mapping) else None
    last = messages[-1] if isinstance(messages, list) and messages else None
    return bool(getattr(last, "tool_calls", None))
