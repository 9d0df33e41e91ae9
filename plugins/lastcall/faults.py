"""The guard itself failed: the policy says what that means, and it is seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from lastcall.call import Call, Where
from lastcall.policy import Policy
from lastcall.reporter import Reporter
from lastcall.rounds import Rounds
from lastcall.stop import Stop
from lastcall.stores.trouble import StoreError
from lastcall.switch import Switch
from lastcall.verdict import Ticket, Verdict


class Faults:
    """What one guard makes of its failures. *policy* is asked whose it is, and must not raise."""

    def __init__(
        self,
        policy: Callable[[Where], Policy],
        switch: Callable[[], Switch | None],
        rounds: Rounds,
        reporter: Reporter,
    ) -> None:
        self._policy = policy
        self._switch = switch
        self._rounds = rounds
        self._reporter = reporter

    def undecided(self, call: Call, fault: Exception) -> Verdict:
        """Nothing could be decided about *call*."""
        self._reporter.fault(call, fault)
        policy = self._policy(call.where)
        if not policy.enforce:
            return Verdict(call, Ticket(call, settled=True))
        store = isinstance(fault, StoreError)
        if not store and policy.on_fault == "open":
            # What is stopped from outside stays stopped, as far as it is known whose call this is.
            switch = self._switch()
            killed = None if switch is None else switch.said(call)
            if killed is None:
                return Verdict(call, Ticket(call, settled=True))
            return self._reporter.refused(call, (killed,))
        refusals = next((rule for rule in policy.rules if rule.name == "refusals"), None)
        most = getattr(refusals, "max_refusals", None)
        scope: Literal["call", "run"] = "run" if self._rounds.over(call, most) else "call"
        reason = "store" if store else "fault"
        # By the machine's clock, since the guard's own may be what failed.
        return self._reporter.refused(
            call, (Stop.of(call, reason, scope, time.time(), rule="guard"),)
        )

    def unobserved(self, ticket: Ticket, fault: Exception) -> Verdict:
        """What came of the call of *ticket* could not be counted."""
        self._reporter.fault(ticket.call, fault)
        return Verdict(ticket.call)
