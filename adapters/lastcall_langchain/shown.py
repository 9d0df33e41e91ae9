"""A stop where people look: as a custom event of the stream, and on the runs that tracers keep."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from lastcall import Stop
from lastcall_langchain.places import around, run_of
from lastcall_langchain.roots import Run
from lastcall_langchain.stops import KEY

log = logging.getLogger("lastcall")


def show(stop: Stop, run: Run | None = None) -> None:
    """Show *stop*, made in *run* (default: the one around). What goes wrong is logged and breaks nothing."""
    try:
        config = around()
        write(stop, config.get("configurable") or {})
        run = run_of() if run is None else run
        if run is not None:
            for traced in runs_of(getattr(config.get("callbacks"), "handlers", ()), run):
                tags = ["lastcall", f"lastcall:{stop.reason}"]
                traced.add_tags([tag for tag in tags if tag not in (traced.tags or ())])
                traced.add_metadata(about(stop))
    except Exception:
        log.exception("a stop could not be shown; it stands all the same")


def write(stop: Stop, configurable: Any) -> None:
    """The custom event, for `stream_mode="custom"`."""
    # `get_stream_writer` of LangGraph looks in this place too, and fails outside a graph.
    writer = getattr(configurable.get("__pregel_runtime"), "stream_writer", None)
    if writer is not None:
        writer({KEY: stop.model_dump(mode="json", exclude={"gathered"})})


def runs_of(handlers: Any, run: Run) -> Iterator[Any]:
    """What every tracer among *handlers* keeps of *run* and of the root around it."""
    root = run
    while root.parent is not None:
        root = root.parent
    for tracer in handlers:
        kept = getattr(tracer, "run_map", None)
        if isinstance(kept, dict):
            for each in dict.fromkeys((str(run.id), str(root.id))):
                found = kept.get(each)
                if hasattr(found, "add_tags") and hasattr(found, "add_metadata"):
                    yield found


def about(stop: Stop) -> dict[str, Any]:
    """The metadata of a run in which there was a stop."""
    said = {name: getattr(stop, name) for name in ("reason", "scope", "tool", "status", "limit")}
    return {f"{KEY}_{name}": value for name, value in said.items() if value is not None}
