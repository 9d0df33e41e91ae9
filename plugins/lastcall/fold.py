"""The fold: every rule asked in policy order, inside one step of the store. Pure but for its caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Outcome
from lastcall.contracts import Claim, Halt, Key, Plan
from lastcall.stop import Stop
from lastcall.turn import ATTEMPTS, Ended, Turn, identity_of
from lastcall.verdict import WIDTH, Ticket

UNLIMITED = 2**62
"""The limit of a claim that is only counted, in shadow mode."""


class Lineup(Struct, frozen=True):
    """The rules and tallies that look at calls of one kind and one tool, in order."""

    rules: tuple[Any, ...]
    tallies: tuple[Any, ...]
    enforce: bool


class Decided(Struct, frozen=True):
    """What a decision came to, before the store has said whether every claim was granted."""

    call: Call
    stops: tuple[Stop, ...] = ()
    """The refusal first, then what it led to."""
    shadow: tuple[Stop, ...] = ()
    claims: tuple[Claim, ...] = ()
    owners: tuple[Any, ...] = ()
    """The tally of each claim."""
    limits: tuple[int | None, ...] = ()
    """The limit of each claim, also where it is only counted."""


def keys_of(call: Call, lineup: Lineup) -> tuple[tuple[Key, ...], tuple[Any, ...]]:
    """The record of the turn, then that of each rule with business here; and those rules."""
    keys: list[Key] = [(call.shard, "turn")]
    rules: list[Any] = []
    for rule in lineup.rules:
        key = rule.key(call)
        if key is not None:
            keys.append(key)
            rules.append(rule)
    return tuple(keys), tuple(rules)


def deciding(
    call: Call, lineup: Lineup, rules: Sequence[Any], now: float, records: Sequence[Any]
) -> Plan[Decided]:
    """What to do about *call*. *records* are the turn's and then one for each of *rules*."""
    turn: Turn = (records[0] or Turn()).at(call)
    identity = identity_of(call)
    tries = turn.attempts(identity)
    call = placed(call, turn, again=tries > 0)
    if turn.ended is not None:
        # Whatever is asked now, the answer stands; nothing moves any more.
        return Plan(Decided(call, (repeated(call, turn.ended, now),)))
    if tries >= ATTEMPTS:
        stop = Stop.of(
            call, "attempts", "call", now, rule="turn", limit=ATTEMPTS, observed=tries + 1
        )
        return refusal(call, turn, stop, rules, records, now)
    writes: list[tuple[int, Any]] = []
    shadow: list[Stop] = []
    kind = call.kind
    for index, rule in enumerate(rules, 1):
        if kind not in rule.kinds:
            continue
        state = records[index]
        if state is None:
            if rule.quiet:
                continue
            state = rule.start()
        said = rule.before(state, call, now)
        if said is state:
            continue
        if isinstance(said, Stop):
            if lineup.enforce and rule.enforce:
                return refusal(call, turn, said, rules, records, now, shadow)
            shadow.append(said)
        else:
            writes.append((index, said))
    claims, owners, limits = claimed(call, lineup)
    granted = turn.granted(call, identity)
    if granted is not turn:
        writes.append((0, granted))

    def otherwise(index: int) -> Sequence[tuple[int, Any]]:
        refused = owners[index].stop(call, claims[index], 0, now)
        return refusal(call, turn, refused, rules, records, now).writes

    return Plan(
        Decided(call, (), tuple(shadow), claims, owners, limits),
        writes,
        claims=claims,
        otherwise=otherwise if claims else None,
    )


def observing(
    ticket: Ticket, outcome: Outcome, enforce: bool, now: float, records: Sequence[Any]
) -> Plan[Decided]:
    """What *outcome* changes, and the stops that it leads to, widest first."""
    call = ticket.call
    writes: list[tuple[int, Any]] = []
    stops: list[Stop] = []
    shadow: list[Stop] = []
    for index, rule in enumerate(ticket.rules, 1):
        if call.kind not in rule.kinds:
            continue
        state = records[index]
        if state is None:
            state = rule.start()
        said = rule.after(state, call, outcome, now)
        if said is state:
            continue
        if isinstance(said, Halt):
            enforced = enforce and rule.enforce
            (stops if enforced else shadow).append(said.stop)
            said = said.state
        writes.append((index, said))
    stops.sort(key=lambda stop: -WIDTH.index(stop.scope))
    if stops and stops[0].ends_run:
        before: Turn = (records[0] or Turn()).at(call)
        writes.append((0, before.stopped(stops[0])))
    releases = tuple(release for tally in ticket.tallies for release in tally.settle(call, outcome))
    return Plan(Decided(call, tuple(stops), tuple(shadow)), writes, releases=releases)


def refusal(
    call: Call,
    turn: Turn,
    stop: Stop,
    rules: Sequence[Any],
    records: Sequence[Any],
    now: float,
    shadow: Sequence[Stop] = (),
) -> Plan[Decided]:
    """*stop* is the answer: refusal counters and closed scopes move, limits do not."""
    writes: list[tuple[int, Any]] = []
    stops = [stop]
    for index, rule in enumerate(rules, 1):
        if call.kind not in rule.kinds:
            continue
        state = records[index]
        if state is None:
            state = rule.start()
        said = rule.refused(state, call, stop, now)
        if isinstance(said, Halt):
            stops.append(said.stop)
            said = said.state
        if said is not state:
            writes.append((index, said))
    ended = turn
    for each in stops:
        ended = ended.stopped(each)
    if ended is not turn:
        writes.append((0, ended))
    return Plan(Decided(call, tuple(stops), tuple(shadow)), writes)


def repeated(call: Call, ended: Ended, now: float) -> Stop:
    """The stop that ended the turn or the run, said again of *call*."""
    return Stop.of(
        call,
        ended.reason,
        ended.scope,
        now,
        rule=ended.rule or "turn",
        status=ended.status,
        limit=ended.limit,
        observed=ended.observed,
        retry_after=ended.retry_after,
    )


def placed(call: Call, turn: Turn, *, again: bool) -> Call:
    """*call* with its place in the turn, and as an attempt when it was seen before."""
    placed = Call(
        call.tool,
        call.args,
        call.where,
        call.id,
        "attempt" if again else call.kind,
        call.reply,
        call.index,
        call.size,
        call.server,
        call.policy,
        turn.order + 1,
        turn.last_write(call),
        turn.reply,
    )
    # Fingerprints cost more than everything else here; the copy keeps those already taken.
    placed.__dict__.update(call.__dict__)
    return placed


def claimed(
    call: Call, lineup: Lineup
) -> tuple[tuple[Claim, ...], tuple[Any, ...], tuple[int | None, ...]]:
    """The claims of every tally, with their owners and limits."""
    claims: list[Claim] = []
    owners: list[Any] = []
    limits: list[int | None] = []
    for tally in lineup.tallies:
        if call.kind in tally.kinds:
            enforce = lineup.enforce and tally.enforce
            for claim in tally.takes(call):
                claims.append(claim if enforce else replace(claim, limit=UNLIMITED))
                owners.append(tally)
                limits.append(claim.limit)
    return tuple(claims), tuple(owners), tuple(limits)
