"""What a decision, or a settlement, came to at shared counters: the stop where one was full, and what is left."""

from __future__ import annotations

from typing import Any

from lastcall.contracts import Answer, Claim, Take
from lastcall.fold import UNLIMITED, Decided
from lastcall.lineup import Lineup
from lastcall.money import Amount
from lastcall.stop import Stop


def amount(claim: Claim) -> int:
    """How much *claim* takes."""
    return claim.amount if isinstance(claim, Take) else 1


def full(decided: Decided, answer: Answer, refused: int, now: float) -> tuple[Stop, ...]:
    """The stop where the store refused the claim of that index, and what it led to."""
    call, claim = decided.call, decided.claims[refused]
    observed = answer.observed[refused] + amount(claim)
    stop = decided.owners[refused].stop(call, claim, observed, now)
    # Calls made by hand at once are no replies of their own; each is told of its own limit, and the end
    # of the run meets the next.
    if decided.beyond is None or call.reply is None:
        return (stop,)
    return (stop, *decided.beyond(refused).value.stops[1:])


def stepped_over(decided: Decided, answer: Answer, now: float) -> tuple[Stop, ...]:
    """The stops that claims of limits which do not enforce would have come to."""
    stops: tuple[Stop, ...] = ()
    call = decided.call
    counts = zip(decided.owners, decided.claims, answer.observed, strict=True)
    for tally, claim, observed in counts:
        if claim.limit == UNLIMITED:
            _, limit = tally.budget(call, claim)
            if limit is not None and observed > limit:
                stops += (tally.stop(call, claim, observed, now),)
    return stops


def left(lineup: Lineup, decided: Decided, answer: Answer) -> dict[str, Amount]:
    """What is left of each limit, by its name."""
    remaining: dict[str, Amount] = {}
    counts = zip(decided.owners, decided.claims, answer.observed, strict=True)
    for tally, claim, observed in counts:
        name, limit = tally.budget(decided.call, claim)
        if limit is not None:
            remaining[name] = shown(lineup, tally, claim, max(limit - observed, 0))
    return remaining


def shown(lineup: Lineup, tally: Any, claim: Claim, count: int) -> Amount:
    """A count of *claim* as *tally* shows it."""
    made = lineup.amounts.get(tally.name)
    return count if made is None else made(claim, count)
