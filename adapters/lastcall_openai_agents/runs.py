"""Runs, as the guard counts them: one root `Runner.run` with everything nested in it."""

from __future__ import annotations

import itertools
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lastcall import Guard, MemoryStore
from lastcall_openai_agents.gone import catch_up, when_gone
from lastcall_openai_agents.guards import EVERYWHERE

if TYPE_CHECKING:
    from lastcall_openai_agents.frames import Frame


class Run:
    """One root run. *guards* are those that were asked in it; they forget it when it is over."""

    def __init__(self) -> None:
        catch_up()
        self.id = f"oa-{uuid4().hex}"
        self.open = True
        self.guards: list[Guard] = list(EVERYWHERE)
        self.frames = itertools.count()
        self.waiting: list[Frame] = []
        """The frame that goes on with a pause of another process."""
        # A thread that the SDK could not cancel may still settle a call after the end.
        self._over: list[str] = []
        when_gone(self, partial(swept, self._over, self.guards))

        self._asked: set[Guard] = set()
        """Guards that said whether they know a run that waits there."""
        self.foreign: tuple[str, str] | None = None
        """What names the pause that it goes on from, where another process paused it."""
        self.kept: tuple[str, str] | None = None
        """What names its own pause, where its guards keep that."""

    # The twins differ in `await` alone.

    def use(self, guard: Guard) -> None:
        """*guard* was asked about a call of this run."""
        if self._unheard(guard):
            self._heard(guard, guard.pauses.find(*self.foreign) if self.foreign else None)

    async def ause(self, guard: Guard) -> None:
        """`use` for an event loop."""
        if self._unheard(guard):
            self._heard(guard, await guard.pauses.afind(*self.foreign) if self.foreign else None)

    def keep(self, thread: str, pending: str, note: str) -> None:
        """Let every guard keep that it waits, for a resume in another process."""
        self.goes_on()
        self.kept = (thread, pending)
        for guard in tuple(self.guards):
            guard.pauses.keep(self.id, thread, pending, note)

    async def akeep(self, thread: str, pending: str, note: str) -> None:
        """`keep` for an event loop."""
        await self.agoes_on()
        self.kept = (thread, pending)
        for guard in tuple(self.guards):
            await guard.pauses.akeep(self.id, thread, pending, note)

    def goes_on(self) -> None:
        """It waits no more."""
        kept, self.kept = self.kept, None
        if kept is not None:
            for guard in tuple(self.guards):
                guard.pauses.drop(*kept)

    async def agoes_on(self) -> None:
        """`goes_on` for an event loop."""
        kept, self.kept = self.kept, None
        if kept is not None:
            for guard in tuple(self.guards):
                await guard.pauses.adrop(*kept)

    def finish(self) -> None:
        """The root run is over."""
        self._ends()
        self.goes_on()
        self._ended()

    async def afinish(self) -> None:
        """`finish` for an event loop."""
        self._ends()
        await self.agoes_on()
        self._ended()

    def _unheard(self, guard: Guard) -> bool:
        """Whether *guard* has no part in this run yet, or was not asked what it knows of it."""
        new = not any(guard is known for known in self.guards)
        return new or (self.foreign is not None and guard not in self._asked)

    def _heard(self, guard: Guard, pause: Any) -> None:
        """*guard* has a part in this run, which goes on with the one that it knew to wait."""
        if pause is not None and pause.unread:
            # The store was out of reach: whoever asks next may hear more.
            pause = None
        else:
            self._asked.add(guard)
        # Another call of the same reply may have come first.
        if pause is not None and self.foreign is not None:
            self.id, self.kept, self.foreign = pause.run, self.foreign, None
            for frame in tuple(self.waiting):
                frame.replies = int(pause.note or 0)
                frame.elsewhere = True
        if not any(guard is known for known in self.guards):
            self.guards.append(guard)

    def _ends(self) -> None:
        self.open = False
        self._over.append(self.id)

    def _ended(self) -> None:
        # It does not wait for the store within an event loop.
        for guard in tuple(self.guards):
            guard.finish(self.id)


def swept(over: list[str], guards: list[Guard]) -> None:
    """Forget what came in after a run was over; one that waits may go on in another process."""
    for run, guard in product(over, guards):
        if isinstance(guard.store, MemoryStore) and guard.store.peek(("run", run), guard.clock()):
            guard.finish(run)
