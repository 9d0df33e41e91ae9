"""Logs of MCP: JSON-RPC messages, bare or inside whatever a logger puts round them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import decoded, mapping, objects, seconds, text, words
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


class McpLog:
    """Requests of `tools/call` are calls, each a reply of its own; answers find them by their id."""

    name = "mcp-jsonrpc"
    specificity = 45
    lacks: frozenset[Aspect] = frozenset({"turns", "replies"})

    def sniff(self, document: Document) -> bool:
        """Objects that are JSON-RPC messages of MCP, or hold one."""
        seen = [message for record in glance(document) for message, _ in _messages(record)]
        methods = [message["method"] for message in seen if isinstance(message.get("method"), str)]
        return any("/" in method or method == "initialize" for method in methods) or (
            # A log may begin after its first requests.
            not methods and any(_answer(message) for message in seen)
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a session: by its name where the log has one, else from `initialize` on."""
        file, names = str(document.path), Names(document)
        sessions: dict[str, _Session] = {}
        for line, record in records(document):
            found = _messages(record)
            if not found:
                yield Unreadable(file, line, "no JSON-RPC message")
            for message, around in found:
                name = (
                    next((text(around[key]) for key in SESSIONS if text(around.get(key))), None)
                    or ""
                )
                session = sessions.setdefault(name, _Session())
                if message.get("method") == "initialize" and len(session.pairing):
                    # The same name, or none: it begins anew, and the session before it is complete.
                    calls = sessions.pop(name).pairing.calls()
                    yield Transcript(file, names.name(name or None), self.name, calls)
                    session = sessions[name] = _Session()
                session.add(message, around)
        for name, session in sessions.items():
            yield Transcript(file, names.name(name or None), self.name, session.pairing.calls())


class _Session:
    """One session while its messages are read."""

    def __init__(self) -> None:
        self.pairing = Pairing()
        self._waiting: dict[str, str] = {}
        """The calls without an answer, by the ids of their requests."""

    def add(self, message: dict[str, Any], around: dict[str, Any]) -> None:
        # Ids count from 0 in every session, and a client that connects again may start anew.
        id_ = str(message.get("id"))
        if message.get("method") == "tools/call":
            params = mapping(message.get("params"))
            own = f"{id_}@{len(self.pairing)}"
            self._waiting[id_] = own
            ts = next((seconds(around[key]) for key in TIMES if key in around), None)
            self.pairing.reply()
            self.pairing.call(params.get("name"), params.get("arguments"), id=own, ts=ts)
        elif "method" not in message and id_ in self._waiting:
            own = self._waiting.pop(id_)
            error, result = message.get("error"), message.get("result")
            if error is not None:
                self.pairing.answer(error, id=own, failed=True)
                return
            fields = mapping(result)
            shown = words(fields.get("content")) or fields.get("structuredContent") or result
            self.pairing.answer(shown, id=own, failed=fields.get("isError") is True)


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


def _answer(message: dict[str, Any]) -> bool:
    result = mapping(message.get("result"))
    return isinstance(result.get("content"), list) and "id" in message
