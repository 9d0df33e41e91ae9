"""Attributes as OpenTelemetry writes them to JSON: an object, or a list of keys with values in a wrapping."""

from __future__ import annotations

from typing import Any

from lastcall.transcripts.fields import mapping, objects, text

LONGEST = 20
"""As many characters have no whole number of 64 bits."""

NESTED = 50
"""How deep values may lie in values."""


def attributes(value: Any) -> dict[str, Any]:
    """A new object of the attributes in an object, or in such a list; none in anything else."""
    if isinstance(value, dict):
        return dict(value)
    made: dict[str, Any] = {}
    for pair in objects(value):
        key = pair.get("key")
        if isinstance(key, str):
            made[key] = plain(pair.get("value"))
    return made


def plain(value: Any, depth: int = 0) -> Any:
    """A value out of its wrapping: `{"stringValue": "x"}`."""
    if not isinstance(value, dict) or len(value) != 1 or depth > NESTED:
        return value
    ((kind, inside),) = value.items()
    if kind in ("stringValue", "boolValue", "doubleValue"):
        return inside
    if kind == "intValue":
        # Whole numbers of 64 bits are text in JSON.
        whole = (
            isinstance(inside, str)
            and len(inside) < LONGEST
            and inside.removeprefix("-").isdecimal()
        )
        return int(inside) if whole else inside
    if kind == "arrayValue":
        return [plain(one, depth + 1) for one in objects(mapping(inside).get("values"))]
    if kind == "kvlistValue":
        pairs = [one for one in objects(mapping(inside).get("values")) if text(one.get("key"))]
        return {str(one["key"]): plain(one.get("value"), depth + 1) for one in pairs}
    return value
