"""Guards every tool of the process without touching its code, as observability libraries do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from langchain_core.tools import BaseTool

from lastcall import Guard
from lastcall_langchain.passing import apassed, passed
from lastcall_langchain.runs import RUNS
from lastcall_langchain.tools import declared_by, heard_tool, passage_of

SEAM = "instrument"

_LOCK = threading.Lock()
_GUARDS: tuple[Guard, ...] = ()
"""Those through which every call goes now, in the order in which they were given."""

_LAYERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}
"""What was put last round each method of BaseTool, and round what. Any layer before is inert."""


def instrument(guard: Guard) -> Callable[[], None]:
    """Take every call of every `BaseTool` in this process past *guard*, and ask it before each request
    to a model; the function that is returned undoes it.

    Asking twice for one guard is asking once. A call that is guarded by the same guard elsewhere too
    (a middleware, a wrapped tool, a handler) counts once. Runs that are on their way when it is undone
    finish without it.
    """
    global _GUARDS  # noqa: PLW0603 - what is patched belongs to the process as well
    with _LOCK:
        if guard not in _GUARDS:
            _GUARDS = (*_GUARDS, guard)
        RUNS.everywhere = _GUARDS
        for name, guarded in (("run", guarded_run), ("arun", guarded_arun)):
            now = getattr(BaseTool, name)
            if name not in _LAYERS or not within(now, _LAYERS[name][0]):
                _LAYERS[name] = guarded(now), now
                setattr(BaseTool, name, _LAYERS[name][0])

    def undo() -> None:
        global _GUARDS  # noqa: PLW0603
        with _LOCK:
            _GUARDS = tuple(each for each in _GUARDS if each is not guard)
            RUNS.everywhere = _GUARDS
            if _GUARDS:
                return
            for name, (layer, under) in tuple(_LAYERS.items()):
                # What others have put round ours stays; ours in it passes everything on.
                if getattr(BaseTool, name) is layer:
                    setattr(BaseTool, name, under)
                    del _LAYERS[name]

    return undo


def within(method: Any, layer: Callable[..., Any]) -> bool:
    """Whether *method* is *layer*, or says that it is somewhere inside."""
    while method is not None and method is not layer:
        method = getattr(method, "__wrapped__", None)
    return method is layer


def live(name: str, layer: Callable[..., Any]) -> bool:
    """Whether calls go past the guards in *layer*: others may have hidden it so that one came round it."""
    return bool(_GUARDS) and name in _LAYERS and _LAYERS[name][0] is layer


def guarded_run(run: Callable[..., Any]) -> Callable[..., Any]:
    """*run* of BaseTool behind the guards of the moment."""

    @wraps(run)
    def guarded(self: BaseTool, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        if not live("run", guarded):
            return run(self, tool_input, *args, **kwargs)
        body = partial(run, heard_tool(self), tool_input, *args, **kwargs)
        for guard in _GUARDS:
            passage = passage_of(self, guard, SEAM, declared_by(self), tool_input, kwargs)
            passage.find()
            body = partial(passed, passage, body)
        return body()

    return guarded


def guarded_arun(arun: Callable[..., Any]) -> Callable[..., Any]:
    """*arun* of BaseTool behind the guards of the moment."""

    @wraps(arun)
    async def guarded(self: BaseTool, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        if not live("arun", guarded):
            return await arun(self, tool_input, *args, **kwargs)
        body = partial(arun, heard_tool(self), tool_input, *args, **kwargs)
        for guard in _GUARDS:
            passage = passage_of(self, guard, SEAM, declared_by(self), tool_input, kwargs)
            await passage.afind()
            body = partial(apassed, passage, body)
        return await body()

    return guarded
