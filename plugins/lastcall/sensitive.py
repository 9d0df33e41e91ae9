"""What is not for everybody's eyes: secrets by what they look like, and by the name they go under.

Every expression is linear: what repeats is possessive, or bounded, or starts where nothing of it can have
started before.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection
from functools import lru_cache
from typing import Final

__all__ = [
    "ADDRESSES",
    "CARD",
    "ESCAPED",
    "LINE",
    "MARK",
    "NAMED",
    "SCHEME",
    "SHAPED",
    "USERINFO",
    "VALUE",
    "WORDS",
    "address",
    "basic",
    "card",
    "kind_of",
    "naming",
    "shaped",
]

WORDS: Final = re.compile(r"[A-Z]?[^\W\d_A-Z]++|[A-Z]++(?![a-z])|[A-Z]|[0-9]++").findall
"""The words of a name in camel, snake or kebab case."""

MARK: Final = re.compile(r"\[redacted:[a-z0-9-]{1,40}:[0-9a-f]{12}\]")
"""What stands in the place of a secret: its kind, and a keyed hash of it."""

_NAMES: Final = {
    "password": r"pass(?:word|wd|phrase|code)s?|(?<=[_.-])pwd",
    "private-key": r"(?:private|signing|encryption|account|master|subscription)[ _.-]?keys?",
    "api-key": r"api[ _.-]?(?:key|token|secret)s?|access[ _.-]?key(?:[ _.-]?id)?",
    "secret": r"secrets?(?:[ _.-]?(?:access[ _.-]?)?key)?|connection[ _.-]?string",
    "token": r"(?:access|refresh|auth|bearer|session|csrf)[ _.-]?tokens|token",
    "authorization": r"authorization",
    "cookie": r"cookies?",
    "credential": r"credentials?",
    "card": r"card[ _.-]?(?:number|no)|(?<![A-Za-z])(?:cvv|cvc)2?",
    "pin": r"(?<![A-Za-z])(?:pin|otp|ssn)",
}
"""How names of fields end, by what they hold; names in camel, snake and kebab case."""

_NAME: Final = "|".join(f"(?P<{kind.replace('-', '_')}>{ends})" for kind, ends in _NAMES.items())
_ENDS: Final = (
    # Sorted by their first letter, which is looked for first: most places fail there.
    r"(?<=[Pp])(?i:ass(?:word|wd|phrase|code)s?|wd|in)|(?<=[Kk])(?i:eys?)|(?<=[Ss])(?i:ecrets?|tring|sn)"
    r"|(?<=[Tt])(?i:okens?)|(?<=[Aa])(?i:uthorization)|(?<=[Cc])(?i:ookies?2?|redentials?|v[vc]2?)"
    r"|(?<=[Nn])(?i:umber)|(?<=[Oo])(?i:tp)"
)
"""The last words of these names, without their first letters; `kind_of` looks at the whole name then."""

_named: Final = re.compile(rf"(?i:{_NAME})\Z").search

_no_secret: Final = re.compile(
    # Tokens of pages, of languages and of parsers; counted tokens are `tokens`, which is no name above.
    r"(?:(?i:page|next|previous|continuation|continue|sync|cursor|cancellation|expected)"
    r"|(?<![A-Za-z])(?i:prev|[bep]os|pad|unk|sep|cls|mask|stop|max|min|per))[ _.-]?\Z"
).search

_KEYS: Final = (
    # OpenAI, Anthropic, OpenRouter, DeepSeek; a digit tells a key from the name of a package.
    r"sk-(?=[A-Za-z_-]{0,80}+[0-9])[A-Za-z0-9_-]{16,}+"
    r"|(?:[sr]k|pk)_(?:live|test)_[A-Za-z0-9]{10,}+|whsec_[A-Za-z0-9+/=]{16,}+"
    r"|gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_[A-Za-z0-9_]{20,}+|glpat-[A-Za-z0-9_-]{16,}+"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"
    r"|xox[a-z]-[A-Za-z0-9-]{10,}+|xapp-[A-Za-z0-9-]{10,}+"
    r"|AIza[A-Za-z0-9_-]{30,}+|ya29\.[A-Za-z0-9_-]{20,}+"
    r"|(?:hf|gsk|npm|lsv2_[a-z]{2}|r8|dop_v1|shp[a-z]{2})_(?=[A-Za-z_]{0,80}+[0-9])[A-Za-z0-9_]{20,}+"
    r"|(?:xai|pplx|pypi)-(?=[A-Za-z_-]{0,80}+[0-9])[A-Za-z0-9_-]{20,}+"
    r"|SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"
)
_JWT: Final = r"eyJ[A-Za-z0-9_-]{6,}+\.[A-Za-z0-9_-]{6,}+(?:\.[A-Za-z0-9_-]*+)?"
_PEM: Final = (
    # Without its end, which somebody cut off, all that follows is taken for the key.
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z0-9 ]{0,20}-----"
    r"[^-]*+(?:-(?!----END )[^-]*+)*+(?:-----END [A-Z0-9 ]{0,60}-----)?+"
)

NAMED: Final = re.compile(
    # Of everything below, the first letter: the search for one of a set is what is fast.
    r"[\[\-PpKkSsTtAaCcNnOo](?:"
    r"(?P<mark>(?<=\[)redacted:[a-z0-9-]{1,40}:[0-9a-f]{12}\])"
    # name=, name: , "name": ", \"name\": \", <name>
    rf"|(?P<name>{_ENDS})(?P<after>\\{{0,8}}[\"']?+)(?:[ \t]{{0,8}}(?:=>|[:=])[ \t\r\n]{{0,8}}|>)"
    # --db-password value
    rf"|(?<=-)(?P<flag>-(?:[a-z]{{1,16}}-){{0,2}}[a-z](?:{_ENDS}))[ \t]{{1,4}}(?!-))"
)
"""Names that may be those of secrets, up to where their values begin, and marks, which stay. What a match
begins with is in no group."""

PAIRED: Final = re.compile(
    r'(?P<before>"(?:name|key)"\s{0,9}:\s{0,9}"(?P<name>[^"\\]{1,80})"\s{0,9},\s{0,9}"value"\s{0,9}:\s{0,9}")'
    r'(?P<secret>(?:[^"\\]|\\.)*+)"',
    re.DOTALL,
)
"""A header, a parameter or a variable as JSON, kept as its name and its value."""


def naming(ends: Collection[str]) -> re.Pattern[str]:
    """What `NAMED` is, for names that end in the words of *ends*."""
    words = "|".join("[ _.-]?".join(map(re.escape, WORDS(each))) for each in ends)
    return re.compile(
        rf"(?P<mark>{MARK.pattern})|(?P<name>(?i:{words}))(?P<after>\\{{0,8}}[\"']?+)"
        r"(?:[ \t]{0,8}(?:=>|[:=])[ \t\r\n]{0,8}|>)|(?P<flag>(?!))"
    )


LINE: Final = re.compile(r"Digest [^\r\n]++|[^\s\"'\\\[{][^\r\n\"'\\]*+")
"""The value of a header: it ends with its line, or with the string that it is in."""

VALUE: Final = re.compile(
    r"\"(?P<double>(?:[^\"\\]|\\.)*+)\"|'(?P<single>(?:[^'\\]|\\.)*+)'"
    # A string in a string, or one that was cut off.
    r"|(?P<quote>\\{0,8}[\"'])(?:(?<=\\.)(?P<held>.*?)(?<!\\)(?P=quote)|(?P<cut>[^\r\n]*+))"
    r"|(?P<bare>[^\s\"'<>(){}\[\],;&|\\]++)",
    re.DOTALL,
)
"""Any other value: quoted, or quoted and cut off, or a word."""

_START: Final = (
    # Behind the escapes of JSON and of URLs, and behind a colour, a word begins.
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbfv])|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2})"
    r"|(?<=%[0-9A-Fa-f]{2})|(?<=[0-9]m))"
)

ESCAPED: Final = re.compile(r"[nrtbfv]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}").match
"""What belongs to a backslash before it."""

SHAPED: Final = re.compile(
    rf"{MARK.pattern}"
    rf"|(?P<pem>{_PEM})"
    rf"|{_START}(?:(?P<jwt>{_JWT})|(?P<key>{_KEYS})"
    r"|(?P<scheme>(?i:bearer)[ \t]{1,4})(?P<bearer>(?=[A-Za-z._~+/=-]{0,80}+[0-9])[A-Za-z0-9._~+/=-]{8,}+)"
    r"|(?P<way>(?i:basic)[ \t]{1,4})(?P<basic>[A-Za-z0-9+/=_-]{6,}+))"
)
"""Secrets that look like some, and marks, which stay."""

_BRIEF: Final = 100
"""Characters up to which the search itself is as fast."""

_HINTS: Final = (
    "-----BEGIN", "eyJ", "sk-", "_live_", "_test_", "whsec_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "_pat_",
    "glpat-", "AKIA", "ASIA", "xox", "xapp-", "AIza", "ya29.", "hf_", "gsk_", "npm_", "lsv2_", "r8_", "dop_v1_",
    "shp", "xai-", "pplx-", "pypi-", "SG.", "earer ", "EARER ", "asic ", "ASIC ", "earer\t", "asic\t",
)  # fmt: skip


USERINFO: Final = re.compile(r"(?<=://)([^\s/?#:@\"'\[]*+:)([^\s/?#@\"'\[]++)(?=@)")
"""`user:` and the password, in a URL."""

ADDRESSES: Final = re.compile(r"(?<![\w.%+@-])[\w.%+-]++(?:@[\w.%+-]++)++")
"""Whatever may be an e-mail address, or several that stand close together, or neither."""

_address: Final = re.compile(r"\w@(?:[\w-]++\.)++[A-Za-z]{2}").search
_without_ending: Final = re.compile(
    r"(?:\.(?:csv|db|gz|har|html|jsonl?|log|ndjson|sqlite3?|svg|toml|txt|ya?ml|zst)){1,4}\Z",
    re.IGNORECASE,
).sub

CARD: Final = re.compile(
    r"[2-6](?:(?<![0-9A-Za-z_.].)|(?<=\\[nrt].)|(?<=[0-9]m.))[0-9]{3}(?:"
    r"[0-9]{10,15}|(?P<four>[ -])[0-9]{4}(?P=four)[0-9]{4}(?P=four)[0-9]{4}"
    r"|(?P<six>[ -])[0-9]{6}(?P=six)[0-9]{4,5})(?![0-9A-Za-z_])"
)
"""What is grouped like the number of a card, if it is one."""

SCHEME: Final = re.compile(r"(?P<scheme>(?i:bearer|basic|token)[ \t]{1,4})(?P<rest>\S++)\Z")
"""How an Authorization header begins that holds one secret."""

_BRANDS: Final = re.compile(
    r"(?:4[0-9]{15}|(?:5[1-5]|2[2-7])[0-9]{14}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|6[0-9]{15,18}|35[0-9]{14})\Z"
)
_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def address(word: str) -> bool:
    """Whether it is one. A version, `name@1.2.3`, is none; nor is a file, `name@20260102.jsonl`."""
    return _address(_without_ending("", word)) is not None


@lru_cache(maxsize=4096)
def kind_of(name: str) -> str | None:
    """What a field of that *name* holds, if it is a secret."""
    found = _named(name[-80:])
    if found is None or (found.lastgroup == "token" and _no_secret(name[-80:], 0, found.start())):
        return None
    return (found.lastgroup or "").replace("_", "-")


def shaped(text: str) -> bool:
    """Whether a search for `SHAPED` may find anything in *text*; much faster than the search."""
    if len(text) < _BRIEF:
        return True
    for hint in _HINTS:  # noqa: SIM110 - twice as fast as `any`
        if hint in text:
            return True
    return False


def basic(word: str) -> bool:
    """Whether *word* is a user and a password as RFC 7617 writes them, and not just a word."""
    try:
        return b":" in b64decode(word + "=" * (-len(word) % 4), validate=True)
    except ValueError:
        return False


def card(number: str) -> bool:
    """Whether it is of a known brand's length and its check digit is right (ISO/IEC 7812-1, annex B)."""
    if _BRANDS.match(number) is None:
        return False
    digits = [int(each) for each in reversed(number)]
    return (sum(digits[::2]) + sum(_DOUBLED[each] for each in digits[1::2])) % 10 == 0
