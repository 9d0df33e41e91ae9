"""How many retries are allowed in all (requirement C5). A dead service is not helped by three times the load."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from lastcall.contracts import Key, Plan, Store
from lastcall.stores.trouble import StoreError

MILLI = 1000
"""Tokens are counted in thousandths, so that ten tenths are one."""

BUCKET = "retry-bucket"
"""The record of a bucket."""


class RetryBudget(Protocol):
    """Is told of every request, and asked before every retry. *now* is in epoch seconds."""

    def told(self, now: float, *, ok: bool) -> None:
        """A request was sent, a retry perhaps, and went well or not."""
        ...

    def take(self, now: float) -> bool:
        """Whether one more retry is allowed; it is counted then."""
        ...

    async def atold(self, now: float, *, ok: bool) -> None:
        """`told` for an event loop."""
        ...

    async def atake(self, now: float) -> bool:
        """`take` for an event loop."""
        ...


class Local(ABC):
    """What budgets of one process have in common: they wait for nobody."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def told(self, now: float, *, ok: bool) -> None:  # noqa: B027 - most do not care what was sent
        """A request was sent."""

    @abstractmethod
    def take(self, now: float) -> bool:
        """Whether one more retry is allowed."""
        ...

    async def atold(self, now: float, *, ok: bool) -> None:
        """`told` for an event loop."""
        self.told(now, ok=ok)

    async def atake(self, now: float) -> bool:
        """`take` for an event loop."""
        return self.take(now)


class Share(Local):
    """Retries up to a *share* of all that was sent, retries included: 1000 requests of three attempts
    each make 1112 against a dead service at 0.1, instead of 3000. One object for each client."""

    def __init__(self, share: float = 0.1) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"a share is more than 0 and at most 1, not {share!r}")
        super().__init__()
        self._share = Fraction(str(share))
        self.sent = 0
        """Requests, retries included."""
        self.retried = 0

    def told(self, now: float, *, ok: bool) -> None:
        """One more was sent."""
        with self._lock:
            self.sent += 1

    def take(self, now: float) -> bool:
        """Whether the share is not used up."""
        with self._lock:
            if self.retried >= self._share * self.sent:
                return False
            self.retried += 1
            return True


class Rolling(Local):
    """At most *most* retries within any *seconds*; None: in all (of one run, say)."""

    def __init__(self, most: int = 20, seconds: float | None = 60.0) -> None:
        if type(most) is not int or most < 0:
            raise ValueError(f"retries are counted by a whole number, not {most!r}")
        super().__init__()
        self.most = most
        self.seconds = seconds
        self._taken: deque[float] = deque()

    def take(self, now: float) -> bool:
        """Whether there were fewer within the last *seconds*."""
        with self._lock:
            while self.seconds is not None and self._taken:
                if self._taken[0] > now - self.seconds:
                    break
                self._taken.popleft()
            if len(self._taken) >= self.most:
                return False
            self._taken.append(now)
            return True


class Tokens(Struct, frozen=True, gc=False):
    """What a bucket holds, in thousandths, and since when."""

    held: int = 0
    at: float | None = None


class Bucket:
    """A retry takes one token. Each success brings *success* of one, each second *second*; it starts empty
    and holds at most *most*. Kept in *store* under *name*, so that all workers draw from one.

    Without the store nothing is retried, and nothing else fails.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        success: float = 0.1,
        second: float = 1.0,
        most: float = 100.0,
    ) -> None:
        self._store = store
        self._key: Key = (("retries", name), BUCKET)
        self._success = round(success * MILLI)
        self._second = second * MILLI
        self._most = round(most * MILLI)
        learn = getattr(store, "learn", None)
        if learn is not None:
            learn({BUCKET: Tokens})

    def told(self, now: float, *, ok: bool) -> None:
        """A success fills it."""
        if ok:
            self._update(now, partial(self._filled, now))

    async def atold(self, now: float, *, ok: bool) -> None:
        """`told` for an event loop."""
        if ok:
            await self._aupdate(now, partial(self._filled, now))

    def take(self, now: float) -> bool:
        """Whether it held a token."""
        return self._update(now, partial(self._drawn, now))

    async def atake(self, now: float) -> bool:
        """`take` for an event loop."""
        return await self._aupdate(now, partial(self._drawn, now))

    def _update(self, now: float, step: Any) -> bool:
        try:
            return bool(self._store.update([self._key], step, now)[0])
        except StoreError:
            return False

    async def _aupdate(self, now: float, step: Any) -> bool:
        try:
            return bool((await self._store.aupdate([self._key], step, now))[0])
        except StoreError:
            return False

    def _filled(self, now: float, records: Sequence[Tokens | None]) -> Plan[bool]:
        tokens = self._at(records[0], now)
        held = min(tokens.held + self._success, self._most)
        # One that is full already is only read.
        full = records[0] is not None and records[0].held == self._most
        return Plan(True, () if full else [(0, Tokens(held, tokens.at))])

    def _drawn(self, now: float, records: Sequence[Tokens | None]) -> Plan[bool]:
        tokens = self._at(records[0], now)
        if tokens.held < MILLI:
            return Plan(False, [(0, tokens)] if records[0] is None else ())
        return Plan(True, [(0, Tokens(tokens.held - MILLI, tokens.at))])

    def _at(self, tokens: Tokens | None, now: float) -> Tokens:
        """What it holds at *now*."""
        if tokens is None or tokens.at is None:
            return Tokens(0, now)
        # No record's time goes back.
        since = max(now - tokens.at, 0.0)
        brought = int(since * self._second)
        if not brought:
            return tokens
        return Tokens(min(tokens.held + brought, self._most), tokens.at + since)
