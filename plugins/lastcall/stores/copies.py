"""What a client remembers of the shards it has to do with, so that a decision needs no reading first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from lastcall.contracts import Key, Shard
from lastcall.stores.records import decoded

REMEMBERED = 1024
"""Shards of which a copy is kept; the longest untouched go first, and cost one more trip later."""


class Raw(Struct, frozen=True):
    """A value that nobody has looked at yet."""

    value: str


class Copy(Struct):
    """One shard as this client saw it last."""

    version: str = ""
    whole: bool = True
    """Whether a field that is missing here is missing in the store too."""
    fields: dict[str, Any] = {}


class Copies:
    """Copies of the newest shards. Safe for threads; whether one is stale only the store can say."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        self._types = types
        self._lock = threading.Lock()
        self._kept: OrderedDict[Shard, Copy] = OrderedDict()

    def read(
        self, keys: Sequence[Key], fields: Sequence[str]
    ) -> tuple[dict[Shard, str], list[Any], dict[Shard, list[str]]]:
        """The version of each shard of *keys*, and the records, at one moment; and the fields of each shard
        that are only assumed to be absent. A shard never seen is taken for a new one, of version `""`.
        Raises UnreadableRecordError."""
        versions: dict[Shard, str] = {}
        found: list[Any] = []
        assumed: dict[Shard, list[str]] = {}
        with self._lock:
            for key, field in zip(keys, fields, strict=True):
                copy = self._kept.get(key[0])
                if copy is None:
                    versions[key[0]] = ""
                    found.append(None)
                    continue
                versions[key[0]] = copy.version
                held = copy.fields.get(field)
                if held is None and not copy.whole and field not in copy.fields:
                    assumed.setdefault(key[0], []).append(field)
                elif type(held) is Raw:
                    held = copy.fields[field] = decoded(held.value, key, self._types)
                found.append(held)
            for shard in versions:
                if shard in self._kept:
                    self._kept.move_to_end(shard)
        return versions, found, assumed

    def told(
        self,
        shard: Shard,
        version: str,
        fields: Mapping[str, str],
        *,
        whole: bool,
        asked: Iterable[str],
    ) -> None:
        """The store said that *shard* is otherwise: these are all its *fields*, or those *asked* for."""
        known: dict[str, Any] = {} if whole else dict.fromkeys(asked)
        known |= {field: Raw(value) for field, value in fields.items()}
        with self._lock:
            copy = self._kept.get(shard)
            if copy is not None and copy.version == version and not whole:
                copy.fields |= known
                return
            self._kept[shard] = Copy(version, whole, known)
            self._trim()

    def wrote(self, shard: Shard, was: str, version: str, states: Mapping[str, Any]) -> None:
        """*states* were written over the version *was*."""
        with self._lock:
            copy = self._kept.get(shard)
            if copy is None and was == "":
                copy = self._kept[shard] = Copy(fields={})
                self._trim()
            if copy is None:
                return
            if copy.version != was:
                # Another thread wrote in between; who knows in which order.
                del self._kept[shard]
                return
            copy.version = version
            copy.fields.update(states)

    def forget(self, *shards: Shard) -> None:
        """Nothing is known of *shards* any more."""
        with self._lock:
            for shard in shards:
                self._kept.pop(shard, None)

    def clear(self) -> None:
        """Nothing is known of any shard."""
        with self._lock:
            self._kept.clear()

    def _trim(self) -> None:
        while len(self._kept) > REMEMBERED:
            self._kept.popitem(last=False)
