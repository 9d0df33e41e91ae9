"""`lastcall replay --what-if`: several policies on the same runs, side by side."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator

from msgspec import to_builtins

from lastcall.bounds import upper_bound
from lastcall.commands.codes import OK, UNUSABLE, CommandError
from lastcall.expectation import ExpectationError
from lastcall.page.visible import one_line
from lastcall.policy import Policy
from lastcall.replay import ReplayedStop
from lastcall.transcripts import Transcript, Unreadable
from lastcall.what_if import Column, Comparison, Marks, Verdicts

SHOWN = 20
"""Runs that are named; the others are counted."""


def compared(
    options: Namespace,
    policies: list[tuple[str, Policy]],
    found: Iterator[Transcript | Unreadable],
) -> int:
    """Replay everything under every policy, and print what came of it. Returns the exit code."""
    comparison = Comparison(policies, Marks(options.good, options.bad))
    unreadable = 0
    try:
        for one in found:
            if isinstance(one, Transcript):
                comparison.add(one)
            else:
                unreadable += 1
                line = "" if one.line is None else f":{one.line}"
                print(
                    f"lastcall: {one_line(one.file)}{line}: {one_line(one.problem)}",
                    file=sys.stderr,
                )
    except (ExpectationError, ValueError) as error:
        raise CommandError(str(error)) from None
    if not comparison.columns[0].runs:
        raise CommandError("none of these files is a transcript")
    if options.json:
        print(
            json.dumps(
                {
                    "policies": to_builtins(comparison.columns),
                    "runs": to_builtins(comparison.telling),
                }
            )
        )
    else:
        print("\n".join(told(comparison)))
    return UNUSABLE if unreadable else OK


def told(comparison: Comparison) -> Iterator[str]:
    """The lines for people."""
    columns = comparison.columns
    one = columns[0]
    yield f"{one.runs} runs, {one.calls} calls; marked: {one.good} good, {one.bad} bad"
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
    if comparison.telling:
        yield ""
        yield "Judged differently, or wrongly:"
        for each in comparison.telling[:SHOWN]:
            yield from of_run(each, columns)
        if len(comparison.telling) > SHOWN:
            yield f"... and {len(comparison.telling) - SHOWN} more"


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
    yield f"{one.mark or '-':<4}  {one_line(one.name)}"
    for column, stop in zip(columns, one.stops, strict=True):
        yield f"      {column.policy}: {verdict(stop)}"


def verdict(stop: ReplayedStop | None) -> str:
    """In a few words."""
    return (
        "clean" if stop is None else f"call {stop.index + 1}, {one_line(stop.tool)} ({stop.reason})"
    )
