"""`lastcall explain`: the worst case of a policy, as numbers."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from typing import Any

from lastcall.commands.codes import OK
from lastcall.commands.printed import as_json
from lastcall.commands.replay import policy_of
from lastcall.events import log
from lastcall.money import amount, units
from lastcall.worst import MOST, Worst, worst


def add(commands: Any) -> None:
    """The command's words."""
    one = commands.add_parser(
        "explain",
        help="the most that a policy lets be spent on a service that never recovers",
        description="Plays an outage against the policy: every call that it grants is made, with arguments "
        "of its own, and answered 503. Prints how many attempts reach the service, and what they cost where "
        "the policy says what the tool costs. A run has one turn.",
        epilog="Exit code: 0, or 2 when the policy cannot be read or the command was used wrongly.",
    )
    one.set_defaults(run=run)
    one.add_argument("policy", metavar="POLICY", help="a preset's name, or a file")
    one.add_argument("--tool", default="tool", metavar="T", help="the tool (default: any other)")
    one.add_argument(
        "--attempts",
        type=positive,
        default=1,
        metavar="K",
        help="attempts of each call, by whatever retries (default: 1)",
    )
    one.add_argument(
        "--workers", type=positive, default=1, metavar="N", help="workers of the fleet (default: 1)"
    )
    one.add_argument(
        "--at-once",
        type=positive,
        metavar="M",
        help="calls that one worker has under way at a time (default: as many as are granted)",
    )
    one.add_argument(
        "--most",
        type=positive,
        default=MOST,
        metavar="L",
        help=f"count no further than this (default: {MOST})",
    )
    one.add_argument("--json", action="store_true", help="one JSON object")


def run(options: Namespace) -> int:
    """Print it. Returns the exit code."""
    policy = policy_of(options.policy)
    heard, log.disabled = log.disabled, True
    try:
        # It is an outage in thought alone, and no reason to alarm anybody.
        found = worst(
            policy,
            options.tool,
            attempts=options.attempts,
            workers=options.workers,
            at_once=options.at_once,
            most=options.most,
        )
    finally:
        log.disabled = heard
    counts = {
        "call": ("one call", found.call),
        "run": ("one run", found.run),
        "user": ("one user, one day", found.user),
        "fleet": (f"{options.workers} worker{'s' * (options.workers > 1)}, one hour", found.fleet),
    }
    if options.json:
        plain = {
            name: {"attempts": attempts, "money": shown(found, attempts)}
            for name, (_, attempts) in counts.items()
        }
        print(as_json({"tool": options.tool, "worst": plain}))
        return OK
    print(f"attempts of {options.tool!r} that reach a service which never recovers, at most:")
    for label, attempts in counts.values():
        cost = shown(found, attempts)
        said = f"{options.most} or more" if attempts is None else f"{attempts}"
        print(f"  {label:24}{said:>14}{'' if cost is None else f'   {cost}'}")
    return OK


def shown(found: Worst, attempts: int | None) -> str | None:
    """What so many attempts cost, as text."""
    cost = found.money(attempts)
    return None if cost is None else str(amount(units(cost)))


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"a whole number from 1, not {text!r}")
    return int(text)
