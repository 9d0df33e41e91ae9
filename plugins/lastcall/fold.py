"""The fold: every rule asked in policy order, inside one step of the store. Pure but for its caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, FirstResult, Kind, Outcome
from lastcall.contracts import Claim, Halt, Key, Noted, Notice, Part, Plan, Release, Replay, Take
from lastcall.money import Amount, money, units
from lastcall.past import NOTHING
from lastcall.rules.near import Near
from lastcall.rules.refusals import Refusals
from lastcall.rules.settings import Settings
from lastcall.stop import Stop
from lastcall.stores.tallies import bucket
from lastcall.tool import ToolPolicy
from lastcall.turn import Ended, Turn, asked_of, identity_of
from lastcall.verdict import WIDTH, Ticket

UNLIMITED = 2**62
"""The limit of a claim that is only counted, in shadow mode."""


ABOUT: tuple[Part, ...] = ("turn", "call", "tool", "agent", "thread", "shared")
"""What records are about, in the order in which `keys_of` works it out."""


Before = Callable[[Any, Call, float], Any]
After = Callable[[Any, Call, Outcome, float], Any]
Closing = Callable[[Any, Call, Stop, float], Any]


class Lineup(Struct, frozen=True, gc=False):
    """The rules and tallies that look at calls of one kind and one tool, in order.

    Worked out once for each tool: methods are bound here, since looking them up on ten objects of ten
    classes costs more than most of them do.
    """

    asks: tuple[tuple[Before, int, bool, Any], ...]
    """`before` of each rule, the place of its record (0: it keeps none), whether it is quiet, and it."""
    learns: tuple[tuple[After, int, bool, Any], ...]
    """`after` of each rule that has one, likewise."""
    records: tuple[tuple[str, int], ...]
    """The rule's name and the subject of each record but the turn's."""
    tallies: tuple[Any, ...]
    enforce: bool
    near: bool
    """Whether a rule will ask for the looser fingerprint."""
    attempts: int | None = None
    """How often one call may be started; None: as often as it likes."""
    shared: tuple[tuple[int, Callable[[Call], Key]], ...] = ()
    """The places of records outside the run, and what names each."""
    ends: tuple[tuple[Closing, int, Any], ...] = ()
    """`ended` of each rule that has one, the place of its record, and it."""
    overdue: tuple[Callable[[Call, float, float], str | None], ...] = ()
    unplaced: tuple[Callable[[Call], tuple[str, ...]], ...] = ()
    """The methods of those names, of each tally that has them."""
    untils: tuple[tuple[Callable[[Any, Call], float | None], int, Any], ...] = ()
    """`until` of each rule that has one, the place of its record, and it."""
    amounts: Mapping[str, Callable[[Claim, int], Amount]] = {}
    """`amount` of each tally that has one, by its name."""
    priced: bool = False
    """Whether a tally wants to know what calls cost."""

    @classmethod
    def of(
        cls,
        rules: Iterable[Any],
        tool: ToolPolicy,
        kind: Kind,
        *,
        enforce: bool = True,
        attempts: int | None = None,
    ) -> Lineup:
        """Those of *rules* that have business with calls of *tool* and of *kind*."""
        asks: list[tuple[Before, int, bool, Any]] = []
        learns: list[tuple[After, int, bool, Any]] = []
        records: list[tuple[str, int]] = []
        shared: list[tuple[int, Callable[[Call], Key]]] = []
        ends: list[tuple[Closing, int, Any]] = []
        untils: list[tuple[Callable[[Any, Call], float | None], int, Any]] = []
        inside = kind == "attempt"
        looking = [
            rule
            for rule in rules
            if kind in rule.kinds and not (inside and getattr(rule, "whole", False))
        ]
        for rule in looking:
            part = rule.record(tool) if hasattr(rule, "record") else None
            if part is None:
                continue
            if part != "none":
                records.append((rule.name, ABOUT.index(part)))
            place = len(records) if part != "none" else 0
            asks.append((rule.before, place, rule.quiet, rule))
            if place and getattr(type(rule), "after", None) is not Settings.after:
                learns.append((rule.after, place, rule.quiet, rule))
            if part == "shared":
                shared.append((place, rule.shared))
            if place and hasattr(rule, "ended"):
                ends.append((rule.ended, place, rule))
            if place and hasattr(rule, "until"):
                untils.append((rule.until, place, rule))
        tallies = tuple(rule for rule in looking if hasattr(rule, "takes"))
        near = any(isinstance(rule, Near) for rule in looking)
        return cls(
            tuple(asks),
            tuple(learns),
            tuple(records),
            tallies,
            enforce,
            near,
            attempts,
            tuple(shared),
            tuple(ends),
            tuple(tally.overdue for tally in tallies if hasattr(tally, "overdue")),
            tuple(tally.unplaced for tally in tallies if hasattr(tally, "unplaced")),
            tuple(untils),
            {tally.name: tally.amount for tally in tallies if hasattr(tally, "amount")},
            any(getattr(tally, "priced", False) for tally in tallies),
        )


class Decided(Struct, frozen=True, gc=False):
    """What a decision came to, before the store has said whether every claim was granted."""

    call: Call
    stops: tuple[Stop, ...] = ()
    """The refusal first, then what it led to."""
    shadow: tuple[Stop, ...] = ()
    claims: tuple[Claim, ...] = ()
    owners: tuple[Any, ...] = ()
    """The tally of each claim; of a settlement's, of the last ones."""
    led: Callable[[int], tuple[Stop, ...]] | None = None
    """What it leads to when the store refuses that claim."""
    until: float | None = None
    """When the time of the run is over."""
    notices: tuple[Notice, ...] = ()
    """What an outcome, or a grant, is worth events for; the counts of an outcome's are the claims."""
    replay: FirstResult | None = None
    """What the call brought when it was made before."""


def keys_of(call: Call, lineup: Lineup) -> tuple[Key, ...]:
    """The record of the turn first, then those of *lineup*."""
    where, shard = call.where, call.shard
    turn, thread = where.turn, where.thread
    # A request to the model is no call of a tool, so it has no fingerprint.
    print_ = None if call.kind == "model" else call.fingerprint
    agent = where.agent if where.lane is None else where.lane
    about = (turn, (turn, print_), (turn, call.name), (turn, agent), print_, None)
    keys = [(shard, "turn"), *[(shard, name, about[of]) for name, of in lineup.records]]
    if thread is not None:
        beyond = ABOUT.index("thread")
        for place, (name, of) in enumerate(lineup.records, 1):
            if of == beyond:
                keys[place] = (("thread", thread), name, print_)
    for place, named in lineup.shared:
        keys[place] = named(call)
    return tuple(keys)


def deciding(call: Call, lineup: Lineup, now: float, records: Sequence[Any]) -> Plan[Decided]:
    """What to do about *call*. *records* are the turn's and then one for each rule of *lineup*."""
    turn: Turn = (records[0] or Turn()).at(call)
    if turn.ended is not None:
        turn = turn.lifted(now)
    identity = identity_of(call)
    tries = turn.attempts(identity)
    call = placed(call, turn, now, again=tries > 0)
    if turn.ended is not None and not (tries and turn.ended.budget and not turn.ended.asked):
        # Whatever is asked now, the answer stands; nothing moves any more.
        claims, owners = peeked(call, lineup)
        stop = repeated(call, turn.ended, now)
        return Plan(Decided(call, (stop,), (), claims, owners), claims=claims)
    worn = worn_out(call, tries, lineup.attempts, now)
    if worn is not None and call.policy.on_repeat == "run":
        return refusal(call, turn, worn, lineup, records, now)
    writes: list[tuple[int, Any]] = []
    shadow: list[Stop] = []
    notices: tuple[Notice, ...] = ()
    kind = call.kind
    fresh = kind == "tool"
    for before, place, quiet, rule in lineup.asks:
        state = records[place] if place else None
        if state is None and place:
            if fresh and quiet:
                continue
            state = rule.start()
        if not fresh and kind not in rule.kinds:
            continue
        said = before(state, call, now)
        if said is state:
            continue
        if type(said) is Stop:
            if lineup.enforce and rule.enforce:
                return refusal(call, turn, said, lineup, records, now, shadow)
            shadow.append(said)
        elif type(said) is Replay:
            if lineup.enforce and rule.enforce:
                moved = [] if said.state is state else [(place, said.state)]
                decided = Decided(call, shadow=tuple(shadow), replay=said.replayed)
                return Plan(decided, answered(call, turn, identity, moved))
        else:
            if type(said) is Noted:
                notices += (said.notice,)
                said = said.state
            writes.append((place, said))
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

    def refused(index: int) -> Plan[Decided]:
        # What was counted is not known yet; one more than the limit is what it comes to.
        over = (claims[index].limit or 0) + 1
        stop = owners[index].stop(call, claims[index], over, now)
        return refusal(call, turn, stop, lineup, records, now)

    led = lambda index: refused(index).value.stops[1:]  # noqa: E731
    until = over_at(call, lineup, records, writes) if lineup.untils else None
    decided = Decided(call, (), tuple(shadow), claims, owners, led, until, notices)
    return Plan(decided, writes, claims, (), lambda index: refused(index).writes)


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
    for until, place, rule in lineup.untils:
        state = next((state for at, state in writes if at == place), records[place])
        at = until(state, call) if state is not None and lineup.enforce and rule.enforce else None
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
    for after, place, quiet, rule in lineup.learns:
        state = records[place]
        if state is None:
            if well and quiet:
                continue
            state = rule.start()
        if kind not in rule.kinds:
            continue
        said = after(state, call, outcome, now)
        if said is state:
            continue
        if type(said) is Halt:
            enforced = lineup.enforce and rule.enforce
            (stops if enforced else shadow).append(said.stop)
            said = said.state
        elif type(said) is Noted:
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
    releases, takes, owners = settling(ticket, lineup, outcome, now, over=turn is None)
    for overdue in lineup.overdue:
        late = overdue(call, ticket.time, now)
        if late is not None:
            notices.append(Notice("alert", late))
    if not notices and not takes:
        return Plan(Decided(call, tuple(stops), tuple(shadow)), writes, (), releases)
    counts = [notice.count for notice in notices if notice.count is not None]
    claims = (*counts, *takes)
    decided = Decided(
        call, tuple(stops), tuple(shadow), claims, tuple(owners), notices=tuple(notices)
    )
    return Plan(decided, writes, claims, releases)


def settling(
    ticket: Ticket, lineup: Lineup, outcome: Outcome, now: float, *, over: bool
) -> tuple[list[Release], list[Take], list[Any]]:
    """What goes back, what is taken besides, and whose each of that is. *over*: the run is, and its own
    counters with it."""
    call, since = ticket.call, ticket.time
    releases: list[Release] = []
    takes: list[Take] = []
    owners: list[Any] = []
    for tally in lineup.tallies:
        for move in tally.settle(call, outcome, since):
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
    for ended, place, rule in lineup.ends if wide else ():
        held = next((state for at, state in reversed(writes) if at == place), records[place])
        state = first = rule.start() if held is None else held
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
    turn: Turn = (records[0] or Turn()).at(call).pardoned(call, more, asked)
    # A write that runs goes on running, whatever a person says of the next; and of none is forgotten what
    # became of it where the person was asked about the end of the run.
    ends = any(stop.ends_run for stop in stops)
    kept = {stop.rule for stop in stops if stop.reason == "in_progress" or (ends and stop.key)}
    rules = {stop.rule for stop in stops} - kept
    writes: list[tuple[int, Any]] = []
    for _, place, _, rule in lineup.asks:
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
    turn: Turn = (records[0] or Turn()).at(call)
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
    turn: Turn = records[0] or Turn()
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
    for _, place, _, rule in lineup.asks:
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
        turn.reply_calls,
        turn.past,
        turn.raised,
        turn.asked.get(asked_of(call) or "", 0) if turn.asked else 0,
        call.version,
        call.key,
        call.params,
        now,
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
            if not (lineup.enforce and tally.enforce):
                takes = tuple(replace(claim, limit=UNLIMITED) for claim in takes)
            claims += takes
            owners += (tally,) * len(takes)
    return claims, owners
