"""Lets LangGraph tell a handler where a graph waits at a breakpoint.

It tells handlers of a class of its own, and only those that the graph is given (`config["callbacks"]`). Of a
breakpoint after a node it tells nobody else.
"""

from __future__ import annotations

import sys
from functools import cache
from types import new_class
from typing import Any


def told_of_breakpoints(kind: type[Any]) -> type[Any]:
    """*kind*, made such that LangGraph calls its `on_interrupt` and `on_resume`."""
    # langchain-core alone has no graphs; where one was made, the module is loaded.
    lifecycle = getattr(sys.modules.get("langgraph.callbacks"), "GraphCallbackHandler", None)
    key: Any = kind
    return kind if lifecycle is None or issubclass(kind, lifecycle) else both(key, lifecycle)


@cache
def both(kind: Any, lifecycle: Any) -> type[Any]:
    """A class that is both of them, under the name of *kind*."""
    same = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    return new_class(kind.__name__, (kind, lifecycle), exec_body=lambda space: space.update(same))
