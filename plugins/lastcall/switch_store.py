"""A kill switch in a store: one record, read and written like any other, beside those of the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lastcall.contracts import Clock, Key, Plan, Store
from lastcall.kills import NONE, Kills

KEY: Key = (("switch", None), "kills")


class SwitchRecord:
    """The record in *store*. *clock* gives epoch seconds."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self._clock = clock
        learn = getattr(store, "learn", None)
        if learn is not None:
            learn({KEY[1]: Kills})

    def __str__(self) -> str:
        return f"the {type(self.store).__name__}"

    def read(self) -> Kills:
        """All that is set. Raises what the store does."""
        found, _ = self.store.update([KEY], reading, self._clock())
        return found

    async def aread(self) -> Kills:
        """The same, without blocking the event loop."""
        found, _ = await self.store.aupdate([KEY], reading, self._clock())
        return found

    def change(self, by: Callable[[Kills], Kills]) -> tuple[Kills, Kills]:
        """Let *by* change what is set; gives what was set before, and what is now."""
        changed, _ = self.store.update([KEY], partial(changing, by), self._clock())
        return changed

    async def achange(self, by: Callable[[Kills], Kills]) -> tuple[Kills, Kills]:
        """The same, without blocking the event loop."""
        changed, _ = await self.store.aupdate([KEY], partial(changing, by), self._clock())
        return changed


def reading(records: Sequence[Any]) -> Plan[Kills]:
    """What is set, and nothing written."""
    return Plan(records[0] or NONE)


def changing(by: Callable[[Kills], Kills], records: Sequence[Any]) -> Plan[tuple[Kills, Kills]]:
    """What *by* makes of what is set; without an entry there is no record."""
    before = records[0] or NONE
    after = by(before)
    if after == before:
        return Plan((before, after))
    return Plan((before, after), [(0, after if after.kills else None)])
