"""The store for a fleet: Redis 6.2 or newer, or Valkey. One trip for a decision and one for its settlement.

A shard is one hash, `PREFIX:run:ID`, and a record is a field of it; all of a decision happens in one script
(`decision.lua`). The client runs the rules on its own copy of the records and the script checks that
the copy was fresh: for a run, which one worker owns, it nearly always is.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import threading
import time
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha1
from importlib import import_module
from importlib.resources import files
from typing import Any, NoReturn, Self, TypeVar

import msgspec

from lastcall.contracts import Answer, Claim, Free, Key, Plan, Release, Shard, Step, Take
from lastcall.stores.copies import Copies, Unknown
from lastcall.stores.lifetime import KEEP, TTL, Lifetimes
from lastcall.stores.opening import server_of
from lastcall.stores.records import (
    COUNTER,
    clean,
    counter_text,
    decoded,
    encoded,
    field_text,
    key_of,
    shard_of,
    shard_text,
)
from lastcall.stores.trouble import StoreError, UnreadableRecordError
from lastcall.stores.worker import Worker, in_event_loop

T = TypeVar("T")

SCRIPT = files("lastcall.stores").joinpath("decision.lua").read_text(encoding="utf-8")
DIGEST = sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()
"""The name by which the server knows the script."""

REFUSED, STALE, TOO_MUCH, UNREADABLE = 0, -1, -2, -3
"""What the script answers besides "granted"."""

HEAD = 3
"""The parts of an answer before what it says: the code, and the server's time in two parts."""

META = "#"
"""What the names of fields begin with that are no records."""

CONNECTIONS = 64
"""Connections of one event loop; further decisions wait for one."""

THREADS = 1024
"""Connections of threads, of which each needs one: waiting for one would cost every decision some time."""

BEST = 60.0
"""Seconds after which the server's clock is read off a slower answer than the fastest so far."""

LOADED = 500
"""Records put back in one trip."""

COUNTS = 4096
"""Counters whose last value is remembered, to foresee a refusal."""


class Trip(msgspec.Struct, frozen=True):
    """One sending of the script."""

    keys: tuple[str, ...]
    body: list[Any]
    repeatable: bool
    """Whether it may be sent again when it is not known whether it arrived."""


Trips = Generator[Trip, Any, T]


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
        self._client = sound(client) if url is None else self._pooled(url)
        self._aclient = sound(aclient)
        self._prefix = tagged(prefix, clustered(client, aclient))
        self._lifetimes = Lifetimes(ttl, keep)
        self._types: dict[str, Any] = {}
        self._copies = Copies(self._types)
        self._counts: dict[str, int] = {}
        self._name = secrets.token_hex(4)
        self._numbers = itertools.count(1)
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
        deadline = time.monotonic() + self._timeout
        loop = self._loop()
        try:
            # All of it together: to wait for a turn, for a connection and for an answer is three waits.
            async with asyncio.timeout(self._timeout):
                if self._dropping:
                    await self._adropped(keys)
                async with loop.turn(keys[0][0]):
                    return await self._adecided(
                        loop.client, self._deciding(keys, step, now), deadline
                    )
        except TimeoutError:
            # What was sent may have arrived.
            self._copies.clear()
            raise self._late() from None

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
        self._copies.forget(shard)
        if not in_event_loop():
            self._asked(self._sync().delete, self._key(shard))
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

    # A decision, without I/O: it yields what is to be sent and is told the answers.

    def _deciding(self, keys: Sequence[Key], step: Step[T], now: float) -> Trips[tuple[T, Answer]]:
        fields = [field_text(key) for key in keys]
        foreseen = False
        while True:
            try:
                versions, records = self._copies.read(keys, fields)
            except Unknown:
                yield from self._fetching(keys, fields, now)
                continue
            plan = step(records)
            foreseen = foreseen or self._full(plan.claims)
            instead = None
            if foreseen and plan.otherwise is not None:
                instead = [list(plan.otherwise(index)) for index in range(len(plan.claims))]
            token = f"{self._name}-{next(self._numbers)}"
            trip = self._trip(keys, fields, versions, plan, instead, token, now)
            reply = yield trip
            code, said = reply[0], reply[HEAD:]
            if code == STALE:
                self._refresh(list(trip_shards(versions, plan)), keys, fields, said)
                continue
            if code == TOO_MUCH:
                give = plan.releases[said[0]]
                raise ValueError(
                    f"{getattr(give, 'amount', 1)} given back to {give.key!r}, which holds {said[1]}"
                )
            if code == UNREADABLE:
                raise UnreadableRecordError(f"the counter {said[1].decode()!r} in Redis is damaged")
            if code != REFUSED:
                self._wrote(keys, fields, versions, plan.writes, token)
                self._counted(plan.claims, said)
                return plan.value, Answer(None, tuple(said))
            index, written, observed = said[0], said[1], tuple(said[2:])
            self._counted(plan.claims, observed)
            if instead is not None and written:
                self._wrote(keys, fields, versions, instead[index], token)
            elif instead is None and plan.otherwise is not None and plan.otherwise(index):
                # It did not look full; what is written when it is goes along this time.
                foreseen = True
                continue
            return plan.value, Answer(index, observed)

    def _fetching(self, keys: Sequence[Key], fields: Sequence[str], now: float) -> Trips[None]:
        """Ask for records of which nothing is known, by a version that nobody has."""
        versions = dict.fromkeys((key[0] for key in keys), "?")
        reply = yield self._trip(keys, fields, versions, Plan(None), None, "", now)
        self._refresh(list(versions), keys, fields, reply[HEAD:])

    def _trip(
        self,
        keys: Sequence[Key],
        fields: Sequence[str],
        versions: Mapping[Shard, str],
        plan: Plan[Any],
        instead: Sequence[Sequence[tuple[int, Any]]] | None,
        token: str,
        now: float,
    ) -> Trip:
        places = {shard: index for index, shard in enumerate(trip_shards(versions, plan))}
        wanted: dict[Shard, list[str]] = {shard: [] for shard in places}
        for key, field in zip(keys, fields, strict=True):
            wanted[key[0]].append(field)
        shards = [
            [
                versions.get(shard, False),
                self._lifetimes.of(shard, plan.claims) or 0,
                wanted[shard],
            ]
            for shard in places
        ]

        def rows(writes: Sequence[tuple[int, Any]]) -> list[Any]:
            return [
                [
                    places[keys[index][0]],
                    fields[index],
                    False if state is None else encoded(state, keys[index]),
                ]
                for index, state in writes
            ]

        body = [
            now,
            token,
            shards,
            rows(plan.writes),
            [claim_row(claim, places) for claim in plan.claims],
            [rows(each) or False for each in instead] if instead is not None else False,
            [release_row(release, places) for release in plan.releases],
            False,
        ]
        repeatable = instead is None and bool(plan.writes or not (plan.claims or plan.releases))
        return Trip(tuple(map(self._key, places)), body, repeatable)

    def _refresh(
        self, shards: Sequence[Shard], keys: Sequence[Key], fields: Sequence[str], said: list[Any]
    ) -> None:
        for place, version, whole, flat in said:
            shard = shards[place]
            pairs = {
                field: value
                for field, value in zip(texts(flat[::2]), texts(flat[1::2]), strict=True)
                if not field.startswith(META)
            }
            asked = [field for key, field in zip(keys, fields, strict=True) if key[0] == shard]
            self._copies.told(shard, version.decode(), pairs, whole=bool(whole), asked=asked)

    def _wrote(
        self,
        keys: Sequence[Key],
        fields: Sequence[str],
        versions: Mapping[Shard, str],
        writes: Sequence[tuple[int, Any]],
        token: str,
    ) -> None:
        states: dict[Shard, dict[str, Any]] = {}
        for index, state in writes:
            states.setdefault(keys[index][0], {})[fields[index]] = state
        for shard, written in states.items():
            self._copies.wrote(shard, versions[shard], token, written)

    def _full(self, claims: Sequence[Claim]) -> bool:
        """Whether one of *claims* will probably be refused."""
        return any(
            claim.limit is not None
            and self._counts.get(name_of(claim), 0) + amount_of(claim) > claim.limit
            for claim in claims
        )

    def _counted(self, claims: Sequence[Claim], observed: Sequence[int]) -> None:
        if len(self._counts) > COUNTS:
            self._counts.clear()
        for claim, count in zip(claims, observed, strict=True):
            self._counts[name_of(claim)] = count

    # Sending, bounded in time.

    def _update(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        deadline = time.monotonic() + self._timeout
        client = self._sync()
        if self._dropping:
            self._dropped(keys)
        with self._turn(keys[0][0]):
            trips = self._deciding(keys, step, now)
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
        self._copies.clear()
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

    def _pooled(self, url: str) -> Any:
        redis = library()
        pool = redis.ConnectionPool.from_url(url, **self._settings("redis", THREADS))
        try:
            # Not connected; it says which setting it does not know.
            pool.connection_class(**pool.connection_kwargs)
        except TypeError as error:
            raise ValueError(f"redis-py takes no such setting: {error}") from None
        return redis.Redis(connection_pool=pool)

    def _settings(self, module: str, connections: int) -> dict[str, Any]:
        """How connections are made: every wait is bounded, and nothing is tried again behind our back."""
        retry = library(f"{module}.retry").Retry(library("redis.backoff").NoBackoff(), 0)
        return {
            "max_connections": connections,
            "socket_timeout": self._timeout,
            "socket_connect_timeout": self._timeout,
            "retry": retry,
            **self._options,
        }

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
            self._name = secrets.token_hex(4)
            self._copies = Copies(self._types)
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
                redis = library("redis.asyncio")
                settings = self._settings("redis.asyncio", CONNECTIONS)
                pool = redis.BlockingConnectionPool.from_url(
                    self._url, timeout=self._timeout, **settings
                )
                client = redis.Redis(connection_pool=pool)
            if client is None:
                raise StoreError(
                    "this store was given no client for event loops: give `aclient` too"
                )
            loop = self._loops[running] = Loop(client)
        return loop

    # The rest.

    def _key(self, shard: Shard) -> str:
        return f"{self._prefix}:{shard_text(shard)}"

    def _blocking(self, work: Any, *args: Any) -> Any:
        self._check_process()
        return self._worker.run(work, *args) if in_event_loop() else work(*args)

    def _asked(self, command: Any, *args: Any, **named: Any) -> Any:
        try:
            return command(*args, **named)
        except self._failures() as error:
            self._failed(self._client, error)

    def _peek(self, shard: Shard, now: float) -> dict[Key, Any]:
        found = self._asked(self._sync().hgetall, self._key(shard))
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
                self._put(shard, rows[start : start + LOADED], now)
            self._copies.forget(shard)

    def _put(self, shard: Shard, rows: Sequence[tuple[Key, Any]], now: float) -> None:
        counted = {key for key, _ in rows if self._types.get(key[1]) == COUNTER}
        writes = [
            [
                0,
                field_text(key),
                (counter_text if key in counted else partial(encoded, key=key))(state),
            ]
            for key, state in rows
        ]
        kept: list[Any] = [[False, self._lifetimes.of(shard) or 0, []]]
        token = f"{self._name}-{next(self._numbers)}"
        body = [now, token, kept, writes, [], False, [], False]
        deadline = time.monotonic() + self._timeout
        self._sent(self._sync(), Trip((self._key(shard),), body, repeatable=True), deadline)

    def _quietly(self, shard: Shard) -> None:
        """Drop a shard with nobody left to tell of trouble: what stays expires."""
        with suppress(StoreError):
            self._asked(self._sync().delete, self._key(shard))

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


class Turnstile:
    """A lock that is gone when nobody holds it."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Loop:
    """What belongs to one event loop: its client, and whose turn it is."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._turns: weakref.WeakValueDictionary[Shard, asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )

    def turn(self, shard: Shard) -> asyncio.Lock:
        """Held by one decision about *shard* at a time."""
        lock = self._turns.get(shard)
        if lock is None:
            lock = self._turns[shard] = asyncio.Lock()
        return lock


def trip_shards(versions: Mapping[Shard, str], plan: Plan[Any]) -> dict[Shard, None]:
    """The shards of a trip in order: those that were read, then those that are only counted in."""
    shards = dict.fromkeys(versions)
    for each in (*plan.claims, *plan.releases):
        shards[each.key[0]] = None
    return shards


def claim_row(claim: Claim, places: Mapping[Shard, int]) -> list[Any]:
    """A claim as the script takes it."""
    at = [places[claim.key[0]], field_text(claim.key)]
    limit = False if claim.limit is None else float(claim.limit)
    if isinstance(claim, Take):
        return [*at, "take", claim.amount, limit, claim.window or False]
    return [*at, "lease", clean(claim.holder), limit, claim.ttl]


def release_row(release: Release, places: Mapping[Shard, int]) -> list[Any]:
    """A release as the script takes it."""
    at = [places[release.key[0]], field_text(release.key)]
    if isinstance(release, Free):
        return [*at, "free", clean(release.holder)]
    return [*at, "give", release.amount, release.window or False, release.taken_at]


def amount_of(claim: Claim) -> int:
    """What a claim adds."""
    return claim.amount if isinstance(claim, Take) else 1


def name_of(claim: Claim) -> str:
    """A counter's whole name."""
    return f"{shard_text(claim.key[0])} {field_text(claim.key)}"


def packed(trip: Trip, again: bool) -> bytes:  # noqa: FBT001 - the last field of the message
    """The message."""
    trip.body[-1] = again
    return msgspec.msgpack.encode(trip.body)


def tagged(prefix: str, cluster: bool) -> str:  # noqa: FBT001 - one question
    """*prefix*, in a cluster as a hash tag: all keys of a decision must live on one node."""
    if not prefix or any(c in prefix for c in "{}") or not prefix.isprintable():
        raise ValueError(f"prefix must be some printable text without braces, not {prefix!r}")
    return f"{{{prefix}}}" if cluster else prefix


def clustered(*clients: Any) -> bool:
    """Whether one of *clients* speaks to a cluster."""
    return any("Cluster" in each.__name__ for client in clients for each in type(client).__mro__)


def sound(client: Any) -> Any:
    """*client*, when it gives bytes. Raises ValueError."""
    pool = getattr(client, "connection_pool", None)
    if getattr(pool, "connection_kwargs", {}).get("decode_responses"):
        raise ValueError("the client must have decode_responses=False: records are bytes")
    return client


def read_only(error: Exception) -> bool:
    """Whether it was a replica that was asked; from within a script that is a text like any other."""
    return "READONLY" in str(error) or type(error).__name__ == "ReadOnlyError"


def texts(values: Iterable[bytes]) -> list[str]:
    """What the server gives as bytes."""
    return [value.decode("utf-8", "replace") for value in values]


def errors() -> Any:
    """redis-py's exceptions."""
    return library("redis.exceptions")


def library(name: str = "redis") -> Any:
    """A module of redis-py. Raises ImportError that names the cure."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            'a store in Redis needs redis-py: pip install "lastcall[redis]"', name="redis"
        ) from error
