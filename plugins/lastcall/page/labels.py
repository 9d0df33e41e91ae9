"""Short words for what a page shows: lanes, figures, spans of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import orjson

from lastcall.fingerprint import canonical
from lastcall.page.findings import counted
from lastcall.page.model import FAILED, WELL, Lane, RunPage
from lastcall.visible import cut, visible

__all__ = ["about", "answers", "bars", "figures", "label", "span", "under", "unnamed"]

HOUR, MINUTE = 3600, 60


def label(lane: Lane, run: RunPage, most: int = 90) -> str:
    """The arguments of a lane in one line: only those that tell it from others of its tool."""
    if not lane.letter:
        return ""
    args = _named(lane)
    if args is None:
        return cut(lane.arguments, most)
    names: list[str] = list(args)
    finding = run.finding
    if lane.tool == finding.tool and finding.telling:
        names = [name for name in finding.telling if name in args]
    others = [_named(each) for each in run.lanes if each.tool == lane.tool and each.letter]
    if len(others) > 1:
        common = [name for name in names if _same(name, others)]
        names = [name for name in names if name not in common] or names
    return cut("  ".join(f"{visible(name)}: {_told(args[name])}" for name in names), most)


def _named(lane: Lane) -> dict[str, Any] | None:
    try:
        args = orjson.loads(lane.arguments)
    except ValueError:
        return None
    return args if isinstance(args, dict) else None


def _same(name: str, others: Sequence[dict[str, Any] | None]) -> bool:
    """Whether all of them have that argument with one value."""
    values = [None if args is None else canonical(args.get(name)) for args in others]
    return None not in values and len(set(values)) == 1


def _told(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(each, str | int | float) for each in value):
        return ", ".join(map(_told, value)) if value else "[]"
    return visible(value if isinstance(value, str) else orjson.dumps(value).decode())


def unnamed(run: RunPage) -> str:
    """What the lane is called that has no fingerprint of its own."""
    return "other calls" if len(run.lanes) > 1 else "all calls"


def answers(lane: Lane) -> str:
    """What its calls brought."""
    if len(lane.answers) == 1:
        return lane.answers[0][0]
    return ", ".join(f"{times:,}x {word}" for word, times in lane.answers)


def about(lane: Lane) -> str:
    """A lane in words, for who does not see it."""
    failed = f", {lane.failed:,} failed" if lane.failed else ", none failed"
    where = (
        f"call {lane.first:,}"
        if lane.calls == 1
        else f"from call {lane.first:,} to call {lane.last:,}"
    )
    return f"{counted(lane.calls, 'call')}, {where}{failed}"


def bars(lane: Lane, kind: int) -> Iterator[tuple[int, int]]:
    """The bars of that kind, those side by side as one: where it begins, and how many they are."""
    start = end = -1
    for place, held in lane.bars:
        # A bar that stands for several calls, of which some failed, is one that failed.
        if (held & FAILED != 0) != (kind == FAILED):
            continue
        if place == end:
            end += 1
            continue
        if start >= 0:
            yield start, end - start
        start, end = place, place + 1
    if start >= 0:
        yield start, end - start


def path(lane: Lane, kind: int, run: RunPage, height: float, base: float) -> str:
    """The bars as the data of an SVG path: *height* upwards from *base*."""
    gap = 0.22 if run.bars < 150 else 0  # noqa: PLR2004 - where a gap would be less than a pixel
    made: list[str] = []
    for start, length in bars(lane, kind):
        each = [(start + n, 1) for n in range(length)] if gap else [(start, length)]
        made += (
            f"M{at + gap / 2:g} {base:g}v{-height:g}h{wide - gap:g}v{height:g}z"
            for at, wide in each
        )
    return "".join(made)


def under(run: RunPage) -> float:
    """Where the bars begin that stand for calls which would not have been made, from 0 to `run.bars`."""
    return run.executed * run.bars / run.calls if run.calls else 0


def figures(run: RunPage) -> Iterator[tuple[str, str, str]]:
    """The numbers of a run: what it is, the number, and what there is to add."""
    none = "failures not told" if run.untold else "none failed"
    yield "calls made", f"{run.calls:,}", f"{run.failed:,} failed" if run.failed else none
    if run.stop is None:
        yield "would have been stopped", "none", ""
    else:
        yield "last call", f"{run.executed:,}", _reason(run)
        yield "calls saved", f"{run.saved.calls:,}", f"{run.share} %"
    saved = run.saved
    if saved.calls and saved.cost is not None and saved.all_cost:
        told = ", as far as it is told" if saved.untold else ""
        yield "money saved", money(saved.cost), f"of {money(saved.all_cost)}{told}"
    elif saved.all_cost:
        yield "money spent", money(saved.all_cost), ""
    if saved.tokens is not None and saved.calls:
        yield "tokens saved", f"{saved.tokens:,}", ""
    if saved.seconds:
        yield "time saved", span(saved.seconds), f"of {span(run.seconds or 0)}"
    elif run.seconds:
        yield "time taken", span(run.seconds), ""


def _reason(run: RunPage) -> str:
    stop = run.stop
    if stop is None:
        return ""
    return stop.reason if stop.status is None else f"{stop.reason}, HTTP {stop.status}"


def money(cost: Decimal) -> str:
    """An amount: cents, or as many places as it takes to show something."""
    places = (
        Decimal("0.01")
        if cost >= Decimal("0.1") or not cost
        else Decimal(1).scaleb(cost.adjusted() - 1)
    )
    return f"{cost.quantize(places):,f}"


def span(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds >= HOUR:
        return f"{seconds // HOUR:.0f} h {seconds % HOUR // MINUTE:.0f} min"
    if seconds >= MINUTE:
        return f"{seconds // MINUTE:.0f} min {seconds % MINUTE:.0f} s"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == round(seconds) else f"{seconds:.1f} s"  # noqa: PLR2004


KINDS = (FAILED, WELL)
