"""The store inside one process: exact under threads and asyncio, gone with the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from itertools import compress, count, repeat
from operator import is_not, itemgetter
from typing import Any, Self, TypeVar

from lastcall.contracts import Answer, Claim, Key, Plan, Release, Shard, Step, Take
from lastcall.stores.lifetime import KEEP, OWNED, TTL, span
from lastcall.stores.tallies import counted, settled, window_of

T = TypeVar("T")
Records = dict[Key, Any]

SHARD = itemgetter(0)
"""The shard of a key."""

# A plain lock convoys: four threads get a third of what one gets alone. Yielding a few times before
# blocking keeps the throughput; the bound keeps a stuck owner from burning a core.
SPINS = 200

# Taken before anybody (blockbuster, in LangGraph's server) puts a check for blocking calls in their place:
# what is waited for here is a few microseconds of another thread.
SLEEP = time.sleep
WAIT = type(threading.Lock()).acquire

NOTHING: Records = {}
GRANTED = Answer(None, ())


class Generations:
    """Shards in two generations: expiry costs a swap, with no timestamps and no sweep. One that nobody
    touches is forgotten between *ttl* and twice *ttl* seconds later."""

    __slots__ = ("due", "old", "ttl", "young")

    def __init__(self, ttl: float) -> None:
        self.ttl = ttl
        self.young: dict[Shard, Records] = {}
        self.old: dict[Shard, Records] = {}
        self.due = float("-inf")
        """When the young become the old."""

    def age(self, now: float) -> None:
        """Swap, if it is time to."""
        if now >= self.due:
            # Twice the time to live and nobody came: the old generation is over as well.
            self.old = self.young if now < self.due + self.ttl else {}
            self.young = {}
            self.due = now + self.ttl

    def find(self, shard: Shard) -> Records | None:
        """The records of *shard*, which is touched by that; None when there are none."""
        records = self.young.get(shard)
        if records is None and self.old:
            records = self.old.pop(shard, None)
            if records is not None:
                self.young[shard] = records
        return records

    def drop(self, shard: Shard) -> None:
        """Forget *shard*."""
        self.young.pop(shard, None)
        self.old.pop(shard, None)


class MemoryStore:
    """Records in dictionaries, one per shard.

    A run or a thread that nobody touches is forgotten between *ttl* and twice *ttl* seconds later
    (default six hours), so that what is never finished does not pile up; every other shard (a user, an
    agent, a quarantined call) between *keep* and twice that (default 48 hours). A counter with a longer
    window makes that twice its window. The limits it holds are those of this process alone. Its lock is
    not re-entrant: never call a guard from a finalizer (`__del__`, a weak reference's callback), which
    may run in the middle of an update.
    """

    def __init__(self, *, ttl: float = TTL, keep: float = KEEP) -> None:
        for name, seconds in (("ttl", ttl), ("keep", keep)):
            if not seconds > 0:
                raise ValueError(f"{name} must be more than 0 seconds, not {seconds!r}")
        self._lock = threading.Lock()
        self._owned = Generations(ttl)
        self._lasting = Generations(keep)
        self._due = float("-inf")
        """When either of them is to be aged."""

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:  # noqa: ARG003 - all there is to say is its scheme
        """The store of `memory://`."""
        return cls(**options)

    def update(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """Read *keys*, run *step* once, and do all of what it plans or none of it.

        Raises ValueError when more is given back than was taken, and whatever *step* raises; nothing
        is written then.
        """
        acquired = self._lock.acquire(False) or self._acquire()
        try:
            plan = step(self.read(keys, now))
            answer = self.granted(plan, now)
            writes = plan.written(answer.refused)
            if writes:
                self.write(keys, writes)
            return plan.value, answer
        finally:
            if acquired:
                self._lock.release()

    def read(
        self, keys: Sequence[Key], now: float, elsewhere: Iterable[int] | None = None
    ) -> list[Any]:
        """The records of *keys*, for who is alone with the store; others `update`. *elsewhere*: the places of
        those in other shards than the first one's, where they are known."""
        if now >= self._due:
            self._age(now)
        # Nearly all keys of a decision share one shard, and are one object's. What is here runs for
        # every call twice, and Python takes longer for steps of its own than for what C does.
        home = keys[0][0]
        records = self._owned.young.get(home) or self._find(home) or NOTHING
        found = list(map(records.get, keys))
        if elsewhere is None:
            elsewhere = compress(count(), map(is_not, map(SHARD, keys), repeat(home)))
        for index in elsewhere:
            found[index] = self._get(keys[index])
        return found

    def granted(self, plan: Plan[Any], now: float) -> Answer:
        """What *plan* gives back and claims; for who is alone with the store. Raises as `update` does."""
        if plan.claims or plan.releases:
            return self._settle(plan.releases, plan.claims, now)
        return GRANTED

    def write(self, keys: Sequence[Key], writes: Iterable[tuple[int, Any]]) -> None:
        """Put each state at the index of its key; for who is alone with the store."""
        home = keys[0][0]
        records = self._owned.young.get(home) or self._shard(home)
        for index, state in writes:
            key = keys[index]
            shard = key[0]
            held = records if shard is home else self._shard(shard)
            if state is None:
                held.pop(key, None)
            else:
                held[key] = state
        if not records:
            self._of(home).young.pop(home, None)

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

    def shards(self, kind: str, now: float) -> list[Shard]:
        """The shards of *kind* that hold something."""
        with self._lock:
            self._age(now)
            home = self._of((kind, None))
            held = home.young | home.old
            return [shard for shard, records in held.items() if shard[0] == kind and records]

    def drop(self, shard: Shard) -> None:
        """Forget *shard*."""
        with self._lock:
            self._of(shard).drop(shard)

    def __len__(self) -> int:
        """How many records are held, of all shards."""
        with self._lock:
            every = (self._owned, self._lasting)
            held = [shards for each in every for shards in (each.young, each.old)]
            return sum(len(records) for shards in held for records in shards.values())

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
            self._owned.age(now)
            self._lasting.age(now)
            self._due = min(self._owned.due, self._lasting.due)

    def _of(self, shard: Shard) -> Generations:
        return self._owned if shard[0] in OWNED else self._lasting

    def _find(self, shard: Shard) -> Records | None:
        return self._of(shard).find(shard)

    def _shard(self, shard: Shard) -> Records:
        home = self._of(shard)
        records = home.find(shard)
        if records is None:
            records = home.young[shard] = {}
        return records

    def _get(self, key: Key) -> Any:
        shard = key[0]
        home = self._owned if shard[0] in OWNED else self._lasting
        records = home.young.get(shard) or (home.old and home.find(shard))
        return records.get(key) if records else None

    def _settle(self, releases: Sequence[Release], claims: Sequence[Claim], now: float) -> Answer:
        """Give back *releases*, and grant all of *claims* or none."""
        if len(claims) == 1 and not releases and type(first := claims[0]) is Take:
            # The common decision takes one from one counter.
            key, limit = first.key, first.limit
            records = self._owned.young.get(key[0]) or self._shard(key[0])
            held = records.get(key)
            if first.window is None:
                window, count = 0, 0 if held is None else held[1]
            else:
                self._remember(first)
                window = window_of(held, first.window, now + first.offset)
                count = counted(held, window)
            after = count + first.amount
            if limit is not None and after > limit:
                return Answer(0, (count,))
            records[key] = (window, after)
            return Answer(None, (after,))
        for claim in claims:
            self._remember(claim)
        answer, writes = settled(releases, claims, self._get, now)
        for key, held in writes:
            self._shard(key[0])[key] = held
        return answer

    def _remember(self, claim: Claim) -> None:
        """Keep shards like that of *claim* for as long as it counts, and longer."""
        home = self._of(claim.key[0])
        home.ttl = max(home.ttl, 2 * span(claim))
