"""Text from outside, made fit to be shown: nothing in it hides, turns the line round, or is half a character."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["cut", "one_line", "visible"]

_hidden: Final = re.compile(
    # Controls but for tab and line end; marks of direction; what has no width; halves of a pair; tags.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufff9-\uffff"
    "\U000e0000-\U000e007f]"
).sub


def visible(text: str) -> str:
    """*text* with every character that hides written by its number, as JSON writes it; Windows' line ends are
    plain ones. JSON stays JSON of the same value."""
    if text.isascii() and text.isprintable():
        return text
    return _hidden(_number, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """*text* for one line of a terminal, to which it is text and nothing else."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def cut(text: str, most: int) -> str:
    """*text*, its end left out where it is longer than *most* characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _number(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
