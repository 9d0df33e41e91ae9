"""HAR files: what a browser or a proxy saw of HTTP."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import decoded, http, mapping, objects, seconds, text
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Aspect, Document, Transcript, Unreadable
from lastcall.transcripts.streamed import streamed
from lastcall.transcripts.vcr import TALKS

ANSWERS = {"messages": ("choices", "content"), "input": ("output",), "contents": ("candidates",)}
"""By the field that tells whose API a request is for, those that its answer would have."""


class Har:
    """Where models were asked, the calls are theirs; else every request is a call, named by its method,
    host and path."""

    name = "har"
    specificity = 50
    lacks: frozenset[Aspect] = frozenset({"replies"})

    def sniff(self, document: Document) -> bool:
        """A `log` with entries that have a request and a response."""
        return any(
            "request" in entry and "response" in entry
            for log in glance(document)
            for entry in _entries(log)[:3]
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a file."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            entries = _entries(record)
            if not entries:
                yield Unreadable(file, line, "no entries of HTTP")
                continue
            entries.sort(key=lambda entry: seconds(entry.get("startedDateTime")) or 0.0)
            talks = [(entry, talk) for entry in entries if (talk := _talk(entry))]
            pairing = Pairing()
            for number, (entry, talk) in enumerate(talks, 1):
                asked, said = _json(_asked(entry)), _json(_said(entry))
                said = streamed(said) if isinstance(said, str) else said
                if isinstance(said, dict) and said:
                    TALKS[talk](pairing, asked, said)
                else:
                    yield Unreadable(
                        file, line, f"the answer of request {number} to a model is no JSON object"
                    )
            for entry in entries if not talks else ():
                _call(pairing, entry)
            lacks: frozenset[Aspect] = frozenset() if talks else frozenset({"turns"})
            yield Transcript(
                file, names.name(), self.name, pairing.calls(), pairing.replies(), lacks
            )


def _entries(record: Any) -> list[dict[str, Any]]:
    return objects(mapping(mapping(record).get("log")).get("entries"))


def _talk(entry: dict[str, Any]) -> str | None:
    """Whose API an entry asks, if a model's."""
    if mapping(entry.get("request")).get("method") != "POST":
        return None
    asked = mapping(_json(_asked(entry)))
    key = next((key for key in TALKS if key in asked), None)
    if key is None or not ("model" in asked or key == "contents"):
        return None
    said = _json(_said(entry))
    if isinstance(said, dict) and not any(name in said for name in (*ANSWERS[key], "error")):
        return None
    return key


def _call(pairing: Pairing, entry: dict[str, Any]) -> None:
    request, response = mapping(entry.get("request")), mapping(entry.get("response"))
    url = _address(request.get("url"))
    method = text(request.get("method")) or "?"
    args: dict[str, Any] = {}
    query = [
        (text(one.get("name")), one.get("value")) for one in objects(request.get("queryString"))
    ]
    if query:
        args["query"] = {name: value for name, value in query if name}
    elif url and url[1]:
        args["query"] = url[1]
    body = _json(_asked(entry))
    if body not in (None, ""):
        args["body"] = body
    pairing.reply()
    pairing.call(
        f"{method} {url[0] if url else '?'}", args, ts=seconds(entry.get("startedDateTime"))
    )
    status = http(response.get("status"))
    if status is not None:
        pairing.answer(_json(_said(entry)), status=status)
    elif response:
        # Status 0: the connection failed, or was given up.
        error = text(response.get("_error")) or text(response.get("statusText"))
        pairing.answer(error or "no answer", failed=True)


def _address(url: Any) -> tuple[str, str] | None:
    """Host with path, and the query, of an address; None where it is none."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return None
    return (f"{parts.hostname or ''}{parts.path}", parts.query) if parts else None


def _asked(entry: dict[str, Any]) -> Any:
    return mapping(mapping(entry.get("request")).get("postData")).get("text")


def _said(entry: dict[str, Any]) -> Any:
    content = mapping(mapping(entry.get("response")).get("content"))
    said = content.get("text")
    if content.get("encoding") == "base64" and isinstance(said, str):
        try:
            return base64.b64decode(said, validate=True).decode()
        except (binascii.Error, ValueError):
            return said
    return said


def _json(content: Any) -> Any:
    """The JSON value in a text, or the text."""
    if isinstance(content, str):
        try:
            return decoded(content)
        except ValueError:
            return content
    return content
