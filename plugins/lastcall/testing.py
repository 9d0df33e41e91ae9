"""What tests of guarded agents need: a clock that stands still, a store that fails, a service that limits its
callers, a look at a stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar, get_args

from lastcall.contracts import Answer, Key, Shard, Step, Store
from lastcall.simulated import Charge, LostAnswerError, Request, Response, SimulatedProvider
from lastcall.simulated_http import served
from lastcall.stop import Stop, Stopped
from lastcall.stores.memory import MemoryStore
from lastcall.stores.trouble import StoreError, UnreadableRecordError

__all__ = [
    "Charge",
    "FailingStore",
    "FakeClock",
    "LostAnswerError",
    "Request",
    "Response",
    "SimulatedProvider",
    "assert_stopped",
    "served",
]

T = TypeVar("T")

Trouble = Literal["refused", "timeout", "read-only", "full", "locked", "damaged", "lost"]
"""refused: no connection. timeout: no answer in time. read-only: a replica that takes no writes. full: no
room on the disk. locked: others hold it. damaged: a record cannot be read. lost: it did what it was asked,
and the answer did not arrive."""

SAID: dict[str, str] = {
    "refused": "connection refused",
    "timeout": "no answer within the time-out",
    "read-only": "this replica takes no writes",
    "full": "the disk is full",
    "locked": "locked by others for the whole time-out",
    "damaged": "a record cannot be read",
    "lost": "the connection was lost before the answer",
}


class FakeClock:
    """A clock that only `tick` moves."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now

    def __call__(self) -> float:
        """Epoch seconds."""
        return self._now

    def tick(self, seconds: float) -> None:
        """Let *seconds* pass. Raises ValueError for a negative number: no clock goes back."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back by {-seconds} seconds")
        self._now += seconds


class FailingStore:
    """A store that fails on demand: `fail("timeout")`, then `recover()`. Between the two every method but
    `close` raises what a real store would, at once; otherwise *store* answers (default: memory)."""

    def __init__(self, store: Store | None = None) -> None:
        self.store: Store = MemoryStore() if store is None else store
        self.trouble: Trouble | None = None
        self.tries = 0
        """How often the store was asked while it failed."""

    def fail(self, trouble: Trouble = "refused") -> None:
        """Fail by *trouble* from now on. Raises ValueError for one that is not known."""
        if trouble not in get_args(Trouble):
            raise ValueError(f"no trouble {trouble!r}; there are {', '.join(get_args(Trouble))}")
        self.trouble = trouble

    def recover(self) -> None:
        """Answer again."""
        self.trouble = None

    def update(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """The store's, or trouble."""
        if self.trouble == "lost":
            self.store.update(keys, step, now)
        self._check()
        return self.store.update(keys, step, now)

    async def aupdate(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """The store's, or trouble."""
        if self.trouble == "lost":
            await self.store.aupdate(keys, step, now)
        self._check()
        return await self.store.aupdate(keys, step, now)

    def peek(self, shard: Shard, now: float) -> dict[Key, Any]:
        """The store's, or trouble."""
        self._check()
        return self.store.peek(shard, now)

    def load(self, records: dict[Key, Any], now: float) -> None:
        """The store's, or trouble."""
        self._check()
        self.store.load(records, now)

    def drop(self, shard: Shard) -> None:
        """The store's, or trouble."""
        self._check()
        self.store.drop(shard)

    def shards(self, kind: str, now: float) -> list[Shard]:
        """The store's, or trouble."""
        self._check()
        return self.store.shards(kind, now)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    async def aclose(self) -> None:
        """Close the store from an event loop."""
        await self.store.aclose()

    def _check(self) -> None:
        if self.trouble is None:
            return
        self.tries += 1
        error = UnreadableRecordError if self.trouble == "damaged" else StoreError
        raise error(f"{SAID[self.trouble]} (played by FailingStore)")


def assert_stopped(
    stopped: Stop | Stopped | BaseException | None,
    *,
    reason: str | None = None,
    scope: str | None = None,
    status: int | None = None,
) -> Stop:
    """The stop in *stopped*, after checking what is given of it. Raises AssertionError otherwise."""
    stop = stopped if isinstance(stopped, Stop) else getattr(stopped, "stop", None)
    if not isinstance(stop, Stop):
        raise AssertionError(f"not stopped: {stopped!r}")  # noqa: TRY004 - it is a test's finding
    for name, wanted in (("reason", reason), ("scope", scope), ("status", status)):
        if wanted is not None and getattr(stop, name) != wanted:
            raise AssertionError(
                f"stopped, but its {name} is {getattr(stop, name)!r}, not {wanted!r}: {stop.text}"
            )
    return stop
