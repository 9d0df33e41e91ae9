"""Equal writes that arrive at once in one process: the first is made, the others wait for what it brings."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from weakref import WeakValueDictionary

from lastcall.call import Call
from lastcall.contracts import Clock
from lastcall.verdict import Ticket, Verdict

PATIENCE = 60.0
"""Seconds that a write waits for an equal one, where the tool has no `timeout`."""


class Flight:
    """One write on its way, from before it is decided about until it is settled."""

    def __init__(self, flights: Flights, at: tuple[str | None, str]) -> None:
        self.at = at
        self._flights = flights
        self._over: Future[None] = Future()
        self._thread = threading.get_ident()

    def wait(self, seconds: float) -> bool:
        """Wait until it is over. False: it is not, or waiting would keep it from being so."""
        if self._thread == threading.get_ident() or in_loop():
            return False
        with suppress(TimeoutError):
            self._over.result(seconds)
        return self._over.done()

    async def await_(self, seconds: float) -> bool:
        """`wait` for an event loop, in which the one that is waited for goes on."""
        # Not `wait_for`: who is called off must not call off the others.
        await asyncio.wait({asyncio.wrap_future(self._over)}, timeout=seconds)
        return self._over.done()

    def over(self) -> None:
        """It is settled, or was refused."""
        self._flights.landed(self)
        if not self._over.done():
            self._over.set_result(None)


class Flights:
    """The writes on their way in this process that are answered by their first result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Of one that is never settled nothing stays but what its ticket holds.
        self._open: WeakValueDictionary[tuple[str | None, str], Flight] = WeakValueDictionary()

    def joined(self, call: Call) -> tuple[Flight, bool]:
        """The flight of *call*, and whether it is its own: nobody else makes the same write."""
        at = (call.where.tenant, call.key or "")
        with self._lock:
            flight = self._open.get(at)
            if flight is not None:
                return flight, False
            flight = self._open[at] = Flight(self, at)
            return flight, True

    def __bool__(self) -> bool:
        return bool(self._open)

    def __contains__(self, ticket: Ticket) -> bool:
        call = ticket.call
        return joins(ticket) and (call.where.tenant, call.key) in self._open

    def board(self, ticket: Ticket, clock: Clock, *, wait: bool) -> None:
        """Let *ticket* be one that others wait for, or, if *wait* says so, wait for the one that is."""
        flight, mine = self.joined(ticket.call)
        while not mine:
            if not wait or not flight.wait(patience(ticket)):
                # The store knows what is to be said of it.
                return
            ticket.time = clock()
            flight, mine = self.joined(ticket.call)
        ticket.flight = flight

    async def aboard(self, ticket: Ticket, clock: Clock, *, wait: bool) -> None:
        """`board` for an event loop."""
        flight, mine = self.joined(ticket.call)
        while not mine:
            if not wait or not await flight.await_(patience(ticket)):
                return
            ticket.time = clock()
            flight, mine = self.joined(ticket.call)
        ticket.flight = flight

    def landed(self, flight: Flight) -> None:
        """Nobody waits for *flight* from now on."""
        with self._lock:
            if self._open.get(flight.at) is flight:
                del self._open[flight.at]


def joins(ticket: Ticket) -> bool:
    """Whether the call of *ticket* is a write that an equal one may wait for: one that is answered by what
    it brings, and not in the shadow, where nobody is held up."""
    call = ticket.call
    return (
        call.policy.on_repeat == "replay"
        and call.key is not None
        and call.kind == "tool"
        and ticket.lineup.enforce
        and any(
            asked.rule.name == "writes" and asked.enforced for _, _, asked in ticket.lineup.asks
        )
    )


def patience(ticket: Ticket) -> float:
    """Seconds to wait for a write like that of *ticket*."""
    return ticket.call.policy.timeout or PATIENCE


@contextmanager
def landing(ticket: Ticket) -> Iterator[Callable[[Verdict], Verdict]]:
    """Let others go on as soon as it is clear that *ticket* is not granted."""
    granted = False

    def decided(verdict: Verdict) -> Verdict:
        nonlocal granted
        granted = verdict.ticket is not None
        return verdict

    try:
        yield decided
    finally:
        if not granted:
            landed(ticket)


def landed(ticket: Ticket) -> None:
    """The call of *ticket* is settled, or was refused."""
    if ticket.flight is not None:
        ticket.flight.over()


def in_loop() -> bool:
    """Whether an event loop runs in this thread, which must not be held up."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
