"""A stop where people look: as a span in the SDK's tracing."""

from __future__ import annotations

import logging

from agents import custom_span
from agents.tracing import get_current_trace

from lastcall import Stop

NAME = "lastcall"
log = logging.getLogger("lastcall")


def show(stop: Stop) -> None:
    """Show *stop* in the trace around. What goes wrong is logged and breaks nothing."""
    try:
        if get_current_trace() is None:
            return
        # What a service answered, and what a run gathered, may be nobody else's business.
        said = stop.model_dump(
            mode="json", exclude={"gathered", "detail", "text"}, exclude_none=True
        )
        with custom_span(NAME, said):
            pass
    except Exception:
        log.exception("a stop could not be shown; it stands all the same")
