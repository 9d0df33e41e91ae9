"""The status that a text names: in a phrase of a failure, or as the title of a fetched page."""

# ruff: noqa: PLR2004 - a status is its own best name

from __future__ import annotations

import re
from functools import cache
from http import HTTPStatus

NEAR = 200
"""A phrase begins within as many characters, or it is part of a story."""

_HTML = re.compile(r"[\s\ufeff]*+<(?:!doctype html|html|head|title)\b", re.IGNORECASE)
_HTML_TITLE = re.compile(r"<title[^>]{0,100}>([^<]{0,200})</title", re.IGNORECASE)
_HEADED = re.compile(r"(?:#{1,2}|Title:) +")
_TITLE = re.compile(
    r"(?:(?:HTTP|Error|HTTP Status|HTTP Error) )?([45]\d\d)(?:\s*[-\u2013\u2014:|]\s*|\s+)(\D{2,40})",
    re.IGNORECASE,
)
_LINE = re.compile(r"([45]\d\d) (\D{2,40})")


def _phrases() -> dict[int, tuple[str, ...]]:
    found = {status.value: (status.phrase,) for status in HTTPStatus if status.value >= 400}
    # What nginx and older registries of reason phrases print.
    older = {
        408: ("Request Time-out",),
        413: ("Request Entity Too Large", "Content Too Large", "Payload Too Large"),
        414: ("Request-URI Too Large", "URI Too Long"),
        416: ("Requested Range Not Satisfiable", "Range Not Satisfiable"),
        422: ("Unprocessable Entity", "Unprocessable Content"),
        503: ("Service Temporarily Unavailable",),
        504: ("Gateway Time-out",),
    }
    return {code: (*phrases, *older.get(code, ())) for code, phrases in found.items()}


PHRASES = _phrases()
"""Reason phrases by status (RFC 9110, section 15, and what servers print)."""


_UNITS = (
    r"(?:ms|millis\w*|s|secs?|seconds?|m|mins?|minutes?|h|hours?|days?|weeks?|[kmgt]i?b|bytes?|bits?"
    r"|rows?|records?|items?|tokens?|times?|lines?|chars?|characters?|files?|users?|calls?"
    r"|requests?|results?|entries|points?|px|usd|eur|dollars?|percent)\b"
)
_CODE = rf"([45]\d\d)(?!\w|[.,:]\d|\s*%|\s*{_UNITS})"
_GAP = r"\)?(?:\s*[-\u2013\u2014:]\s*|\s+)"
_NEXT = (
    r"\)?(?=\s*$|\s*[-\u2013\u2014:,;.!(\[{]|\s+(?:client|server|error|page|upstream|http|from|on|for|when"
    r"|while|calling|returned|response|"
    + "|".join(sorted({each.split()[0] for group in PHRASES.values() for each in group}))
    + r")\b)"
)
_REASONS = "|".join(
    rf"{code}(?={_GAP}(?:{'|'.join(map(re.escape, phrases))})\b)"
    for code, phrases in PHRASES.items()
)


@cache
def _phrase() -> re.Pattern[str]:
    # Compiling it takes longer than the rest of an import, and most runs never need it.
    return re.compile(
        "|".join(
            (
                (
                    r"(?<![\w/.-])HTTPS?(?:/[1-3](?:\.\d)?)?(?:[ _-]?(?:status|error|response|code"
                    rf"|client|server|exception)){{0,3}}\s*[:=]?\s*['\"(]?{_CODE}"
                ),
                (
                    r"(?<![a-z0-9])(?<!exit )status(?:[ _-]?code)?['\"]?\s*(?:is|was|of)?\s*[:=]?"
                    rf"\s*['\"(]?{_CODE}"
                ),
                rf"(?<!\w)error[ _-]?code['\"]?\s*(?:is|was)?\s*[:=]?\s*{_CODE}",
                rf"(?<!\w)error\s*[:(]?\s*{_CODE}{_NEXT}",
                rf"error occurred \({_CODE}\)",
                rf"(?<![\w.,/:-]){_CODE}{_GAP}(?:Client|Server) Error\b",
                # "User 404 not found" is about user 404; "404 Not Found" is about the answer.
                rf"(?<![\w.,/-])(?-i:({_REASONS}))",
                rf"^\W{{0,3}}({_REASONS}|404(?= page not found))",
                rf"^\s*{_CODE}, message=",
            )
        ),
        re.IGNORECASE,
    )


def status_in(text: str) -> int | None:
    """The status that a failure's text names in an anchored phrase near its beginning."""
    found = _phrase().search(text, 0, NEAR + 60)
    if found is None or found.start() > NEAR or found.lastindex is None:
        return None
    return int(found[found.lastindex])


def page_status(text: str) -> tuple[int, str] | None:
    """The status line that is all of a fetched page's title, or of its first line (case R153)."""
    if _HTML.match(text):
        title = _HTML_TITLE.search(text, 0, 4096)
        return _status_line(title[1], _TITLE) if title else None
    line = text[:400].lstrip("\ufeff \t\r\n").split("\n", 1)[0]
    headed = _HEADED.match(line)
    return _status_line(line[headed.end() :], _TITLE) if headed else _status_line(line, _LINE)


def _status_line(line: str, shape: re.Pattern[str]) -> tuple[int, str] | None:
    line = line.strip()
    found = shape.fullmatch(line) if len(line) <= 80 else None
    if found is None:
        return None
    status, phrase = int(found[1]), found[2].lower()
    known = any(phrase == each.lower() for each in PHRASES.get(status, ()))
    return (status, line) if known else None


def title_status(title: str) -> tuple[int, str] | None:
    """The status that a page's *title* consists of, with that title stripped."""
    return _status_line(title, _TITLE)
