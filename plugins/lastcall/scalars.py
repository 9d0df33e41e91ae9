"""Canonical JSON of single values: text, numbers, and what JSON has no word for.

That becomes `{"type": ..., "is": ...}`. Nobody can forge it with a dict: the names of a dict are
written in order, and these two are not.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from os import fspath
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final
from unicodedata import normalize
from uuid import UUID

import orjson

__all__ = ["SCALARS", "Piece", "Unparsed", "known", "scalar", "tag", "text"]

_MAX_BITS: Final = 2000  # Every float is shorter; Python refuses to write far longer ones.
_MAX_EXPONENT: Final = 600


class Unparsed:
    """Argument text that is no JSON."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Piece(bytes):
    """Finished JSON among values that are still to be written."""

    __slots__ = ()


def text(value: str) -> bytes:
    """A string in normal form C; lone surrogates as escapes, which orjson never writes."""
    if not value.isascii():
        value = normalize("NFC", value)
    try:
        return orjson.dumps(value)
    except TypeError:
        # Two surrogates that make a pair are the character they stand for.
        value = value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        value = normalize("NFC", value)
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


def tag(kind: str, data: bytes) -> Piece:
    """What JSON has no word for; *data* is JSON."""
    return Piece(b'{"type":"%s","is":%s}' % (kind.encode(), data))


def known(item: Any, kind: type) -> Piece | None:
    """Values of the standard library, subclasses of scalars included."""
    if issubclass(kind, str):
        return Piece(text(str.__str__(item)))
    if issubclass(kind, int):
        return Piece(_whole(int.__int__(item)))
    if issubclass(kind, float):
        return Piece(_real(float.__float__(item)))
    if issubclass(kind, UUID):
        return Piece(text(str(item)))
    if issubclass(kind, Decimal):
        return Piece(_decimal(item))
    if issubclass(kind, (bytes, bytearray, memoryview)):
        return tag("bytes", b'"' + b64encode(bytes(item)) + b'"')
    if issubclass(kind, datetime):
        return tag("datetime", text(item.isoformat()))
    if issubclass(kind, (date, time)):
        return tag("date" if issubclass(kind, date) else "time", text(item.isoformat()))
    if issubclass(kind, timedelta):
        return tag("timedelta", b"%d" % (item // timedelta(microseconds=1)))
    if issubclass(kind, PurePath):
        return tag("path", text(fspath(item)))
    if kind is Unparsed:
        return tag("unparsed", text(item.text))
    return None


def _whole(value: int) -> bytes:
    if value.bit_length() > _MAX_BITS:
        return tag("int", b'"%x"' % value)
    return b"%d" % value


def _real(value: float) -> bytes:
    if value - value != 0:
        return tag("float", b'"%s"' % repr(value).encode())
    return _whole(int(value)) if value.is_integer() else orjson.dumps(value)


SCALARS: Final[Mapping[type, Callable[[Any], bytes]]] = MappingProxyType(
    {
        str: text,
        int: _whole,
        float: _real,
        bool: lambda value: b"true" if value else b"false",
        type(None): lambda _: b"null",
    }
)
"""What writes the canonical JSON of plain scalars, by their type."""


def scalar(value: object) -> bytes | None:
    """The canonical JSON of a plain scalar; None: it is something else."""
    write = SCALARS.get(type(value))
    return None if write is None else write(value)


def _decimal(value: Decimal) -> bytes:
    """As the float it equals, if there is one: JSON has one kind of number."""
    if not value.is_finite():
        return _real(float("nan")) if value.is_nan() else _real(float(value))
    if abs(value.adjusted()) > _MAX_EXPONENT:
        return tag("decimal", text(str(value)))
    if value == (whole := int(value)):
        return _whole(whole)
    if value == Decimal(near := float(value)) or value == Decimal(repr(near)):
        return _real(near)
    return tag("decimal", text(format(value, "f").rstrip("0")))
