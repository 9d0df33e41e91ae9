"""What a field of a saved run holds, whatever JSON it turns out to be."""

from __future__ import annotations

import ast
import json
import math
from datetime import UTC, datetime
from typing import Any

import msgspec

NAMELESS = "?"
"""Stands for a tool whose name is missing from the transcript."""


UNTOLD = "[not told]"
"""Stands for arguments that a transcript does not tell."""

CALLBACK = frozenset({"input_str", "tags", "metadata", "kwargs", "inputs"})
"""What LangChain's callback is told of the beginning of a tool."""

DECODER = msgspec.json.Decoder()

VAST = 16 * 1024 * 1024
MANY = 8_000_000
"""The most lists and objects in one value of more than VAST bytes: each takes far more room in
memory than the two characters that it may be written with."""

STATUSES = range(100, 600)
"""What an HTTP status may be."""


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; none in anything else."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def mapping(value: Any) -> dict[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def parted(content: str) -> list[str]:
    """The lines of a text. `str.splitlines` ends one at a form feed and at the line separators of Unicode, too, which
    may be inside of JSON."""
    return content.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def text(value: Any) -> str | None:
    """A name or an id: text that is not empty, or a whole number as text."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def seconds(value: Any) -> float | None:
    """A point in time as seconds since 1970, from a number or from ISO 8601 text (no zone: UTC)."""
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit()) or len(value) not in range(10, 20):
            return _instant(value)
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    # Counted in milli-, micro- or nanoseconds when it would lie thousands of years ahead.
    for unit in (1, 1_000, 1_000_000, 1_000_000_000):
        if abs(value) < 100_000_000_000 * unit:
            return value / unit
    return None


def _instant(value: str) -> float | None:
    try:
        instant = datetime.fromisoformat(value)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def http(value: Any) -> int | None:
    """An HTTP status: a number from 100 to 599, or the text of one; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:4])
    return value if type(value) is int and value in STATUSES else None


def words(content: Any) -> Any:
    """The text of content that consists of text blocks alone; any other content as it is."""
    if not isinstance(content, list) or not content:
        return content
    said = [_block(block) for block in content]
    return "\n".join(map(str, said)) if all(part is not None for part in said) else content


def _block(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return str(block["text"])
    return None


def decoded(value: str | bytes) -> Any:
    """The JSON value in a text. Raises ValueError, also for one nested too deep, or for bytes that
    are not UTF-8."""
    if isinstance(value, bytes) and len(value) > VAST and _parts(value) > MANY:
        raise ValueError(f"more than {MANY} lists and objects in one value")
    try:
        # As exact as the standard library, long whole numbers included, and four times as fast.
        return DECODER.decode(value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    # It takes more (NaN, half a character), and says more of what it does not take.
    try:
        return json.loads(value if isinstance(value, str) else value.decode())
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except RecursionError:
        raise ValueError("nested too deep") from None


def _parts(value: bytes) -> int:
    return value.count(b"[") + value.count(b"{")


def arguments(value: Any) -> tuple[Any, bool]:
    """The arguments of a call, and whether they are malformed: no object, nor the text of one."""
    if isinstance(value, str):
        try:
            given = decoded(value) if value.strip() else None
        except ValueError:
            return value, True
    else:
        given = value
    if given is None:
        return {}, False
    return (given, False) if isinstance(given, dict) else (value, True)


def plain(value: Any) -> Any:
    """A value out of the JSON text that some exports keep it in; any other text as it is."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            return decoded(value)
        except ValueError:
            return value
    return value


def printed(value: Any) -> dict[str, Any] | None:
    """The object in a text, as JSON or as Python prints it; None where it is none."""
    given, broken = arguments(value)
    if not broken:
        return mapping(given)
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return None
    given = literal(value.strip())
    return given if isinstance(given, dict) else None


def literal(value: str) -> Any:
    """The value in a text that Python printed; any other text as it is."""
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return value


def called(value: Any) -> dict[str, Any]:
    """The arguments of a call as tracers keep what went into it: an object, or its text. Some put the whole of
    how the tool was called round them; what is no object comes under `input`."""
    args = printed(value)
    if args is None:
        return {"input": value}
    if "input_str" in args and args.keys() <= CALLBACK:
        inner = args.get("inputs")
        inner = inner if isinstance(inner, dict) else printed(args["input_str"])
        return {"input": args["input_str"]} if inner is None else inner
    if args.keys() == {"args", "kwargs"} and not args["args"]:
        return mapping(args["kwargs"])
    return args


def untold(place: int) -> dict[str, Any]:
    """Arguments that are not told of the call at that *place*: equal to those of no other."""
    return {UNTOLD: place}
