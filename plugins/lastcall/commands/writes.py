"""`lastcall writes`: writes of which nobody knows whether they were carried out, and saying so."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from lastcall.commands.codes import OK, UNEXPECTED, CommandError
from lastcall.commands.places import add_store, store
from lastcall.commands.printed import as_json, say
from lastcall.commands.resting import moment
from lastcall.reconcile import reconciling
from lastcall.rules.identity import named
from lastcall.rules.writes import Write, Writes


class Waiting(Struct, frozen=True):
    """A write that waits for somebody's word."""

    key: str
    tenant: str
    state: Write

    def plain(self) -> dict[str, Any]:
        """It as plain data."""
        return {
            "key": self.key,
            "tenant": self.tenant or None,
            "tool": self.state.tool,
            "since": moment(self.state.at),
            "status": self.state.status,
            "run": self.state.run,
        }

    def told(self) -> str:
        """It for people, in one line."""
        tenant = f", tenant {self.tenant}" if self.tenant else ""
        status = "" if self.state.status is None else f", HTTP {self.state.status}"
        return (
            f"{self.key}: {self.state.tool}{status}{tenant}, begun {moment(self.state.at)} in run"
            f" {self.state.run}"
        )


def add(commands: Any) -> None:
    """The command's words."""
    one: ArgumentParser = commands.add_parser(
        "writes",
        help="see or settle writes of which nobody knows whether they were carried out",
        description="A write whose worker died, or whose answer was lost, is not made again until somebody says"
        " what became of it (rule `writes`).",
        epilog="Exit code: 0, 1 when there was nothing to settle, 2 when something could not be read or the"
        " command was used wrongly.",
    )
    words = one.add_subparsers(dest="writes", required=True, metavar="list|settle")
    listing = words.add_parser("list", help="the writes that wait for somebody's word")
    listing.set_defaults(run=shown)
    add_store(listing)
    listing.add_argument("--json", action="store_true", help="one JSON object a write")
    settle = words.add_parser("settle", help="say what became of one")
    settle.set_defaults(run=settled)
    add_store(settle)
    settle.add_argument("key", metavar="KEY", help="its key, as `list` and the stop name it")
    settle.add_argument("--tenant", metavar="T", help="whose it is, where tenants are known")
    which = settle.add_mutually_exclusive_group(required=True)
    which.add_argument("--happened", action="store_true", help="it was carried out")
    which.add_argument("--not-happened", action="store_true", help="it was not, so it may be made")
    settle.add_argument(
        "--result", metavar="JSON", help="what it brought, by which a repeat is answered"
    )


def shown(options: Namespace) -> int:
    """List what waits. Returns the exit code."""
    now = options.clock()
    with store(options) as records:
        held = sorted(waiting(records, now), key=lambda each: (each.state.at, each.key))
    for each in held:
        if options.json:
            print(as_json(each.plain()))
        else:
            say(each.told())
    if not held and not options.json:
        print("no write waits for anybody's word")
    return OK


def settled(options: Namespace) -> int:
    """Settle one. Returns the exit code."""
    result = None
    if options.result is not None:
        if options.not_happened:
            raise CommandError("--result: what did not happen brought nothing")
        try:
            result = json.loads(options.result)
        except ValueError as error:
            raise CommandError(f"--result {options.result}: not JSON: {error}") from None
    now = options.clock()
    try:
        keys, step = reconciling(
            options.key, options.tenant, now, happened=options.happened, result=result
        )
    except ValueError as error:
        raise CommandError(f"--result: {error}") from None
    with store(options) as records:
        learn(records)
        done, _ = records.update(keys, step, now)
    if not done:
        say(f"lastcall: no write {options.key} waits for anybody's word", error=True)
        return UNEXPECTED
    say(f"settled: {options.key}: {'it happened' if options.happened else 'it did not happen'}")
    return OK


def waiting(records: Any, now: float) -> Iterator[Waiting]:
    """Every write that waits for somebody's word, one whose worker must have died among them."""
    learn(records)
    for shard in records.shards("write", now):
        state: Write | None = records.peek(shard, now).get((shard, Writes.name))
        if state is not None and state.waits(now):
            tenant, key = named(str(shard[1]))
            yield Waiting(key, tenant, state)


def learn(records: Any) -> None:
    """Let the store know the records that are read here."""
    records.learn({Writes.name: Write})
