"""A record as text outside the process: a version, a blank and JSON, so that an operator can read it.

Fields have their names and those with a default may be missing: a newer version reads what an older
one wrote. What cannot be read raises; it is never an empty record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from lastcall.contracts import Key, Shard
from lastcall.stores.trouble import UnreadableRecordError

VERSION = "1 "
"""What every value begins with. It goes up when a record changes so that defaults do not bridge it."""

COUNTER = "counter"
"""In place of a type: what the store itself keeps for a tally, a count or leases."""


@lru_cache(1024)
def shard_text(shard: Shard) -> str:
    """`run:r1`; of a shard without an id its kind alone."""
    kind, of = shard
    return kind if of is None else f"{kind}:{clean(str(of))}"


def shard_of(text: str) -> Shard:
    """The shard that `shard_text` wrote."""
    kind, colon, of = text.partition(":")
    return (kind, of if colon else None)


def field_text(key: Key) -> str:
    """A record's name within its shard: `turn`, or `failing ["t1","91b5..."]`."""
    return name_of(*key[1:])


@lru_cache(8192)
def name_of(rule: str, *rest: Any) -> str:
    """The same, worked out once: a decision has a dozen keys, of which most were seen a moment ago."""
    if not rest:
        return rule
    return f"{rule} {written(rest[0] if len(rest) == 1 else rest, (None, rule))}"


def key_of(shard: Shard, field: str) -> Key:
    """The key whose name is *field* in *shard*. Raises UnreadableRecordError."""
    rule, blank, rest = field.partition(" ")
    if not blank:
        return (shard, rule)
    try:
        return (shard, rule, hashable(json.loads(rest)))
    except ValueError as error:
        raise UnreadableRecordError(f"{field!r} in {shard!r} names no record: {error}") from None


def encoded(state: Any, key: Key) -> str:
    """*state* as a value. Raises TypeError, naming the rule, for a state that JSON cannot hold."""
    return VERSION + written(state, key)


def decoded(value: str, key: Key, types: Mapping[str, Any]) -> Any:
    """The state that `encoded` wrote, in the type that *types* has for its rule. Raises
    UnreadableRecordError."""
    body = body_of(value, key)
    kind = types.get(key[1], Any)
    plain = Any if kind == COUNTER else kind
    try:
        try:
            state = msgspec.json.decode(body, type=plain)
        except msgspec.DecodeError:
            # Half a character, which a model may write and a JSON text may hold, escaped.
            state = msgspec.convert(json.loads(body), plain, strict=False)
        return counter(state) if kind == COUNTER else state
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableRecordError(f"{named(key)} cannot be read: {error}") from None


def counter(plain: Any) -> tuple[int, int] | dict[str, float]:
    """A count and its window, or the holders of leases and until when. Raises ValueError."""
    if isinstance(plain, dict):
        return {who: float(until) for who, until in plain.items()}
    window, count = plain
    return (int(window), int(count))


def counter_text(held: Any) -> str:
    """The value of a counter. Times are text: not every reader of JSON keeps all digits of a number."""
    if not isinstance(held, dict):
        window, count = held
        return f"{VERSION}[{window},{count}]"
    return VERSION + json.dumps(
        {who: repr(float(until)) for who, until in held.items()}, separators=(",", ":")
    )


def body_of(value: str, key: Key) -> str:
    """The JSON of a value. Raises UnreadableRecordError."""
    if value.startswith(VERSION):
        return value[len(VERSION) :]
    version, blank, _ = value[:12].partition(" ")
    if blank and version.isdecimal():
        said = (
            f"was written by a newer version of lastcall (format {int(version)}, this one reads 1)"
        )
    else:
        said = "is damaged: it does not begin with a version"
    raise UnreadableRecordError(f"{named(key)} {said}")


def written(value: Any, key: Key) -> str:
    """*value* as JSON. Raises TypeError, naming the rule."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"a record of the rule {key[1]!r} cannot be kept outside this process: {error}"
        ) from None


def clean(text: str) -> str:
    """*text* without half characters, which no database takes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def named(key: Key) -> str:
    """A record's name for people."""
    return f"the record {field_text(key)!r} of {shard_text(key[0])!r}"


def hashable(part: Any) -> Any:
    """JSON's lists as tuples, as they were before they were written."""
    return tuple(map(hashable, part)) if isinstance(part, list) else part
