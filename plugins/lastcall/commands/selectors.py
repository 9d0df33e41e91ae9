"""Whom an entry of the kill switch is for: everything, an agent, a user, a run, or several at once."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from lastcall.commands.codes import CommandError
from lastcall.switch import Kill


def add_selectors(one: ArgumentParser) -> None:
    """The options."""
    one.add_argument("--all", action="store_true", help="every call of every agent")
    one.add_argument("--agent", metavar="A", help="one agent, and whatever it calls in")
    one.add_argument("--user", metavar="U", help="one user; with --agent: that agent for that user")
    one.add_argument("--run", metavar="R", help="one run", dest="of_run")


def selected(options: Namespace) -> dict[str, Any]:
    """The selectors for `Switch.kill` and `Switch.revive`. Raises CommandError."""
    which = {"agent": options.agent, "user": options.user, "run": options.of_run}
    given = [value for value in which.values() if value is not None]
    if not given and not options.all:
        raise CommandError("whom? Say --all, --agent A, --user U, --run R, or several of the last")
    if given and options.all:
        raise CommandError("--all is everything; leave the other selectors out, or --all")
    if "" in given:
        raise CommandError("an empty name stops nobody; was a variable not set?")
    return {**which, "all": options.all}


def told(kill: Kill) -> str:
    """An entry for people, in one line."""
    at = "" if kill.at is None else f" at {kill.at:%Y-%m-%dT%H:%M:%SZ}"
    why = f": {kill.why}" if kill.why else ""
    return f"{kill.whom}, set by {kill.by or 'somebody'}{at}{why}"
