"""The HTTP status in whatever a tool returned or raised, and what it means for the next call."""

# ruff: noqa: PLR2004 - a status is its own best name

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, cast

from msgspec.structs import replace

from lastcall.call import Outcome
from lastcall.reading import (
    BODY,
    NOTHING,
    SHORT,
    as_status,
    attribute,
    contained,
    read,
    received,
    tells_nothing,
)
from lastcall.tool import PLAIN, Grade, ToolPolicy
from lastcall.transport import unreached

NO_MAP: Mapping[int, Grade] = MappingProxyType({})
PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
NOT_IMPLEMENTED = frozenset((501, 505))
CALLED_OFF = (KeyboardInterrupt, SystemExit, GeneratorExit)
DEPTH = 8
"""Causes of causes are followed so far."""
WIDTH = 64
"""As many exceptions of one failure are looked at, and as many headers of one answer twice over."""


def returned(
    value: object,
    policy: ToolPolicy = PLAIN,
    *,
    failed: bool | None = None,
    status: int | None = None,
    terminal: Collection[int] = (),
    statuses: Mapping[int, Grade] = NO_MAP,
    now: float | None = None,
) -> Outcome:
    """The outcome of a call that returned *value* (requirement A5). Never raises.

    *failed* is what the channel says (MCP's isError, a message's status): True settles it, False
    is no more than silence, since most channels say it of everything. *status* was known beside
    the answer. *terminal* and *statuses* are the guard's; the tool's own win. *now*: see `retry_after`.
    """
    if not failed and status is None and tells_nothing(value):
        return Outcome("ok", value)
    if issubclass(type(value), BaseException):
        outcome = raised(
            cast("BaseException", value), policy, terminal=terminal, statuses=statuses, now=now
        )
        return replace(outcome, content=value)
    found = contained(
        lambda it: read(it, failed=failed is True, shell=policy.shell), value, otherwise=NOTHING
    )
    known = status if status is not None else found.status
    headers = _headers(found.headers)
    meaning: Grade | None = None
    if known is not None:
        meaning = grade(
            known, policy, terminal=terminal, statuses=statuses, body=found.body, headers=headers
        )
    # A status that the map calls ok also explains the error text that came with it.
    excused = meaning == "ok" and known is not None and known >= 400
    flagged = failed is True or found.flagged
    if not (flagged or (found.failed and not excused) or meaning not in (None, "ok")):
        return Outcome("ok", value, known)
    error = found.text or (None if known is None else f"HTTP {known}")
    return Outcome("error", value, known, _lasting(meaning), error, retry_after(headers, now))


def raised(
    error: BaseException,
    policy: ToolPolicy = PLAIN,
    *,
    terminal: Collection[int] = (),
    statuses: Mapping[int, Grade] = NO_MAP,
    now: float | None = None,
) -> Outcome:
    """The outcome of a call that raised *error* (requirement A5). Never raises.

    The status is the exception's own, its response's, or that of a cause or a group's member; when
    none has any, one that its text names, unless the tool is a shell.
    """
    name = type(error).__name__
    message = contained(str, error, otherwise="")
    content = f"{name}: {message}" if message else name
    if _called_off(error):
        return Outcome("cancelled", content)
    status, holder = next(
        (
            (found, each)
            for each in _chain(error)
            if (found := contained(_carried, each, otherwise=None)) is not None
        ),
        (None, error),
    )
    if status is None and not policy.shell:
        text = contained(lambda it: read(it, failed=True, shell=False), message, otherwise=NOTHING)
        status = text.status
    headers = _headers_of(holder)
    meaning: Grade | None = None
    if status is not None:
        body = f"{message[:BODY]} {_body_of(holder)}" if status == 429 else ""
        meaning = grade(
            status, policy, terminal=terminal, statuses=statuses, body=body, headers=headers
        )
    short = message[:SHORT] or name
    transport = status is None and any(
        contained(unreached, each, otherwise=False) for each in _chain(error)
    )
    wait = retry_after(headers, now)
    return Outcome("error", content, status, _lasting(meaning), short, wait, transport=transport)


def grade(
    status: int,
    policy: ToolPolicy = PLAIN,
    *,
    terminal: Collection[int] = (),
    statuses: Mapping[int, Grade] = NO_MAP,
    body: str = "",
    headers: Mapping[str, str] | None = None,
) -> Grade:
    """What *status* means for repeating the call (RFC 9110, section 15; requirement A4).

    The tool's map wins over its terminal statuses, these over the guard's map and terminal
    statuses, and all of them over what *body* and *headers* tell of a 429 and a 403.
    """
    if status in policy.statuses:
        return policy.statuses[status]
    if status in policy.terminal_statuses:
        return "final"
    if status in statuses:
        return statuses[status]
    if status in terminal:
        return "final"
    if status < 400:
        return "ok"
    if status == 429 and _quota_is_gone(body):
        return "final"
    if status == 403 and _throttled(headers or {}):
        return "passing"
    if status in PASSING:
        return "passing"
    return "final" if status < 500 or status in NOT_IMPLEMENTED else "failed"


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """The seconds that a Retry-After header asks for (RFC 9110, section 10.2.3).

    A date counts from the answer's own Date header, since the server's clock may differ from ours; where
    there is none, from *now* (epoch seconds). *headers* have names in lower case.
    """
    asked = headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdigit():
        return float(asked) if len(asked) <= 300 else None
    until, since = _date(asked), _date(headers.get("date", ""))
    if since is None and now is not None:
        since = datetime.fromtimestamp(now, UTC)
    if until is None or since is None:
        return None
    return max(0.0, (until - since).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _lasting(meaning: Grade | None) -> Literal["final", "passing"] | None:
    return meaning if meaning == "final" or meaning == "passing" else None  # noqa: PLR1714  # narrows


# "per minute" and the like is a rate that comes back, whatever the service calls it.
_QUOTA = re.compile(
    r"insufficient[_ ](?:quota|funds|credits?|balance)|(?:quota|budget)[_ ](?:\w+ ){0,3}?"
    r"(?:exceeded|exhausted|used up)|(?:exceeded|exhausted|used up|out of|over) (?:\w+ ){0,3}?"
    r"(?:quota|budget|credits?)\b|quota_?exceeded|budget_?exceeded|billing[_ ]hard[_ ]limit"
    r"|billing[_ ](?:not[_ ]active|limit)|payment required",
    re.IGNORECASE,
)
_RATE = re.compile(r"per[ _-]?(?:second|minute|hour)", re.IGNORECASE)


def _quota_is_gone(body: str) -> bool:
    return _QUOTA.search(body) is not None and _RATE.search(body) is None


def _throttled(headers: Mapping[str, str]) -> bool:
    named = {name.lower(): value.strip() for name, value in headers.items()}
    if "retry-after" in named:
        return True
    return "0" in (named.get("x-ratelimit-remaining"), named.get("ratelimit-remaining"))


# --- exceptions ----------------------------------------------------------------------------------


def _called_off(error: BaseException, depth: int = DEPTH) -> bool:
    """Cancelled, or a group of nothing but cancellations."""
    members = _members(error)
    if members and depth:
        return all(_called_off(each, depth - 1) for each in members)
    # Where asyncio was never loaded nothing can have been cancelled, and loading it takes a while.
    asyncio = sys.modules.get("asyncio")
    cancelled = asyncio is not None and isinstance(error, asyncio.CancelledError)
    return cancelled or isinstance(error, CALLED_OFF)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, its causes and a group's members, nearest first, each once."""
    level, seen = [error], {id(error)}
    for _ in range(DEPTH + 1):
        yield from level
        behind = {id(each): each for one in level for each in _behind(one)}
        level = [each for key, each in behind.items() if key not in seen][:WIDTH]
        seen.update(behind)


def _behind(error: BaseException) -> Iterator[BaseException]:
    cause = attribute(error, "__cause__")
    if cause is None and not attribute(error, "__suppress_context__"):
        cause = attribute(error, "__context__")
    if isinstance(cause, BaseException):
        yield cause
    yield from _members(error)


def _members(error: BaseException) -> tuple[BaseException, ...]:
    if not isinstance(error, BaseExceptionGroup):
        return ()
    found = attribute(error, "exceptions")
    members = found[:WIDTH] if isinstance(found, tuple) else ()
    return tuple(each for each in members if isinstance(each, BaseException))


def _carried(error: BaseException) -> int | None:
    """The status on one exception: its response's first, since `code` may be anything."""
    response = attribute(error, "response")
    places = [attribute(response, "status_code"), attribute(response, "status")]
    places += [attribute(error, name) for name in ("status_code", "status", "code")]
    places += [_metadata(response, "HTTPStatusCode")]
    found = (as_status(place, digits=False) for place in places)
    return next((status for status in found if status is not None), None)


def _metadata(response: object, name: str) -> object:
    """A field of botocore's ResponseMetadata."""
    read_field: Callable[[Any], object] = lambda it: it["ResponseMetadata"][name]  # noqa: E731
    return contained(read_field, response, otherwise=None)


def _headers_of(error: BaseException) -> dict[str, str]:
    response = attribute(error, "response")
    for source in (
        attribute(response, "headers"),
        attribute(error, "headers"),
        _metadata(response, "HTTPHeaders"),
    ):
        headers = _headers(source)
        if headers:
            return headers
    return {}


def _body_of(error: BaseException) -> str:
    """What has arrived of the answer behind an exception, and the service's own code for it."""
    response, code = attribute(error, "response"), attribute(error, "code")
    arrived = received(lambda name: attribute(response, name))
    return f"{code} {arrived}" if isinstance(code, str) else arrived


# --- foreign values ------------------------------------------------------------------------------


def _headers(source: object) -> dict[str, str]:
    """Headers of any library by name in lower case; none where *source* is something else."""
    return {} if source is None else contained(_lowered, source, otherwise={})


def _lowered(source: Any) -> dict[str, str]:  # anything that has items
    return {str(name).lower(): str(value) for name, value in islice(source.items(), 2 * WIDTH)}
