"""What an answer says of itself: whether it failed, with which status, in which words.

Requirement A5: values decide, never words in a success. Nothing here reads deeper than an error
field, a response or an MCP result's own content, so size and recursion cost nothing.
"""

# ruff: noqa: PLR2004 - a status is its own best name

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cached_property
from itertools import islice
from typing import TypeVar

import orjson
from msgspec import Struct
from pydantic import BaseModel

from lastcall.phrases import page_status, status_in, title_status

JSON_CAP = 256 * 1024
"""A longer JSON text is not parsed, in characters."""
SHORT = 500
"""As many characters of a message are kept."""
BODY = 4096
"""As much of a body is searched."""

Look = Callable[[str], object]
"""Gives a value by its name, None when there is none, whatever kind of record is behind it."""


class Reading(Struct, frozen=True):
    """What was found in an answer.

    *failed*: its body says so. *flagged*: its channel does (MCP's isError). *body* is what a 429 is
    searched in for an exhausted quota, *headers* whatever headers came with it.
    """

    failed: bool = False
    flagged: bool = False
    status: int | None = None
    text: str = ""
    body: str = ""
    headers: object = None


S = TypeVar("S")
T = TypeVar("T")

NOTHING = Reading()

STATUS_KEYS = ("status_code", "statusCode", "http_status", "status")
FLAG_KEYS = ("error", "errors", "success", "ok", "isError", "is_error")
INNER_KEYS = ("response", "structuredContent", "structured_content", "title")
MARKS = frozenset((*STATUS_KEYS, *FLAG_KEYS, *INNER_KEYS))
"""A mapping without any of these says nothing; `code` and `message` count beside one only."""
MESSAGE_KEYS = ("message", "error_message", "error_description", "detail", "details", "reason")
RESULT_KEYS = ("data", "result", "results", "items", "output", "id", "job_id", "task_id")
PAGE_KEYS = ("content", "text", "markdown", "html")
LAZY_KEYS = ("content", "text", "body")
LAZY = (property, cached_property)
RECEIVED_KEYS = ("_content", "_body")
"""Where httpx, requests, botocore (the first), aiohttp and urllib3 keep what has arrived."""
EMPTY_WORDS = frozenset(("", "none", "null", "false"))
SILENT = frozenset((int, float, bool, complex, type(None), bytes, bytearray, set, frozenset))
DIGITS = frozenset("0123456789")
TELLING = DIGITS | frozenset("{<#Tm \t\r\n\ufeff")
"""First characters of a text that may be JSON, a page, or a printed MCP result."""


def contained(do: Callable[[S], T], thing: S, *, otherwise: T) -> T:
    """`do(thing)`, or *otherwise* when foreign code behind *thing* raises whatever it likes."""
    try:
        return do(thing)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of a native library is no Exception
        return otherwise


def attribute(thing: object, name: str) -> object:
    """The attribute, or None where it is missing or its property raises."""
    try:
        return getattr(thing, name, None)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # as above, written out: asked twenty times an object
        return None


def as_status(value: object, *, digits: bool = True) -> int | None:
    """The HTTP status that *value* is: an int from 100 to 599, or three ASCII *digits*."""
    if isinstance(value, int):
        number = -1 if isinstance(value, bool) else int.__int__(value)
    elif digits and isinstance(value, str) and len(value) == 3 and value.isascii():
        number = int(value) if value.isdigit() else -1
    else:
        return None
    return number if 100 <= number <= 599 else None


def tells_nothing(value: object) -> bool:
    """Whether the type, the first characters or the keys settle it, as they nearly always do."""
    kind = type(value)
    if kind is str:
        first = value[:1]  # type: ignore[index]  # a str
        return first not in TELLING or _begins_plainly(value, first)  # type: ignore[arg-type]
    if kind is dict:
        return contained(_unmarked, value, otherwise=False)  # type: ignore[arg-type]  # a dict
    return kind in SILENT


def _begins_plainly(text: str, first: str) -> bool:
    if first in DIGITS:
        return text[3:4] != " "
    return first in "Tm" and not text.startswith(("Title:", "meta="))


def _unmarked(record: Mapping[object, object]) -> bool:
    return bool(record.keys().isdisjoint(MARKS))


def read(value: object, *, failed: bool, shell: bool) -> Reading:
    """What *value* says; *failed*: it is known to be a failure, so its text may be read as well.

    Texts of *shell* tools are never read: they are what other programs printed.
    """
    if type(value) is dict:
        return _of_record(value.get, failed=failed, shell=shell)
    if isinstance(value, str):
        return _of_text(value, failed=failed, shell=shell)
    if isinstance(value, list | tuple):
        return _of_blocks(value, failed=failed, shell=shell)
    if type(value) in SILENT:
        return NOTHING
    return _of_record(looking_into(value), failed=failed, shell=shell)


def looking_into(value: object) -> Look:
    """A way to ask a mapping, a model or any object for a name."""
    if type(value) is dict or isinstance(value, Mapping):
        return value.get
    if isinstance(value, BaseModel):
        # A missing attribute costs a model 1 us, and there are a dozen to ask for.
        fields = {**vars(value), **(value.model_extra or {})}
        return fields.get
    return lambda name: None if _is_lazy(value, name) else attribute(value, name)


def _is_lazy(value: object, name: str) -> bool:
    """Whether asking would read the rest of a response from its socket."""
    return name in LAZY_KEYS and isinstance(attribute(type(value), name), LAZY)


# --- records -------------------------------------------------------------------------------------


def _of_record(look: Look, *, failed: bool, shell: bool, nested: bool = False) -> Reading:
    """What a record says; a *nested* one is what an MCP result carries, and carries none itself."""
    status = _number(look)
    error = _error(look)
    headers = look("headers")
    raised_flag = look("isError") is True or look("is_error") is True
    # The `is_error` of an HTTP response repeats its status; it is no channel of its own.
    flagged = raised_flag and (status is None or headers is None)
    says_so = error is not None or _says_failed(look, status)
    bad = failed or flagged or says_so
    inner = NOTHING if nested else _inside(look, failed=failed or flagged, shell=shell)
    if status is None or (bad and status < 400):
        deeper = _deeper(look, error, bad=bad, outer=status)
        status = next((s for s in (deeper, inner.status, status) if s is not None), None)
    text = ""
    if bad or (status or 0) >= 400:
        text = contained(lambda it: _message(it, error), look, otherwise="")
    if not (bad or status is not None or inner.failed or inner.flagged):
        return _titled(look)
    if bad and status is None and not shell:
        status = status_in(text)
    body = inner.body
    if status == 429 and not body:
        body = contained(lambda it: _words(it, error), look, otherwise="")
    says_so = says_so or inner.failed or inner.flagged
    return Reading(says_so, flagged, status, text or inner.text, body, headers or inner.headers)


def _number(look: Look, keys: tuple[str, ...] = STATUS_KEYS) -> int | None:
    for key in keys:
        value = look(key)
        status = None if value is None else as_status(value)
        if status is not None:
            return status
    return None


def _error(look: Look) -> object:
    """The error field, if anything is in it. A success with `errors` reports on its items."""
    error = look("error")
    if _filled(error):
        return error
    errors = look("errors")
    return errors if _filled(errors) and not _affirmed(look) else None


def _filled(error: object) -> bool:
    """Whether an error field holds an error. A float is a margin of error, a method none at all."""
    if error is None or error is False or error is True:
        return error is True
    if isinstance(error, str):
        return error.strip().lower() not in EMPTY_WORDS
    if isinstance(error, int):
        return error != 0
    if isinstance(error, Mapping):
        return any(_some(item) for item in islice(error.values(), 64))
    if isinstance(error, list | tuple):
        return any(_some(item) for item in islice(error, 64))
    return isinstance(error, BaseException | BaseModel) or (
        is_dataclass(error) and not isinstance(error, type)
    )


def _some(item: object) -> bool:
    if item is None or item is False:
        return False
    if isinstance(item, str | int | list | tuple | Mapping):
        return bool(item)
    return True


def _affirmed(look: Look) -> bool:
    return look("success") is True or look("ok") is True


def _says_failed(look: Look, status: int | None) -> bool:
    if look("success") is False or look("ok") is False:
        return True
    word = look("status")
    if not isinstance(word, str):
        return False
    word = word.lower()
    if word != "failed":
        return word in ("error", "failure")
    # A payment or a job that failed was looked up all right.
    return not (_affirmed(look) or status or any(_some(look(key)) for key in RESULT_KEYS))


def _deeper(look: Look, error: object, *, bad: bool, outer: int | None) -> int | None:
    """The status of an error field, then `code` beside a failure, then that of a response."""
    status = None
    if error is not None:
        first = error[0] if isinstance(error, list | tuple) else error
        status = as_status(first)
        if status is None and not isinstance(first, str):
            status = _number(looking_into(first), (*STATUS_KEYS, "code"))
    if status is None and bad:
        status = as_status(look("code"))
    if status is None and outer is None and not _affirmed(look):
        response = look("response")
        if response is not None and not isinstance(response, str):
            status = _number(looking_into(response))
    return status


def _inside(look: Look, *, failed: bool, shell: bool) -> Reading:
    """What an MCP result carries: its structured content first, else its one text."""
    structured = look("structuredContent")
    if structured is None:
        structured = look("structured_content")
    found = NOTHING
    if isinstance(structured, Mapping | BaseModel):
        found = _of_record(looking_into(structured), failed=failed, shell=shell, nested=True)
    elif not any(isinstance(look(key), bool) for key in ("isError", "is_error")):
        return NOTHING
    if found.failed or found.status is not None:
        return found
    content = look("content")
    if isinstance(content, str):
        return _of_text(content, failed=failed, shell=shell, nested=True)
    if isinstance(content, list | tuple):
        return _of_blocks(content, failed=failed, shell=shell, nested=True)
    return found


def _of_blocks(
    blocks: Sequence[object], *, failed: bool, shell: bool, nested: bool = False
) -> Reading:
    """A single text block is its text; of several the first gives a failure its words.

    The items of any other list are nobody's failure.
    """
    if not blocks or (len(blocks) > 1 and not failed):
        return NOTHING
    for block in islice(blocks, 8):
        if isinstance(block, str):
            text: object = block if failed else None
        else:
            look = looking_into(block)
            text = look("text") if look("type") == "text" else None
        if isinstance(text, str):
            return _of_text(text, failed=failed, shell=shell, nested=nested)
    return NOTHING


def _message(look: Look, error: object) -> str:
    """The words of a failure: the error field's, else the record's."""
    if isinstance(error, list | tuple):
        error = error[0]
    if isinstance(error, str):
        return error[:SHORT]
    looks = [look] if error is None or isinstance(error, int) else [looking_into(error), look]
    for each in looks:
        for key in (*MESSAGE_KEYS, "error", "content"):
            text = each(key)
            if isinstance(text, str) and text:
                return text[:SHORT]
    return ""


def _words(look: Look, error: object) -> str:
    """Every short text at the top and in the error field, where a quota would be named."""
    first = error[0] if isinstance(error, list | tuple) and error else error
    looks = [look] if first is None or isinstance(first, str) else [look, looking_into(first)]
    keys = ("error", "code", "type", "body", "text", *MESSAGE_KEYS)
    found = [each(key) for each in looks for key in keys]
    short = [text[:SHORT] for text in (*found, first) if isinstance(text, str)]
    return " ".join((*short, received(look)))


def received(look: Look) -> str:
    """The body of a response as far as it has arrived; its `text` would read from the socket."""
    kept = (look(key) for key in RECEIVED_KEYS)
    return " ".join(body[:BODY].decode("utf-8", "ignore") for body in kept if type(body) is bytes)


# --- texts ---------------------------------------------------------------------------------------

_FIRST = re.compile(r"[\s\ufeff]*+(\S)")


def _of_text(text: str, *, failed: bool, shell: bool, nested: bool = False) -> Reading:
    if shell:
        return Reading(text=text[:SHORT]) if failed else NOTHING
    first = _FIRST.match(text)
    if first is None:
        return NOTHING
    if first[1] == "{" and len(text) <= JSON_CAP:
        record = _parsed(text)
        if isinstance(record, dict):
            if not failed and tells_nothing(record):
                return NOTHING
            found = _of_record(record.get, failed=failed, shell=False, nested=nested)
            return found if found.text or not failed else _with_text(found, text)
    if text.startswith("meta=") and text.endswith("isError=True"):
        said = text[text.find("text=") + 6 :] if "text=" in text[:SHORT] else text
        return Reading(flagged=True, status=status_in(said), text=said[:SHORT])
    if failed:
        return Reading(status=status_in(text), text=text[:SHORT], body=text[:BODY])
    return _from_title(page_status(text))


def _with_text(found: Reading, text: str) -> Reading:
    status = found.status if found.status is not None else status_in(text)
    return Reading(
        found.failed, found.flagged, status, text[:SHORT], found.body or text[:BODY], found.headers
    )


def _parsed(text: str) -> object:
    try:
        return orjson.loads(text.lstrip("\ufeff"))
    except ValueError:
        return None


def _titled(look: Look) -> Reading:
    """The same page as a record. What has an id is an article or a ticket about such a page."""
    title = look("title")
    if not isinstance(title, str) or look("id") is not None:
        return NOTHING
    if not any(isinstance(look(key), str) for key in PAGE_KEYS):
        return NOTHING
    return _from_title(title_status(title))


def _from_title(found: tuple[int, str] | None) -> Reading:
    return NOTHING if found is None else Reading(status=found[0], text=found[1])
