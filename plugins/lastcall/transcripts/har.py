"""HAR files: what a browser or a proxy saw of HTTP."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import decoded, http, mapping, objects, seconds, text
from lastcall.transcripts.mcp_log import Session
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Aspect, Document, Transcript, Unreadable
from lastcall.transcripts.streamed import events, streamed
from lastcall.transcripts.vcr import TALKS

ANSWERS = {"messages": ("choices", "content"), "input": ("output",), "contents": ("candidates",)}
"""By the field that tells whose API a request is for, those that its answer would have."""

ERROR = 400
"""The least status of an answer that is an error."""


class Har:
    """Where models were asked, the calls are theirs; else those of MCP; else every request is a call, named by its
    method, host and path."""

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
                elif _answered(entry):
                    how = "was saved without its body" if said is None else "is no JSON object"
                    yield Unreadable(file, line, f"the answer of request {number} to a model {how}")
            asking = [] if talks else [entry for entry in entries if _tools(entry)]
            if asking:
                pairing = _session(asking).pairing
            for entry in () if talks or asking else entries:
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


def _answered(entry: dict[str, Any]) -> bool:
    """Whether a request came to an answer: not to an error, nor to none at all."""
    status = http(mapping(entry.get("response")).get("status"))
    return status is not None and status < ERROR


def _tools(entry: dict[str, Any]) -> bool:
    """Whether an entry asks for a tool by MCP."""
    asked = mapping(_json(_asked(entry)))
    return asked.get("jsonrpc") == "2.0" and asked.get("method") == "tools/call"


def _session(entries: list[dict[str, Any]]) -> Session:
    """Their calls; the ids of requests are left out of what is compared."""
    session = Session()
    for entry in entries:
        asked, said = _json(_asked(entry)), _json(_said(entry))
        session.add(asked, {"time": entry.get("startedDateTime")})
        told = events(said) if isinstance(said, str) else objects([said])
        answers = [one for one in told if "id" in one and "method" not in one]
        for one in answers:
            session.add(one, {})
        status = http(mapping(entry.get("response")).get("status"))
        if not answers and status is not None and status >= ERROR:
            session.pairing.answer(said, status=status)
    return session


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
