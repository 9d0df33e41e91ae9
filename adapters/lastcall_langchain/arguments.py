"""The model's own arguments among what a tool is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def own(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """*inputs* without the `ToolRuntime` that LangGraph puts beside them: up to langchain-core 1.4 LangChain
    takes it for an argument where a tool is a class of its own. It holds the whole conversation, so no
    two calls would be equal."""
    return {name: value for name, value in inputs.items() if type(value).__name__ != "ToolRuntime"}
