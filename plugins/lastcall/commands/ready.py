"""`lastcall ready`: whether a run may start, by the exit code. For supervisors."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from lastcall.call import Where
from lastcall.commands import breakers, resting
from lastcall.commands.codes import LATER, OK, CommandError, OutOfReachError
from lastcall.commands.places import STORE, add_switch, store, store_url, switch
from lastcall.commands.printed import say
from lastcall.commands.selectors import told
from lastcall.kills import matching


def add(commands: Any) -> None:
    """The command's words."""
    one = commands.add_parser(
        "ready",
        help="whether an agent may be started now, by the exit code",
        description="Says whether a run may start: it may not while the kill switch is set for it, or "
        "while the agent or the dependency cools off, or a breaker of the dependency is open.",
        epilog="Exit code: 0 it may, 75 not now (printed: until when, and why), 2 when the command was "
        "used wrongly. When the switch or the store cannot be read that is 75 too, since every call "
        "would be refused; --on-fault open makes it 0.",
    )
    one.set_defaults(run=run)
    add_switch(one)
    one.add_argument("--agent", metavar="A", help="the agent that is to be started")
    one.add_argument("--dependency", metavar="D", help="what it cannot do without")
    one.add_argument(
        "--on-fault",
        choices=("closed", "open"),
        default="closed",
        help="what it means that the switch or the store cannot be read (default: closed)",
    )


def run(options: Namespace) -> int:
    """Say it. Returns the exit code."""
    for name in ("agent", "dependency"):
        if getattr(options, name) == "":
            raise CommandError(f"--{name} is empty; was a variable not set?")
    if options.dependency is not None and store_url(options) is None:
        raise CommandError(f"--dependency is looked up in a store; say --store URL, or set {STORE}")
    try:
        reasons = against(options)
    except OutOfReachError as error:
        if options.on_fault == "open":
            say(f"lastcall: {error}; ready all the same (--on-fault open)", error=True)
            return OK
        say(f"not ready: {error}")
        return LATER
    for each in reasons:
        say(f"not ready: {each}")
    if not reasons:
        print("ready")
    return LATER if reasons else OK


def against(options: Namespace) -> list[str]:
    """Why no run may start now, a line each."""
    now = options.clock()
    with switch(options) as of:
        kill = matching(of.kills(), Where(agent=options.agent))
    found = [] if kill is None else [f"stopped from outside: {told(kill)}"]
    named = [(kind, getattr(options, kind)) for kind in resting.KINDS]
    named = [(kind, name) for kind, name in named if name is not None]
    if named and store_url(options) is not None:
        with store(options) as records:
            resting.learn(records)
            cooling = [resting.resting(records, kind, name, now) for kind, name in named]
            found += [each.told(now) for each in cooling if each is not None]
            if options.dependency is not None:
                breakers.learn(records)
                tripped = breakers.tripped(records, now, options.dependency)
                found += [each.told(now) for each in tripped if each.phase == "open"]
    return found
