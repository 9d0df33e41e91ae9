"""Calls whose answers are known already, straight through the fold: decided and settled, with nobody to tell."""

from __future__ import annotations

from msgspec.structs import replace

from lastcall import spending, status
from lastcall.call import Call, Outcome, Where
from lastcall.fold import UNLIMITED, deciding, observing
from lastcall.guard import Guard
from lastcall.idempotency import keyed
from lastcall.known import KnownTools
from lastcall.lineup import keys_of
from lastcall.stop import Stop
from lastcall.tool import PLAIN, ToolPolicy
from lastcall.transcripts.recorded import RecordedCall
from lastcall.verdict import Ticket, Verdict

SHELL = ToolPolicy(shell=True)


class Rehearsal:
    """Judges recorded calls as *guard* would, by its policy, its store and its clock, at two thirds of the
    cost: there is no report to keep, no listener, no other thread, and no body that runs."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._known = KnownTools(lambda: guard.store)
        self._store = guard.store
        self.failed = False
        """Whether a call failed, or had a status."""

    def judge(self, recorded: RecordedCall, where: Where, size: int) -> Verdict:
        """The verdict on *recorded*, which was made in *where* (of text alone) in a reply of *size* calls:
        the refusal, else what its answer led to."""
        store = self._store
        declared = SHELL if recorded.shell else PLAIN
        call = Call(
            recorded.tool,
            recorded.args,
            where,
            recorded.id,
            "malformed" if recorded.malformed else "tool",
            str(recorded.reply),
            size=size,
        )
        try:
            ticket = self._ticket(call, declared)
            if ticket.lineup.priced:
                # What a call costs is worked out in one place.
                return self._guarded(call, declared, recorded)
            now, keys, lineup = ticket.time, ticket.keys, ticket.lineup
            records = store.read(keys, now)
            plan = deciding(ticket.call, lineup, now, records)
            answer = store.carry_out(keys, plan, now)
        except Exception:
            # It fails there once more, and the policy says what that means.
            return self._guarded(call, declared, recorded)
        decided = plan.value
        if answer.refused is not None:
            stops = spending.full(decided, answer, answer.refused, now)
            return Verdict(decided.call, None, stops[0], stops[1:], decided.shadow)
        shadow = decided.shadow
        for owner, claim, observed in zip(
            decided.owners, decided.claims, answer.observed, strict=True
        ):
            if claim.limit == UNLIMITED:
                shadow += spending.stepped_over(decided.call, owner, claim, observed, now)
        stops = decided.stops
        if stops or decided.replay is not None:
            return verdict(decided.call, stops, shadow)
        for place, state in plan.writes:
            records[place] = state
        ticket.call = decided.call
        outcome = self._outcome(ticket, recorded)
        try:
            learned = observing(ticket, lineup, outcome, now, records)
            store.carry_out(keys, learned, now)
        except Exception:
            return self._guard.observe(ticket, outcome)
        if not learned.value.stops and not shadow and not learned.value.shadow:
            return Verdict(ticket.call)
        return verdict(ticket.call, learned.value.stops, shadow + learned.value.shadow)

    def _ticket(self, call: Call, declared: ToolPolicy) -> Ticket:
        """What is needed to decide about *call*; nobody but the recording says what it is."""
        guard = self._guard
        known = self._known.tool(call.name, declared, guard.policy)
        policy = known.policy
        key, params = keyed(call, call.where, policy) if policy.writes else (None, "")
        call = replace(call, policy=policy, version=known.by.version, key=key, params=params)
        lineup = self._known.lineup(known, call.kind)
        return Ticket(call, keys_of(call, lineup), lineup, guard.clock(), policy=known.by)

    def _outcome(self, ticket: Ticket, recorded: RecordedCall) -> Outcome:
        policy = ticket.policy
        outcome = status.returned(
            recorded.result,
            ticket.call.policy,
            failed=recorded.failed,
            status=recorded.status,
            terminal=policy.terminal_statuses,
            statuses=policy.statuses,
        )
        if outcome.kind == "error" or outcome.status is not None:
            self.failed = True
        return outcome if recorded.result is not None else replace(outcome, recorded=False)

    def _guarded(self, call: Call, declared: ToolPolicy, recorded: RecordedCall) -> Verdict:
        """The same by the guard itself."""
        found = self._guard.decide(call, declared)
        ticket = found.ticket
        if ticket is None:
            return found
        ticket.policy = ticket.policy or self._guard.policy
        return self._guard.observe(ticket, self._outcome(ticket, recorded))


def verdict(call: Call, stops: tuple[Stop, ...], shadow: tuple[Stop, ...]) -> Verdict:
    """The verdict that the first of *stops* is, which led to the others."""
    return Verdict(call, None, stops[0] if stops else None, stops[1:], shadow)
