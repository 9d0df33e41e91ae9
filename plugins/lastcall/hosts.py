"""The breaker of one host, asked about single requests of a tool's body (requirements D3, I4). Pure.

A call is judged by the breaker of its tool's `dependency`, once. What its body sends goes to hosts, under
credentials, and each pair of these has a breaker of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Outcome
from lastcall.contracts import Noted, Notice, Plan
from lastcall.stop import Stop
from lastcall.verdict import Ticket

RULE = "breaker"
WRITES = "writes"


class Word(Struct, frozen=True, gc=False):
    """What the breaker says of one request."""

    stop: Stop | None = None
    notice: Notice | None = None


GO = Word()


def watches(ticket: Ticket) -> Any:
    """The breaker that looks at calls of the tool of *ticket*; None where the policy has none."""
    return rule_of(ticket, RULE)


def declined(ticket: Ticket) -> tuple[int, ...]:
    """Refusals of a write that services keep under its key, as the policy of *ticket* has them (requirement E4)."""
    rule = rule_of(ticket, WRITES)
    return () if rule is None else rule.declined


def rule_of(ticket: Ticket, name: str) -> Any:
    """The rule of that name that looks at calls of the tool of *ticket*; None where there is none."""
    lineup = ticket.lineup
    return lineup and next(
        (each.rule for _, _, each in lineup.asks if each.rule.name == name), None
    )


class Trip(Struct, frozen=True, gc=False):
    """One request to a host that a breaker looks at."""

    call: Call
    rule: Any
    enforce: bool

    @classmethod
    def of(cls, ticket: Ticket, rule: Any, host: str, credential: str | None) -> Trip:
        """A request of the call of *ticket* to *host*, which the breaker *rule* looks at."""
        call = ticket.call
        to = {"dependency": host, "credential": credential}
        named = replace(call, kind="attempt", policy=call.policy.model_copy(update=to))
        # Fingerprints cost more than the copy.
        vars(named).update(vars(call))
        return cls(named, rule, ticket.lineup.enforce and rule.enforce)

    def before(self, now: float, records: Sequence[Any]) -> Plan[Word]:
        """Whether it may be sent."""
        state = records[0]
        if state is None:
            return Plan(GO)
        said = self.rule.before(state, self.call, now)
        if said is state:
            return Plan(GO)
        if isinstance(said, Stop):
            refused = self.rule.refused(state, self.call, said, now) if self.enforce else state
            return Plan(Word(said), () if refused is state else ((0, refused),))
        return self.plan(said)

    def after(self, outcome: Outcome, now: float, records: Sequence[Any]) -> Plan[Word]:
        """What is learnt from its answer."""
        state = records[0] or self.rule.start()
        said = self.rule.after(state, self.call, outcome, now)
        return Plan(GO) if said is state else self.plan(said)

    def plan(self, said: Any) -> Plan[Word]:
        """The record as the rule wants it."""
        if isinstance(said, Noted):
            return Plan(Word(notice=said.notice), ((0, said.state),))
        return Plan(GO, ((0, said),))
