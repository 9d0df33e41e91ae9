"""Logs of MCP: JSON-RPC messages, bare, inside whatever a logger puts round them, or in lines of text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from lastcall.transcripts.conversations import GLANCE, Names, glance, records
from lastcall.transcripts.fields import decoded, mapping, objects, parted, seconds, text, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Aspect, Document, Transcript, Unreadable

KEYS = (
    "message",
    "msg",
    "payload",
    "data",
    "body",
    "request",
    "response",
    "raw",
    "params",
    "root",
    "json",
)
TIMES = ("timestamp", "ts", "time", "@timestamp", "datetime")
SESSIONS = ("session_id", "sessionId", "mcp-session-id", "session")

INSIDE = 3
"""How deep a message may lie in what is logged round it."""

STAMP = re.compile(
    r"[\[(]?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
)
"""The time with which a line of a log begins."""

DESKTOP = re.compile(r"((?: ?\[[^\[\]]+\])+) Message from (?:client|server): *$")
"""What Claude Desktop writes between the time and a message: its level and the server, in either order."""

MARKS = 300
"""So much of a line may stand between its time and its message."""

LEVELS = frozenset({"trace", "debug", "info", "notice", "warn", "warning", "error", "critical"})

AREAS = (
    "tools/", "resources/", "prompts/", "notifications/", "sampling/", "roots/", "logging/", "completion/",
    "elicitation/",
)  # fmt: skip
"""How the methods of MCP begin."""

MARK = '"jsonrpc"'

CODE = ("'", '"', "(", "=", "[", ",")
"""What stands before a message in a program or a command, where none was sent."""

SCANNER = json.JSONDecoder()


class McpLog:
    """Requests of `tools/call` are calls, each a reply of its own; answers find them by their id."""

    name = "mcp-jsonrpc"
    specificity = 45
    lacks: frozenset[Aspect] = frozenset({"turns", "replies"})

    def sniff(self, document: Document) -> bool:
        """Objects that are JSON-RPC messages of MCP, or hold one."""
        records = glance(document)
        if not records and _log(document, lines := parted(document.start())):
            records = [record for _, record in islice(_logged(lines), GLANCE)]
        seen = [message for record in records for message, _ in _messages(record)]
        asked = [message for message in seen if isinstance(message.get("method"), str)]
        return any(map(_ask, asked)) or (
            # A log may begin after its first requests.
            not asked and any(map(_answer, seen))
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a session: by its name, or that of its server, where the log has one, else from `initialize` on."""
        file, names = str(document.path), Names(document)
        sessions: dict[str, Session] = {}
        told = document.value is not None or document.rows
        for line, record in records(document) if told else _logged(parted(document.text)):
            found = _messages(record)
            if not found:
                yield Unreadable(file, line, "no JSON-RPC message")
            for message, around in found:
                name = (
                    next((text(around[key]) for key in SESSIONS if text(around.get(key))), None)
                    or ""
                )
                session = sessions.setdefault(name, Session())
                if message.get("method") == "initialize" and len(session.pairing):
                    # The same name, or none: it begins anew, and the session before it is complete.
                    calls = sessions.pop(name).pairing.calls()
                    yield Transcript(file, names.name(name or None), self.name, calls)
                    session = sessions[name] = Session()
                if not session.again(message):
                    session.add(message, around)
        for name, session in sessions.items():
            yield Transcript(file, names.name(name or None), self.name, session.pairing.calls())


class Session:
    """One session while its messages are read."""

    def __init__(self) -> None:
        self.pairing = Pairing()
        self._waiting: dict[str, list[str | None]] = {}
        """The requests without an answer by their ids, the last one last: calls by their own id, others as None. Both
        sides count from 0, and what a server asks in the middle of a call is answered before it."""

        self._asked: dict[str, dict[str, Any]] = {}
        """The calls without an answer by the ids of their requests."""

        self._answered = False

    def again(self, message: dict[str, Any]) -> bool:
        """Whether it is a call that waits for its answer: a log may have each message twice, from both sides. Where
        it has no answers, nothing is known of that."""
        return self._answered and self._asked.get(str(message.get("id"))) == message

    def add(self, message: dict[str, Any], around: dict[str, Any]) -> None:
        """Hear a message; *around*: what a logger put round it."""
        # Ids count from 0 in every session, and a client that connects again may start anew.
        id_ = str(message.get("id"))
        if "method" in message and "id" not in message:
            return
        waiting = self._waiting.setdefault(id_, [])
        if message.get("method") == "tools/call":
            params = mapping(message.get("params"))
            own = f"{id_}@{len(self.pairing)}"
            waiting.append(own)
            self._asked[id_] = message
            ts = next((seconds(around[key]) for key in TIMES if key in around), None)
            self.pairing.reply()
            self.pairing.call(params.get("name"), params.get("arguments"), id=own, ts=ts)
            return
        if "method" in message:
            waiting.append(None)
            return
        self._answered = True
        self._asked.pop(id_, None)
        if waiting and (asked := waiting.pop()):
            error, result = message.get("error"), message.get("result")
            if error is not None:
                self.pairing.answer(error, id=asked, failed=True)
                return
            fields = mapping(result)
            shown = words(fields.get("content")) or fields.get("structuredContent") or result
            self.pairing.answer(shown, id=asked, failed=fields.get("isError") is True)


def _messages(record: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The JSON-RPC messages in a record, each with the fields that stand round it."""
    found = []
    waiting: list[tuple[Any, dict[str, Any], int]] = [(record, mapping(record), 0)]
    while waiting:
        here, around, depth = waiting.pop()
        if isinstance(here, str) and '"jsonrpc"' in here:
            try:
                here = decoded(here)
            except ValueError:
                continue
        if isinstance(here, list):
            waiting += ((one, around, depth) for one in reversed(objects(here)))
            continue
        fields = mapping(here)
        if fields.get("jsonrpc") == "2.0":
            found.append((fields, around))
        elif depth < INSIDE:
            inside = [fields[key] for key in KEYS if key in fields]
            waiting += ((one, {**around, **fields}, depth + 1) for one in reversed(inside))
    return found


def _ask(message: dict[str, Any]) -> bool:
    """Whether a request is one of MCP: servers of languages and other agents speak JSON-RPC, too."""
    method: str = message["method"]
    if method == "initialize":
        return "processId" not in mapping(message.get("params"))
    return method.startswith(AREAS)


def _answer(message: dict[str, Any]) -> bool:
    result = mapping(message.get("result"))
    return isinstance(result.get("content"), list) and "id" in message


def _log(document: Document, lines: list[str]) -> bool:
    """Whether a document is text with a message behind something else in one of *lines*."""
    if document.value is not None or document.rows:
        return False
    return any(
        (before := line.partition("{")[0].strip())
        and "`" not in before
        and not before.endswith(CODE)
        for line in lines
        if MARK in line
    )


def _logged(lines: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The messages in lines of text, as clients of MCP write them, with the times before them."""
    for number, line in enumerate(lines, 1):
        if MARK not in line or "{" not in line:
            continue
        try:
            message, _ = SCANNER.raw_decode(line, line.index("{"))
        except (ValueError, RecursionError):
            message = None
        stamp = STAMP.match(line)
        time = {"time": stamp[1].replace(",", ".")} if stamp else {}
        yield number, {"message": message, **time, **_server(line.partition("{")[0])}


def _server(before: str) -> dict[str, str]:
    """The server that a message is of, by what stands *before* it: each counts its requests from 0."""
    marked = DESKTOP.search(before[-MARKS:])
    marks = re.findall(r"\[([^\[\]]+)\]", marked[1]) if marked else []
    named = [mark for mark in marks if mark.lower() not in LEVELS]
    return {"session": named[-1]} if named else {}
