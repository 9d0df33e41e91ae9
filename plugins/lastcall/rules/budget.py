"""So much of anything, for anybody, in any window: one mechanism (requirements B1 to B9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Claim, Give, Release, Take
from lastcall.money import Amount, amount, money, units, worst
from lastcall.rules.identity import OWN, Per, shard_of, unknown
from lastcall.rules.seconds import WallClock
from lastcall.rules.settings import Settings
from lastcall.stop import Scope, Stop
from lastcall.tool import NameOrNone, Seconds, ToolPolicy, unset
from lastcall.zones import midnight_after, offset_of, zone_of

Quantity = Literal[
    "calls",
    "retries",
    "requests",
    "attempts",
    "tokens",
    "tokens:input",
    "tokens:output",
    "money",
    "seconds",
]
"""calls: calls of tools, and every further attempt of one. retries: those further attempts alone.
requests: to the model. attempts: all of these. tokens: of requests, as their provider counts them. money:
what calls and requests cost. seconds: of the clock on the wall, from a run's first call or request on."""

BODIES: frozenset[Kind] = frozenset({"tool", "attempt"})
MODEL: frozenset[Kind] = frozenset({"model"})

COUNTED: Mapping[Quantity, frozenset[Kind]] = {
    "calls": BODIES,
    "retries": frozenset({"attempt"}),
    "requests": MODEL,
    "attempts": BODIES | MODEL,
    "tokens": MODEL,
    "tokens:input": MODEL,
    "tokens:output": MODEL,
    "money": BODIES | MODEL,
}
"""Which calls spend of each quantity that is counted."""

SETTLED = frozenset({"tokens", "tokens:input", "tokens:output", "money"})
"""Quantities of which it is known only afterwards how much was spent: they are reserved before."""

UNPRICED = "unpriced"
"""The counter, and the reason, of requests whose cost nobody knows."""

WINDOWS = {"minute": 60.0, "hour": 3_600.0, "day": 86_400.0}
"""Windows that have names, in seconds. A day is a UTC day, unless a zone is given."""

Window = Annotated[
    Literal["minute", "hour", "day"] | Seconds | None,
    BeforeValidator(unset),
]
"""A name or seconds; None, and `false` in a file: nothing starts anew."""


class Limit(BaseModel, frozen=True):
    """*most* of *quantity* in each *window*, for one user, agent, ... together.

    Windows are fixed, counted from the epoch in UTC: those of an hour begin with the hour. A limit of
    seconds is one of each run and has no window.
    """

    model_config = ConfigDict(extra="forbid")

    quantity: Quantity = "calls"
    per: Per = "agent"
    """Who shares it. It is not applied to a call of which that is not known."""
    window: Window = "hour"
    zone: NameOrNone = None
    """Of a day: where it begins, by a name of the IANA time zone database (Europe/Berlin). None: a UTC day."""
    most: Amount
    """A whole number from 1; of money an amount more than 0, as a Decimal or as text."""
    alert: Amount | float | None = None
    """One alert is sent when this many were spent in a window. A float below 1 is a share of *most*."""
    tools: tuple[Annotated[StrictStr, Field(min_length=1)], ...] = ()
    """Names or patterns of the tools whose calls count; none: all of them."""
    reserve: Amount | None = None
    """Of tokens or money: what a request to the model is taken to spend at most, until it is known. None:
    it may begin while anything is left, and can spend more than that."""
    on_unknown: Literal["charge", "release"] = "charge"
    """Of tokens or money: what becomes of a reservation when nobody ever knows what was spent."""

    if TYPE_CHECKING:
        # What it takes is more than what it holds: amounts as text, lists, what a file has for None.
        def __init__(
            self,
            *,
            quantity: Quantity = "calls",
            per: Per = "agent",
            window: Literal["minute", "hour", "day", False] | float | None = "hour",
            zone: str | Literal[False] | None = None,
            most: Amount | str,
            alert: Amount | str | float | None = None,
            tools: Sequence[str] = (),
            reserve: Amount | str | Literal[False] | None = None,
            on_unknown: Literal["charge", "release"] = "charge",
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _of_a_run(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("quantity") == "seconds":
            return {"per": "run", "window": None, **given}
        return given

    @field_validator("most", "reserve", mode="plain")
    @classmethod
    def _amount(cls, value: Any, info: ValidationInfo) -> Amount | None:
        if info.field_name == "reserve" and unset(value) is None:
            return None
        return of_quantity(value, info.data.get("quantity", "calls"))

    @field_validator("alert", mode="plain")
    @classmethod
    def _alert(cls, value: Any, info: ValidationInfo) -> Amount | float | None:
        if unset(value) is None:
            return None
        if isinstance(value, float):
            if not 0 < value < 1:
                raise ValueError("an alert is an amount, or a share: a float between 0 and 1")
            return value
        return of_quantity(value, info.data.get("quantity", "calls"))

    @field_validator("zone")
    @classmethod
    def _zone(cls, zone: str | None, info: ValidationInfo) -> str | None:
        if zone is None:
            return None
        if info.data.get("window") != "day":
            raise ValueError('a zone says where a day begins: window = "day"')
        return str(zone_of(zone))

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.tools and not COUNTED.get(self.quantity, MODEL) & BODIES:
            raise ValueError(f"tools make no {self.quantity}; only calls are those of a tool")
        if self.quantity == "seconds" and (self.per != "run" or self.window is not None):
            raise ValueError('seconds are those of one run: per = "run" and window = false')
        if self.reserve is not None and self.quantity not in SETTLED:
            raise ValueError(f"nothing is reserved of {self.quantity}: each call spends one")
        if self.reserve is not None and self.reserve > self.most:
            raise ValueError("a request that reserves more than there is would never begin")
        return self

    @cached_property
    def name(self) -> str:
        """The name of the budget: `calls/hour/agent`, `calls:search_*/90s/user`, `money/day/user`."""
        of = f":{','.join(self.tools)}" if self.tools else ""
        window = self.window if isinstance(self.window, str | None) else f"{self.window:g}s"
        if self.zone is not None:
            window = f"{window}:{self.zone}"
        return "/".join(part for part in (f"{self.quantity}{of}", window, self.per) if part)

    @cached_property
    def seconds(self) -> float | None:
        """The length of the window."""
        return WINDOWS[self.window] if isinstance(self.window, str) else self.window

    @cached_property
    def count(self) -> int:
        """*most* as counters hold it: money in its smallest units."""
        return self.units(self.most)

    @cached_property
    def alert_count(self) -> int | None:
        """*alert* as counters hold it."""
        if isinstance(self.alert, float):
            return ceil(self.count * self.alert)
        return None if self.alert is None else self.units(self.alert)

    @property
    def scope(self) -> Scope:
        """How far a stop reaches: what is spent for some tools is not for the others."""
        return "tool" if self.tools else self.per

    def units(self, amount: Amount) -> int:
        """*amount* as counters hold it."""
        return units(amount) if self.quantity == "money" else int(amount)

    def shown(self, count: int) -> Amount:
        """What counters hold, as it is shown."""
        return amount(count) if self.quantity == "money" else count

    def concerns(self, call: Call) -> bool:
        """Whether *call* spends of it."""
        kind = call.kind
        if kind not in COUNTED.get(self.quantity, ()):
            return False
        if not self.tools:
            return True
        return kind in BODIES and any(fnmatchcase(call.name, tool) for tool in self.tools)

    def bound(self, call: Call) -> int:
        """What may be spent, with what a person added for the run of *call*."""
        return self.count + call.raised.get(self.name, 0)

    def reserved(self, call: Call) -> int:
        """What *call* takes before it is made."""
        if self.quantity not in SETTLED:
            return 1
        if call.kind == "model":
            return 1 if self.reserve is None else self.units(self.reserve)
        most = worst(call.policy.cost)
        # Of a tool that is free, or says only afterwards what it cost: so that what is spent is spent.
        return 1 if most is None else units(most)

    def spent(self, call: Call, outcome: Outcome) -> int | None:
        """What *call* spent in the end; None when nobody knows."""
        if not outcome.started or outcome.kind == "paused":
            return 0
        if self.quantity == "money":
            return None if outcome.cost is None else units(outcome.cost)
        usage = outcome.usage
        if usage is None:
            return 0 if outcome.kind == "error" else None
        used = {"tokens:input": usage.input, "tokens:output": usage.output}
        return used.get(self.quantity, usage.input + usage.output)

    def offset(self, now: float) -> float:
        """Seconds by which its windows begin before those of UTC."""
        return offset_of(self.zone, now)

    def end(self, now: float) -> float | None:
        """When the window of *now* is over."""
        if self.zone is not None:
            return midnight_after(self.zone, now)
        return self.seconds and (now // self.seconds + 1) * self.seconds


class Budget(Settings, frozen=True):
    """Refuse what is over any of *limits* until its window is over, in whichever run it is asked for.

    What is counted by one stays spent, whatever came of the call. Tokens and money are reserved before it
    at the worst case and reconciled afterwards, in the window in which they were reserved; what was spent
    beyond the reservation counts, too. A call that is refused, or never begins, spends nothing.
    """

    name: ClassVar[Literal["budget"]] = "budget"
    kinds: ClassVar[frozenset[Kind]] = BODIES | MODEL
    keys: ClassVar[tuple[str, ...]] = tuple(Limit.model_fields)
    """The settings within its settings."""

    limits: tuple[Limit, ...] = ()
    """The narrower first: the first that is used up gives the reason."""
    on_unpriced: Literal["stop", "count"] = "stop"
    """What becomes of a run that makes a request whose cost nobody knows, under a limit of money without a
    `reserve`. stop: its next request is refused. count: the request counts as next to nothing, the
    incident says so, and other limits bound the run."""

    if TYPE_CHECKING:
        # Limits may be told as mappings, as in a file.
        def __init__(
            self,
            *,
            enforce: bool = True,
            limits: Sequence[Limit | Mapping[str, Any]] = (),
            on_unpriced: Literal["stop", "count"] = "stop",
        ) -> None: ...

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

    @property
    def priced(self) -> bool:
        """Whether it has to be known what calls cost."""
        return any(limit.quantity == "money" for limit in self.limits)

    def beside(self, tool: ToolPolicy) -> tuple[WallClock, ...]:
        """The clock on the wall is read, not counted."""
        return tuple(
            WallClock(
                budget=limit.name,
                most=limit.count,
                alert=limit.alert_count,
                enforce=self.enforce,
            )
            for limit in self.limits
            if limit.quantity == "seconds"
        )

    def takes(self, call: Call) -> tuple[Claim, ...]:
        claims: list[Claim] = []
        for limit in self.limits:
            if limit.concerns(call):
                shard = shard_of(limit.per, call)
                if shard is not None:
                    key = (shard, self.name, limit.name)
                    most, offset = limit.bound(call), limit.offset(call.time)
                    claims.append(Take(key, limit.reserved(call), most, limit.seconds, offset))
        if self.on_unpriced == "stop" and self.unreserved(call):
            claims.append(Take(unpriced(call), 0, 0))
        return tuple(claims)

    def stop(self, call: Call, claim: Claim, observed: int, now: float) -> Stop:
        if claim.key == unpriced(call):
            return Stop.of(call, UNPRICED, "run", now, rule=self.name)
        limit = self.of(claim)
        end = limit.end(now)
        reason = "retry_budget" if limit.quantity == "retries" else self.name
        after: dict[str, Any] = {}
        if end is not None:
            after = {"retry_after": end - now, "resets_at": datetime.fromtimestamp(end, UTC)}
        return Stop.of(
            call,
            reason,
            limit.scope,
            now,
            rule=self.name,
            limit=limit.shown(limit.bound(call)),
            observed=limit.shown(observed),
            budget=limit.name,
            **after,
        )

    def alert_at(self, call: Call, claim: Claim) -> int | None:
        if claim.key == unpriced(call):
            return None
        limit = self.of(claim)
        # What is only reserved may come back, and would be told of twice.
        return limit.alert_count if told(claim) == (limit.quantity in SETTLED) else None

    def budget(self, call: Call, claim: Claim) -> tuple[str, int | None]:
        if claim.key == unpriced(call):
            return UNPRICED, None
        limit = self.of(claim)
        return limit.name, limit.bound(call)

    def amount(self, claim: Claim, count: int) -> Amount:
        """A count of *claim* as it is shown."""
        return self.of(claim).shown(count)

    def settle(self, call: Call, outcome: Outcome, taken_at: float) -> tuple[Release | Take, ...]:
        moved: list[Release | Take] = []
        for limit in self.limits:
            shard = shard_of(limit.per, call) if limit.concerns(call) else None
            if shard is None:
                continue
            key, reserved = (shard, self.name, limit.name), limit.reserved(call)
            offset = limit.offset(taken_at)
            if limit.quantity in SETTLED:
                spent = limit.spent(call, outcome)
                if spent is None:
                    spent = reserved if limit.on_unknown == "charge" else 0
            else:
                spent = reserved if outcome.started else 0
            if spent < reserved:
                moved.append(Give(key, reserved - spent, limit.seconds, taken_at, offset))
            elif spent > reserved:
                moved.append(Take(key, spent - reserved, None, limit.seconds, offset))
            if spent and limit.quantity in SETTLED and limit.alert is not None:
                told_of = (*key[:2], (limit.name, "spent"))
                moved.append(Take(told_of, spent, None, limit.seconds, offset))
        unknown_cost = outcome.kind == "ok" and outcome.started and outcome.cost is None
        if self.on_unpriced == "stop" and unknown_cost and self.unreserved(call):
            moved.append(Take(unpriced(call), 1))
        return tuple(moved)

    def unplaced(self, call: Call) -> tuple[str, ...]:
        return tuple(
            unknown(limit.name, limit.per)
            for limit in self.limits
            if limit.concerns(call) and shard_of(limit.per, call) is None
        )

    def unreserved(self, call: Call) -> bool:
        """Whether *call* is a request of which a limit of money has nothing to go by but its cost."""
        return call.kind == "model" and any(
            limit.quantity == "money"
            and limit.reserve is None
            and limit.concerns(call)
            and shard_of(limit.per, call) is not None
            for limit in self.limits
        )

    def of(self, claim: Claim) -> Limit:
        """The limit that *claim* takes from."""
        name = claim.key[2][0] if told(claim) else claim.key[2]
        return next(limit for limit in self.limits if limit.name == name)


def of_quantity(value: Any, quantity: Quantity) -> Amount:
    """*value* as an amount of *quantity*. Raises ValueError."""
    if quantity == "money":
        exact = money(value)
        if not exact:
            raise ValueError("an amount of money is more than 0")
        return exact
    if type(value) is not int or value < 1:
        raise ValueError(f"{quantity} are counted in whole numbers from 1")
    return value


def told(claim: Claim) -> bool:
    """Whether *claim* is on the counter of what was spent for good, of which alerts tell."""
    return isinstance(claim.key[2], tuple)


def unpriced(call: Call) -> tuple[Any, ...]:
    """The counter of requests in the run of *call* whose cost nobody knows."""
    return (call.shard, Budget.name, UNPRICED)
