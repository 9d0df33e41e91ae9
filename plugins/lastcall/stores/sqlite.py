"""The store in a file: exact for all threads and processes of one machine, and there after a restart.

Two tables, readable with any SQLite tool: `shards(shard, until)` and `records(shard, name, value)`. One
decision is one transaction; the step runs once, inside it.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar

from lastcall.contracts import Answer, Claim, Key, Plan, Shard, Step
from lastcall.stores.lifetime import KEEP, RENEW, TTL, Lifetimes
from lastcall.stores.opening import file_of
from lastcall.stores.records import (
    COUNTER,
    counter_text,
    decoded,
    encoded,
    field_text,
    key_of,
    shard_of,
    shard_text,
)
from lastcall.stores.tallies import settled
from lastcall.stores.trouble import StoreError
from lastcall.stores.worker import Worker, in_event_loop

T = TypeVar("T")

LAYOUT = 1
"""`PRAGMA user_version` of the file."""

SCHEMA = (
    "CREATE TABLE shards (shard TEXT PRIMARY KEY, until REAL) WITHOUT ROWID",
    "CREATE INDEX shards_until ON shards (until)",
    "CREATE TABLE records (shard TEXT, name TEXT, value TEXT, PRIMARY KEY (shard, name)) WITHOUT ROWID",
)

FIRST_PAUSE, LAST_PAUSE = 0.000_05, 0.002
"""Seconds between two tries for the one place to write; SQLite's own handler waits up to a tenth."""

SWEEP_EVERY = 512
"""Transactions between two looks for shards whose time is over."""

LOOK_EVERY = 0.25
"""Seconds between two looks whether the file is still the one that was opened."""

SWEPT = 256
"""Shards removed at one look, so that no decision waits long."""

GRANTED = Answer(None, ())

# A connection that a child process inherited must neither be used nor closed there; this keeps it from
# being closed by the garbage collector.
INHERITED: list[Any] = []


class Connection(sqlite3.Connection):
    """A connection that can be held weakly: a thread that ends takes its own with it."""


class Process:
    """What belongs to one process: after a fork the child makes its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.local = threading.local()
        self.connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self.worker = Worker("lastcall-sqlite")
        self.updates = 0


class SQLiteStore:
    """Records in the SQLite file *path*, which is made when it is missing.

    *timeout*: the seconds that an update waits for other writers, at most. *ttl*: the seconds that an
    untouched run or thread is kept; *keep*: the same for what outlives runs. Raises StoreError, from
    every method, when the file cannot be used; the next call tries again.
    """

    shared = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float = 0.25,
        ttl: float = TTL,
        keep: float = KEEP,
    ) -> None:
        if not 0 < timeout < 60:  # noqa: PLR2004 - more than a minute is no bound for a decision
            raise ValueError(f"timeout must be between 0 and 60 seconds, not {timeout!r}")
        # A process may change its directory later.
        self.path = Path(path).absolute()
        self._timeout = timeout
        self._lifetimes = Lifetimes(ttl, keep)
        self._types: dict[str, Any] = {}
        self._process = Process()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """The store of `sqlite:///PATH`. Raises ValueError."""
        path, said = file_of(url)
        return cls(path, **{**said, **options})

    def learn(self, types: Mapping[str, Any]) -> None:
        """The types of records, by the name of the rule they belong to."""
        self._types |= types

    def update(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """Read *keys*, run *step* once, and do all of what it plans or none of it, in one transaction.

        Raises StoreError, ValueError when more is given back than was taken, and whatever *step* raises;
        nothing is written then.
        """
        return self._called(self._update, keys, step, now)

    async def aupdate(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """The same in the store's own thread: a disk may take its time."""
        found: tuple[T, Answer] = await self._home().worker.arun(
            self._within, time.monotonic() + self._timeout, self._update, keys, step, now
        )
        return found

    def peek(self, shard: Shard, now: float) -> dict[Key, Any]:
        """Every record of *shard*."""
        return self._called(self._peek, shard, now)

    def load(self, records: Mapping[Key, Any], now: float) -> None:
        """Put *records* in, over those of the same keys."""
        self._called(self._load, records, now)

    def drop(self, shard: Shard) -> None:
        """Forget *shard*. Within an event loop it is done a moment later, before any later update."""
        if in_event_loop():
            self._home().worker.submit(self._quietly, shard)
        else:
            self._within(time.monotonic() + self._timeout, self._drop, shard)

    def shards(self, kind: str, now: float) -> list[Shard]:
        """The shards of *kind* that hold something."""
        return self._called(self._shards, kind, now)

    def close(self) -> None:
        """Close the connections of this process."""
        home = self._home()
        home.worker.close()
        # Not while another thread is in the middle of something: SQLite does not survive that.
        with home.lock:
            for connection in list(home.connections):
                connection.close()
            home.local = threading.local()

    async def aclose(self) -> None:
        """The same from an event loop."""
        await asyncio.to_thread(self.close)

    # One operation: waiting for the place to write, bounded, then all of it or nothing.

    def _called(self, work: Callable[..., T], *args: Any) -> T:
        deadline = time.monotonic() + self._timeout
        if in_event_loop():
            found: T = self._home().worker.run(self._within, deadline, work, *args)
            return found
        return self._within(deadline, work, *args)

    def _within(self, deadline: float, work: Callable[..., T], *args: Any) -> T:
        """*work* in a transaction that has begun before *deadline*."""
        home = self._home()
        if not home.lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise self._waited()
        try:
            pause = FIRST_PAUSE
            while True:
                try:
                    connection = self._connection(home)
                    connection.execute("BEGIN IMMEDIATE")
                except sqlite3.Error as error:
                    if not busy(error):
                        raise self._trouble(home, error) from error
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise self._waited() from error
                    time.sleep(min(pause * random.uniform(0.5, 1), left))  # noqa: S311 - scatter, no secret
                    pause = min(2 * pause, LAST_PAUSE)
                    continue
                return self._done(home, connection, work, args)
        finally:
            home.lock.release()

    def _done(
        self, home: Process, connection: Connection, work: Callable[..., T], args: tuple[Any, ...]
    ) -> T:
        try:
            try:
                value = work(connection, *args)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._trouble(home, error) from error
        return value

    def _waited(self) -> StoreError:
        return StoreError(
            f"{self.path} was locked by others for {self._timeout:g} s; nothing was decided"
        )

    def _trouble(self, home: Process, error: sqlite3.Error) -> StoreError:
        """What is wrong with the file, after letting go of it: the next call opens it anew."""
        self._forget(home)
        return StoreError(f"{self.path} cannot be used: {error}{cure(error)}")

    # The connection of this thread.

    def _home(self) -> Process:
        home = self._process
        if home.pid != os.getpid():
            INHERITED.append(home)
            home = self._process = Process()
        return home

    def _connection(self, home: Process) -> Connection:
        held: tuple[Connection, int | None] | None = getattr(home.local, "held", None)
        looked = time.monotonic()
        if held is not None:
            if looked < home.local.look or self._inode() == held[1]:
                if looked >= home.local.look:
                    home.local.look = looked + LOOK_EVERY
                return held[0]
            # Somebody moved the file away: what is written to it would be lost.
            self._forget(home)
        connection = self._opened()
        home.local.held = (connection, self._inode())
        home.local.look = looked + LOOK_EVERY
        home.connections.add(connection)
        return connection

    def _inode(self) -> int | None:
        try:
            return self.path.stat().st_ino
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.path} cannot be used: {error.strerror or error}") from error

    def _opened(self) -> Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
            self._laid_out(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _laid_out(self, connection: Connection) -> None:
        """Make the tables where they are missing. Raises StoreError for a newer layout."""
        layout = layout_of(connection)
        if layout > LAYOUT:
            raise StoreError(
                f"{self.path} was made by a newer version of lastcall (layout {layout}, this one knows"
                f" {LAYOUT})"
            )
        if layout == LAYOUT:
            return
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have been first.
        if layout_of(connection) < LAYOUT:
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {LAYOUT}")
        connection.execute("COMMIT")

    def _forget(self, home: Process) -> None:
        held: tuple[Connection, int | None] | None = getattr(home.local, "held", None)
        if held is not None:
            home.local.held = None
            with suppress(sqlite3.Error):
                held[0].close()

    # Inside the transaction.

    def _update(
        self, connection: Connection, keys: Sequence[Key], step: Step[T], now: float
    ) -> tuple[T, Answer]:
        table = Table(connection, self._types, now)
        plan: Plan[T] = step(table.read_all(keys))
        answer = GRANTED
        tallies: list[tuple[Key, Any]] = []
        if plan.claims or plan.releases:
            answer, tallies = settled(plan.releases, plan.claims, table.read_tally, now)
        for key, held in tallies:
            table.write(key, counter_text(held) if held != {} else None)
        for index, state in plan.written(answer.refused):
            key = keys[index]
            table.write(key, None if state is None else encoded(state, key))
        table.flush()
        self._renew(table, plan.claims if tallies else ())
        self._sweep(connection, now)
        return plan.value, answer

    def _renew(self, table: Table, claims: Sequence[Claim]) -> None:
        for shard in table.written:
            life = self._lifetimes.of(shard, claims)
            until, known = table.until(shard)
            if life is None:
                if not known:
                    table.keep(shard, None)
            elif not known or (until is not None and until < table.now + RENEW * life):
                table.keep(shard, table.now + life)

    def _sweep(self, connection: Connection, now: float) -> None:
        home = self._process
        home.updates += 1
        if home.updates % SWEEP_EVERY:
            return
        over = connection.execute(
            "SELECT shard FROM shards WHERE until <= ? LIMIT ?", (now, SWEPT)
        ).fetchall()
        connection.executemany("DELETE FROM records WHERE shard = ?", over)
        connection.executemany("DELETE FROM shards WHERE shard = ?", over)

    def _peek(self, connection: Connection, shard: Shard, now: float) -> dict[Key, Any]:
        table = Table(connection, self._types, now)
        if not table.until(shard)[1]:
            return {}
        rows = connection.execute(
            "SELECT name, value FROM records WHERE shard = ?", (shard_text(shard),)
        )
        keys = [(key_of(shard, name), value) for name, value in rows]
        return {key: decoded(value, key, self._types) for key, value in keys}

    def _load(self, connection: Connection, records: Mapping[Key, Any], now: float) -> None:
        table = Table(connection, self._types, now)
        for key, state in records.items():
            counted = self._types.get(key[1]) == COUNTER
            value = counter_text(state) if counted else encoded(state, key)
            table.write(key, value)
        table.flush()
        self._renew(table, ())

    def _drop(self, connection: Connection, shard: Shard) -> None:
        named = (shard_text(shard),)
        connection.execute("DELETE FROM records WHERE shard = ?", named)
        connection.execute("DELETE FROM shards WHERE shard = ?", named)

    def _quietly(self, shard: Shard) -> None:
        """Drop a shard with nobody left to tell of trouble: what stays expires."""
        with suppress(StoreError):
            self._within(time.monotonic() + self._timeout, self._drop, shard)

    def _shards(self, connection: Connection, kind: str, now: float) -> list[Shard]:
        rows = connection.execute(
            "SELECT DISTINCT shard FROM records JOIN shards USING (shard)"
            " WHERE (shard = ? OR (shard >= ? AND shard < ?)) AND (until IS NULL OR until > ?)",
            (kind, f"{kind}:", f"{kind};", now),
        )
        return [shard_of(text) for (text,) in rows]


class Table:
    """What one transaction reads and writes, at *now*."""

    def __init__(self, connection: Connection, types: Mapping[str, Any], now: float) -> None:
        self._connection = connection
        self._run = connection.execute
        self._types = types
        self.now = now
        self.written: dict[Shard, None] = {}
        self._untils: dict[Shard, tuple[float | None, bool]] = {}
        self._tallies: dict[Key, Any] = {}
        self._rows: list[tuple[str, str, str]] = []

    def until(self, shard: Shard) -> tuple[float | None, bool]:
        """Until when *shard* is kept (None: for ever), and whether it is there at all; one whose time is
        over is cleared away first."""
        known = self._untils.get(shard)
        if known is None:
            text = (shard_text(shard),)
            row = self._run("SELECT until FROM shards WHERE shard = ?", text).fetchone()
            if row is not None and row[0] is not None and row[0] <= self.now:
                self._run("DELETE FROM records WHERE shard = ?", text)
                self._run("DELETE FROM shards WHERE shard = ?", text)
                row = None
            known = self._untils[shard] = (None, False) if row is None else (row[0], True)
        return known

    def read_all(self, keys: Sequence[Key]) -> list[Any]:
        """The records of *keys*, in their order."""
        found: list[Any] = [None] * len(keys)
        names: dict[Shard, dict[str, int]] = {}
        for place, key in enumerate(keys):
            names.setdefault(key[0], {})[field_text(key)] = place
        for shard, places in names.items():
            if not self.until(shard)[1]:
                continue
            rows = self._run(reading(len(places)), (shard_text(shard), *places))
            for name, value in rows:
                place = places[name]
                found[place] = decoded(value, keys[place], self._types)
        return found

    def read_tally(self, key: Key) -> Any:
        """What is held under *key*."""
        if key not in self._tallies:
            self._tallies[key] = self._tally(key)
        return self._tallies[key]

    def _tally(self, key: Key) -> Any:
        if not self.until(key[0])[1]:
            return None
        row = self._run(
            "SELECT value FROM records WHERE shard = ? AND name = ?",
            (shard_text(key[0]), field_text(key)),
        ).fetchone()
        return None if row is None else decoded(row[0], key, {key[1]: COUNTER})

    def write(self, key: Key, value: str | None) -> None:
        """Write *value* under *key* at the next `flush`; None takes it away."""
        shard, place = key[0], (shard_text(key[0]), field_text(key))
        self.until(shard)
        if value is None:
            self._run("DELETE FROM records WHERE shard = ? AND name = ?", place)
            return
        self.written[shard] = None
        self._rows.append((*place, value))

    def flush(self) -> None:
        """Write what is to be written."""
        if self._rows:
            self._connection.executemany(
                "INSERT OR REPLACE INTO records VALUES (?, ?, ?)", self._rows
            )

    def keep(self, shard: Shard, until: float | None) -> None:
        """Keep *shard* until then; None: for ever."""
        self._run("INSERT OR REPLACE INTO shards VALUES (?, ?)", (shard_text(shard), until))


@cache
def reading(count: int) -> str:
    """The statement that reads *count* records of a shard."""
    marks = ",".join("?" * count)
    return f"SELECT name, value FROM records WHERE shard = ? AND name IN ({marks})"  # noqa: S608 - marks


def layout_of(connection: Connection) -> int:
    """The layout of the file; 0 for a new one."""
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    return int(layout)


def busy(error: sqlite3.Error) -> bool:
    """Whether another writer is the only trouble."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def cure(error: sqlite3.Error) -> str:
    """What to do about *error*, where that is known."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    cures = {
        sqlite3.SQLITE_FULL: "; free some space on its disk",
        sqlite3.SQLITE_READONLY: "; this process may not write it",
        sqlite3.SQLITE_CANTOPEN: "; its folder must exist and be writable",
        sqlite3.SQLITE_CORRUPT: "; move it away, and the counts begin anew",
        sqlite3.SQLITE_NOTADB: "; it is no SQLite file: move it away, or name another",
    }
    return cures.get(code, "")
