"""Claude Code sessions: one event a line, those of sub-agents mixed in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from lastcall.transcripts.blocks import hear
from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, seconds, text
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, RecordedCall, Transcript, Unreadable


class ClaudeCode:
    """Anthropic messages, one block a line; a sub-agent's are a chain and a turn of their own."""

    name = "claude-code-jsonl"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """Lines that point to their parent line, or a summary of lines."""
        return any(
            ("parentUuid" in row and "message" in row)
            or (row.get("type") == "summary" and "leafUuid" in row)
            for row in glance(document)
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a file: the main thread and its sub-agents, in the order of the lines."""
        session, chains = None, _Chains()
        for line, row in records(document):
            if not isinstance(row, dict):
                yield Unreadable(str(document.path), line, "no event")
                continue
            session = session or text(row.get("sessionId"))
            chains.add(row)
        name = Names(document).name(session)
        yield Transcript(str(document.path), name, self.name, chains.calls())


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

    def add(self, row: dict[str, Any]) -> None:
        chain = self._of(row)
        message = mapping(row.get("message"))
        if row.get("type") not in ("user", "assistant") or row.get("isMeta") is True:
            return
        said = text(message.get("id"))
        before = len(chain.pairing)
        more = said is not None and said == chain.said
        hear(chain.pairing, message, ts=seconds(row.get("timestamp")), more=more)
        if row["type"] == "assistant":
            chain.said = said
        self._order += [(chain, place) for place in range(before, len(chain.pairing))]

    def _of(self, row: dict[str, Any]) -> _Chain:
        if row.get("isSidechain") is not True:
            return self._main
        uuid, parent = text(row.get("uuid")) or "", text(row.get("parentUuid"))
        chain = self._side.get(parent or "") or _Chain(f"sidechain {uuid}")
        self._side[uuid] = chain
        return chain

    def calls(self) -> tuple[RecordedCall, ...]:
        """The calls of all chains in the order of their lines, turns and replies numbered anew."""
        made = {id(chain): chain.pairing.calls() for chain, _ in self._order}
        turns: dict[tuple[int, int], int] = {}
        replies: dict[tuple[int, int], int] = {}
        merged = []
        for chain, place in self._order:
            call = made[id(chain)][place]
            turn = turns.setdefault((id(chain), call.turn), len(turns))
            reply = replies.setdefault((id(chain), call.reply), len(replies))
            merged.append(replace(call, turn=turn, reply=reply, agent=chain.agent))
        return tuple(merged)
