"""Hides in a result what changes by itself: blanks, ids, times, durations, addresses.

What may mean progress stays: counts, percentages, pages, prices, versions, statuses, plain dates.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

__all__ = ["masked"]

_HEAD: Final = 64 * 1024
_TAIL: Final = 4 * 1024

_MARK: Final = "⟨~⟩"
# The mark counts as a letter for what stands beside it, so masking twice changes nothing more.
_BEFORE: Final = r"(?<![0-9A-Za-z⟩])"
_AFTER: Final = r"(?![0-9A-Za-z⟨])"


def _behind(*names: str) -> str:
    """A look-behind for `name=`, `name: `, `"name":` and their kin; blanks are collapsed by then.

    The last letter is looked at first: most names fail there.
    """
    last = "[" + "".join(sorted({name[-1] for name in names})) + "]"
    joints = ("[:= ]", "[:=] ", "[\"']:", "[\"']: ", "[\"']:[\"']")
    ways = (
        f"(?<={last}{joint})(?:" + "|".join(f"(?<={name}{joint})" for name in names) + ")"
        for joint in joints
    )
    return "(?:" + "|".join(ways) + ")"


_DAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_CLOCK: Final = r"\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?"
_ZONE: Final = r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)(?![0-9A-Za-z⟨]))?"

_HEX: Final = (
    r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
    r"|(?=[A-Fa-f]*+[0-9])(?=[0-9]*+[A-Fa-f])[0-9A-Fa-f]{16,}+"
)
_NAMED_DATE: Final = (
    # Wed, 21 Oct 2015 07:28:00 GMT
    rf"{_DAY},? \d\d?[- ]{_MONTH}[- ]\d{{2,4}} {_CLOCK}{_ZONE}"
    # Wed Oct 21 07:28:00 2015, Oct 21 07:28:00
    rf"|(?:{_DAY} )?{_MONTH} \d\d? {_CLOCK}(?: \d{{4}})?{_ZONE}"
)
_DATE: Final = (
    # 2024-05-01T10:00:00.123+02:00, 2024/05/01 10:00
    r"\d{4}(?:-\d\d-|/\d\d/)\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?" + _ZONE
    # 20240501T100000Z
    + r"|\d{8}T\d{6}(?:\.\d{1,9})?" + _ZONE
    # 21 Oct 2015 07:28:00 GMT, 10/Oct/2000:13:55:36 -0700
    + rf"|\d\d?[- /]{_MONTH}[- /]\d{{2,4}}[: ]{_CLOCK}{_ZONE}"
    # 07:28:00.123
    + rf"|(?<!\d:){_CLOCK}{_ZONE}(?!:\d)"
    # Seconds, milli-, micro- and nanoseconds since 1970, under a name that says so
    + r"|(?=\d{10})" + _behind(
        "(?<![A-Za-z])ts", "[tT]ime", "[sS]tamp", "_at", "At", "[cC]reated", "[uU]pdated",
        "[mM]odified", "[eE]xpires", "[eE]poch", "(?<![A-Za-z])iat", "(?<![A-Za-z])exp",
    ) + r"\d{10}(?:\d{3}){0,3}(?:\.\d+)?(?!\.\d)"
)  # fmt: skip

_NUMBER: Final = r"\d++(?:,\d{3})*+(?:\.\d++)?+"
_SMALL: Final = r"(?:[nuµμm]?s|secs?|msecs?|(?:milli|micro|nano)?seconds?)"
_LARGE: Final = r"(?:d|days?|h|hrs?|hours?|m|mins?|minutes?)"
_SPAN: Final = (
    # Minutes and more alone are mostly data; a decade ("1990s") is no duration.
    rf"(?<![\d⟩][.,])(?!(?:1[89]|20)\d0s){_NUMBER} ?+(?=[nuµμmsdh])(?:{_SMALL}"
    rf"|{_LARGE}(?:,? ?\d+ ?{_LARGE}){{0,3}},? ?\d+(?:\.\d+)? ?{_SMALL}"
    r"|h(?:rs?|ours?)?,? ?\d+ ?m(?:ins?|inutes?)?)"
    # What is left of one is progress.
    r"(?! (?:left|remain|to go))"
    "|" + _behind(
        "[eE]lapsed", "[eE]lapsed_s", "[eE]lapsed_seconds", "(?<![A-Za-z])took", "[lL]atency",
        "_ms", "[a-z]Ms", "duration_s", "duration_seconds",
    ) + r"\d++(?:\.\d++)?+(?!\.\d| ?%)"
)  # fmt: skip

# Most positions fail at the look-ahead, at the price of one character.


@cache
def _volatile() -> re.Pattern[str]:
    # Compiled when first needed: a run without repeats never does.
    return re.compile(
        rf"(?=[0-9A-FJMNOSTWa-f]){_BEFORE}(?:"
        rf"(?=[0-9])(?:{_HEX}|0x[0-9A-Fa-f]{{4,}}|{_DATE}|{_SPAN})"
        rf"|(?=[A-Fa-f][0-9A-Fa-f]{{7}})(?:{_HEX})"
        rf"|(?=[JFMASONDTW][a-z]{{2}})(?:{_NAMED_DATE})){_AFTER}"
    )


def masked(text: str) -> str:
    """The text with one mark for all that changes by itself; the middle of a long text stays."""
    if len(text) <= _HEAD + _TAIL:
        return _volatile().sub(_MARK, _collapsed(text))
    head, tail = _collapsed(text[:_HEAD]), _collapsed(text[-_TAIL:])
    return _volatile().sub(_MARK, head) + text[_HEAD:-_TAIL] + _volatile().sub(_MARK, tail)


def _collapsed(text: str) -> str:
    """Blanks between words as one, those between the tokens of JSON as none.

    Done by str methods: a branch for blanks in the expression would cost five times as much.
    """
    if "\\" in text:
        # JSON within the text: its escaped line ends are blanks too.
        text = text.replace("\\n", " ").replace("\\r", " ").replace("\\t", " ")
    text = " ".join(text.split())
    if "{" in text or "[" in text:
        for wide, narrow in _JSON_BLANKS:
            text = text.replace(wide, narrow)
    return text


_JSON_BLANKS: Final = (
    ('" :', '":'), ('": ', '":'), (" ,", ","), (', "', ',"'), (", {", ",{"), (", [", ",["),
    ("{ ", "{"), (" }", "}"), ("[ ", "["), (" ]", "]"),
)  # fmt: skip
