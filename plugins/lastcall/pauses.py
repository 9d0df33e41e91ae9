"""Runs that wait in a thread, for a person perhaps, as adapters keep them: another process may go on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from lastcall.contracts import Answer, Key, Plan
from lastcall.errand import Errand, Errands, nothing, reading
from lastcall.snapshot import PAUSED, Pause

UNREAD = Pause("")
"""Nobody knows whether a run waits there: the store could not be asked."""


class Pauses:
    """The pauses of one guard's runs. None of it raises. The twins differ in `await` alone.

    *graph* tells several runs that wait in one thread apart.
    """

    def __init__(self, errands: Errands) -> None:
        self._errands = errands

    def keep(self, run: str, thread: str, graph: str | None, note: str = "") -> None:
        """Keep with *thread* that *run* waits in it. *note* is kept for the adapter."""
        self._errands.done(keeping(run, thread, graph, note))

    async def akeep(self, run: str, thread: str, graph: str | None, note: str = "") -> None:
        """`keep` for an event loop."""
        await self._errands.adone(keeping(run, thread, graph, note))

    def find(self, thread: str, graph: str | None) -> Pause | None:
        """The run that waits in *thread*; None when none does, and one that is `unread` when the store
        could not be asked."""
        return self._errands.done(finding(thread, graph))

    async def afind(self, thread: str, graph: str | None) -> Pause | None:
        """`find` for an event loop."""
        return await self._errands.adone(finding(thread, graph))

    def drop(self, thread: str, graph: str | None) -> None:
        """No run waits in *thread* any more."""
        self._errands.done(dropping(thread, graph))

    async def adrop(self, thread: str, graph: str | None) -> None:
        """`drop` for an event loop."""
        await self._errands.adone(dropping(thread, graph))


def keeping(run: str, thread: str, graph: str | None, note: str) -> Errand[None]:
    """Keep that *run* waits in *thread*."""
    so = f"another process that resumes thread {thread!r} will not know run {run!r}"
    step = partial(writing, Pause(run, note))
    return Errand([key_of(thread, graph)], step, nothing, None, so, run, thread)


def finding(thread: str, graph: str | None) -> Errand[Pause | None]:
    """The run that waits in *thread*."""
    so = f"it is not known which run waits in thread {thread!r}"
    return Errand([key_of(thread, graph)], reading, as_found, UNREAD, so, None, thread)


def dropping(thread: str, graph: str | None) -> Errand[None]:
    """Keep that no run waits in *thread*."""
    so = f"a run that is over seems to wait in thread {thread!r}"
    step = partial(writing, None)
    return Errand([key_of(thread, graph)], step, nothing, None, so, None, thread)


def key_of(thread: str, graph: str | None) -> Key:
    """The record that names the run which waits in *thread*."""
    return (("thread", thread), PAUSED, graph)


def writing(state: Pause | None, records: Sequence[Any]) -> Plan[None]:
    """*state* in place of the one record."""
    return Plan(None, () if records[0] == state else [(0, state)])


def as_found(found: Pause | None, answer: Answer, _: float) -> Pause | None:
    """The record itself."""
    # What this process alone does not know, the store may.
    return UNREAD if found is None and answer.standby is not None else found
