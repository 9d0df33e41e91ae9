"""Which breakers are not closed, as the records in a store tell."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from lastcall.commands.resting import moment
from lastcall.contracts import Shard
from lastcall.rules import Breaker
from lastcall.rules.breaker import Circuit, Phase, standing
from lastcall.rules.identity import named

KIND = "dependency"


class Tripped(Struct, frozen=True):
    """A service that is not let through to as usual."""

    dependency: str
    credential: str | None
    phase: Phase
    until: float
    """When a trial may be made, or the stage of the ramp is over."""
    since: float
    status: int | None
    run: str | None
    """The run that met the last failure."""

    def told(self, now: float) -> str:
        """It for people, in one line."""
        whose = f" (credential {self.credential!r})" if self.credential else ""
        why = f": HTTP {self.status}" if self.status is not None else ""
        run = f", run {self.run}" if self.run else ""
        until = f" until {moment(self.until)} (in {self.until - now:.0f} s)"
        return (
            f"breaker of {self.dependency!r}{whose} is {self.phase}{until if self.until > now else ''},"
            f" since {moment(self.since)}{why}{run}"
        )

    def plain(self, now: float) -> dict[str, Any]:
        """It as plain data."""
        return {
            "dependency": self.dependency,
            "credential": self.credential,
            "state": self.phase,
            "until": moment(self.until) if self.until > now else None,
            "seconds": round(max(self.until - now, 0.0), 3),
            "since": moment(self.since),
            "status": self.status,
            "run": self.run,
        }


def learn(store: Any) -> None:
    """Let *store* know the records that are read here."""
    store.learn({Breaker.name: Circuit})


def tripped(store: Any, now: float, dependency: str | None = None) -> list[Tripped]:
    """Every breaker that is not closed, or those of one *dependency*, by name."""
    found = []
    for shard in store.shards(KIND, now):
        service, *credential = named(str(shard[1]))
        # What `cooling` keeps of dependencies is named otherwise, and holds no breaker.
        if dependency is not None and service != dependency:
            continue
        one = at(store, shard, service, (credential or [""])[0] or None, now)
        if one is not None:
            found.append(one)
    return sorted(found, key=lambda each: (each.dependency, each.credential or ""))


def at(
    store: Any, shard: Shard, service: str, credential: str | None, now: float
) -> Tripped | None:
    """The breaker in that shard; None when it lets all calls through, or there is none."""
    state = standing(store.peek(shard, now).get((shard, Breaker.name)), now)
    if state is None:
        return None
    return Tripped(
        service, credential, state.phase, state.until, state.since, state.status, state.run
    )
