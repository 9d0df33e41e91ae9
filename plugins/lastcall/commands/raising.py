"""`lastcall raise`: let a run that goes on spend more."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError, Namespace
from decimal import Decimal
from functools import partial
from typing import Any

from lastcall.commands.codes import OK, UNEXPECTED, CommandError
from lastcall.commands.places import add_store, shown, store, store_url
from lastcall.commands.printed import say
from lastcall.fold import raised_by, raising
from lastcall.turn import Turn

AMOUNT = re.compile(r"[0-9]+\.[0-9]+")


def add(commands: Any) -> None:
    """The command's words."""
    one = commands.add_parser(
        "raise",
        help="let a running run make more calls",
        description="Raises a limit of one run, which may be at work or ended because that limit was "
        "reached.",
        epilog="Exit code: 0 raised, 1 when the store knows no such run, 2 when it could not be raised "
        "or the command was used wrongly.",
    )
    one.set_defaults(run=run)
    add_store(one)
    one.add_argument("--run", required=True, metavar="R", dest="of_run", help="the run")
    one.add_argument("--calls", required=True, metavar="+N", type=more, help="by how many")
    which = one.add_mutually_exclusive_group()
    which.add_argument("--tool", metavar="T", help="calls of one tool, where that has a limit")
    which.add_argument(
        "--budget",
        metavar="B",
        help="another budget, by its name in a stop's `remaining` (default: calls)",
    )


def run(options: Namespace) -> int:
    """Raise it. Returns the exit code."""
    budget = options.budget or ("calls" if options.tool is None else f"calls:{options.tool}")
    try:
        by = raised_by(budget, options.calls)
    except ValueError as error:
        raise CommandError(f"--calls: {error}") from None
    shard, now = ("run", options.of_run), options.clock()
    with store(options) as records:
        records.learn({"turn": Turn})
        if (shard, "turn") not in records.peek(shard, now):
            where = shown(store_url(options) or "")
            say(f"lastcall: {where} knows no run {options.of_run!r}; it may be over", error=True)
            return UNEXPECTED
        records.update([(shard, "turn")], partial(raising, budget, by), now)
    say(f"raised: {budget} of run {options.of_run!r} by {options.calls}")
    return OK


def more(text: str) -> int | Decimal:
    """`+50`, or `50`, as a number, `+2.50` as an amount of money. Raises ArgumentTypeError."""
    digits = text.removeprefix("+")
    if AMOUNT.fullmatch(digits):
        return Decimal(digits)
    if not (digits.isascii() and digits.isdigit() and int(digits) > 0):
        raise ArgumentTypeError(f"{text!r}: say by how many the limit goes up, like +50")
    return int(digits)
