"""The counts of a run, or of a thread, as bytes, to go on with in another process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from lastcall.contracts import Key
from lastcall.stores.records import COUNTER, counter, hashable
from lastcall.tool import PLAIN
from lastcall.turn import Turn

VERSION = 1

PAUSED = "paused"
"""The record of a thread that names the run which waits in it."""


class Pause(msgspec.Struct, frozen=True):
    """That record: the run, and what its adapter needs to go on with it."""

    run: str
    note: str = ""

    @property
    def unread(self) -> bool:
        """Whether it could not be found out which run it is, so that it is to be asked again."""
        return not self.run


def types_of(rules: Iterable[Any]) -> dict[str, Any]:
    """The type of each record, by the name of its rule; COUNTER for what stores keep for tallies."""
    every = [each for rule in rules for each in (rule, *beside(rule))]
    types = {rule.name: type(rule.start()) if hasattr(rule, "start") else COUNTER for rule in every}
    return types | {"turn": Turn, PAUSED: Pause}


def beside(rule: Any) -> tuple[Any, ...]:
    """The rules that come with *rule*, whatever the tool."""
    return rule.beside(PLAIN) if hasattr(rule, "beside") else ()


def encoded(records: dict[Key, Any]) -> bytes:
    """*records* as versioned msgpack."""
    return msgspec.msgpack.encode((VERSION, list(records.items())))


def decoded(snapshot: bytes, rules: Iterable[Any]) -> dict[Key, Any]:
    """The records of *snapshot*, in the types of *rules*; those of other rules are left out. Raises
    ValueError when it is none, or of a version that this one does not know."""
    types = types_of(rules)
    try:
        version, rows = msgspec.msgpack.decode(
            snapshot, type=tuple[int, list[tuple[list[Any], Any]]]
        )
        records = {
            hashable(key): typed(state, types[key[1]]) for key, state in rows if key[1] in types
        }
    except (msgspec.MsgspecError, ValueError, TypeError, IndexError) as error:
        raise ValueError(f"not a snapshot of a run: {error}") from None
    if version != VERSION:
        raise ValueError(f"a snapshot of version {version}; this one reads {VERSION}")
    return records


def typed(plain: Any, kind: Any) -> Any:
    """*plain* as what it was. Raises ValueError."""
    return counter(plain) if kind == COUNTER else msgspec.convert(plain, kind)
