"""What cools off and what is in quarantine, as the records in a store tell."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from lastcall.contracts import Shard
from lastcall.rules import Cooling, Quarantine
from lastcall.rules.cooling import Cooled, cooling_until
from lastcall.rules.quarantine import Quarantined, quarantined_until

KINDS = ("agent", "dependency")
"""What may cool off."""


class Resting(Struct, frozen=True):
    """An agent or a dependency that is not to be started yet."""

    kind: str
    name: str
    until: float
    reason: str | None
    run: str | None
    """The run in which that came about."""

    def told(self, now: float) -> str:
        """It for people, in one line."""
        run = f", run {self.run}" if self.run else ""
        return (
            f"{self.kind} {self.name!r} is cooling off until {moment(self.until)}"
            f" (in {self.until - now:.0f} s): {self.reason}{run}"
        )

    def plain(self, now: float) -> dict[str, Any]:
        """It as plain data."""
        return {
            self.kind: self.name,
            "until": moment(self.until),
            "seconds": round(self.until - now, 3),
            "reason": self.reason,
            "run": self.run,
        }


def learn(store: Any) -> None:
    """Let *store* know the records that are read here."""
    store.learn({Cooling.name: Cooled, Quarantine.name: Quarantined})


def resting(store: Any, kind: str, name: str, now: float) -> Resting | None:
    """The agent or the dependency of that name, when it cools off."""
    shard: Shard = (kind, name)
    state: Cooled | None = store.peek(shard, now).get((shard, Cooling.name))
    until = cooling_until(state, now)
    if state is None or until is None:
        return None
    return Resting(kind, name, until, state.reason, state.run)


def all_resting(store: Any, now: float) -> list[Resting]:
    """All that cools off, by what and by name."""
    found = (
        resting(store, kind, str(name), now)
        for kind in KINDS
        for _, name in store.shards(kind, now)
    )
    return sorted(
        (each for each in found if each is not None), key=lambda each: (each.kind, each.name)
    )


def quarantined(store: Any, now: float) -> Iterator[tuple[Shard, Quarantined]]:
    """Every call in quarantine: its shard, and its record."""
    for shard in store.shards(Quarantine.name, now):
        state: Quarantined | None = store.peek(shard, now).get((shard, Quarantine.name))
        if state is not None and quarantined_until(state, now) is not None:
            yield shard, state


def moment(at: float) -> str:
    """Epoch seconds for people, to the second and in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
