"""Takes secrets out of what is logged, recorded or shown; equal secrets stay equal (requirement H6)."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Collection, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, Self
from uuid import UUID

import orjson

from lastcall import sensitive
from lastcall.fingerprint import canonical
from lastcall.sensitive import MARK, kind_of

__all__ = ["VARIABLE", "Redactor"]

VARIABLE: Final = "LASTCALL_REDACTION_KEY"
"""The environment variable with the key, for redactions that are to agree between processes."""

_OWN: Final = os.urandom(32)
_DEEPEST: Final = 64
_LONG: Final = 10**19
"""No card has a longer number, and long ones are slow to write."""
_WORDS: Final = frozenset({"null", "none", "nil", "true", "false", "undefined", "required", ""})
_HARMLESS: Final = (bool, type(None), float, Decimal, datetime, date, time, timedelta, UUID)
_PAIRED: Final = ("name", "key")
"""What the name is called in a pair of a name and a value."""
_SHAPES: Final = {"key": "api-key", "jwt": "jwt", "pem": "private-key"}


class Redactor:
    """Puts `[redacted:KIND:HASH]` in the place of every secret; the hash is HMAC-SHA-256 of it (RFC 2104),
    cut to 48 bits.

    Secrets are found by what they look like (API keys, JSON web tokens, private keys, e-mail addresses,
    numbers of cards, passwords in URLs) and by the name of the field they are in (`password`, `clientSecret`,
    `X-API-Key`, ...). What was redacted stays as it is when it is redacted again. *key*: with the same one,
    equal secrets look equal in other processes too; without one they do in this process. *fields*: further
    names of fields, or ends of names, in any case. *patterns*: further regular expressions by what they find.
    A Redactor does not change, and may be used by many threads at once.

    It is a net, not a proof: a secret that looks like a word, under a name that says nothing, is not found.
    """

    __slots__ = ("_fields", "_key", "_names", "_patterns")

    def __init__(
        self,
        key: bytes | None = None,
        *,
        fields: Collection[str] = (),
        patterns: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(fields, str):
            raise TypeError("fields is a collection of names, not one name")
        self._key = key or _OWN
        self._fields = {_joined(each): _kind(each) for each in fields if _joined(each)}
        self._names = (
            sensitive.naming([each for each in fields if _joined(each)]) if self._fields else None
        )
        self._patterns = tuple(
            (_kind(kind), re.compile(pattern)) for kind, pattern in (patterns or {}).items()
        )

    @classmethod
    def of_environment(cls) -> Self:
        """One with the key of `LASTCALL_REDACTION_KEY`, where that is set."""
        return cls(os.environ.get(VARIABLE, "").encode(errors="surrogateescape") or None)

    def text(self, text: str) -> str:
        """*text* without secrets. Never raises."""
        text = str.__str__(text)
        for kind, pattern in self._patterns:
            text = self._by(pattern, kind, text)
        if "://" in text:
            text = sensitive.USERINFO.sub(self._userinfo, text)
        text = self._under_names(sensitive.NAMED, text)
        if self._names is not None:
            text = self._under_names(self._names, text)
        if '"value"' in text:
            text = sensitive.PAIRED.sub(self._pair, text)
        if sensitive.shaped(text):
            text = sensitive.SHAPED.sub(self._shaped, text)
        if "@" in text:
            text = sensitive.ADDRESSES.sub(self._address, text)
        return self._without_cards(text)

    def value(self, value: Any) -> Any:
        """*value* without secrets, whatever it is made of: dicts and lists as such, other objects as the
        plain values that their fingerprint is of. Never raises, and changes nothing in place."""
        return self._value(value, None, 0)

    def _value(self, value: Any, kind: str | None, depth: int) -> Any:
        """*kind* is what the field holds that it is in."""
        of = type(value)
        if of is str:
            return self.text(value) if kind is None else self._held(kind, value)
        if of is int:
            return self._number(value, kind)
        if of is dict or of is list or of is tuple:
            if depth > _DEEPEST:
                return self._mark("nested", canonical(value).decode(errors="replace"))
            if of is dict:
                paired = self._paired(value) if "value" in value else None
                return {
                    self._name(name): self._value(
                        item,
                        kind or (paired if name == "value" else None) or self._kind_of(name),
                        depth + 1,
                    )
                    for name, item in value.items()
                }
            return [self._value(item, kind, depth + 1) for item in value]
        if of in _HARMLESS:
            return (
                value
                if kind is None or of is bool or value is None
                else self._held(kind, str(value))
            )
        return self._foreign(value, kind, depth)

    def _paired(self, fields: dict[Any, Any]) -> str | None:
        """What the value holds of a header, a parameter or a variable that is kept as its name and its value."""
        named = next((fields[each] for each in _PAIRED if each in fields), None)
        return self._kind_of(named)

    def _foreign(self, value: Any, kind: str | None, depth: int) -> Any:
        """An object that is not plain."""
        of = type(value)
        if issubclass(of, str):
            return self._value(str.__str__(value), kind, depth)
        if issubclass(of, bytes):
            return self._value(bytes.decode(value, errors="replace"), kind, depth)
        data = canonical(value)
        try:
            return self._value(orjson.loads(data), kind, depth + 1)
        except ValueError:
            # Deeper than JSON is read; nobody can say what is in it.
            return self._mark("nested", data.decode(errors="replace"))

    def _number(self, value: int, kind: str | None) -> Any:
        long = not -_LONG < value < _LONG
        if kind is not None:
            return self._held(kind, hex(value) if long else str(value))
        if not long and sensitive.card(str(value)):
            return self._mark("card", str(value))
        return value

    def _name(self, name: Any) -> Any:
        """The name of a field, which may be a secret itself."""
        if type(name) is str:
            return self.text(name)
        if type(name) is int:
            return self._number(name, None)
        return (
            name if type(name) in _HARMLESS else self.text(canonical(name).decode(errors="replace"))
        )

    def _kind_of(self, name: Any) -> str | None:
        if type(name) is not str:
            return None
        if self._fields:
            joined = _joined(name[-80:])
            for ending, kind in self._fields.items():
                if joined.endswith(ending):
                    return kind
        return kind_of(name)

    def _mark(self, kind: str, secret: str) -> str:
        data = secret.encode(errors="surrogatepass")
        return f"[redacted:{kind}:{hmac.digest(self._key, data, 'sha256').hex()[:12]}]"

    def _held(self, kind: str, secret: str) -> str:
        """*secret*, which is known for one by its place."""
        if secret.strip().lower() in _WORDS or MARK.fullmatch(secret):
            return secret
        with_scheme = sensitive.SCHEME.match(secret)
        if with_scheme is not None:
            rest = with_scheme["rest"]
            kept = rest if MARK.fullmatch(rest) else self._mark("credential", rest)
            return with_scheme["scheme"] + kept
        whole = sensitive.SHAPED.fullmatch(secret)
        if whole is not None and whole.lastgroup in _SHAPES:
            # As it would be called elsewhere, so that it is seen to be the same.
            return self._shaped(whole)
        return self._mark(kind, secret)

    def _pair(self, found: re.Match[str]) -> str:
        kind = self._kind_of(found["name"])
        return (
            found[0] if kind is None else f'{found["before"]}{self._held(kind, found["secret"])}"'
        )

    def _under_names(self, names: re.Pattern[str], text: str) -> str:
        """*text* without the values of names that say what they hold."""
        made: list[str] = []
        done = at = 0
        while (found := names.search(text, at)) is not None:
            at = found.end()
            kind = self._named(found)
            if kind is None:
                continue
            header = kind in ("authorization", "cookie") and ":" in text[found.end("name") : at]
            value = (header and sensitive.LINE.match(text, at)) or sensitive.VALUE.match(text, at)
            if value is None:
                continue
            start, end = value.span(value.lastgroup or 0)
            if value.lastgroup is None:
                # Blanks at the end of a line are none of it.
                end = start + len(value[0].rstrip())
            secret = text[start:end]
            held = self._held(kind, secret)
            if value.lastgroup == "bare" and found["after"] and held != secret:
                # JSON stays JSON: a number in it becomes text.
                held = found["after"] + held + found["after"]
            made += (text[done:start], held)
            done, at = end, value.end()
        return "".join((*made, text[done:])) if made else text

    def _named(self, found: re.Match[str]) -> str | None:
        """What a name in text says that it holds."""
        for group in ("name", "flag"):
            end = found.end(group)
            if end >= 0:
                return self._kind_of(found.string[max(0, found.start() - 40) : end])
        return None

    def _shaped(self, found: re.Match[str]) -> str:
        of, whole = found.lastgroup, found[0]
        if of is None:
            return whole
        if of == "basic" and not sensitive.basic(found["basic"]):
            # A word, or a secret of another kind.
            return found["way"] + sensitive.SHAPED.sub(self._shaped, found["basic"])
        kind = _SHAPES.get(of)
        if kind is not None:
            return self._mark(kind, whole)
        secret = found[of]
        return whole[: -len(secret)] + self._mark("credential", secret)

    def _userinfo(self, found: re.Match[str]) -> str:
        return found[1] + self._held("password", found[2])

    def _address(self, found: re.Match[str]) -> str:
        # The end of a sentence is none of it.
        own = found[0].rstrip(".%+-")
        if not sensitive.address(own):
            return found[0]
        before, after = "", found[0][len(own) :]
        if found.string[found.start() - 1 : found.start()] == "\\":
            # In JSON a line may begin with it, which is told by a letter.
            escape = sensitive.ESCAPED(own)
            if escape is not None and sensitive.address(own[escape.end() :]):
                before, own = escape[0], own[escape.end() :]
        return before + self._mark("email", own) + after

    def _without_cards(self, text: str) -> str:
        made: list[str] = []
        done = at = 0
        while (found := sensitive.CARD.search(text, at)) is not None:
            start, end = found.span()
            number = found[0].replace(" ", "").replace("-", "")
            if not sensitive.card(number):
                # The next group may be the first of one.
                at = start + 4
                continue
            mark = self._mark("card", found[0])
            before = text[max(0, start - 8) : start].rstrip()
            if before.endswith('":') and text[end : end + 1] in ("", ",", "}", "]", " ", "\n"):
                # JSON stays JSON.
                mark = f'"{mark}"'
            made += (text[done:start], mark)
            done = at = end
        return "".join((*made, text[done:])) if made else text

    def _by(self, pattern: re.Pattern[str], kind: str, text: str) -> str:
        """*text* without what *pattern* finds between marks."""
        made, at = "", 0
        for mark in MARK.finditer(text):
            made += self._between(pattern, kind, text[at : mark.start()]) + mark[0]
            at = mark.end()
        return made + self._between(pattern, kind, text[at:])

    def _between(self, pattern: re.Pattern[str], kind: str, text: str) -> str:
        return pattern.sub(lambda found: self._mark(kind, found[0]) if found[0] else "", text)


class AsTheyAre(Redactor):
    """Takes nothing out, for who asked for that."""

    __slots__ = ()

    def text(self, text: str) -> str:
        return text

    def value(self, value: Any) -> Any:
        return value


def _joined(name: str) -> str:
    """A name without case, and without what its words are joined by."""
    return "".join(each for each in name.lower() if each.isalnum())


def _kind(name: str) -> str:
    """A name as the kind in a mark."""
    return (
        "-".join(each.lower() for each in sensitive.WORDS(name) if each.isascii())[:40].strip("-")
        or "secret"
    )
