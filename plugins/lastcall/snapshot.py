"""The counts of a run, or of a thread, as bytes, to go on with in another process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from lastcall.contracts import Key
from lastcall.turn import Turn

VERSION = 1

PAUSED = "paused"
"""The record of a thread that names the run which waits in it."""


class Pause(msgspec.Struct, frozen=True):
    """That record: the run, and what its adapter needs to go on with it."""

    run: str
    note: str = ""


COUNTER = tuple[int, int] | dict[str, float]
"""What a store keeps for a tally: a count and its window, or the holders of leases."""


def encoded(records: dict[Key, Any]) -> bytes:
    """*records* as versioned msgpack."""
    return msgspec.msgpack.encode((VERSION, list(records.items())))


def decoded(snapshot: bytes, rules: Iterable[Any]) -> dict[Key, Any]:
    """The records of *snapshot*, in the types of *rules*; those of other rules are left out. Raises
    ValueError when it is none, or of a version that this one does not know."""
    types: dict[str, Any] = {
        rule.name: type(rule.start()) if hasattr(rule, "start") else COUNTER for rule in rules
    }
    types |= {"turn": Turn, PAUSED: Pause}
    try:
        version, rows = msgspec.msgpack.decode(
            snapshot, type=tuple[int, list[tuple[list[Any], Any]]]
        )
        records = {
            hashable(key): msgspec.convert(state, types[key[1]])
            for key, state in rows
            if key[1] in types
        }
    except (msgspec.MsgspecError, TypeError, IndexError) as error:
        raise ValueError(f"not a snapshot of a run: {error}") from None
    if version != VERSION:
        raise ValueError(f"a snapshot of version {version}; this one reads {VERSION}")
    return records


def hashable(key: Any) -> Key:
    """A key as tuples, as it was before it was written."""
    return tuple(hashable(part) if isinstance(part, list) else part for part in key)
