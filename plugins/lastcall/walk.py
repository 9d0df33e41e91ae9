"""Canonical JSON of values that orjson does not write, or not as wanted: the slow way, for any value.

What JSON has no word for becomes `{"type": ..., "is": ...}`. Nobody can forge that with a dict:
the names of a dict are written in order, and these two are not.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Set, ValuesView
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from os import fspath
from pathlib import PurePath
from re import compile as pattern
from typing import Any, Final
from unicodedata import normalize
from uuid import UUID

import orjson
from msgspec import Struct
from pydantic import BaseModel, RootModel

__all__ = ["OPTIONS", "Unparsed", "fields", "text", "walked"]

OPTIONS: Final = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_MAX_BITS: Final = 2000  # Every float is shorter; Python refuses to write far longer ones.
_MAX_EXPONENT: Final = 600
_MAX_NESTING: Final = 50
_MAX_OBJECTS: Final = 1000
_without_address: Final = pattern(r"\b0x[0-9A-Fa-f]+").sub


class Unparsed:
    """Argument text that is no JSON."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class _Piece(bytes):
    """Finished JSON among values that are still to be written."""

    __slots__ = ()


class _Leave:
    """Says that everything inside *value* is written, and keeps it alive until then."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def walked(value: object) -> bytes:
    """The canonical JSON of any value; a value that cannot be looked into is known by its type."""
    try:
        return _Walk().written(value)
    except Exception:  # noqa: BLE001 - no stack or no memory left
        return _stand_in(type(value))


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


def fields(value: object) -> Mapping[Any, object] | None:
    """What a mapping or a declared record holds, by name, without running its serialiser."""
    kind = type(value)
    try:
        if issubclass(kind, dict):
            return dict(dict.items(value))  # type: ignore[arg-type]
        if issubclass(kind, BaseModel):
            return {**value.__dict__, **(value.__pydantic_extra__ or {})}  # type: ignore[attr-defined]
        if issubclass(kind, Struct):
            return {name: getattr(value, name) for name in kind.__struct_fields__}
        if is_dataclass(kind):
            return {field.name: getattr(value, field.name) for field in dataclass_fields(kind)}
        if issubclass(kind, Mapping):
            return dict(value)  # type: ignore[call-overload,no-any-return]
    except Exception:  # noqa: BLE001 - properties and iterators of foreign objects
        return None
    return None


class _Walk:
    """One value being written, with the containers it is inside of right now."""

    def __init__(self) -> None:
        self.path: dict[int, int] = {}
        self.nesting = 0
        self.objects = 0

    def written(self, value: object) -> bytes:
        """Write without recursion, so that depth does not matter."""
        out: list[bytes] = []
        stack: list[object] = [value]
        while stack:
            item = stack.pop()
            if type(item) is _Piece:
                out.append(item)
            elif type(item) is _Leave:
                del self.path[id(item.value)]
            elif (scalar := _scalar(item)) is not None:
                out.append(scalar)
            else:
                stack.extend(reversed(self.opened(item)))
        return b"".join(out)

    def opened(self, item: object) -> list[object]:
        """The pieces of a value that is no scalar."""
        above = self.path.get(id(item))
        if above is not None:
            return [_tag("cycle", b"%d" % (len(self.path) - above))]
        self.path[id(item)] = len(self.path)
        try:
            parts = self.parts(item)
        except Exception:  # noqa: BLE001 - anything that foreign objects raise
            parts = [_stand_in(type(item))]
        return [*parts, _Leave(item)]

    def parts(self, item: object) -> list[object]:
        kind = type(item)
        if issubclass(kind, Enum):
            return [item.value]  # type: ignore[attr-defined]
        if issubclass(kind, list):
            return _listed(list.__iter__(item))  # type: ignore[arg-type]
        if issubclass(kind, tuple):
            return _listed(tuple.__iter__(item))  # type: ignore[arg-type]
        if issubclass(kind, RootModel):
            return [item.root]  # type: ignore[attr-defined]
        if (named := fields(item)) is not None:
            return self.pairs(named.items())
        if issubclass(kind, (set, frozenset, Set)):
            parts = sorted([self.nested(part) for part in item])  # type: ignore[attr-defined]
            return [_tag("set", b"[" + b",".join(parts) + b"]")]
        if issubclass(kind, ValuesView):
            return _listed(iter(item))  # type: ignore[call-overload]
        known = _known(item, kind)
        return self.foreign(item, kind) if known is None else [known]

    def nested(self, value: object) -> bytes:
        """What must be whole before its neighbours: members of sets, names that are no text."""
        if self.nesting >= _MAX_NESTING:
            return _stand_in(type(value))
        self.nesting += 1
        try:
            return self.written(value)
        finally:
            self.nesting -= 1

    def pairs(self, items: Iterable[tuple[object, object]]) -> list[object]:
        named = [(_name(name), name, value) for name, value in items]
        names = {name for name, _, _ in named}
        if None not in names and len(names) == len(named):
            named.sort(key=lambda entry: entry[0] or "")
            return _joined(b"{", ((text(name or ""), value) for name, _, value in named), b"}")
        keyed = [(self.nested(name), value) for _, name, value in named]
        if len({key for key, _ in keyed}) == len(keyed):
            keyed.sort(key=lambda entry: entry[0])
        else:
            keyed = sorted((key, _Piece(self.nested(value))) for key, value in keyed)
        inside: list[object] = []
        for key, value in keyed:
            inside += (_Piece(b",[" if inside else b"["), _Piece(key), _Piece(b","), value)
            inside.append(_Piece(b"]"))
        return [_Piece(b'{"type":"dict","is":['), *inside, _Piece(b"]}")]

    def foreign(self, item: object, kind: type) -> list[object]:
        """An object nobody declared: its type, and its attributes or its words for itself."""
        if issubclass(kind, Iterator) or hasattr(kind, "__anext__") or hasattr(kind, "__await__"):
            return [_stand_in(kind)]
        if hasattr(kind, "__array__"):
            return [item.__array__().tolist()]  # type: ignore[attr-defined]
        if issubclass(kind, BaseException):
            held: object = item.args  # type: ignore[attr-defined]
        elif isinstance(name := getattr(item, "__qualname__", None), str):
            held = f"{getattr(item, '__module__', '')}.{name}"
        else:
            self.objects += 1
            held = _attributes(item, kind) if self.objects <= _MAX_OBJECTS else None
            if not held and kind.__repr__ is not object.__repr__:
                held = _without_address("", repr(item))
        if not held:
            return [_stand_in(kind)]
        return [_Piece(b'{"type":"object","is":[' + text(_called(kind)) + b","), held, _Piece(b"]}")]


def _scalar(value: object) -> bytes | None:
    kind = type(value)
    if kind is str:
        return text(value)  # type: ignore[arg-type]
    if kind is int:
        return _whole(value)  # type: ignore[arg-type]
    if value is None:
        return b"null"
    if kind is bool:
        return b"true" if value else b"false"
    if kind is float:
        return _real(value)  # type: ignore[arg-type]
    return None


def _known(item: Any, kind: type) -> bytes | None:  # noqa: PLR0911 - one line a type
    """Values of the standard library, subclasses of scalars included."""
    if issubclass(kind, str):
        return _Piece(text(str.__str__(item)))
    if issubclass(kind, int):
        return _Piece(_whole(int.__int__(item)))
    if issubclass(kind, float):
        return _Piece(_real(float.__float__(item)))
    if issubclass(kind, UUID):
        return _Piece(text(str(item)))
    if issubclass(kind, Decimal):
        return _Piece(_decimal(item))
    if issubclass(kind, (bytes, bytearray, memoryview)):
        return _tag("bytes", b'"' + b64encode(bytes(item)) + b'"')
    if issubclass(kind, datetime):
        return _tag("datetime", text(item.isoformat()))
    if issubclass(kind, (date, time)):
        return _tag("date" if issubclass(kind, date) else "time", text(item.isoformat()))
    if issubclass(kind, timedelta):
        return _tag("timedelta", b"%d" % (item // timedelta(microseconds=1)))
    if issubclass(kind, PurePath):
        return _tag("path", text(fspath(item)))
    if kind is Unparsed:
        return _tag("unparsed", text(item.text))
    return None


def _whole(value: int) -> bytes:
    if value.bit_length() > _MAX_BITS:
        return _tag("int", b'"%x"' % value)
    return b"%d" % value


def _real(value: float) -> bytes:
    if value - value != 0:
        return _tag("float", b'"%s"' % repr(value).encode())
    return _whole(int(value)) if value.is_integer() else orjson.dumps(value)


def _decimal(value: Decimal) -> bytes:
    """As the float it equals, if there is one: JSON has one kind of number."""
    if not value.is_finite():
        return _real(float("nan")) if value.is_nan() else _real(float(value))
    if abs(value.adjusted()) > _MAX_EXPONENT:
        return _tag("decimal", text(str(value)))
    if value == (whole := int(value)):
        return _whole(whole)
    if value == Decimal(near := float(value)) or value == Decimal(repr(near)):
        return _real(near)
    return _tag("decimal", text(format(value, "f").rstrip("0")))


def _attributes(item: object, kind: type) -> dict[str, object]:
    """Attributes in `__dict__` and in slots."""
    found = dict(getattr(item, "__dict__", None) or {})
    for parent in kind.__mro__:
        slots = parent.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(item, name):
                found[name] = getattr(item, name)
    return found


def _name(name: object) -> str | None:
    """A dict's key as text; None: it is no text."""
    if type(name) is not str:
        while isinstance(name, Enum):
            name = name.value
        if not issubclass(type(name), str):
            return None
        name = str.__str__(name)
    return name if name.isascii() else normalize("NFC", name)


def _listed(items: Iterable[object]) -> list[object]:
    inside: list[object] = []
    for item in items:
        inside += (_Piece(b",") if inside else _Piece(b"["), item)
    return [*inside, _Piece(b"]")] if inside else [_Piece(b"[]")]


def _joined(
    start: bytes, named: Iterable[tuple[bytes, object]], end: bytes
) -> list[object]:
    inside: list[object] = []
    for name, value in named:
        inside += (_Piece((b"," if inside else start) + name + b":"), value)
    return [*inside, _Piece(end)] if inside else [_Piece(start + end)]


def _tag(kind: str, data: bytes) -> _Piece:
    return _Piece(b'{"type":"%s","is":%s}' % (kind.encode(), data))


def _called(kind: type) -> str:
    """The full name of a type, without asking a metaclass for more than text."""
    try:
        module, name = kind.__module__, kind.__qualname__
    except Exception:  # noqa: BLE001
        return "object"
    return f"{module}.{name}" if type(module) is type(name) is str else "object"


def _stand_in(kind: type) -> _Piece:
    return _tag("object", text(_called(kind)))
