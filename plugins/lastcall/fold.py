"""The fold: every rule asked in policy order, inside one step of the store. Pure but for its caller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Claim, Halt, Key, Part, Plan
from lastcall.stop import Stop
from lastcall.tool import ToolPolicy
from lastcall.turn import ATTEMPTS, Ended, Turn, identity_of
from lastcall.verdict import WIDTH, Ticket

UNLIMITED = 2**62
"""The limit of a claim that is only counted, in shadow mode."""


class Lineup(Struct, frozen=True):
    """The rules and tallies that look at calls of one kind and one tool, in order."""

    rules: tuple[Any, ...]
    parts: tuple[tuple[str, Part], ...]
    """The name of each rule, and what its record is about."""
    tallies: tuple[Any, ...]
    enforce: bool

    @classmethod
    def of(cls, rules: Iterable[Any], tool: ToolPolicy, kind: Kind, *, enforce: bool) -> Lineup:
        """Those of *rules* that have business with calls of *tool* and of *kind*."""
        looking = [rule for rule in rules if kind in rule.kinds]
        parts = {
            rule.name: part
            for rule in looking
            if hasattr(rule, "record") and (part := rule.record(tool)) is not None
        }
        return cls(
            tuple(rule for rule in looking if rule.name in parts),
            tuple(parts.items()),
            tuple(rule for rule in looking if hasattr(rule, "takes")),
            enforce,
        )


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


def keys_of(call: Call, lineup: Lineup) -> tuple[Key, ...]:
    """The record of the turn, then that of each rule. A rule without one is given the turn's key."""
    where, shard = call.where, call.shard
    turn, thread = where.turn, where.thread
    # The fingerprint is worked out only where it is needed: a model request has none.
    about: dict[Part, Any] = {"turn": turn, "agent": (turn, where.agent)}
    if call.kind != "model":
        about["call"] = (turn, call.fingerprint)
        about["tool"] = (turn, call.name)
    keys: list[Key] = [(shard, "turn")]
    for name, part in lineup.parts:
        if part == "thread":
            of = shard if thread is None else ("thread", thread)
            keys.append((of, name, call.fingerprint))
        else:
            keys.append(keys[0] if part == "none" else (shard, name, about[part]))
    return tuple(keys)


def deciding(call: Call, lineup: Lineup, now: float, records: Sequence[Any]) -> Plan[Decided]:
    """What to do about *call*. *records* are the turn's and then one for each rule of *lineup*."""
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
        return refusal(call, turn, stop, lineup, records, now)
    writes: list[tuple[int, Any]] = []
    shadow: list[Stop] = []
    kind = call.kind
    fresh = kind == "tool"
    for index, rule in enumerate(lineup.rules, 1):
        if not fresh and kind not in rule.kinds:
            continue
        state = records[index]
        if state is None:
            if fresh and rule.quiet:
                continue
            state = rule.start()
        elif lineup.parts[index - 1][1] == "none":
            state = None
        said = rule.before(state, call, now)
        if said is state:
            continue
        if isinstance(said, Stop):
            if lineup.enforce and rule.enforce:
                return refusal(call, turn, said, lineup, records, now, shadow)
            shadow.append(said)
        else:
            writes.append((index, said))
    claims, owners, limits = claimed(call, lineup)
    granted = turn.granted(call, identity)
    if granted is not turn:
        writes.append((0, granted))

    def otherwise(index: int) -> Sequence[tuple[int, Any]]:
        refused = owners[index].stop(call, claims[index], 0, now)
        return refusal(call, turn, refused, lineup, records, now).writes

    return Plan(
        Decided(call, (), tuple(shadow), claims, owners, limits),
        writes,
        claims=claims,
        otherwise=otherwise if claims else None,
    )


def observing(
    ticket: Ticket, lineup: Lineup, outcome: Outcome, now: float, records: Sequence[Any]
) -> Plan[Decided]:
    """What *outcome* changes, and the stops that it leads to, widest first."""
    call = ticket.call
    writes: list[tuple[int, Any]] = []
    stops: list[Stop] = []
    shadow: list[Stop] = []
    kind = call.kind
    well = outcome.kind == "ok" and outcome.grade is None
    for index, rule in enumerate(lineup.rules, 1):
        state = records[index]
        if state is None:
            if well and rule.quiet:
                continue
            state = rule.start()
        if kind not in rule.kinds:
            continue
        said = rule.after(state, call, outcome, now)
        if said is state:
            continue
        if isinstance(said, Halt):
            enforced = lineup.enforce and rule.enforce
            (stops if enforced else shadow).append(said.stop)
            said = said.state
        writes.append((index, said))
    stops.sort(key=lambda stop: -WIDTH.index(stop.scope))
    before: Turn | None = records[0]
    if before is not None:
        turn = before.settled(call, outcome)
        if stops:
            turn = turn.stopped(stops[0])
        if turn is not before:
            writes.append((0, turn))
    releases = tuple(release for tally in lineup.tallies for release in tally.settle(call, outcome))
    return Plan(Decided(call, tuple(stops), tuple(shadow)), writes, releases=releases)


def refusal(
    call: Call,
    turn: Turn,
    stop: Stop,
    lineup: Lineup,
    records: Sequence[Any],
    now: float,
    shadow: Sequence[Stop] = (),
) -> Plan[Decided]:
    """*stop* is the answer: refusal counters and closed scopes move, limits do not."""
    writes: list[tuple[int, Any]] = []
    stops = [stop]
    for index, rule in enumerate(lineup.rules, 1):
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
        turn.past,
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
