"""The store for a fleet: Redis 6.2 or newer, or Valkey. One trip for a decision and one for its settlement.

A shard is one hash, `PREFIX:run:ID`, and a record is a field of it; all of a decision happens in one script.
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, Self, TypeVar

from lastcall.contracts import Answer, Key, Shard, Step
from lastcall.stores.lifetime import KEEP, TTL, Lifetimes
from lastcall.stores.opening import server_of
from lastcall.stores.records import decoded, key_of, shard_of, shard_text
from lastcall.stores.redis_clients import (
    Loop,
    Turnstile,
    aconnected,
    clustered,
    connected,
    errors,
    read_only,
    sound,
)
from lastcall.stores.redis_script import DIGEST, META, SCRIPT, Decisions, Trip, Trips, packed, texts
from lastcall.stores.trouble import StoreError
from lastcall.stores.worker import Worker, in_event_loop

T = TypeVar("T")

BEST = 60.0
"""Seconds after which the server's clock is read off a slower answer than the fastest so far."""

LOADED = 500
"""Records put back in one trip."""


class RedisStore:
    """Records in Redis: `RedisStore("redis://host:6379/0")`, or with clients of redis-py's own classes
    (Sentinel's `master_for`, `RedisCluster`): `RedisStore(client=..., aclient=...)`.

    *prefix* is what every key begins with; stores of one prefix share their counts. In a cluster it is
    made a hash tag, so one prefix lives on one node: give each tenant its own. *timeout*: the seconds
    that one answer may take; no update takes longer than twice that. *ttl*, *keep*: the seconds that an
    untouched run or thread, or anything else, is kept. Raises ImportError without redis-py, and StoreError
    when the server cannot be used; the next call tries again.
    """

    shared = True

    def __init__(
        self,
        url: str | None = None,
        *,
        client: Any = None,
        aclient: Any = None,
        prefix: str = "lastcall",
        timeout: float = 0.25,
        ttl: float = TTL,
        keep: float = KEEP,
        **options: Any,
    ) -> None:
        if (url is None) == (client is None and aclient is None):
            raise ValueError("give either a URL or clients of redis-py")
        if not 0 < timeout < 60:  # noqa: PLR2004 - more than a minute is no bound for a decision
            raise ValueError(f"timeout must be between 0 and 60 seconds, not {timeout!r}")
        self._errors = errors()
        self._url = url
        self._options = options
        self._timeout = timeout
        self._client = sound(client) if url is None else connected(url, timeout, options)
        self._aclient = sound(aclient)
        self._prefix = tagged(prefix, clustered(client, aclient))
        self._lifetimes = Lifetimes(ttl, keep)
        self._types: dict[str, Any] = {}
        self._decisions = Decisions(self._prefix, self._lifetimes, self._types)
        self._pid = os.getpid()
        self._turns: weakref.WeakValueDictionary[Shard, Turnstile] = weakref.WeakValueDictionary()
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Loop] = (
            weakref.WeakKeyDictionary()
        )
        self._dropping: dict[Shard, Future[None]] = {}
        self._worker = Worker("lastcall-redis")
        self._offset = 0.0
        self._best = (float("inf"), 0.0)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """The store of `redis://...`, `rediss://...` or `unix://...`. Raises ValueError."""
        plain, said = server_of(url)
        return cls(plain, **{**said, **options})

    def learn(self, types: Mapping[str, Any]) -> None:
        """The types of records, by the name of the rule they belong to."""
        self._types |= types

    def clock(self) -> float:
        """The server's time in epoch seconds, as far as its answers told it: workers whose own clocks
        differ agree on windows and leases."""
        return time.time() + self._offset

    def update(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """Run *step* on the records of *keys* and do what it plans, all or nothing. *step* runs again
        when another worker wrote in between.

        Raises StoreError, ValueError when more is given back than was taken, and whatever *step* raises.
        """
        self._check_process()
        if in_event_loop():
            return self._worker.run(self._update, keys, step, now)
        return self._update(keys, step, now)

    async def aupdate(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """The same without blocking the event loop."""
        work = asyncio.ensure_future(self._aupdate(keys, step, now))
        try:
            # Left behind, rather than called off and awaited: redis-py may take its time over that.
            await asyncio.wait({work}, timeout=self._timeout)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if work.done():
            return work.result()
        work.cancel()
        work.add_done_callback(heard)
        # What was sent may have arrived.
        self._decisions.copies.clear()
        raise self._late()

    async def _aupdate(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        deadline = time.monotonic() + self._timeout
        loop = self._loop()
        if self._dropping:
            await self._adropped(keys)
        async with loop.turn(keys[0][0]):
            return await self._adecided(
                loop.client, self._decisions.deciding(keys, step, now), deadline
            )

    async def _adecided(self, client: Any, trips: Trips[T], deadline: float) -> T:
        reply: Any = None
        try:
            while True:
                reply = await self._asent(client, trips.send(reply), deadline)
        except StopIteration as done:
            found: T = done.value
            return found

    def peek(self, shard: Shard, now: float) -> dict[Key, Any]:
        """Every record of *shard*."""
        found: dict[Key, Any] = self._blocking(self._peek, shard, now)
        return found

    def load(self, records: Mapping[Key, Any], now: float) -> None:
        """Put *records* in, over those of the same keys."""
        self._blocking(self._load, records, now)

    def drop(self, shard: Shard) -> None:
        """Forget *shard*. Within an event loop it is done a moment later, before any later update."""
        self._check_process()
        self._decisions.copies.forget(shard)
        if not in_event_loop():
            self._asked(self._sync().delete, self._decisions.key(shard))
            return
        future = self._worker.submit(self._quietly, shard)
        self._dropping[shard] = future
        future.add_done_callback(lambda _: self._dropping.pop(shard, None))

    def shards(self, kind: str, now: float) -> list[Shard]:
        """The shards of *kind* that hold something."""
        found: list[Shard] = self._blocking(self._shards, kind, now)
        return found

    def close(self) -> None:
        """Close the connections. Those of event loops that still run are closed by `aclose` there."""
        self._worker.close()
        if self._url is not None and self._client is not None:
            self._client.close()
            self._client.connection_pool.disconnect()

    async def aclose(self) -> None:
        """Close the connections, those of this event loop too."""
        if self._url is not None:
            loop = self._loops.pop(asyncio.get_running_loop(), None)
            if loop is not None:
                await loop.client.aclose()
                await loop.client.connection_pool.disconnect()
        # What its thread was given is finished first.
        await asyncio.to_thread(self.close)

    # Sending, bounded in time.

    def _update(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        deadline = time.monotonic() + self._timeout
        client = self._sync()
        if self._dropping:
            self._dropped(keys)
        with self._turn(keys[0][0]):
            trips = self._decisions.deciding(keys, step, now)
            reply: Any = None
            try:
                while True:
                    trip = trips.send(reply)
                    reply = self._sent(client, trip, deadline)
            except StopIteration as done:
                found: tuple[T, Answer] = done.value
                return found

    def _sent(self, client: Any, trip: Trip, deadline: float) -> list[Any]:
        for again in (False, True):
            self._in_time(deadline)
            began = time.monotonic()
            arguments = (len(trip.keys), *trip.keys, packed(trip, again))
            try:
                try:
                    reply = client.evalsha(DIGEST, *arguments)
                except self._errors.NoScriptError:
                    reply = client.eval(SCRIPT, *arguments)
            except self._failures() as error:
                if again or not self._may_repeat(trip, error):
                    self._failed(client, error)
                continue
            return self._heard(reply, began)
        raise AssertionError("unreachable")  # pragma: no cover

    async def _asent(self, client: Any, trip: Trip, deadline: float) -> list[Any]:
        for again in (False, True):
            self._in_time(deadline)
            began = time.monotonic()
            arguments = (len(trip.keys), *trip.keys, packed(trip, again))
            try:
                # Not every version of redis-py bounds a connection that is being made.
                async with asyncio.timeout(self._timeout):
                    try:
                        reply = await client.evalsha(DIGEST, *arguments)
                    except self._errors.NoScriptError:
                        reply = await client.eval(SCRIPT, *arguments)
            except self._failures() as error:
                if again or not self._may_repeat(trip, error):
                    self._failed(client, error)
                continue
            return self._heard(reply, began)
        raise AssertionError("unreachable")  # pragma: no cover

    def _failures(self) -> tuple[type[Exception], ...]:
        return (self._errors.RedisError, OSError)

    def _may_repeat(self, trip: Trip, error: Exception) -> bool:
        """Whether the connection was lost, rather than too slow, and a second sending does no harm."""
        lost = isinstance(error, self._errors.ConnectionError | ConnectionError)
        slow = isinstance(error, self._errors.TimeoutError | TimeoutError)
        return trip.repeatable and lost and not slow

    def _failed(self, client: Any, error: Exception) -> NoReturn:
        if read_only(error):
            # What was the master is a replica now; a new connection may find the new one. Those in use
            # are not ours to close: other threads wait for their answers.
            with suppress(Exception):
                client.connection_pool.reset()
        raise self._trouble(error) from error

    def _trouble(self, error: Exception) -> StoreError:
        # What was sent may have arrived: no copy is to be trusted.
        self._decisions.copies.clear()
        said = str(error) or f"no answer within {self._timeout:g} s"
        return StoreError(f"Redis cannot be used: {type(error).__name__}: {said}")

    def _in_time(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise self._late()

    def _late(self) -> StoreError:
        return StoreError(f"Redis did not come to a decision within {self._timeout:g} s")

    def _heard(self, reply: list[Any], began: float) -> list[Any]:
        """*reply*, after reading the server's clock off it: half the trip ago it was that late."""
        ended = time.monotonic()
        trip, (best, at) = ended - began, self._best
        if trip <= best or ended - at > BEST:
            self._best = (trip, ended)
            self._offset = reply[1] + reply[2] / 1e6 + trip / 2 - time.time()
        return reply

    # One after the other within a process: decisions about one run would only make each other stale.

    @contextmanager
    def _turn(self, shard: Shard) -> Iterator[None]:
        turnstile = self._turns.get(shard)
        if turnstile is None:
            turnstile = self._turns.setdefault(shard, Turnstile())
        if not turnstile.lock.acquire(timeout=self._timeout):
            raise StoreError(f"{shard_text(shard)} was busy for {self._timeout:g} s")
        try:
            yield
        finally:
            turnstile.lock.release()

    # Clients.

    def _sync(self) -> Any:
        if self._client is None:
            raise StoreError(
                "this store was given a client for event loops alone: give `client` too"
            )
        self._check_process()
        return self._client

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            # A child process: its own name, copies and thread. redis-py looks after its connections.
            self._pid = os.getpid()
            self._decisions = Decisions(self._prefix, self._lifetimes, self._types)
            self._turns = weakref.WeakValueDictionary()
            self._dropping = {}
            self._worker = Worker("lastcall-redis")

    def _loop(self) -> Loop:
        """What belongs to the running event loop: connections cannot be carried from one to another."""
        self._check_process()
        running = asyncio.get_running_loop()
        loop = self._loops.get(running)
        if loop is None:
            client = self._aclient
            if self._url is not None:
                client = aconnected(self._url, self._timeout, self._options)
            if client is None:
                raise StoreError(
                    "this store was given no client for event loops: give `aclient` too"
                )
            self._tidy()
            loop = self._loops[running] = Loop(client)
        return loop

    def _tidy(self) -> None:
        """Let go of the connections of event loops that are closed. They lead back to their loop, which
        so outlives the weak reference to it."""
        for reference in self._loops.keyrefs():
            other = reference()
            if other is not None and other.is_closed():
                self._loops.pop(other, None)

    # The rest.

    def _blocking(self, work: Any, *args: Any) -> Any:
        self._check_process()
        return self._worker.run(work, *args) if in_event_loop() else work(*args)

    def _asked(self, command: Any, *args: Any, **named: Any) -> Any:
        try:
            return command(*args, **named)
        except self._failures() as error:
            self._failed(self._client, error)

    def _peek(self, shard: Shard, now: float) -> dict[Key, Any]:
        found = self._asked(self._sync().hgetall, self._decisions.key(shard))
        fields = dict(zip(texts(found), texts(found.values()), strict=True))
        until = fields.get("#until")
        if until is not None and float(until) <= now:
            return {}
        keys = {name: key_of(shard, name) for name in fields if not name.startswith(META)}
        return {key: decoded(fields[name], key, self._types) for name, key in keys.items()}

    def _load(self, records: Mapping[Key, Any], now: float) -> None:
        shards: dict[Shard, list[tuple[Key, Any]]] = {}
        for key, state in records.items():
            shards.setdefault(key[0], []).append((key, state))
        for shard, rows in shards.items():
            for start in range(0, len(rows), LOADED):
                trip = self._decisions.putting(shard, rows[start : start + LOADED], now)
                self._sent(self._sync(), trip, time.monotonic() + self._timeout)
            self._decisions.copies.forget(shard)

    def _quietly(self, shard: Shard) -> None:
        """Drop a shard with nobody left to tell of trouble: what stays expires."""
        with suppress(StoreError):
            self._asked(self._sync().delete, self._decisions.key(shard))

    def _dropped(self, keys: Sequence[Key]) -> None:
        for shard in {key[0] for key in keys}:
            future = self._dropping.get(shard)
            if future is not None:
                with suppress(Exception):
                    future.result(self._timeout)

    async def _adropped(self, keys: Sequence[Key]) -> None:
        for shard in {key[0] for key in keys}:
            future = self._dropping.get(shard)
            if future is not None:
                with suppress(Exception):
                    await asyncio.wait_for(asyncio.wrap_future(future), self._timeout)

    def _shards(self, kind: str, now: float) -> list[Shard]:
        start = f"{self._prefix}:"
        # In a pattern some characters have a meaning, which a prefix may hold.
        pattern = "".join(f"\\{c}" if c in "*?[]\\" else c for c in f"{start}{kind}")
        names = [
            name.decode()
            for form in (pattern, f"{pattern}:*")
            for name in self._asked(lambda form=form: list(self._sync().scan_iter(form, 1000)))
        ]
        found = [shard_of(name.removeprefix(start)) for name in names]
        return [shard for shard in found if self._peek(shard, now)]


def heard(work: asyncio.Future[Any]) -> None:
    """Take note of what came of *work*, for which nobody waits any more."""
    if not work.cancelled():
        work.exception()


def tagged(prefix: str, cluster: bool) -> str:  # noqa: FBT001 - one question
    """*prefix*, in a cluster as a hash tag: all keys of a decision must live on one node."""
    if not prefix or any(c in prefix for c in "{}") or not prefix.isprintable():
        raise ValueError(f"prefix must be some printable text without braces, not {prefix!r}")
    return f"{{{prefix}}}" if cluster else prefix
