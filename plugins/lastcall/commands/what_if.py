"""`lastcall replay --what-if`: several policies on the same runs, side by side."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from msgspec.structs import replace

from lastcall.bounds import upper_bound
from lastcall.commands.codes import OK, UNUSABLE, CommandError
from lastcall.commands.printed import Words, as_json, of_stop, say, unread
from lastcall.expectation import ExpectationError
from lastcall.plural import counted
from lastcall.policy import Policy
from lastcall.replay import ReplayedStop
from lastcall.transcripts import Transcript, Unreadable
from lastcall.visible import one_line
from lastcall.what_if import Column, Comparison, Marks, Verdicts

SHOWN = 20
"""Runs that are named; the others are counted."""


def compared(
    options: Namespace,
    policies: list[tuple[str, Policy]],
    found: Iterator[Transcript | Unreadable],
    text: Words,
) -> int:
    """Replay everything under every policy, and print what came of it, with names as *text* has them. Returns
    the exit code."""
    comparison = Comparison(policies, Marks(options.good, options.bad))
    unreadable = 0
    try:
        for one in found:
            if isinstance(one, Transcript):
                comparison.add(one)
            else:
                unreadable += 1
                say(unread(one, text), error=True)
    except (ExpectationError, ValueError) as error:
        raise CommandError(str(error)) from None
    if not comparison.columns[0].runs:
        raise CommandError("none of these files is a transcript")
    runs = [redacted(each, text) for each in comparison.telling]
    if options.json:
        print(as_json({"policies": comparison.columns, "runs": runs}))
    else:
        print("\n".join(map(one_line, told(comparison.columns, runs))))
    return UNUSABLE if unreadable else OK


def redacted(run: Verdicts, text: Words) -> Verdicts:
    """*run* without secrets in its names."""
    stops = tuple(None if stop is None else of_stop(stop, text) for stop in run.stops)
    return replace(run, name=text(run.name), stops=stops)


def told(columns: list[Column], telling: list[Verdicts]) -> Iterator[str]:
    """The lines for people."""
    one = columns[0]
    seen = f"{counted(one.runs, 'run')}, {counted(one.calls, 'call')}"
    yield f"{seen}; marked: {one.good} good, {one.bad} bad"
    yield ""
    head = ("policy", "stopped", "calls saved", "false stops", "loops caught")
    rows = [head, *map(cells, columns)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(
            f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)
        ).rstrip()
    if one.good:
        yield "(false stops: in brackets the rate that is not exceeded, with 95 % confidence)"
    if telling:
        yield ""
        yield "Judged differently, or wrongly:"
        for each in telling[:SHOWN]:
            yield from of_run(each, columns)
        if len(telling) > SHOWN:
            yield f"... and {len(telling) - SHOWN} more"


def cells(column: Column) -> tuple[str, ...]:
    """The row of a policy."""
    share = round(100 * column.saved / column.calls) if column.calls else 0
    bound = 100 * upper_bound(column.false_stops, column.good)
    return (
        column.policy,
        str(column.stopped),
        f"{column.saved} ({share} %)",
        f"{column.false_stops} of {column.good} ({bound:.1f} %)" if column.good else "-",
        f"{column.caught} of {column.bad}" if column.bad else "-",
    )


def of_run(one: Verdicts, columns: list[Column]) -> Iterator[str]:
    """A run, and what each policy says of it."""
    yield f"{one.mark or '-':<4}  {one.name}"
    for column, stop in zip(columns, one.stops, strict=True):
        yield f"      {column.policy}: {verdict(stop)}"


def verdict(stop: ReplayedStop | None) -> str:
    """In a few words."""
    return "clean" if stop is None else f"call {stop.index + 1}, {stop.tool} ({stop.reason})"
