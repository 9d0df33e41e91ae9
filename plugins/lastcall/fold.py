"""The fold: every rule asked in policy order, inside one step of the store. Pure but for its caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, FirstResult, Outcome
from lastcall.contracts import Claim, Halt, Noted, Notice, Plan, Release, Replay, Take
from lastcall.lineup import Lineup
from lastcall.money import Amount, money, units
from lastcall.past import NOTHING
from lastcall.rules.refusals import Refusals
from lastcall.stop import Stop
from lastcall.stores.tallies import bucket
from lastcall.turn import Ended, Turn, asked_of, identity_of
from lastcall.verdict import WIDTH, Ticket

ANSWERS = frozenset((Stop, Replay, Noted))
"""What a rule says before a call, when it is more than a new state."""

LESSONS = frozenset((Halt, Noted))
"""The same of an outcome."""

NEW = Turn()
"""The record of a run that has none."""

UNLIMITED = 2**62
"""The limit of a claim that is only counted, in shadow mode."""

UNTAKEN: tuple[tuple[Release, ...], tuple[Take, ...], tuple[Any, ...]] = ((), (), ())
"""What goes back, what is taken besides, and whose that is, where no tally settles anything."""


class Decided(Struct, frozen=True, gc=False):
    """What a decision came to, before the store has said whether every claim was granted."""

    call: Call
    stops: tuple[Stop, ...] = ()
    """The refusal first, then what it led to."""
    shadow: tuple[Stop, ...] = ()
    claims: tuple[Claim, ...] = ()
    owners: tuple[Any, ...] = ()
    """The tally of each claim; of a settlement's, of the last ones."""
    beyond: Callable[[int], Plan[Decided]] | None = None
    """What it comes to when the store refuses that claim."""
    until: float | None = None
    """When the time of the run is over."""
    notices: tuple[Notice, ...] = ()
    """What an outcome, or a grant, is worth events for; the counts of an outcome's are the claims."""
    replay: FirstResult | None = None
    """What the call brought when it was made before."""


def deciding(call: Call, lineup: Lineup, now: float, records: Sequence[Any]) -> Plan[Decided]:
    """What to do about *call*. *records* are the turn's and then one for each rule of *lineup*."""
    turn: Turn = (records[0] or NEW).at(call)
    if turn.ended is not None:
        turn = turn.lifted(now)
    identity = identity_of(call)
    tries = turn.attempts(identity) if identity is not None and identity in turn.seen else 0
    call = placed(call, turn, now, again=tries > 0)
    if turn.ended is not None and not (tries and turn.ended.budget and not turn.ended.asked):
        # Whatever is asked now, the answer stands; nothing moves any more.
        claims, owners = peeked(call, lineup)
        stop = repeated(call, turn.ended, now)
        return Plan(Decided(call, (stop,), (), claims, owners), claims=claims)
    worn = worn_out(call, tries, lineup.attempts, now) if tries else None
    if worn is not None and call.policy.on_repeat == "run":
        return refusal(call, turn, worn, lineup, records, now)
    writes: list[tuple[int, Any]] = []
    shadow: tuple[Stop, ...] = ()
    notices: tuple[Notice, ...] = ()
    fresh = call.kind == "tool"
    if not fresh or records[lineup.quiet].count(None) != lineup.quieted:
        asks = lineup.asks
    else:
        asks = lineup.calm_asks if call.packed in turn.past.pairs else lineup.new_asks
    for before, place, asked in asks:
        state = records[place] if place else None
        if state is None and place:
            if fresh and asked.rule.quiet:
                continue
            state = asked.rule.start()
        if not fresh and call.kind not in asked.rule.kinds:
            continue
        said = before(state, call, now)
        if said is state:
            continue
        answer = type(said)
        if answer not in ANSWERS:
            writes.append((place, said))
        elif answer is Stop:
            if asked.enforced:
                return refusal(call, turn, said, lineup, records, now, shadow)
            shadow = (*shadow, said)
        elif answer is Noted:
            notices += (said.notice,)
            writes.append((place, said.state))
        elif answer is Replay and asked.enforced:
            moved = [] if said.state is state else [(place, said.state)]
            decided = Decided(call, shadow=shadow, replay=said.replayed)
            return Plan(decided, answered(call, turn, identity, moved))
    if worn is not None:
        # Only now: what was carried out is answered, however often a node is run again.
        return refusal(call, turn, worn, lineup, records, now, shadow)
    claims, owners = claimed(call, lineup)
    granted = turn.granted(call, identity)
    if granted is not turn or (
        records[0] is None and any(each.key[0] == call.shard for each in claims)
    ):
        # A request alone writes nothing, but what it took of its run is given back to a run that is there.
        writes.append((0, granted))
    until = over_at(call, lineup, records, writes) if lineup.untils else None
    beyond = partial(unclaimed, call, turn, lineup, records, now, claims, owners)
    decided = Decided(call, (), shadow, claims, owners, beyond, until, notices)
    return Plan(decided, writes, claims, (), partial(written, beyond))


def unclaimed(
    call: Call,
    turn: Turn,
    lineup: Lineup,
    records: Sequence[Any],
    now: float,
    claims: Sequence[Claim],
    owners: Sequence[Any],
    refused: int,
) -> Plan[Decided]:
    """The refusal of *call* where the store refuses the claim of that index."""
    # What was counted is not known yet; one more than the limit is what it comes to.
    over = (claims[refused].limit or 0) + 1
    stop = owners[refused].stop(call, claims[refused], over, now)
    return refusal(call, turn, stop, lineup, records, now)


def written(beyond: Callable[[int], Plan[Decided]], refused: int) -> Sequence[tuple[int, Any]]:
    """What is written when the store refuses the claim of that index."""
    return beyond(refused).writes


def answered(
    call: Call, turn: Turn, identity: bytes | None, writes: list[tuple[int, Any]]
) -> list[tuple[int, Any]]:
    """*writes*, and the turn in which *call* is known: a node that is run again asks for nothing new."""
    known = turn.answered(call, identity)
    return writes if known is turn else [*writes, (0, known)]


def worn_out(call: Call, tries: int, most: int | None, now: float) -> Stop | None:
    """The stop of a call that was started as often as it may be."""
    if most is None or tries < most:
        return None
    return Stop.of(call, "attempts", "call", now, rule="turn", limit=most, observed=tries + 1)


def over_at(
    call: Call, lineup: Lineup, records: Sequence[Any], writes: Sequence[tuple[int, Any]]
) -> float | None:
    """When the time of the run is over, by the rules that enforce one."""
    known: list[float] = []
    for until, asked in lineup.untils:
        place = asked.place
        state = next((state for at, state in writes if at == place), records[place])
        at = until(state, call) if state is not None else None
        if at is not None:
            known.append(at)
    return min(known, default=None)


def observing(
    ticket: Ticket, lineup: Lineup, outcome: Outcome, now: float, records: Sequence[Any]
) -> Plan[Decided]:
    """What *outcome* changes, and the stops that it leads to, widest first."""
    call = ticket.call
    writes: list[tuple[int, Any]] = []
    stops: list[Stop] = []
    shadow: list[Stop] = []
    notices: list[Notice] = []
    kind = call.kind
    well = outcome.kind == "ok" and outcome.grade is None
    fresh = kind == "tool"
    calm = well and records[lineup.quiet].count(None) == lineup.quieted
    for after, place, asked in lineup.calm_learns if calm else lineup.learns:
        state = records[place]
        if state is None:
            if well and asked.rule.quiet:
                continue
            state = asked.rule.start()
        if not fresh and kind not in asked.rule.kinds:
            continue
        said = after(state, call, outcome, now)
        if said is state:
            continue
        if type(said) in LESSONS:
            if type(said) is Halt:
                (stops if asked.enforced else shadow).append(said.stop)
            else:
                notices.append(said.notice)
            said = said.state
        writes.append((place, said))
    turn: Turn | None = records[0]
    if turn is None and kind in ("tool", "attempt"):
        # Its turn was counted, so the run is over since: nothing of it is left behind.
        outlive = {place for place, _ in lineup.shared}
        writes = [each for each in writes if each[0] in outlive]
    if stops:
        stops.sort(key=lambda stop: -WIDTH.index(stop.scope))
        closing(call, stops, lineup, records, now, writes)
    if turn is not None:
        settled = turn.settled(call, outcome)
        if stops:
            settled = settled.lifted(now)
            for each in stops:
                settled = settled.stopped(each)
        if settled is not turn:
            writes.append((0, settled))
    releases, takes, owners = (
        settling(ticket, lineup, outcome, now, over=turn is None) if lineup.settles else UNTAKEN
    )
    for overdue in lineup.overdue:
        late = overdue(call, ticket.time, now)
        if late is not None:
            notices.append(Notice("alert", late))
    if not (stops or shadow or notices or takes):
        return Plan(Decided(call), writes, (), releases)
    counts = [notice.count for notice in notices if notice.count is not None]
    claims = (*counts, *takes)
    decided = Decided(
        call, tuple(stops), tuple(shadow), claims, tuple(owners), notices=tuple(notices)
    )
    return Plan(decided, writes, claims, releases)


def settling(
    ticket: Ticket, lineup: Lineup, outcome: Outcome, now: float, *, over: bool
) -> tuple[Sequence[Release], Sequence[Take], Sequence[Any]]:
    """What goes back, what is taken besides, and whose each of that is. *over*: the run is, and its own
    counters with it."""
    call, since = ticket.call, ticket.time
    releases: list[Release] = []
    takes: list[Take] = []
    owners: list[Any] = []
    for settle, tally in lineup.settles:
        for move in settle(call, outcome, since):
            if over and move.key[0] == call.shard:
                continue
            if not isinstance(move, Take):
                releases.append(move)
            elif bucket(move.window, since + move.offset) == bucket(move.window, now + move.offset):
                takes.append(move)
                owners.append(tally)
    return releases, takes, owners


def closing(
    call: Call,
    stops: Sequence[Stop],
    lineup: Lineup,
    records: Sequence[Any],
    now: float,
    writes: list[tuple[int, Any]],
) -> None:
    """Tell the rules that want to hear of it what *stops* close or end; *writes* grow by what they learn."""
    wide = [stop for stop in stops if stop.scope != "call"]
    for ended, asked in lineup.ends if wide else ():
        place = asked.place
        held = next((state for at, state in reversed(writes) if at == place), records[place])
        state = first = asked.rule.start() if held is None else held
        for stop in wide:
            state = ended(state, call, stop, now)
        if state is not first:
            writes.append((place, state))


def pardoning(
    call: Call,
    stops: Sequence[Stop],
    lineup: Lineup,
    more: Mapping[str, int],
    asked: int,
    records: Sequence[Any],
) -> Plan[None]:
    """A person let *call* pass: what led to *stops* is forgotten, and limits are raised by *more*."""
    turn: Turn = (records[0] or NEW).at(call).pardoned(call, more, asked)
    # A write that runs goes on running, whatever a person says of the next; and of none is forgotten what
    # became of it where the person was asked about the end of the run.
    ends = any(stop.ends_run for stop in stops)
    kept = {stop.rule for stop in stops if stop.reason == "in_progress" or (ends and stop.key)}
    rules = {stop.rule for stop in stops} - kept
    writes: list[tuple[int, Any]] = []
    for _, place, asked_ in lineup.asks:
        rule = asked_.rule
        # Refusals that a person took back are none that the model ignored.
        if rule.name in rules or isinstance(rule, Refusals):
            if not place:
                turn = replace(turn, past=NOTHING)
            elif records[place] is not None:
                writes.append((place, None))
        elif place and records[place] is not None and hasattr(rule, "pardoned"):
            state = rule.pardoned(records[place], call)
            if state is not records[place]:
                writes.append((place, state))
    return Plan(None, [*writes, (0, turn)])


def ending(call: Call, stop: Stop, records: Sequence[Any]) -> Plan[None]:
    """A person ended the run by *stop*."""
    turn: Turn = (records[0] or NEW).at(call)
    return Plan(None, [(0, turn.stopped(stop))])


def raised_by(budget: str, by: Amount) -> int:
    """By how much the counter of *budget* may go up when its limit is raised by *by*. Raises ValueError
    when that is no positive number, or of money no amount."""
    if budget.startswith("money"):
        more = units(money(by))
        if more < 1:
            raise ValueError(f"a limit of money is raised by more than 0, not {by!r}")
        return more
    if type(by) is not int or by < 1:
        raise ValueError(f"a limit is raised by a whole number from 1, not {by!r}")
    return by


def raising(budget: str, by: int, records: Sequence[Any]) -> Plan[None]:
    """The limit of *budget* is raised by *by* for the run at hand."""
    turn: Turn = records[0] or NEW
    ended = turn.ended
    if ended is not None and ended.budget == budget:
        ended = None
    raised = {**turn.raised, budget: turn.raised.get(budget, 0) + by}
    closed = tuple(each for each in turn.closed if each.budget != budget)
    return Plan(None, [(0, replace(turn, ended=ended, raised=raised, closed=closed))])


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
    for _, place, asked in lineup.asks:
        rule = asked.rule
        if not place or call.kind not in rule.kinds:
            continue
        state = records[place]
        if state is None:
            state = rule.start()
        said = rule.refused(state, call, stop, now)
        if type(said) is Halt:
            stops.append(said.stop)
            said = said.state
        if said is not state:
            writes.append((place, said))
    closing(call, stops, lineup, records, now, writes)
    ended = turn
    for each in stops:
        ended = ended.stopped(each)
    if ended is not turn:
        writes.append((0, ended))
    claims, owners = peeked(call, lineup)
    decided = Decided(call, tuple(stops), tuple(shadow), claims, owners)
    return Plan(decided, writes, claims)


def peeked(call: Call, lineup: Lineup) -> tuple[tuple[Claim, ...], tuple[Any, ...]]:
    """The claims of every tally with nothing to take: a refusal says what is left all the same, but of
    places, which cannot be looked at without holding one."""
    claims, owners = claimed(call, lineup)
    looks = [
        (replace(claim, amount=0, limit=UNLIMITED), owner)
        for claim, owner in zip(claims, owners, strict=True)
        if isinstance(claim, Take)
    ]
    return tuple(claim for claim, _ in looks), tuple(owner for _, owner in looks)


def repeated(call: Call, ended: Ended, now: float) -> Stop:
    """The stop that ended the turn or the run, said again of *call*."""
    until = ended.until
    return Stop.of(
        call,
        ended.reason,
        ended.scope,
        now,
        rule=ended.rule or "turn",
        tool=ended.tool if call.kind == "model" else call.tool,
        status=ended.status,
        limit=ended.limit,
        observed=ended.observed,
        retry_after=ended.retry_after if until is None else max(until - now, 0.0),
        resets_at=None if until is None else datetime.fromtimestamp(until, UTC),
        asked=ended.asked,
        budget=ended.budget,
    )


def placed(call: Call, turn: Turn, now: float, *, again: bool) -> Call:
    """*call* with its place in the turn, and as an attempt when it was seen before."""
    placed = replace(
        call,
        kind="attempt" if again else call.kind,
        order=turn.order + 1,
        last_write=turn.last_write(call),
        last_reply=turn.reply,
        reply_calls=turn.reply_calls,
        past=turn.past,
        raised=turn.raised,
        asked=turn.asked.get(asked_of(call) or "", 0) if turn.asked else 0,
        time=now,
    )
    # Fingerprints cost more than everything else here; the copy keeps those already taken.
    vars(placed).update(vars(call))
    return placed


def claimed(call: Call, lineup: Lineup) -> tuple[tuple[Claim, ...], tuple[Any, ...]]:
    """The claims of every tally, and whose each is."""
    claims: tuple[Claim, ...] = ()
    owners: tuple[Any, ...] = ()
    for tally in lineup.tallies:
        if call.kind in tally.kinds:
            takes = tally.takes(call)
            if not (lineup.binding or (lineup.enforce and tally.enforce)):
                takes = tuple(replace(claim, limit=UNLIMITED) for claim in takes)
            claims += takes
            owners += (tally,) * len(takes)
    return claims, owners
