"""What a store does to shared counters: the reference in Python, pure but for *read*.

A counter is kept as `(number of its window, count)`, leases as `{holder: until}`. No window goes back: a
worker whose clock is behind counts in the window that is held. `decision.lua` is its twin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lastcall.contracts import Answer, Claim, Free, Give, Key, Release, Take

Read = Callable[[Key], Any]
"""Gives what is kept under a key; None when nothing is."""

Writes = list[tuple[Key, Any]]


def settled(
    releases: Sequence[Release], claims: Sequence[Claim], read: Read, now: float
) -> tuple[Answer, Writes]:
    """Give back what *releases* say, then grant all of *claims*; when they are refused, nothing is to be
    written. Raises ValueError when more is given back than was taken."""
    if not releases:
        return claimed(claims, read, now)
    back = dict(released(releases, read, now))
    answer, taken = claimed(claims, lambda key: back[key] if key in back else read(key), now)
    if answer.refused is not None:
        return answer, []
    return answer, list((back | dict(taken)).items())


def claimed(claims: Sequence[Claim], read: Read, now: float) -> tuple[Answer, Writes]:
    """Whether all of *claims* are granted, and what is to be written when they are."""
    before = tuple(count(claim, read, now) for claim in claims)
    after: list[int] = []
    totals: dict[Key, int] = {}
    for index, claim in enumerate(claims):
        # Two claims of one decision may name the same counter.
        total = totals.get(claim.key, before[index])
        total += claim.amount if isinstance(claim, Take) else 1
        if claim.limit is not None and total > claim.limit:
            return Answer(index, before), []
        totals[claim.key] = total
        after.append(total)
    kept: dict[Key, Any] = {}
    for index, claim in enumerate(claims):
        if isinstance(claim, Take):
            here = window_of(read(claim.key), claim.window, now + claim.offset)
            kept[claim.key] = (here, after[index])
        else:
            held = kept.get(claim.key) or holders(read(claim.key), now)
            kept[claim.key] = {**held, claim.holder: now + claim.ttl}
    return Answer(None, tuple(after)), list(kept.items())


def released(releases: Sequence[Release], read: Read, now: float) -> Writes:
    """What is to be written for *releases*. Raises ValueError when more is given back than was taken."""
    kept: dict[Key, Any] = {}

    def current(key: Key) -> Any:
        return kept[key] if key in kept else read(key)

    for release in releases:
        if isinstance(release, Free):
            left = holders(current(release.key), now)
            left.pop(release.holder, None)
            kept[release.key] = left
            continue
        held = taken(release, current, now)
        if held is None:
            continue
        if release.amount > held:
            raise ValueError(f"{release.amount} given back to {release.key!r}, which holds {held}")
        here = window_of(current(release.key), release.window, now + release.offset)
        kept[release.key] = (here, held - release.amount)
    return list(kept.items())


def count(claim: Claim, read: Read, now: float) -> int:
    """What is counted against *claim* before it: of a lease the other holders."""
    held = read(claim.key)
    if not isinstance(claim, Take):
        return len(holders(held, now).keys() - {claim.holder})
    return counted(held, window_of(held, claim.window, now + claim.offset))


def taken(give: Give, read: Read, now: float) -> int | None:
    """What the counter holds; None when the window it was taken in is over."""
    held = read(give.key)
    here = window_of(held, give.window, now + give.offset)
    then = bucket(give.window, give.taken_at + give.offset)
    return counted(held, here) if then == here else None


def counted(held: tuple[int, int] | None, window: int) -> int:
    """What was counted in *window*."""
    return int(held[1]) if held is not None and held[0] == window else 0


def window_of(held: tuple[int, int] | None, window: float | None, now: float) -> int:
    """The number of the window that is counted in; *now* with the offset of its zone."""
    here = bucket(window, now)
    return here if held is None else max(here, held[0])


def holders(held: Any, now: float) -> dict[str, float]:
    """Who holds a lease that has not run out, and until when."""
    return {who: until for who, until in (held or {}).items() if until > now}


def bucket(window: float | None, now: float) -> int:
    """The number of the fixed window that *now* falls in; 0 when there is but one."""
    return 0 if window is None else int(now // window)
