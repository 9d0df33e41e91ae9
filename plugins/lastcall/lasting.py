"""Work of an event loop that is finished though nobody waits for it any more: what a store grants is given back
then, and what it settles is made known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from lastcall.call import Outcome
from lastcall.contracts import Answer
from lastcall.fold import Decided
from lastcall.verdict import Ticket, Verdict

T = TypeVar("T")

Update = Coroutine[Any, Any, tuple[Decided, Answer]]
"""What a store was asked to do for a decision or a settlement."""


class Lasting:
    """Whoever waits for what is done here may be cancelled; the work is not. True while there is some."""

    def __init__(self) -> None:
        self._open: set[asyncio.Future[Any]] = set()

    def __bool__(self) -> bool:
        return bool(self._open)

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Do *work*; an event loop by itself holds what it runs too loosely."""
        begun = asyncio.ensure_future(work)
        self._open.add(begun)
        begun.add_done_callback(self._open.discard)
        return begun

    async def finished(
        self, work: Coroutine[Any, Any, T], late: Callable[[asyncio.Future[T]], None]
    ) -> T:
        """What comes of *work*. When whoever waits for it is cancelled, *late* is told of it instead."""
        begun = self.begin(work)
        try:
            return await asyncio.shield(begun)
        except asyncio.CancelledError:
            begun.add_done_callback(late)
            raise


class Settlements(Lasting):
    """What one guard asks a shared store. *settle* settles a call; *observed* is told what the store said to a
    settlement that nobody waits for, *unobserved* why it failed."""

    def __init__(
        self,
        settle: Callable[[Ticket, Outcome], Coroutine[Any, Any, Verdict]],
        observed: Callable[[Ticket, Outcome, Decided, Answer], Verdict],
        unobserved: Callable[[Ticket, Exception], Verdict],
    ) -> None:
        super().__init__()
        self._settle = settle
        self._observed = observed
        self._unobserved = unobserved

    async def decided(self, ticket: Ticket, update: Update) -> tuple[Decided, Answer]:
        """What the store says of the call of *ticket*. It may be granted after nobody waits for it any more,
        and then it is settled as called off: places and reservations are given back."""
        return await self.finished(update, partial(self._called_off, ticket))

    def _called_off(self, ticket: Ticket, work: asyncio.Future[tuple[Decided, Answer]]) -> None:
        if work.cancelled() or work.exception() is not None:
            return
        decided, answer = work.result()
        if decided.stops or decided.replay is not None or answer.refused is not None:
            return
        ticket.call, ticket.standby = decided.call, answer.standby
        unmade = Outcome("cancelled", started=False)
        self.begin(self._settle(ticket, unmade))

    async def settled(
        self, ticket: Ticket, outcome: Outcome, update: Update
    ) -> tuple[Decided, Answer]:
        """What the store says to a settlement. It is made though nobody waits for it any more: who is
        called off twice has places and reservations to give back all the same."""
        return await self.finished(update, partial(self._late, ticket, outcome))

    def _late(
        self, ticket: Ticket, outcome: Outcome, work: asyncio.Future[tuple[Decided, Answer]]
    ) -> None:
        if work.cancelled():
            return
        fault = work.exception()
        if isinstance(fault, Exception):
            self._unobserved(ticket, fault)
        else:
            self._observed(ticket, outcome, *work.result())
