"""`lastcall quarantine`: calls that are not made for a while, because they failed for good."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from fnmatch import fnmatchcase
from typing import Any

from lastcall.commands import resting
from lastcall.commands.codes import OK, UNEXPECTED
from lastcall.commands.places import add_store, store
from lastcall.commands.printed import as_json, say
from lastcall.rules.quarantine import Quarantined


def add(commands: Any) -> None:
    """The command's words."""
    one: ArgumentParser = commands.add_parser(
        "quarantine",
        help="see or release calls in quarantine",
        description="A call that failed with a final status is not made again for a while, by anybody "
        "(rule `quarantine`).",
        epilog="Exit code: 0, 1 when there was nothing to release, 2 when something could not be read or "
        "the command was used wrongly.",
    )
    words = one.add_subparsers(dest="quarantine", required=True, metavar="list|release")
    listing = words.add_parser("list", help="what is in quarantine, and until when")
    listing.set_defaults(run=shown)
    add_store(listing)
    listing.add_argument("--json", action="store_true", help="one JSON object a call")
    release = words.add_parser("release", help="let calls be made again")
    release.set_defaults(run=released)
    add_store(release)
    which = release.add_mutually_exclusive_group(required=True)
    which.add_argument("--fingerprint", metavar="F", help="one call")
    which.add_argument("--tool", metavar="T", help="every call of a tool, by name or pattern")
    which.add_argument("--all", action="store_true", help="every call")


def shown(options: Namespace) -> int:
    """List what is in quarantine. Returns the exit code."""
    now = options.clock()
    with store(options) as records:
        resting.learn(records)
        held = sorted(
            (state for _, state in resting.quarantined(records, now)),
            key=lambda state: (state.tool, state.until),
        )
    for each in held:
        if options.json:
            print(as_json(plain(each, now)))
        else:
            say(told(each, now))
    if not held and not options.json:
        print("nothing is in quarantine")
    return OK


def released(options: Namespace) -> int:
    """Release what the options name. Returns the exit code."""
    now, gone = options.clock(), []
    with store(options) as records:
        resting.learn(records)
        for shard, state in list(resting.quarantined(records, now)):
            if wanted(options, state):
                records.drop(shard)
                gone.append(state)
    for each in gone:
        say(f"released: {each.tool} {each.fingerprint}")
    if not gone:
        say("lastcall: nothing of that is in quarantine", error=True)
    return OK if gone else UNEXPECTED


def wanted(options: Namespace, state: Quarantined) -> bool:
    """Whether the options name that call."""
    if options.fingerprint is not None:
        return bool(state.fingerprint == options.fingerprint)
    return options.tool is None or fnmatchcase(state.tool, options.tool)


def plain(state: Quarantined, now: float) -> dict[str, Any]:
    """One call as plain data."""
    return {
        "tool": state.tool,
        "fingerprint": state.fingerprint,
        "tenant": state.tenant,
        "status": state.status,
        "since": resting.moment(state.since),
        "until": resting.moment(state.until),
        "seconds": round(state.until - now, 3),
        "answers": state.count,
        "run": state.run,
    }


def told(state: Quarantined, now: float) -> str:
    """One call for people, in one line."""
    tenant = "" if state.tenant is None else f", tenant {state.tenant}"
    status = "" if state.status is None else f", HTTP {state.status}"
    return (
        f"{state.tool} {state.fingerprint}{status}{tenant}: until {resting.moment(state.until)}"
        f" (in {state.until - now:.0f} s), from run {state.run}"
    )
