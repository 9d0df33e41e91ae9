"""The store inside one process: exact under threads and asyncio, gone with the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, TypeVar

from lastcall.contracts import Answer, Claim, Key, Shard, Step, Take
from lastcall.stores.tallies import bucket, claimed, released

T = TypeVar("T")
Records = dict[Key, Any]

# A plain lock convoys: four threads get a third of what one gets alone. Yielding a few times before
# blocking keeps the throughput; the bound keeps a stuck owner from burning a core.
SPINS = 200

# Taken before anybody (blockbuster, in LangGraph's server) puts a check for blocking calls in their place:
# what is waited for here is a few microseconds of another thread.
SLEEP = time.sleep
WAIT = type(threading.Lock()).acquire

NOTHING: Records = {}
GRANTED = Answer(None, ())


class MemoryStore:
    """Records in dictionaries, one per shard.

    A shard that nobody touches is forgotten between *ttl* and twice *ttl* seconds later (default six
    hours), so that what is never finished does not pile up. The limits it holds are those of this
    process alone. Its lock is not re-entrant: never call a guard from a finalizer (`__del__`, a weak
    reference's callback), which may run in the middle of an update.
    """

    def __init__(self, *, ttl: float = 6 * 3600.0) -> None:
        if not ttl > 0:
            raise ValueError(f"ttl must be more than 0 seconds, not {ttl!r}")
        self._ttl = ttl
        self._lock = threading.Lock()
        # Two generations: expiry costs a swap, with no timestamps and no sweep.
        self._young: dict[Shard, Records] = {}
        self._old: dict[Shard, Records] = {}
        self._due = float("-inf")
        """When the young become the old."""

    def update(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """Read *keys*, run *step* once, and do all of what it plans or none of it.

        Raises ValueError when more is given back than was taken, and whatever *step* raises; nothing
        is written then.
        """
        acquired = self._lock.acquire(blocking=False) or self._acquire()
        try:
            if now >= self._due:
                self._age(now)
            # Nearly all keys of a decision share one shard, and are one object's.
            home = keys[0][0]
            records = self._young.get(home) or self._find(home) or NOTHING
            get = records.get
            plan = step([get(key) if key[0] is home else self._get(key) for key in keys])
            # First what may raise: nothing is written then.
            if plan.releases:
                released(plan.releases, self._get, now)
            writes, answer = plan.writes, GRANTED
            if plan.claims:
                answer = self._claim(plan.claims, now)
                if answer.refused is not None:
                    writes = plan.otherwise(answer.refused) if plan.otherwise else ()
            if answer.refused is None:
                for key, held in released(plan.releases, self._get, now):
                    self._shard(key[0])[key] = held
            if writes:
                records = self._shard(home)
                for index, state in writes:
                    key = keys[index]
                    held = records if key[0] is home else self._shard(key[0])
                    if state is None:
                        held.pop(key, None)
                    else:
                        held[key] = state
                if not records:
                    self._young.pop(home, None)
            return plan.value, answer
        finally:
            if acquired:
                self._lock.release()

    async def aupdate(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """The same; memory never waits for anything but the lock."""
        return self.update(keys, step, now)

    def peek(self, shard: Shard, now: float) -> Records:
        """A copy of every record of *shard*."""
        with self._lock:
            self._age(now)
            return dict(self._find(shard) or ())

    def load(self, records: Records, now: float) -> None:
        """Put *records* in, over those of the same keys."""
        with self._lock:
            self._age(now)
            for key, state in records.items():
                self._shard(key[0])[key] = state

    def drop(self, shard: Shard) -> None:
        """Forget *shard*."""
        with self._lock:
            self._young.pop(shard, None)
            self._old.pop(shard, None)

    def __len__(self) -> int:
        """How many records are held, of all shards."""
        with self._lock:
            return sum(map(len, self._young.values())) + sum(map(len, self._old.values()))

    def close(self) -> None:
        """Nothing to let go of."""

    async def aclose(self) -> None:
        """Nothing to let go of."""

    def _acquire(self) -> bool:
        acquire = self._lock.acquire
        for _ in range(SPINS):
            SLEEP(0)
            if acquire(blocking=False):
                return True
        return WAIT(self._lock)

    def _age(self, now: float) -> None:
        if now >= self._due:
            # Twice the time to live and nobody came: the old generation is over as well.
            self._old = self._young if now < self._due + self._ttl else {}
            self._young = {}
            self._due = now + self._ttl

    def _find(self, shard: Shard) -> Records | None:
        records = self._young.get(shard)
        if records is None and self._old:
            records = self._old.pop(shard, None)
            if records is not None:
                self._young[shard] = records
        return records

    def _shard(self, shard: Shard) -> Records:
        records = self._find(shard)
        if records is None:
            records = self._young[shard] = {}
        return records

    def _get(self, key: Key) -> Any:
        return (self._find(key[0]) or NOTHING).get(key)

    def _claim(self, claims: Sequence[Claim], now: float) -> Answer:
        """Grant all of *claims* or none."""
        first = claims[0]
        if len(claims) == 1 and type(first) is Take:
            # The common decision takes one from one counter.
            records, window = self._shard(first.key[0]), bucket(first.window, now)
            held = records.get(first.key)
            count = held[1] if held is not None and held[0] == window else 0
            if first.limit is not None and count + first.amount > first.limit:
                return Answer(0, (count,))
            records[first.key] = (window, count + first.amount)
            return Answer(None, (count + first.amount,))
        answer, writes = claimed(claims, self._get, now)
        for key, held in writes:
            self._shard(key[0])[key] = held
        return answer
