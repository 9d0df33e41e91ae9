"""Work of an event loop that is finished though nobody waits for it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Lasting:
    """Whoever waits for what is done here may be cancelled; the work is not. True while there is some."""

    def __init__(self) -> None:
        self._open: set[asyncio.Future[Any]] = set()

    def __bool__(self) -> bool:
        return bool(self._open)

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Do *work*; an event loop by itself holds what it runs too loosely."""
        begun = asyncio.ensure_future(work)
        self._open.add(begun)
        begun.add_done_callback(self._open.discard)
        return begun

    async def finished(
        self, work: Coroutine[Any, Any, T], late: Callable[[asyncio.Future[T]], None]
    ) -> T:
        """What comes of *work*. When whoever waits for it is cancelled, *late* is told of it instead."""
        begun = self.begin(work)
        try:
            return await asyncio.shield(begun)
        except asyncio.CancelledError:
            begun.add_done_callback(late)
            raise
