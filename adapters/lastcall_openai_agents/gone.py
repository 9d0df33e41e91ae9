"""Work that is done once an object is gone, since nobody tells that its run is over."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress

_OVER: deque[Callable[[], None]] = deque()


def when_gone(anchor: object, work: Callable[[], None]) -> None:
    """Have *work* done soon after *anchor* is gone. Not at once: the collector may strike while a store
    is at work in the same thread."""

    def note() -> None:
        _OVER.append(work)
        with suppress(RuntimeError):
            asyncio.get_running_loop().call_soon(catch_up)

    weakref.finalize(anchor, note).atexit = False


def catch_up() -> None:
    """Do what is left to do for runs that are gone. Nobody can await it, so what a run under another runner
    left open waits for the store, in an event loop too."""
    with suppress(IndexError):
        while True:
            _OVER.popleft()()
