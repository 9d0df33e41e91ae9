"""`lastcall revive`: take back what `lastcall kill` set."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from lastcall.commands.codes import OK, UNEXPECTED
from lastcall.commands.places import add_switch, switch, switch_name
from lastcall.commands.printed import say
from lastcall.commands.selectors import add_selectors, selected, told


def add(commands: Any) -> None:
    """The command's words."""
    one = commands.add_parser(
        "revive",
        help="take back what was set by kill",
        description="Takes back the entry that was set with exactly these selectors; others stay.",
        epilog="Exit code: 0 taken back, 1 when nothing was set with exactly these selectors, 2 when it "
        "could not be taken back or the command was used wrongly.",
    )
    one.set_defaults(run=run)
    add_switch(one)
    add_selectors(one)


def run(options: Namespace) -> int:
    """Take it back. Returns the exit code."""
    which = selected(options)
    with switch(options) as of:
        gone, left = of.revive(**which), of.kills()
    if gone is not None:
        say(f"revived: {gone.whom} (in {switch_name(options)})")
    else:
        say(f"lastcall: nothing is set for exactly that in {switch_name(options)}", error=True)
    for each in left:
        say(f"still set: {told(each)}", error=gone is None)
    return UNEXPECTED if gone is None else OK
