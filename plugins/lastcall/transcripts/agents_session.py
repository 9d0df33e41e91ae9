"""Sessions of the OpenAI Agents SDK in SQLite (`SQLiteSession` and what is made of it)."""

from __future__ import annotations

from collections.abc import Iterator

from lastcall.transcripts.conversations import Names
from lastcall.transcripts.database import DAMAGED, damage, reading, table
from lastcall.transcripts.fields import decoded, mapping, seconds, text
from lastcall.transcripts.items import Items
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable

COLUMNS = frozenset({"session_id", "message_data", "created_at"})
"""Of the table of messages, whose name is `agent_messages` unless it was given another one."""

SEALED = "__enc__"
"""The field of an item that an `EncryptedSession` saved."""


class AgentsSession:
    """A table of Responses items as JSON, one row an item, with the second in which it was saved."""

    name = "openai-agents-session"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """A database with the table of the SDK."""
        return table(document, COLUMNS) is not None

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a session, in the order of their beginnings."""
        file, names, held = str(document.path), Names(document), table(document, COLUMNS)
        ordered = (
            f"select id, session_id, message_data, created_at from {held} as one order by"  # noqa: S608
            f" (select min(id) from {held} as first where first.session_id = one.session_id), id"
        )
        pairing, items, session = Pairing(), Items(Pairing()), None
        try:
            with reading(document.path) as database:
                for number, owner, data, saved in database.execute(ordered):
                    if owner != session and session is not None:
                        yield Transcript(
                            file, names.name(text(session)), self.name, pairing.calls()
                        )
                    if owner != session:
                        pairing, session = Pairing(), owner
                        items = Items(pairing)
                    try:
                        item = mapping(decoded(data))
                    except (ValueError, TypeError) as error:
                        yield Unreadable(file, None, f"item {number} is no JSON: {error}")
                        continue
                    if SEALED in item:
                        yield Unreadable(file, None, f"item {number} is encrypted")
                        continue
                    items.hear(item, ts=seconds(saved))
        except DAMAGED as error:
            yield Unreadable(file, None, damage(error))
        else:
            if session is None:
                yield Unreadable(file, None, "no session in it")
        if session is not None:
            yield Transcript(file, names.name(text(session)), self.name, pairing.calls())
