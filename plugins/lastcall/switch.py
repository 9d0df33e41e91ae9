"""The kill switch: read before anything else is asked, beside the other state and not through it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call
from lastcall.contracts import Clock, Store
from lastcall.events import log
from lastcall.kills import NONE, Kill, Kills, matching, stop_by, stop_unread
from lastcall.stop import Stop
from lastcall.switch_file import DamagedError, SwitchFile
from lastcall.switch_store import SwitchRecord

__all__ = ["Kill", "Switch"]


class Source(Protocol):
    """Where it is said what is set."""

    def read(self) -> Kills:
        """All that is set; raises anything when that cannot be told."""
        ...

    async def aread(self) -> Kills:
        """The same, without blocking the event loop."""
        ...

    def change(self, by: Callable[[Kills], Kills]) -> tuple[Kills, Kills]:
        """Let *by* change it; gives what was set before, and what is now."""
        ...

    async def achange(self, by: Callable[[Kills], Kills]) -> tuple[Kills, Kills]:
        """The same, without blocking the event loop."""
        ...


class Known(Struct, frozen=True):
    """What was read last. Times are those of a clock that does not go back, in seconds."""

    kills: Kills = NONE
    read: float = float("-inf")
    """When the reading that brought it began; or was found damaged, which keeps what was read before."""
    tried: float = float("-inf")
    """When the last reading began, whatever it brought."""
    trouble: str | None = None
    """Why that brought nothing."""


class Switch:
    """Stops every agent, one agent, one agent for one user, one user, or one run, from outside.

    *source*: a file, a store, or the URL of one (`sqlite:///...`, `redis://...`). What is set is read
    again once it is *ttl* seconds old (default 1), which is the longest that a call still passes after
    it was set. Where it cannot be read, what was known last counts until it is *max_staleness* seconds
    old (default 30), and then every call is refused; so is every call before the first reading that
    succeeds. A missing file means that nothing is set; a damaged one keeps what was read from it before.

    *clock* gives epoch seconds, and *monotonic* seconds of a clock that never goes back (default: the
    machine's, or *clock* where that is one of your own).

    One object serves any number of guards, threads and event loops. At most one reading is on its way
    at a time in each event loop, and one outside of any; others wait for it.
    """

    def __init__(
        self,
        source: Store | str | Path,
        *,
        ttl: float = 1.0,
        max_staleness: float = 30.0,
        clock: Clock = time.time,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        if not ttl >= 0:
            raise ValueError(f"ttl must be at least 0 seconds, not {ttl!r}")
        if not max_staleness >= ttl:
            raise ValueError(
                f"max_staleness must be at least ttl ({ttl:g} seconds), not {max_staleness!r}"
            )
        self.ttl = ttl
        self.max_staleness = max_staleness
        self._clock = clock
        self._monotonic = monotonic or (time.monotonic if clock is time.time else clock)
        self._opened: Store | None = None
        """The store, where we opened it and have to close it."""
        self._source = self._source_of(source)
        self._lock = threading.Lock()
        self._flights: WeakKeyDictionary[Any, asyncio.Task[None]] = WeakKeyDictionary()
        self._known = Known()

    def __str__(self) -> str:
        """Where it is: the path of the file, or the store."""
        return str(self._source)

    # For guards; the twins differ in `await` alone.

    def check(self, call: Call) -> Stop | None:
        """The stop of *call* when it is stopped from outside; None when it is not. Raises nothing."""
        if not self._fresh():
            with self._lock:
                # Others have waited here while one was reading.
                if not self._fresh():
                    self._refresh()
        return self.said(call)

    async def acheck(self, call: Call) -> Stop | None:
        """`check` for an event loop, which is never blocked."""
        if not self._fresh():
            await self._arefresh()
        return self.said(call)

    def said(self, call: Call) -> Stop | None:
        """The same by what is known already; nothing is read."""
        known = self._known
        if known.trouble is not None:
            age = self._monotonic() - known.read
            if age > self.max_staleness:
                return stop_unread(call, unread(age), self._clock())
        if not known.kills.kills:
            return None
        kill = matching(known.kills.kills, call.where)
        return None if kill is None else stop_by(kill, call, self._clock())

    # For people.

    def kill(
        self,
        *,
        agent: str | None = None,
        user: str | None = None,
        run: str | None = None,
        all: bool = False,  # noqa: A002 - the word for it
        by: str = "",
        why: str = "",
    ) -> Kill:
        """Stop what is made for *agent*, *user* and *run*, all that are given at once, or everything
        (*all*). *by* and *why* are shown in the stops. Gives the entry; one for the same is replaced.

        Raises ValueError when it is not said what to stop, and what the file or the store raises.
        """
        kill = Kill(*selected(agent, user, run, all), by, self._now(), why)
        self._changed(*self._source.change(lambda kills: kills.with_(kill)))
        return kill

    async def akill(
        self,
        *,
        agent: str | None = None,
        user: str | None = None,
        run: str | None = None,
        all: bool = False,  # noqa: A002
        by: str = "",
        why: str = "",
    ) -> Kill:
        """`kill` for an event loop."""
        kill = Kill(*selected(agent, user, run, all), by, self._now(), why)
        self._changed(*await self._source.achange(lambda kills: kills.with_(kill)))
        return kill

    def revive(
        self,
        *,
        agent: str | None = None,
        user: str | None = None,
        run: str | None = None,
        all: bool = False,  # noqa: A002
    ) -> Kill | None:
        """Take back the entry that was set for exactly this (*all*: the one for everything); gives it,
        or None when there is none. Others stay: whoever set them had a reason.

        Raises ValueError when it is not said which, and what the file or the store raises.
        """
        which = selected(agent, user, run, all)
        return self._changed(*self._source.change(lambda kills: kills.without(which)))

    async def arevive(
        self,
        *,
        agent: str | None = None,
        user: str | None = None,
        run: str | None = None,
        all: bool = False,  # noqa: A002
    ) -> Kill | None:
        """`revive` for an event loop."""
        which = selected(agent, user, run, all)
        return self._changed(*await self._source.achange(lambda kills: kills.without(which)))

    def kills(self) -> tuple[Kill, ...]:
        """All that is set, read now. Raises what the file or the store raises."""
        return self._source.read().kills

    async def akills(self) -> tuple[Kill, ...]:
        """`kills` for an event loop."""
        return (await self._source.aread()).kills

    def close(self) -> None:
        """Close the store that a URL was given of."""
        if self._opened is not None:
            self._opened.close()

    async def aclose(self) -> None:
        """`close` for an event loop."""
        if self._opened is not None:
            await self._opened.aclose()

    # How.

    def _source_of(self, source: Store | str | Path) -> Source:
        if isinstance(source, str) and "://" in source:
            from lastcall.stores import open_store  # noqa: PLC0415 - stores are loaded when asked for

            self._opened = source = open_store(source)
        if isinstance(source, str | Path):
            return SwitchFile(source)
        return SwitchRecord(source, self._clock)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(int(self._clock()), UTC)

    def _fresh(self) -> bool:
        return self._monotonic() - self._known.tried < self.ttl

    def _refresh(self) -> None:
        began = self._monotonic()
        try:
            self._read(self._source.read(), began)
        except Exception as error:
            self._failed(error, began)

    async def _arefresh(self) -> None:
        """Wait for the reading that is on its way in this event loop, or begin one. It is a task of its own:
        of all who wait for it any may be cancelled."""
        loop = asyncio.get_running_loop()
        flight = self._flights.get(loop)
        if flight is None or flight.done():
            flight = self._flights[loop] = loop.create_task(self._fly())
        await asyncio.shield(flight)

    async def _fly(self) -> None:
        began = self._monotonic()
        try:
            self._read(await self._source.aread(), began)
        except Exception as error:
            self._failed(error, began)

    def _read(self, kills: Kills, began: float) -> None:
        before = self._known
        if before.read > began:
            # A reading that began later was quicker.
            return
        if before.trouble is not None:
            log.warning("the kill switch in %s can be read again", self)
        self._known = Known(kills, began, began)

    def _failed(self, error: Exception, began: float) -> None:
        before = self._known
        if before.read > began:
            return
        trouble = f"{type(error).__name__}: {error}"
        if trouble != before.trouble:
            log.error("the kill switch in %s cannot be read: %s", self, trouble)
        known = replace(before, tried=began, trouble=trouble)
        if isinstance(error, DamagedError) and before.read != float("-inf"):
            # Somebody is writing it: what parsed last counts, however long that takes.
            known = replace(known, read=began)
        self._known = known

    def _changed(self, before: Kills, after: Kills) -> Kill | None:
        """Let this process know at once; gives the entry that is there no more."""
        now = self._monotonic()
        self._known = Known(after, now, now)
        kept = {each.selectors for each in after.kills}
        return next((each for each in before.kills if each.selectors not in kept), None)


def selected(
    agent: str | None,
    user: str | None,
    run: str | None,
    everything: bool,  # noqa: FBT001 - passed on
) -> tuple[str | None, str | None, str | None]:
    """What an entry is for. Raises ValueError when that is not said: a name that is None by mistake must
    not stop everybody."""
    given = [each for each in (agent, user, run) if each is not None]
    if bool(given) == everything or "" in given:
        raise ValueError("say agent, user or run, none of them empty, or all=True for everything")
    return (agent, user, run)


def unread(age: float) -> str:
    """What a stop says while nobody knows what is set. Where the switch is, and why it cannot be read,
    is in the log: a model has no business with it."""
    since = "was never read" if age == float("inf") else f"was last read {age:.0f} seconds ago"
    return f"The kill switch cannot be read; it {since}. No call is made until it can be."
