"""So many of anything, for anybody, in any window: one mechanism (requirements B3, B9)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictStr,
    field_validator,
    model_validator,
)

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Claim, Release, Take
from lastcall.rules.identity import OWN, Per, shard_of, unknown
from lastcall.rules.settings import Settings
from lastcall.stop import Scope, Stop
from lastcall.tool import Limit as Most
from lastcall.tool import LimitOrNone, Seconds, unset

Quantity = Literal["calls", "requests"]
"""calls: calls of tools, and every further attempt of one. requests: requests to the model."""

COUNTED: Mapping[Kind, Quantity] = {"tool": "calls", "attempt": "calls", "model": "requests"}
"""What a call of each kind spends one of."""

WINDOWS = {"minute": 60.0, "hour": 3_600.0, "day": 86_400.0}
"""Windows that have names, in seconds. A day is a UTC day."""

Window = Annotated[
    Literal["minute", "hour", "day"] | Seconds | None,
    BeforeValidator(unset),
]
"""A name or seconds; None, and `false` in a file: nothing starts anew."""


class Limit(BaseModel, frozen=True):
    """*most* of *quantity* in each *window*, for one user, agent, ... together.

    Windows are fixed, counted from the epoch in UTC: those of an hour begin with the hour.
    """

    model_config = ConfigDict(extra="forbid")

    quantity: Quantity = "calls"
    per: Per = "agent"
    """Who shares it. It is not applied to a call of which that is not known."""
    window: Window = "hour"
    most: Most
    alert: LimitOrNone = None
    """One alert is sent when this many were spent in a window."""
    tools: tuple[Annotated[StrictStr, Field(min_length=1)], ...] = ()
    """Names or patterns of the tools whose calls count; none: all of them."""

    @model_validator(mode="after")
    def _of_calls(self) -> Self:
        if self.tools and self.quantity != "calls":
            raise ValueError(f"tools make no {self.quantity}; only calls are those of a tool")
        return self

    @cached_property
    def name(self) -> str:
        """The name of the budget: `calls/hour/agent`, `calls:search_*/90s/user`, `requests/run`."""
        of = f":{','.join(self.tools)}" if self.tools else ""
        window = self.window if isinstance(self.window, str | None) else f"{self.window:g}s"
        return "/".join(part for part in (f"{self.quantity}{of}", window, self.per) if part)

    @cached_property
    def seconds(self) -> float | None:
        """The length of the window."""
        return WINDOWS[self.window] if isinstance(self.window, str) else self.window

    @property
    def scope(self) -> Scope:
        """How far a stop reaches: what is spent for some tools is not for the others."""
        return "tool" if self.tools else self.per

    def concerns(self, call: Call) -> bool:
        """Whether *call* spends of it."""
        if COUNTED.get(call.kind) != self.quantity:
            return False
        return not self.tools or any(fnmatchcase(call.name, tool) for tool in self.tools)

    def bound(self, call: Call) -> int:
        """What may be spent, with what a person added for the run of *call*."""
        return self.most + call.raised.get(self.name, 0)

    def end(self, now: float) -> float | None:
        """When the window of *now* is over."""
        return self.seconds and (now // self.seconds + 1) * self.seconds


class Budget(Settings, frozen=True):
    """Refuse what is over any of *limits* until its window is over, in whichever run it is asked for.

    What was spent stays spent, whatever came of it; a refused call spends nothing.
    """

    name: ClassVar[Literal["budget"]] = "budget"
    kinds: ClassVar[frozenset[Kind]] = frozenset(COUNTED)
    keys: ClassVar[tuple[str, ...]] = tuple(Limit.model_fields)
    """The settings within its settings."""

    limits: tuple[Limit, ...] = ()
    """The narrower first: the first that is used up gives the reason."""

    @field_validator("limits")
    @classmethod
    def _apart(cls, limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
        names = [limit.name for limit in limits]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two limits named {twice!r} would share one counter")
        return limits

    @property
    def lasting(self) -> bool:
        return any(limit.per not in OWN for limit in self.limits)

    def takes(self, call: Call) -> tuple[Claim, ...]:
        claims: list[Claim] = []
        for limit in self.limits:
            if limit.concerns(call):
                shard = shard_of(limit.per, call)
                if shard is not None:
                    key = (shard, self.name, limit.name)
                    claims.append(Take(key, 1, limit.bound(call), limit.seconds))
        return tuple(claims)

    def stop(self, call: Call, claim: Claim, observed: int, now: float) -> Stop:
        limit = self.of(claim)
        end = limit.end(now)
        after: dict[str, Any] = {}
        if end is not None:
            after = {"retry_after": end - now, "resets_at": datetime.fromtimestamp(end, UTC)}
        return Stop.of(
            call,
            self.name,
            limit.scope,
            now,
            rule=self.name,
            limit=limit.bound(call),
            observed=observed,
            budget=limit.name,
            **after,
        )

    def alert_at(self, call: Call, claim: Claim) -> int | None:
        return self.of(claim).alert

    def budget(self, call: Call, claim: Claim) -> tuple[str, int | None]:
        limit = self.of(claim)
        return limit.name, limit.bound(call)

    def settle(self, call: Call, outcome: Outcome, taken_at: float) -> tuple[Release, ...]:
        return ()

    def unplaced(self, call: Call) -> tuple[str, ...]:
        return tuple(
            unknown(limit.name, limit.per)
            for limit in self.limits
            if limit.concerns(call) and shard_of(limit.per, call) is None
        )

    def of(self, claim: Claim) -> Limit:
        """The limit that *claim* takes from."""
        name = claim.key[2]
        return next(limit for limit in self.limits if limit.name == name)
