"""What goes on while the store cannot be reached, where the policy does not refuse everything then.

Every answer of the store is remembered in this process; from the last known state on, it counts here. What
is let through in the meantime is not added to the store afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from msgspec.structs import replace

from lastcall.contracts import Answer, Key, Plan, Shard, Step, Store, Take
from lastcall.events import log
from lastcall.stores.memory import MemoryStore
from lastcall.stores.tallies import window_of
from lastcall.stores.trouble import StoreError, UnreadableRecordError

T = TypeVar("T")

PAUSE = 1.0
"""Seconds after a failure in which the store is not tried again: each try may take its whole time-out."""


class Watched(Generic[T]):
    """A step that keeps what it was given and what it planned the last time it ran."""

    def __init__(self, step: Step[T]) -> None:
        self._step = step
        self.records: Sequence[Any] = ()
        self.plan: Plan[T] | None = None

    def __call__(self, records: Sequence[Any]) -> Plan[T]:
        """Run the step."""
        self.records = records
        self.plan = self._step(records)
        return self.plan


class Standby:
    """*store*, and this process alone while that fails: for ever under `open`, and under `last-known` for
    *max_staleness* seconds after the last answer. The answers say which.

    *monotonic*: seconds of a clock that does not go back.
    """

    def __init__(
        self,
        store: Store,
        mode: Literal["open", "last-known"],
        max_staleness: float = 30.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self.mode: Literal["open", "last-known"] = mode
        self.max_staleness = max_staleness
        self._monotonic = monotonic
        self._answered: float | None = None
        self._failed: float | None = None
        self._error: StoreError | None = None
        self.here = MemoryStore()
        """The state as it was known last, and what was counted on it."""

    def update(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """The store's update, or one here. Raises StoreError when what is known is too old, and
        UnreadableRecordError: what is damaged is not made up for by what this process alone knows."""
        watched = Watched(step)
        if not self._resting():
            try:
                value, answer = self._store.update(keys, watched, now)
            except UnreadableRecordError:
                # The store is there, and others' records may be well.
                raise
            except StoreError as error:
                self._fails(error)
            else:
                self._answers(keys, watched, answer, now)
                return value, answer
        return self._served(keys, step, now)

    async def aupdate(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """The same without blocking the event loop."""
        watched = Watched(step)
        if not self._resting():
            try:
                value, answer = await self._store.aupdate(keys, watched, now)
            except UnreadableRecordError:
                raise
            except StoreError as error:
                self._fails(error)
            else:
                self._answers(keys, watched, answer, now)
                return value, answer
        return self._served(keys, step, now)

    def forget(self, shard: Shard) -> None:
        """Its run is finished."""
        self.here.drop(shard)

    def _resting(self) -> bool:
        return self._failed is not None and self._monotonic() - self._failed < PAUSE

    def _fails(self, error: StoreError) -> None:
        if self._error is None:
            log.warning("%s; counting in this process alone (%s)", error, self.mode)
        self._error, self._failed = error, self._monotonic()

    def _answers(
        self, keys: Sequence[Key], watched: Watched[Any], answer: Answer, now: float
    ) -> None:
        if self._error is not None:
            log.warning("the store answers again; what was counted without it is not added")
            self._error = self._failed = None
        self._answered = self._monotonic()
        plan = watched.plan
        if plan is None:
            return
        writes = plan.written(answer.refused)
        states = dict(enumerate(watched.records)) | dict(writes)
        self.here.update(keys, lambda _: Plan(None, list(states.items())), now)
        counts = {
            claim.key: (window_of(None, claim.window, now + claim.offset), observed)
            for claim, observed in zip(plan.claims, answer.observed, strict=True)
            if isinstance(claim, Take)
        }
        self.here.load(counts, now)

    def _served(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        if self.mode == "last-known":
            since = None if self._answered is None else self._monotonic() - self._answered
            if since is None or since > self.max_staleness:
                age = (
                    "it never answered" if since is None else f"it last answered {since:.0f} s ago"
                )
                raise StoreError(f"{self._error}; {age}") from self._error
        value, answer = self.here.update(keys, step, now)
        return value, replace(answer, standby=self.mode)
