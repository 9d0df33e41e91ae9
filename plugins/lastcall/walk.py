"""Canonical JSON of what orjson does not write, or not as wanted: the slow way, for any value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from enum import Enum
from re import compile as pattern
from types import ModuleType
from typing import Any, Final
from unicodedata import normalize

from msgspec import Struct
from pydantic import BaseModel

from lastcall.scalars import Piece, known, scalar, tag, text

__all__ = ["fields", "walked"]

_MAX_NESTING: Final = 50
_MAX_OBJECTS: Final = 1000
_without_address: Final = pattern(r"\b0x[0-9A-Fa-f]+").sub


class _Leave:
    """Says that everything inside *value* is written, and keeps it alive until then."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def walked(value: object) -> bytes:
    """The canonical JSON of any value; a value that cannot be looked into is known by its type."""
    try:
        return _Walk().written(value)
    except Exception:
        return _stand_in(type(value))


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
    except Exception:
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
            if type(item) is Piece:
                out.append(item)
            elif type(item) is _Leave:
                del self.path[id(item.value)]
            elif (plain := scalar(item)) is not None:
                out.append(plain)
            else:
                stack.extend(reversed(self.opened(item)))
        return b"".join(out)

    def opened(self, item: object) -> list[object]:
        """The pieces of a value that is no scalar."""
        above = self.path.get(id(item))
        if above is not None:
            return [tag("cycle", b"%d" % (len(self.path) - above))]
        self.path[id(item)] = len(self.path)
        try:
            parts = self.parts(item)
        except Exception:
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
        if issubclass(kind, BaseModel) and kind.__pydantic_root_model__:
            return [item.root]  # type: ignore[attr-defined]
        if (named := fields(item)) is not None:
            return self.pairs(named.items())
        if issubclass(kind, (set, frozenset, AbstractSet)):
            parts = sorted([self.nested(part) for part in item])  # type: ignore[attr-defined]
            return [tag("set", b"[" + b",".join(parts) + b"]")]
        if issubclass(kind, ValuesView):
            return _listed(iter(item))  # type: ignore[call-overload]
        single = known(item, kind)
        return self.foreign(item, kind) if single is None else [single]

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
            keyed = sorted((key, Piece(self.nested(value))) for key, value in keyed)
        inside: list[object] = []
        for key, value in keyed:
            inside += (Piece(b",[" if inside else b"["), Piece(key), Piece(b","), value)
            inside.append(Piece(b"]"))
        return [Piece(b'{"type":"dict","is":['), *inside, Piece(b"]}")]

    def foreign(self, item: object, kind: type) -> list[object]:
        """An object nobody declared: its type, and its attributes or its words for itself."""
        if issubclass(kind, Iterator) or hasattr(kind, "__anext__") or hasattr(kind, "__await__"):
            return [_stand_in(kind)]
        if hasattr(kind, "__array__"):
            return [item.__array__().tolist()]  # type: ignore[attr-defined]
        if issubclass(kind, BaseException):
            held: object = item.args  # type: ignore[attr-defined]
        elif issubclass(kind, ModuleType):
            held = item.__name__  # type: ignore[attr-defined]
        elif isinstance(name := getattr(item, "__qualname__", None), str):
            held = f"{getattr(item, '__module__', '')}.{name}"
        else:
            self.objects += 1
            held = _attributes(item, kind) if self.objects <= _MAX_OBJECTS else None
            if not held and kind.__repr__ is not object.__repr__:
                held = _without_address("", repr(item))
        if not held:
            return [_stand_in(kind)]
        start = b'{"type":"object","is":[' + text(_called(kind)) + b","
        return [Piece(start), held, Piece(b"]}")]


def _attributes(item: object, kind: type) -> dict[str, object]:
    """Attributes in `__dict__` and in slots."""
    found = dict(getattr(item, "__dict__", None) or {})
    for parent in kind.__mro__:
        slots = parent.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(item, name):
                found[name] = getattr(item, name)
    return found


def _name(name: Any) -> str | None:
    """A dict's key as text; None: it is no text."""
    if type(name) is not str:
        while issubclass(type(name), Enum):
            name = name.value
        if not issubclass(type(name), str):
            return None
        name = str.__str__(name)
    text: str = name
    return text if text.isascii() else normalize("NFC", text)


def _listed(items: Iterable[object]) -> list[object]:
    inside: list[object] = []
    for item in items:
        inside += (Piece(b",") if inside else Piece(b"["), item)
    return [*inside, Piece(b"]")] if inside else [Piece(b"[]")]


def _joined(start: bytes, named: Iterable[tuple[bytes, object]], end: bytes) -> list[object]:
    inside: list[object] = []
    for name, value in named:
        inside += (Piece((b"," if inside else start) + name + b":"), value)
    return [*inside, Piece(end)] if inside else [Piece(start + end)]


def _called(kind: type) -> str:
    """The full name of a type, without asking a metaclass for more than text."""
    try:
        module, name = kind.__module__, kind.__qualname__
    except Exception:
        return "object"
    return f"{module}.{name}" if type(module) is type(name) is str else "object"


def _stand_in(kind: type) -> Piece:
    return tag("object", text(_called(kind)))
