"""Claude Code sessions, and what `--output-format stream-json` prints: one event a line, those of sub-agents mixed in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from lastcall.transcripts.blocks import hear
from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, seconds, text
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import (
    Document,
    RecordedCall,
    RecordedReply,
    Transcript,
    Unreadable,
)

BEFORE = ("file-history-snapshot", "queue-operation")
"""Events that may stand before all messages."""

ASIDE = ("isMeta", "isCompactSummary", "isSynthetic")
"""What marks messages that the program wrote in the user's name: the turn goes on."""


OTHER = "tool_call"
"""Cursor prints such messages too, but calls beside them, in a form of its own."""


class ClaudeCode:
    """Anthropic messages, one block a line; a sub-agent's are a chain and a turn of their own."""

    name = "claude-code-jsonl"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """Lines that point to their parent line, a summary of lines, or messages with their session."""
        return any(
            ("parentUuid" in row and ("message" in row or "sessionId" in row))
            or (row.get("type") == "summary" and "leafUuid" in row)
            or (row.get("type") in BEFORE and ("sessionId" in row or "snapshot" in row))
            or _printed(row)
            for row in glance(document)
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a file: the main thread and its sub-agents, in the order of the lines."""
        session, chains = None, _Chains()
        for line, row in records(document):
            if not isinstance(row, dict):
                yield Unreadable(str(document.path), line, "no event")
                continue
            session = session or text(row.get("sessionId")) or text(row.get("session_id"))
            if row.get("type") == OTHER:
                yield Unreadable(
                    str(document.path), line, "a session of Cursor, whose calls are not read"
                )
                return
            chains.add(row)
        name = Names(document).name(session)
        calls, replies = chains.told()
        yield Transcript(str(document.path), name, self.name, calls, replies)


def _printed(row: dict[str, Any]) -> bool:
    """A message, or the beginning, of what is printed of a session."""
    kind = row.get("type")
    message = kind in ("user", "assistant") and isinstance(row.get("message"), dict)
    return "session_id" in row and (message or (kind, row.get("subtype")) == ("system", "init"))


class _Chain:
    """The main thread, or one sub-agent from its task to its answer."""

    def __init__(self, agent: str | None) -> None:
        self.agent = agent
        self.pairing = Pairing()
        self.said: str | None = None


class _Chains:
    """All chains of a session; each event goes to that of its parent."""

    def __init__(self) -> None:
        self._main = _Chain(None)
        self._side: dict[str, _Chain] = {}
        self._order: list[tuple[_Chain, int]] = []
        self._turns: dict[tuple[int, int], int] = {}
        self._replies: dict[tuple[int, int], int] = {}

    def add(self, row: dict[str, Any]) -> None:
        if row.get("type") == "result":
            # What is printed of a session has no words of the user; with this a turn ends.
            self._main.pairing.user()
            return
        chain = self._of(row)
        message = mapping(row.get("message"))
        if row.get("type") not in ("user", "assistant") or any(
            row.get(key) is True for key in ASIDE
        ):
            return
        said = text(message.get("id"))
        before = len(chain.pairing)
        more = said is not None and said == chain.said
        hear(chain.pairing, message, ts=seconds(row.get("timestamp")), more=more)
        if message.get("role") == "assistant":
            chain.said = said
            self._number(chain)
        self._order += [(chain, place) for place in range(before, len(chain.pairing))]

    def _number(self, chain: _Chain) -> None:
        """Give the reply that a chain is at a number among those of all chains."""
        turn, reply = chain.pairing.place
        self._turns.setdefault((id(chain), turn), len(self._turns))
        self._replies.setdefault((id(chain), reply), len(self._replies))

    def _of(self, row: dict[str, Any]) -> _Chain:
        task = text(row.get("parent_tool_use_id"))
        if task is not None:
            return self._side.setdefault(task, _Chain(f"sidechain {task}"))
        if row.get("isSidechain") is not True:
            return self._main
        uuid, parent = text(row.get("uuid")) or "", text(row.get("parentUuid"))
        chain = self._side.get(parent or "") or _Chain(f"sidechain {uuid}")
        self._side[uuid] = chain
        return chain

    def told(self) -> tuple[tuple[RecordedCall, ...], tuple[RecordedReply, ...]]:
        """The calls of all chains in the order of their lines, and what their replies used; turns and
        replies are numbered anew."""
        made = {id(chain): chain.pairing.calls() for chain, _ in self._order}
        calls = []
        for chain, place in self._order:
            call = made[id(chain)][place]
            turn = self._turns[id(chain), call.turn]
            reply = self._replies[id(chain), call.reply]
            calls.append(replace(call, turn=turn, reply=reply, agent=chain.agent))
        replies = []
        for chain in (self._main, *dict.fromkeys(self._side.values())):
            for told in chain.pairing.replies():
                turn = self._turns[id(chain), told.turn]
                reply = self._replies[id(chain), told.reply]
                replies.append(replace(told, turn=turn, reply=reply))
        replies.sort(key=lambda told: told.reply)
        return tuple(calls), tuple(replies)
