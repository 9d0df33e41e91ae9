"""What a call and a result are known by: 16 hex characters that are equal for equal values.

Canonical JSON comes in three steps that give the same bytes: orjson alone for most values; orjson
after the plain values it writes otherwise were mended (`1.0`, NaN, decomposed letters); a walk in
Python, without recursion, for everything else.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection
from functools import lru_cache
from hashlib import sha256
from json import dumps, loads
from typing import Any, Final, TypeGuard
from unicodedata import is_normalized, normalize

import orjson
from msgspec import DecodeError
from msgspec.json import Decoder

from lastcall.mask import masked
from lastcall.scalars import SCALARS, Unparsed, text
from lastcall.walk import fields, walked

__all__ = [
    "arguments",
    "canonical",
    "digest",
    "encoded",
    "exact",
    "key_of",
    "keyed",
    "loose",
    "masked_digest",
]

SHORTEST_KEY: Final = 16
"""Bytes of a key of fingerprints."""

_MAX_DEPTH: Final = 100
# Some versions write 1e16 without the sign; every "e" is a suspect then.
_BIG: Final = b"e+" if b"e+" in orjson.dumps(1e16) else b"e"
# msgspec, because orjson reads a whole number of more than 64 bits as a float.
_read: Final = Decoder().decode


class _OddError(Exception):
    """A value that orjson cannot write as wanted."""


def _refuse(value: object) -> object:
    raise _OddError(type(value))


_OPTIONS: Final = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_KEPT: Final[frozenset[type]] = frozenset((int, bool, type(None)))
_KEPT_IF_ASCII: Final[frozenset[type]] = _KEPT | {str}


def canonical(value: object) -> bytes:
    """JSON that is equal for equal values, whatever they are; never raises, never skips one."""
    try:
        data = orjson.dumps(value, _refuse, _OPTIONS)
        ascii_only = data.isascii()
        # The traps, cheapest first; false alarms cost time alone.
        if not (
            (b".0" in data and _has_whole_float(data))
            or b"null" in data
            or _BIG in data
            or not (ascii_only or is_normalized("NFC", data.decode()))
        ):
            return data
        kept = _KEPT_IF_ASCII if ascii_only else _KEPT
        return orjson.dumps(_mended(value, kept), _refuse, _OPTIONS)
    except Exception:
        return walked(value)


def _has_whole_float(data: bytes) -> bool:
    return b".0," in data or b".0}" in data or b".0]" in data or data.endswith(b".0")


def exact(name: str, args: object, volatile: Collection[str] = ()) -> str:
    """The fingerprint of a call: its tool and its arguments, but for the *volatile* ones."""
    given = args if type(args) is dict and not volatile else arguments(args, volatile)
    return sha256(canonical({"args": given, "name": name})).hexdigest()[:16]


def loose(name: str, args: object, volatile: Collection[str] = (), *, strict: bool = False) -> str:
    """A fingerprint that forgives form: names, case, blanks, the order of lists, request ids.

    *strict* (a write) forgives names alone.
    """
    given = args if type(args) is dict and not volatile else arguments(args, volatile)
    data = None if strict else _plain_shape(given)
    if data is None:
        data = _any_shape(given, _strict_shape if strict else _loose_shape)
    return sha256(data + b"\0" + text(name)).hexdigest()[:16]


def keyed(print_: str, key: bytes | None) -> str:
    """A fingerprint or digest for eyes that are to guess nothing by it: arguments are often few enough to be
    tried one by one. HMAC-SHA-256 of it (RFC 2104), 16 hex characters; equal ones stay equal under one *key*.
    None: as it is."""
    return print_ if key is None else hmac.digest(key, print_.encode(), "sha256").hex()[:16]


def key_of(key: bytes | None) -> bytes | None:
    """*key*, where it is one. Raises TypeError for text, and ValueError for one that is easily guessed."""
    if not isinstance(key, bytes | None):
        raise TypeError(f"fingerprint_key is bytes, not {type(key).__name__}")
    if key is not None and len(key) < SHORTEST_KEY:
        raise ValueError(
            f"fingerprint_key has at least {SHORTEST_KEY} bytes, like secrets.token_bytes(32)"
        )
    return key


def encoded(content: object) -> str | bytes:
    """A result as its digests see it: text as it is, everything else as canonical JSON."""
    return str.__str__(content) if _is_text(content) else canonical(content)


def digest(data: str | bytes) -> str:
    """16 hex characters of what `encoded` gave."""
    if isinstance(data, str):
        # An opening quote alone: no canonical JSON of a structure begins with one.
        data = b'"' + str.encode(data, "utf-8", "surrogatepass")
    return sha256(data).hexdigest()[:16]


def masked_digest(data: str | bytes) -> str:
    """The same without what changes by itself; `digest` where there is nothing such."""
    return digest(masked(data) if isinstance(data, str) else masked(data.decode()).encode())


def _is_text(value: object) -> TypeGuard[str]:
    # Asking the type, since isinstance asks the value for its class, which may raise.
    return issubclass(type(value), str)


def _mended(value: object, kept: frozenset[type]) -> object:
    """A copy that orjson writes canonically; refuses what it cannot know to be plain."""
    if type(value) in kept:
        return value
    if type(value) is str:
        return value if value.isascii() else normalize("NFC", value)
    if type(value) is float and value - value == 0:
        return int(value) if value.is_integer() else value
    if type(value) is dict:
        made = {
            name if name.isascii() else normalize("NFC", name): item
            if type(item) in kept
            else _mended(item, kept)
            for name, item in value.items()
        }
        # Fewer, if two names differed in their Unicode form alone.
        return made if len(made) == len(value) else _refuse(value)
    if type(value) is list or type(value) is tuple:
        return [_mended(item, kept) for item in value]
    return _refuse(value)


def arguments(args: object, volatile: Collection[str]) -> object:
    """The arguments that tell calls apart. No arguments are `{}`, however a framework says so."""
    if _is_text(args):
        args = _parsed(str.__str__(args))
    if args is None:
        return {}
    if not volatile:
        return args
    named = args if type(args) is dict else fields(args)
    if named is None:
        return args
    return {
        name: value for name, value in named.items() if not (_is_text(name) and name in volatile)
    }


def _parsed(args: str) -> object:
    """The value of JSON text; other text stays apart from every value."""
    try:
        return _read(args)
    except (DecodeError, ValueError, RecursionError):
        pass
    if not args or args.isspace():
        return None
    try:
        # Knows NaN and lone surrogates, which models do write.
        return loads(args)
    except (ValueError, RecursionError):
        return Unparsed(args)


# --- near repeats ---------------------------------------------------------------------------------

_Shape = Callable[[object, int], bytes]

_FRESH: Final = frozenset(
    ("requestid", "reqid", "traceid", "traceparent", "correlationid", "nonce")
)
_LONGEST_FRESH: Final = 24
_KIND_OF_JSON: Final = bytes.maketrans(b"-123456789f", b"0000000000t")


class _Tag:
    """A value that canonical JSON had to describe; its words are not folded."""

    __slots__ = ("data",)

    def __init__(self, data: object) -> None:
        self.data = data


_NAMES: Final = frozenset((str,))


def _tagged(pairs: list[tuple[str, object]]) -> object:
    made = dict(pairs)
    return _Tag(made) if [name for name, _ in pairs] == ["type", "is"] else made


def _untagged(value: object) -> object:
    return value.data if type(value) is _Tag else _refuse(value)


@lru_cache(maxsize=1024)
def _is_fresh(name: str) -> bool:
    """Whether the name says that its value is made anew for each request."""
    plain = name.replace("_", "").replace("-", "").lower()
    return plain in _FRESH or plain.removeprefix("x") in _FRESH


def _any_shape(args: object, shape: _Shape) -> bytes:
    """The shape of the arguments; of their canonical JSON where they are not plain values."""
    if type(args) is Unparsed:
        return b"unparsed" + (text(args.text) if shape is _strict_shape else _folded(args.text))
    try:
        return shape(args, 0)
    except _OddError:
        pass
    data = canonical(args)
    try:
        return shape(loads(data, object_pairs_hook=_tagged), 0)
    except (_OddError, ValueError, RecursionError):
        return data


def _folded(value: str) -> bytes:
    if value.isascii():
        return orjson.dumps(" ".join(value.lower().split()))
    # Folding case can undo the normal form, hence twice.
    value = normalize("NFKC", normalize("NFKC", value).casefold())
    return text(" ".join(value.split()))


def _items(value: object, depth: int) -> dict[str, object] | list[object]:
    """What is inside a plain dict or list; refuses everything else, and cycles by their depth."""
    if depth > _MAX_DEPTH:
        raise _OddError
    if type(value) is dict:
        if _NAMES.issuperset(map(type, value)):
            return value
    elif type(value) is list:
        return value
    elif type(value) is tuple:
        return list(value)
    raise _OddError


def _quoted(value: _Tag) -> bytes:
    return dumps(value.data, default=_untagged, separators=(",", ":")).encode()


_STRICT: Final[dict[type, Callable[[Any], bytes]]] = {**SCALARS, _Tag: _quoted}
_LOOSE: Final[dict[type, Callable[[Any], bytes]]] = {**_STRICT, str: _folded}


def _plain_shape(args: object) -> bytes | None:
    """The loose shape of what nearly all arguments are: a dict of scalars under short names, none of them
    fresh. None: they are something else."""
    if type(args) is not dict or not args or not _NAMES.issuperset(map(type, args)):
        return None
    if max(map(len, args)) > _LONGEST_FRESH or any(map(_is_fresh, args)):
        return None
    try:
        parts = [_LOOSE[type(item)](item) for item in args.values()]
    except KeyError:
        return None
    parts.sort()
    return b"{" + b",".join(parts) + b"}"


def _loose_shape(value: object, depth: int) -> bytes:
    """Values alone, in a form that hides case, blanks and the order of scalars."""
    write = _LOOSE.get(type(value))
    if write is not None:
        return write(value)
    items = _items(value, depth)
    if type(items) is dict:
        parts = [
            _loose_shape(item, depth + 1)
            for name, item in items.items()
            if len(name) > _LONGEST_FRESH or not _is_fresh(name)
        ]
        parts.sort()
        return b"{" + b",".join(parts) + b"}"
    parts = [_loose_shape(item, depth + 1) for item in items]
    if _LOOSE.keys() >= set(map(type, items)):
        parts.sort()
    return b"[" + b",".join(parts) + b"]"


def _strict_shape(value: object, depth: int) -> bytes:
    """Values alone, each exactly as it is.

    Where two values of one kind could have changed places (`source`, `target`), they stay in the
    order of their names: a transfer back is another write.
    """
    write = _STRICT.get(type(value))
    if write is not None:
        return write(value)
    items = _items(value, depth)
    if type(items) is dict:
        named = sorted(
            (name if name.isascii() else normalize("NFC", name), _strict_shape(item, depth + 1))
            for name, item in items.items()
        )
        parts = [part for _, part in named]
        if len({part[:1].translate(_KIND_OF_JSON) for part in parts}) == len(parts):
            parts.sort()
        return b"{" + b",".join(parts) + b"}"
    return b"[" + b",".join([_strict_shape(item, depth + 1) for item in items]) + b"]"
