"""`lastcall status`: what is stopped from outside, what cools off, what is in quarantine, what is down."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from lastcall.commands import breakers, resting, writes
from lastcall.commands.codes import OK
from lastcall.commands.places import add_switch, store, store_url, switch, switch_name
from lastcall.commands.printed import as_json, say
from lastcall.commands.selectors import told


def add(commands: Any) -> None:
    """The command's words."""
    one = commands.add_parser(
        "status",
        help="see what is stopped, cooling off or in quarantine",
        description="Shows the kill switch, the agents and dependencies that cool off, how many "
        "calls are in quarantine, how many writes have an unknown outcome, and the breakers that are not closed.",
        epilog="Exit code: 0, or 2 when something could not be read or the command was used wrongly.",
    )
    one.set_defaults(run=run)
    add_switch(one)
    one.add_argument("--json", action="store_true", help="one JSON object")


def run(options: Namespace) -> int:
    """Show it. Returns the exit code."""
    now = options.clock()
    with switch(options) as of:
        kills = of.kills()
    cooling: list[resting.Resting] | None = None
    held: int | None = None
    tripped: list[breakers.Tripped] | None = None
    unsettled: int | None = None
    if store_url(options) is not None:
        with store(options) as records:
            resting.learn(records)
            breakers.learn(records)
            tripped = breakers.tripped(records, now)
            cooling = resting.all_resting(records, now)
            held = sum(1 for _ in resting.quarantined(records, now))
            unsettled = sum(1 for _ in writes.waiting(records, now))
    if options.json:
        print(
            as_json(
                {
                    "switch": switch_name(options),
                    "kills": [
                        {
                            "agent": each.agent,
                            "user": each.user,
                            "run": each.run,
                            "by": each.by,
                            "at": None if each.at is None else each.at.isoformat(),
                            "why": each.why,
                        }
                        for each in kills
                    ],
                    "cooling": None if cooling is None else [each.plain(now) for each in cooling],
                    "quarantined": held,
                    "unknown_writes": unsettled,
                    "breakers": None if tripped is None else [each.plain(now) for each in tripped],
                }
            )
        )
        return OK
    say(f"kill switch ({switch_name(options)}):")
    listed([told(each) for each in kills], "nothing is set")
    if cooling is not None:
        print("cooling off:")
        listed([each.told(now) for each in cooling], "nothing")
    if held is not None:
        print(f"quarantine: {held} call{'' if held == 1 else 's'}")
    if unsettled:
        number = f"{unsettled} write{'' if unsettled == 1 else 's'}"
        print(f"{number} of unknown outcome: lastcall writes list")
    if tripped:
        print("not closed:")
        listed([each.told(now) for each in tripped], "nothing")
    return OK


def listed(lines: list[str], otherwise: str) -> None:
    """Print *lines*, indented."""
    for each in lines or [otherwise]:
        say(f"  {each}")
