"""The worst case of a policy as numbers (requirement C8): what is spent on a service that never recovers.

Nothing is estimated: a guard of that policy is asked for every call that it grants, each with arguments of its
own and answered 503, on a clock that jumps to when a stop lifts.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Outcome, Where
from lastcall.guard import Guard
from lastcall.money import worst as dearest
from lastcall.policy import Policy
from lastcall.stop import Stop
from lastcall.tool import PLAIN
from lastcall.verdict import Ticket

SICK = Outcome("error", "HTTP 503", 503, "passing", "HTTP 503")

MOST = 20_000
"""Attempts at which it is said that there is no limit."""

HOUR = 3600.0

DAY = 86_400.0


class Worst(Struct, frozen=True):
    """Attempts at most; None: without a limit. *cost* is the most that one attempt costs, in the currency
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
    policy: Policy, tool: str, *, attempts: int = 1, workers: int = 1, at_once: int | None = None
) -> Worst:
    """The worst case for calls of *tool* that a retrying layer attempts *attempts* times each. *at_once*:
    calls that one worker has under way at a time (None: as many as are granted)."""

    def outage() -> Outage:
        return Outage(policy, tool, attempts, at_once)

    return Worst(
        outage().one_call(),
        outage().one_run(),
        outage().one_user(DAY),
        outage().fleet(workers, HOUR),
        dearest(policy.tool(tool, PLAIN).cost),
    )


class Endless(Exception):  # noqa: N818 - the answer, and no error
    """There is no limit, as far as anybody cares to count."""


class Outage:
    """One guard, and a service that never answers."""

    def __init__(self, policy: Policy, tool: str, attempts: int, at_once: int | None) -> None:
        self.now = 0.0
        # In the shadow nothing would be refused; what is asked is what the rules would do.
        self.guard = Guard(policy, clock=lambda: self.now, switch=False)
        self.tool = tool
        self.attempts = attempts
        self.at_once = at_once
        self.made = 0
        self.number = 0
        self.until: float | None = None
        """When the first of the stops met lifts by itself."""

    def one_call(self) -> int | None:
        """One call, started anew as often as that is granted."""
        call = self.fresh(Where("run", "run", user="user", agent="agent"), "reply")
        try:
            while (ticket := self.granted(call)) is not None:
                self.failed([ticket])
        except Endless:
            return None
        return self.made

    def one_run(self) -> int | None:
        """One run of one turn."""
        try:
            self.run("run", "0")
        except Endless:
            return None
        return self.made

    def one_user(self, seconds: float) -> int | None:
        """The runs of one user, one after the other."""
        return self.during(seconds, ["user"])

    def fleet(self, workers: int, seconds: float) -> int | None:
        """The runs of so many workers, each of a user and an agent of its own."""
        return self.during(seconds, [f"user {number}" for number in range(workers)])

    def during(self, seconds: float, users: list[str]) -> int | None:
        """Runs without a pause, but where stops lift later."""
        rounds = 0
        try:
            while self.now < seconds:
                before, self.until = self.made, None
                rounds += 1
                self.round([(user, f"{user} {rounds}") for user in users])
                if self.made > before:
                    continue
                if self.until is None:
                    break
                self.now = max(self.until, self.now + 1.0)
        except Endless:
            return None
        return self.made

    def run(self, user: str, run: str) -> None:
        """One run, to its end."""
        self.round([(user, run)])

    def round(self, runs: list[tuple[str, str]]) -> None:
        """One run of each user at once, until nothing more is granted to any."""
        reply, idle = 0, 0
        # A refusal may be for the moment alone, of calls that run at once.
        while idle < 2:  # noqa: PLR2004 - in a row
            reply += 1
            granted = [each for user, run in runs for each in self.batch(user, run, reply)]
            idle = 0 if granted else idle + 1
            self.failed(granted)
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

    def fresh(self, where: Where, reply: str) -> Call:
        """A call that nobody made before."""
        self.number += 1
        return Call(self.tool, {"n": self.number}, where, str(self.number), reply=reply)

    def granted(self, call: Call) -> Ticket | None:
        """The ticket of one attempt, which is made then."""
        verdict = self.guard.decide(call)
        if verdict.ticket is None:
            self.lifts(verdict.stop)
            return None
        self.made += 1
        if self.made >= MOST:
            raise Endless
        return verdict.ticket

    def failed(self, tickets: list[Ticket]) -> None:
        """All these calls fail, and are retried as long as that is granted."""
        trying = list(tickets)
        for _ in range(self.attempts - 1):
            further = [self.granted(replace(each.call, kind="attempt")) for each in trying]
            trying = [each for each in further if each is not None]
            for each in trying:
                self.guard.observe(each, SICK)
        for each in tickets:
            self.guard.observe(each, SICK)

    def lifts(self, stop: Stop | None) -> None:
        """A stop was met."""
        wait = None if stop is None else stop.retry_after
        if wait is not None:
            until = self.now + wait
            self.until = until if self.until is None else min(self.until, until)
