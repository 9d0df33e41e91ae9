"""Calls whose answers are known already, straight through the fold: decided and settled, with nobody to tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lastcall import spending, status
from lastcall.call import NOWHERE, Call, Kind, Outcome, Where
from lastcall.contracts import Key, Shard
from lastcall.fingerprint import digest, exact, loose
from lastcall.fold import deciding, observing
from lastcall.guard import Guard
from lastcall.idempotency import keyed
from lastcall.known import MOST, KnownTools
from lastcall.lineup import Lineup, keys_like, keys_of
from lastcall.past import packed
from lastcall.policy import Policy
from lastcall.stop import Stop
from lastcall.stores.memory import MemoryStore
from lastcall.tool import PLAIN, ToolPolicy
from lastcall.transcripts.recorded import RecordedCall
from lastcall.verdict import Ticket, Verdict

SHELL = ToolPolicy(shell=True)


class Alike(Struct, frozen=True, gc=False):
    """What calls of one tool in one place have in common."""

    policy: ToolPolicy
    by: Policy
    lineup: Lineup
    keys: tuple[Key, ...]
    elsewhere: tuple[int, ...]
    """The places of keys outside the run."""
    shard: Shard
    """One object for all of them, by which stores find it faster."""


class Rehearsal:
    """Judges recorded calls as *guard* would, by its policy, for half of what that costs: there is no report
    to keep, no listener, no other thread, and no body that runs."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._known = KnownTools(lambda: guard.store)
        self._where = NOWHERE
        self._alike: dict[tuple[str, bool, bool], Alike] = {}
        self.begin(MemoryStore())

    def begin(self, store: MemoryStore) -> None:
        """Forget everything, and go on with *store*."""
        self._guard.store = self.store = store
        self.now = 0.0
        """The time of what is judged next, in epoch seconds."""
        self.failed = False
        """Whether a call failed, or had a status."""
        self._faulty = False

    def judge(self, recorded: RecordedCall, where: Where, size: int) -> Verdict:
        """The verdict on *recorded*, which was made in *where* (of text alone) in a reply of *size* calls:
        the refusal, else what its answer led to."""
        if self._faulty:
            return self._guarded(recorded, where, size)
        store, now = self.store, self.now
        try:
            alike = self._common(recorded, where)
            lineup = alike.lineup
            if lineup.priced:
                # What a call costs is worked out in one place.
                return self._guarded(recorded, where, size)
            ticket = self._ticket(recorded, where, size, alike)
            records = store.read(ticket.keys, now, alike.elsewhere)
            plan = deciding(ticket.call, lineup, now, records)
            answer = store.granted(plan, now)
            decided = plan.value
            stops, shadow = decided.stops, decided.shadow
            if answer.refused is not None:
                stops = spending.full(decided, answer, answer.refused, now)
            elif not (stops or lineup.binding):
                shadow += spending.stepped_over(decided, answer, now)
            written = dict(plan.writes if answer.refused is None else plan.written(answer.refused))
        except Exception:
            # It fails there once more, and the policy says what that means, for this call and the next.
            self._faulty = True
            return self._guarded(recorded, where, size)
        ticket.call = decided.call
        if stops or decided.replay is not None:
            store.write(ticket.keys, written.items())
            return verdict(ticket.call, stops, shadow)
        for place, state in written.items():
            records[place] = state
        outcome = self._outcome(ticket, recorded)
        return self._settled(ticket, outcome, records, written, shadow)

    def _settled(
        self,
        ticket: Ticket,
        outcome: Outcome,
        records: Sequence[Any],
        written: dict[int, Any],
        shadow: tuple[Stop, ...],
    ) -> Verdict:
        """The verdict on *outcome*. The decision has *written* something, which is put into the store here,
        and led to *shadow*."""
        store, now = self.store, self.now
        try:
            plan = observing(ticket, ticket.lineup, outcome, now, records)
            answer = store.granted(plan, now)
        except Exception:
            self._faulty = True
            store.write(ticket.keys, written.items())
            found = self._guard.observe(ticket, outcome)
            return replace(found, shadow=shadow + found.shadow)
        written.update(plan.writes if answer.refused is None else plan.written(answer.refused))
        store.write(ticket.keys, written.items())
        learned = plan.value
        if not (shadow or learned.stops or learned.shadow):
            return Verdict(ticket.call)
        return verdict(ticket.call, learned.stops, shadow + learned.shadow)

    def _common(self, recorded: RecordedCall, where: Where) -> Alike:
        """What calls like *recorded* have in common, worked out for the first of them in *where*."""
        if where is not self._where:
            self._where = where
            self._alike.clear()
        of = (recorded.tool, recorded.shell, recorded.malformed)
        alike = self._alike.get(of)
        if alike is None:
            if len(self._alike) >= MOST:
                self._alike.clear()
            alike = self._alike[of] = self._in_common(recorded, where)
        return alike

    def _ticket(self, recorded: RecordedCall, where: Where, size: int, alike: Alike) -> Ticket:
        """What is needed to decide about *recorded*; nobody else says what it is."""
        policy = alike.policy
        call = Call(
            recorded.tool,
            recorded.args,
            where,
            recorded.id,
            "malformed" if recorded.malformed else "tool",
            str(recorded.reply),
            0,
            size,
            None,
            policy,
            version=alike.by.version,
        )
        if policy.writes:
            key, params = keyed(call, where, policy)
            call = replace(call, key=key, params=params)
        own = vars(call)
        own["shard"], own["name"] = alike.shard, call.tool
        own["fingerprint"] = print_ = exact(call.tool, call.args, policy.volatile)
        own["packed"] = packed(print_)
        if alike.lineup.near:
            own["near"] = loose(call.tool, call.args, policy.volatile, strict=policy.writes)
        keys = keys_like(alike.keys, call, alike.lineup)
        return Ticket(call, keys, alike.lineup, self.now, policy=alike.by)

    def _in_common(self, recorded: RecordedCall, where: Where) -> Alike:
        declared = SHELL if recorded.shell else PLAIN
        known = self._known.tool(recorded.tool, declared, self._guard.policy)
        call = replace(call_of(recorded, where, 1), policy=known.policy)
        lineup = self._known.lineup(known, call.kind)
        keys, shard = keys_of(call, lineup), call.shard
        beyond = (*(lineup.threads if where.thread is not None else ()), *lineup.shared)
        elsewhere = tuple(place for place, _ in beyond)
        return Alike(known.policy, known.by, lineup, keys, elsewhere, shard)

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
        if recorded.result is None:
            return replace(outcome, recorded=False)
        if type(outcome.content) is str:
            vars(outcome)["digest"] = digest(outcome.content)
        return outcome

    def _guarded(self, recorded: RecordedCall, where: Where, size: int) -> Verdict:
        """`judge` by the guard itself."""
        call = call_of(recorded, where, size)
        found = self._guard.decide(call, SHELL if recorded.shell else PLAIN)
        ticket = found.ticket
        if ticket is None:
            return found
        ticket.policy = ticket.policy or self._guard.policy
        return self._guard.observe(ticket, self._outcome(ticket, recorded))


def call_of(recorded: RecordedCall, where: Where, size: int) -> Call:
    """The call as a guard is asked about it."""
    kind: Kind = "malformed" if recorded.malformed else "tool"
    reply = str(recorded.reply)
    return Call(recorded.tool, recorded.args, where, recorded.id, kind, reply, size=size)


def verdict(call: Call, stops: tuple[Stop, ...], shadow: tuple[Stop, ...]) -> Verdict:
    """The verdict that the first of *stops* is, which led to the others."""
    return Verdict(call, None, stops[0] if stops else None, stops[1:], shadow)
