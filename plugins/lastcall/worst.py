"""The worst case of a policy as numbers (requirement C8): what is spent on a service that never recovers.

Nothing is estimated: a guard of that policy is asked for every call that it grants, each with arguments of its
own and answered 503, on a clock that jumps to when a stop lifts.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Outcome, Where
from lastcall.contracts import Answer, Key, Plan, Step
from lastcall.fold import Decided
from lastcall.guard import Guard
from lastcall.money import worst as dearest
from lastcall.policy import Policy
from lastcall.stores.memory import MemoryStore
from lastcall.tool import PLAIN
from lastcall.verdict import Ticket

T = TypeVar("T")

SICK = Outcome("error", "HTTP 503", 503, "passing", "HTTP 503")

MOST = 5_000
"""Attempts from which on nobody counts any further, unless told to."""

HOUR = 3600.0

DAY = 86_400.0

TICK = 1e-3
"""The clock always moves."""


class Worst(Struct, frozen=True):
    """Attempts at most; None: as many as were counted, or more. *cost* is the most that one attempt costs, in the currency
    of the policy; None: not told."""

    call: int | None
    run: int | None
    user: int | None
    """Of one user in one day."""
    fleet: int | None
    """Of all workers in one hour."""
    cost: Decimal | None = None

    def money(self, attempts: int | None) -> Decimal | None:
        """What so many attempts cost at most; None where either is not known."""
        return None if attempts is None or self.cost is None else attempts * self.cost


def worst(
    policy: Policy,
    tool: str,
    *,
    attempts: int = 1,
    workers: int = 1,
    at_once: int | None = None,
    most: int = MOST,
) -> Worst:
    """The worst case for calls of *tool* that a retrying layer attempts *attempts* times each. *at_once*:
    calls that one worker has under way at a time (None: as many as are granted). A run has one turn. Nobody counts beyond *most*."""

    def outage() -> Outage:
        return Outage(policy, tool, attempts, at_once, most)

    return Worst(
        outage().one_call(),
        outage().one_run(),
        outage().during(DAY, 1),
        outage().during(HOUR, workers),
        dearest(policy.tool(tool, PLAIN).cost),
    )


class Endless(Exception):  # noqa: N818 - the answer, and no error
    """Nobody counts any further."""


class Lenient(MemoryStore):
    """Keeps nothing of a refusal, as if nobody had asked: asking for too much is no way to spend."""

    asking = False
    """Whether a decision is made, and no outcome told."""

    def update(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """The same, but for what a refused decision would write."""
        return super().update(keys, partial(granting, step) if self.asking else step, now)


def granting(step: Step[T], records: Sequence[Any]) -> Plan[T]:
    """The plan of *step*, with nothing written unless the call is granted."""
    plan = step(records)
    stopped = isinstance(plan.value, Decided) and plan.value.stops
    return Plan(plan.value, () if stopped else plan.writes, plan.claims, plan.releases, nothing)


def nothing(_: int) -> tuple[tuple[int, Any], ...]:
    """What is written when a claim is refused."""
    return ()


class Outage:
    """One guard, and a service that never answers. Whoever calls asks for as much as is granted before the
    first failure is told: what is told can only make it less."""

    def __init__(
        self, policy: Policy, tool: str, attempts: int, at_once: int | None, most: int
    ) -> None:
        self.now = 0.0
        self.store = Lenient()
        self.guard = Guard(policy, store=self.store, clock=lambda: self.now, switch=False)
        self.tool = tool
        self.attempts = attempts
        self.at_once = at_once
        self.most = most
        self.made = 0
        self.number = 0
        self.until: float | None = None
        """When the first of the stops met lifts by itself."""

    def one_call(self) -> int | None:
        """One call, started anew as often as that is granted."""
        call = self.fresh(Where("run", "run", user="user", agent="agent"), "reply")
        try:
            while (ticket := self.granted(call)) is not None:
                self.failed([ticket, *self.retried([ticket])])
        except Endless:
            return None
        return self.made

    def one_run(self) -> int | None:
        """One run of one turn."""
        try:
            self.round([("user", "run")])
        except Endless:
            return None
        return self.made

    def during(self, seconds: float, workers: int) -> int | None:
        """The runs of so many workers, each of a user and an agent of its own, without a pause but where
        stops lift later."""
        rounds = 0
        try:
            while self.now < seconds:
                before, self.until = self.made, None
                rounds += 1
                self.round([(f"user {n}", f"run {n} {rounds}") for n in range(workers)])
                if self.made > before:
                    continue
                if self.until is None:
                    break
                self.now = max(self.until, self.now + TICK)
        except Endless:
            return None
        return self.made

    def round(self, runs: list[tuple[str, str]]) -> None:
        """One run of each user at once, until nothing more is granted to any."""
        reply, before = 0, -1
        while self.made > before:
            before = self.made
            reply += 1
            calls = [each for user, run in runs for each in self.batch(user, run, reply)]
            self.failed([*self.retried(calls), *calls])
        for _, run in runs:
            self.guard.finish(run)

    def batch(self, user: str, run: str, reply: int) -> list[Ticket]:
        """All that one reply of the model may call."""
        where = Where(run, run, user=user, agent=user)
        granted: list[Ticket] = []
        while self.at_once is None or len(granted) < self.at_once:
            ticket = self.granted(self.fresh(where, f"{run} {reply}"))
            if ticket is None:
                break
            granted.append(ticket)
        return granted

    def retried(self, calls: list[Ticket]) -> list[Ticket]:
        """The further attempts of *calls*, as many as are granted."""
        found: list[Ticket] = []
        for each in calls:
            for _ in range(self.attempts - 1):
                ticket = self.granted(replace(each.call, kind="attempt"))
                if ticket is None:
                    break
                found.append(ticket)
        return found

    def fresh(self, where: Where, reply: str) -> Call:
        """A call that nobody made before."""
        self.number += 1
        return Call(self.tool, {"n": self.number}, where, str(self.number), reply=reply)

    def granted(self, call: Call) -> Ticket | None:
        """The ticket of one attempt, which is made then."""
        self.store.asking = True
        verdict = self.guard.decide(call)
        self.store.asking = False
        if verdict.ticket is not None:
            self.made += 1
            if self.made >= self.most:
                raise Endless
        elif verdict.stop is not None and verdict.stop.retry_after is not None:
            until = self.now + verdict.stop.retry_after
            self.until = until if self.until is None else min(self.until, until)
        return verdict.ticket

    def failed(self, tickets: list[Ticket]) -> None:
        """All these fail."""
        for each in tickets:
            self.guard.observe(each, SICK)
