"""Which rules look at calls of one tool, in which order, and what the records they keep are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

from msgspec import Struct

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Claim, Key, Part, Release, Take
from lastcall.money import Amount
from lastcall.rules.near import Near
from lastcall.rules.settings import Settings
from lastcall.stop import Stop
from lastcall.tool import ToolPolicy

ABOUT: tuple[Part, ...] = ("turn", "call", "tool", "agent", "thread", "shared")
"""What records are about, in the order in which `keys_of` works it out."""


Before = Callable[[Any, Call, float], Any]
After = Callable[[Any, Call, Outcome, float], Any]
Closing = Callable[[Any, Call, Stop, float], Any]


class Asked(Struct, frozen=True, gc=False):
    """One rule of a lineup."""

    rule: Any
    place: int
    """Of its record among those of a decision; 0: it keeps none."""
    enforced: bool


class Lineup(Struct, frozen=True, gc=False):
    """The rules and tallies that look at calls of one kind and one tool, in order.

    Worked out once for each tool: methods are bound here, since looking them up on ten objects of ten
    classes costs more than most of them do.
    """

    asks: tuple[tuple[Before, int, Asked], ...]
    """`before` of each rule, and the place of its record."""
    calm_asks: tuple[tuple[Before, int, Asked], ...]
    """Those of rules that are asked even where they have no record."""
    new_asks: tuple[tuple[Before, int, Asked], ...]
    """Those of them that are asked about a call which the turn's past does not hold."""
    learns: tuple[tuple[After, int, Asked], ...]
    """`after` of each rule that has one, and the place of its record."""
    calm_learns: tuple[tuple[After, int, Asked], ...]
    """Those of rules that learn even where they have no record, and all went well."""
    quiet: slice
    """The places of the records of quiet rules."""
    quieted: int
    """How many those are."""
    names: tuple[str, ...]
    """The rules' names, as they stand in the key of each record but the turn's."""
    subjects: Callable[[Sequence[Any]], tuple[Any, ...]]
    """Takes what each record is about from what the records of a call are about."""
    tallies: tuple[Any, ...]
    enforce: bool
    near: bool
    """Whether a rule will ask for the looser fingerprint."""
    binding: bool = True
    """Whether every limit of the tallies is enforced."""
    attempts: int | None = None
    """How often one call may be started; None: as often as it likes."""
    calls: tuple[tuple[int, str], ...] = ()
    """The places of records of one call in its turn, and whose they are."""
    threads: tuple[tuple[int, str], ...] = ()
    """The places of records of the thread, where there is one, and whose they are."""
    shared: tuple[tuple[int, Callable[[Call], Key]], ...] = ()
    """The places of records outside the run, and what names each."""
    ends: tuple[tuple[Closing, Asked], ...] = ()
    """`ended` of each rule that has one."""
    settles: tuple[tuple[Callable[[Call, Outcome, float], Sequence[Release | Take]], Any], ...] = ()
    """`settle` of each tally that gives back or takes besides, and whose it is."""
    overdue: tuple[Callable[[Call, float, float], str | None], ...] = ()
    unplaced: tuple[Callable[[Call], tuple[str, ...]], ...] = ()
    """The methods of those names, of each tally that has them."""
    untils: tuple[tuple[Callable[[Any, Call], float | None], Asked], ...] = ()
    """`until` of each rule that has one and is enforced."""
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
        inside = kind == "attempt"
        looking = [
            rule
            for rule in rules
            if kind in rule.kinds and not (inside and getattr(rule, "whole", False))
        ]
        parts = [(rule, rule.record(tool)) for rule in looking if hasattr(rule, "record")]
        kept = [(rule, part) for rule, part in parts if part not in (None, "none")]
        # Quiet rules come first: one look at all of their records tells whether any of them is to be asked.
        kept.sort(key=lambda each: not each[0].quiet)
        places = {id(rule): place for place, (rule, _) in enumerate(kept, 1)}
        asked = [
            Asked(rule, places.get(id(rule), 0), enforce and rule.enforce)
            for rule, part in parts
            if part is not None
        ]
        quieted = sum(rule.quiet for rule, _ in kept)
        recorded = [each for each in asked if each.place]
        asks = tuple((each.rule.before, each.place, each) for each in asked)
        calm_asks = tuple(each for each in asks if not (each[1] and each[2].rule.quiet))
        learns = tuple(
            (each.rule.after, each.place, each)
            for each in recorded
            if getattr(type(each.rule), "after", None) is not Settings.after
        )
        tallies = tuple(rule for rule in looking if hasattr(rule, "takes"))
        about = [ABOUT.index(part) for _, part in kept if part is not None and part != "none"]
        return cls(
            asks=asks,
            calm_asks=calm_asks,
            new_asks=tuple(each for each in calm_asks if not familiar(each[2].rule)),
            learns=learns,
            calm_learns=tuple(each for each in learns if not each[2].rule.quiet),
            quiet=slice(1, 1 + quieted),
            quieted=quieted,
            names=tuple(rule.name for rule, _ in kept),
            # Of one index it would give no tuple, and of none it cannot be made.
            subjects=itemgetter(*about, 0, 0),
            tallies=tallies,
            enforce=enforce,
            binding=enforce and all(tally.enforce for tally in tallies),
            near=any(isinstance(rule, Near) for rule in looking),
            attempts=attempts,
            calls=tuple((places[id(rule)], rule.name) for rule, part in kept if part == "call"),
            threads=tuple((places[id(rule)], rule.name) for rule, part in kept if part == "thread"),
            shared=tuple(
                (places[id(rule)], rule.shared) for rule, part in kept if part == "shared"
            ),
            ends=tuple((each.rule.ended, each) for each in recorded if hasattr(each.rule, "ended")),
            settles=tuple(
                (tally.settle, tally)
                for tally in tallies
                if getattr(type(tally), "settle", None) is not Settings.settle
            ),
            overdue=tuple(tally.overdue for tally in tallies if hasattr(tally, "overdue")),
            unplaced=tuple(tally.unplaced for tally in tallies if hasattr(tally, "unplaced")),
            untils=tuple(
                (each.rule.until, each)
                for each in recorded
                if each.enforced and hasattr(each.rule, "until")
            ),
            amounts={tally.name: tally.amount for tally in tallies if hasattr(tally, "amount")},
            priced=any(getattr(tally, "priced", False) for tally in tallies),
        )


def familiar(rule: Any) -> bool:
    """Whether *rule* has nothing to say before a call that the turn's past does not hold. A rule made from one
    that says so, with a `before` of its own, has to say so anew."""
    kind = type(rule)
    said = next((each for each in kind.__mro__ if "familiar" in vars(each)), None)
    return said is not None and rule.familiar and kind.before is getattr(said, "before", None)


def keys_of(call: Call, lineup: Lineup) -> tuple[Key, ...]:
    """The record of the turn first, then those of *lineup*."""
    where, shard = call.where, call.shard
    turn = where.turn
    # A request to the model is no call of a tool, so it has no fingerprint.
    print_ = None if call.kind == "model" else call.fingerprint
    agent = where.agent if where.lane is None else where.lane
    about = (turn, (turn, print_), (turn, call.name), (turn, agent), print_, None)
    keys: list[Key] = [
        (shard, "turn"),
        *zip(repeat(shard), lineup.names, lineup.subjects(about), strict=False),
    ]
    if where.thread is not None:
        for place, name in lineup.threads:
            keys[place] = (("thread", where.thread), name, print_)
    for place, named in lineup.shared:
        keys[place] = named(call)
    return tuple(keys)


def keys_like(known: Sequence[Key], call: Call, lineup: Lineup) -> list[Key]:
    """The same from those *known* of another call of the tool, made in the same place."""
    keys, shard, about = list(known), call.shard, (call.where.turn, call.fingerprint)
    for place, name in lineup.calls:
        keys[place] = (shard, name, about)
    thread = call.where.thread
    if thread is not None:
        for place, name in lineup.threads:
            keys[place] = (known[place][0], name, call.fingerprint)
    for place, named in lineup.shared:
        keys[place] = named(call)
    return keys
