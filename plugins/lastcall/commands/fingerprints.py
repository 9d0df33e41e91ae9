"""`lastcall fingerprints`: which calls own most of what saved runs did."""

from __future__ import annotations

import shutil
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, get_args

from lastcall.commands.codes import OK, UNUSABLE, CommandError
from lastcall.commands.printed import as_json, may_show, say, unread, words
from lastcall.commands.replay import PRESETS, found_in, policy_of
from lastcall.ownership import Blocked, By, Ledger, Owner
from lastcall.plural import counted
from lastcall.redaction import AsTheyAre, Redactor
from lastcall.replay import Replayer
from lastcall.timeline import cut_to
from lastcall.transcripts import Transcript, find

TOP = 10


def add(commands: Any) -> None:
    """The command's words."""
    one = commands.add_parser(
        "fingerprints",
        help="see which calls own most of what saved runs did",
        description="Counts the calls of saved runs by fingerprint: equal calls are one (exact), and so "
        "are calls that differ in form alone (loose). Says what the guard would have blocked first.",
        epilog="Exit code: 0 counted, 2 when something could not be read, or the command was used wrongly.",
    )
    one.set_defaults(run=run)
    one.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files and folders")
    one.add_argument(
        "--by", choices=get_args(By), default="calls", help="what to order by (default: calls)"
    )
    one.add_argument(
        "--top", type=positive, default=TOP, metavar="N", help=f"so many of each (default: {TOP})"
    )
    one.add_argument(
        "--policy",
        default="default",
        metavar="POLICY",
        help=f"{', '.join(PRESETS)}, or a TOML file: what is known of tools, their cost too",
    )
    one.add_argument("--json", action="store_true", help="one JSON object")
    may_show(one)


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def run(options: Namespace) -> int:
    """Count, and print. Returns the exit code."""
    policy = policy_of(options.policy)
    redactor = AsTheyAre() if options.no_redact else Redactor.of_environment()
    ledger, replayer = Ledger(policy, redactor), Replayer(policy)
    text, unreadable = words(redact=not options.no_redact), 0
    for found in found_in(find(options.paths), options.paths):
        if isinstance(found, Transcript):
            ledger.add(found, replayer.replay(found))
        else:
            unreadable += 1
            say(unread(found, text), error=True)
    if not ledger.calls:
        raise CommandError(f"no run with a call in {', '.join(map(str, options.paths))}")
    by: By = options.by
    if ledger.exact(by, 1)[0].worth(by) == -1:
        raise CommandError(
            "no call has a time" if by == "time" else "no tool has a cost; --policy may declare it"
        )
    told(ledger, by, options.top, plain=options.json)
    return UNUSABLE if unreadable else OK


def told(ledger: Ledger, by: By, top: int, *, plain: bool) -> None:
    """Print what was counted, *plain* as JSON."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    exact, loose, blocked = ledger.exact(by, top), ledger.loose(by, top), ledger.blocked(top)
    if plain:
        totals = {"runs": ledger.runs, "calls": ledger.calls, "failures": ledger.failures, "by": by}
        found = {"exact": exact, "loose": loose, "blocked_first": blocked}
        print(as_json({**totals, **found}))
        return
    width = shutil.get_terminal_size((100, 24)).columns
    seen = (
        f"{counted(ledger.runs, 'run')}, {counted(ledger.calls, 'call')}, {ledger.failures} failed"
    )
    lines = [seen, "", f"exact, by {by}", *table(exact, ledger.calls)]
    lines += ["", f"loose, by {by}", *table(loose, ledger.calls, loose=True)]
    lines += ["", "blocked first", *first(blocked)] if blocked else ["", "nothing is blocked"]
    for line in lines:
        print(cut_to(line, width).rstrip())


def table(owners: Sequence[Owner], calls: int, *, loose: bool = False) -> list[str]:
    """A line for each, and one above."""
    head = ("calls", "share", "failed", "seconds", "cost", "runs")
    rows = [
        (
            str(one.calls),
            f"{round(100 * one.calls / calls)} %",
            str(one.failures),
            "-" if one.seconds is None else f"{one.seconds:.0f}",
            "-" if one.cost is None else f"{one.cost:f}",
            str(one.runs),
        )
        for one in owners
    ]
    ends = [
        f"{one.fingerprint}  {one.call}"
        + (f"  [{one.variants} variants]" if loose and one.variants > 1 else "")
        for one in owners
    ]
    return aligned([head, *rows], [f"{'fingerprint':<16}  call", *ends])


def first(blocked: Sequence[Blocked]) -> list[str]:
    """The same for what would have been blocked."""
    rows = [(str(one.runs), str(one.earliest), one.reason) for one in blocked]
    ends = [f"{one.fingerprint}  {one.call}" for one in blocked]
    return aligned([("runs", "at call", "reason"), *rows], [f"{'fingerprint':<16}  call", *ends])


def aligned(rows: Sequence[Sequence[str]], ends: Sequence[str]) -> list[str]:
    """*rows* with columns as wide as they need to be, and their ends."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([*(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)), end])
        for row, end in zip(rows, ends, strict=True)
    ]
