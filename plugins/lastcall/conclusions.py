"""What follows from a store's answer to a decision or a settlement: the verdict, and what is made known of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from lastcall import spending
from lastcall.call import Call, Outcome
from lastcall.contracts import Answer, Claim, Clock, Notice
from lastcall.fold import Decided
from lastcall.lineup import Lineup
from lastcall.reporter import Reporter
from lastcall.stop import Stop
from lastcall.verdict import Ticket, Verdict


class Conclusions:
    """The conclusions of one guard."""

    def __init__(self, clock: Clock, reporter: Reporter) -> None:
        self._clock = clock
        self._reporter = reporter
        self._said: set[str] = set()

    def decided(
        self, ticket: Ticket, decided: Decided, answer: Answer, killed: Stop | None = None
    ) -> Verdict:
        """The verdict on the call of *ticket*. *killed*: the stop of a kill switch that is not enforced."""
        call, lineup = decided.call, ticket.lineup
        ticket.call, ticket.standby, ticket.until = call, answer.standby, decided.until
        if lineup.unplaced:
            self._unplaced(call, lineup)
        shadow = decided.shadow if killed is None else (killed, *decided.shadow)
        refused = answer.refused
        if refused is not None or decided.stops:
            stops = decided.stops
            if refused is not None:
                stops = spending.full(decided, answer, refused, self._clock())
            left = spending.left(lineup, decided, answer)
            return self._reporter.refused(call, stops, shadow, left, answer.standby)
        if not lineup.binding:
            shadow += spending.stepped_over(decided, answer, self._clock())
        for tally, claim, observed in zip(
            decided.owners, decided.claims, answer.observed, strict=True
        ):
            if observed == tally.alert_at(call, claim):
                self._alert(ticket, tally, claim, observed)
        if decided.replay is not None:
            self._reporter.replayed(call, decided.replay, answer.standby)
            return Verdict(call, shadow=shadow, replay=decided.replay)
        self._reporter.granted(call, shadow)
        for notice in decided.notices:
            self._reporter.noticed(call, notice.kind, notice.message)
        ticket.counted = partial(spending.left, lineup, decided, answer)
        return Verdict(call, ticket, shadow=shadow)

    def observed(
        self, ticket: Ticket, outcome: Outcome, decided: Decided, answer: Answer
    ) -> Verdict:
        """The verdict on what came of the call of *ticket*."""
        if decided.notices:
            self._noticed(ticket.call, decided.notices, answer)
        owners = decided.owners
        for index, tally in enumerate(owners, len(decided.claims) - len(owners)):
            # What came on top, or was spent for good: an amount may step over the threshold.
            claim, after = decided.claims[index], answer.observed[index]
            alert = tally.alert_at(ticket.call, claim)
            before = after - spending.amount(claim)
            if alert is not None and before < alert <= after:
                self._alert(ticket, tally, claim, after)
        return self._reporter.observed(ticket, outcome, decided.stops, decided.shadow)

    def once(self, call: Call, message: str) -> None:
        """Say *message* about *call* as an alert, when it is the first time."""
        if message not in self._said:
            self._said.add(message)
            self._reporter.noticed(call, "alert", message)

    def _alert(self, ticket: Ticket, tally: Any, claim: Claim, observed: int) -> None:
        """A threshold was reached."""
        budget, limit = tally.budget(ticket.call, claim)
        most = None if limit is None else spending.shown(ticket.lineup, tally, claim, limit)
        shown = spending.shown(ticket.lineup, tally, claim, observed)
        self._reporter.alert(ticket.call, budget, most, shown)

    def _noticed(self, call: Call, notices: Sequence[Notice], answer: Answer) -> None:
        """An event for each of *notices*; those that are counted were so in this order."""
        counts = iter(answer.observed)
        for notice in notices:
            self._reporter.noticed(call, notice.kind, notice.message)
            if notice.count is not None and next(counts) == notice.alert:
                window = f" within {notice.count.window:g} s" if notice.count.window else ""
                message = f"{notice.kind}: {notice.alert}{window}"
                self._reporter.noticed(call, "alert", message, notice.alert, notice.alert)

    def _unplaced(self, call: Call, lineup: Lineup) -> None:
        """Say once of each limit that it cannot be applied, and why."""
        for unplaced in lineup.unplaced:
            for message in unplaced(call):
                self.once(call, message)
