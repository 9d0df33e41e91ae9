"""`lastcall kill`: stop agents from outside."""

from __future__ import annotations

import getpass
import os
from argparse import Namespace
from typing import Any

from lastcall.commands.codes import OK, CommandError
from lastcall.commands.places import add_switch, switch, switch_name
from lastcall.commands.printed import say
from lastcall.commands.selectors import add_selectors, selected


def add(commands: Any) -> None:
    """The command's words."""
    one = commands.add_parser(
        "kill",
        help="stop everything, an agent, a user or a run",
        description="Sets the kill switch. From then on, within a second, every call and every request "
        "to a model that it is for is refused, in every process; what runs already may finish.",
        epilog="Exit code: 0 set, 2 when it could not be set or the command was used wrongly.",
    )
    one.set_defaults(run=run)
    add_switch(one)
    add_selectors(one)
    one.add_argument("--why", required=True, metavar="TEXT", help="shown in every stop")
    one.add_argument("--by", metavar="NAME", help="who sets it (default: you)")


def run(options: Namespace) -> int:
    """Set it. Returns the exit code."""
    which = selected(options)
    if not options.why.strip():
        raise CommandError("--why is empty; whoever finds the agent stopped reads it")
    with switch(options) as to:
        kill = to.kill(**which, by=options.by or somebody(), why=options.why)
    say(f"killed: {kill.whom} (in {switch_name(options)})")
    return OK


def somebody() -> str:
    """The name of whoever calls."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run as a number that has no name.
        return f"user {os.getuid()}"
