"""mini-swe-agent trajectories: chat messages with one tool, a shell."""

from __future__ import annotations

from collections.abc import Iterator

from lastcall.transcripts.chat import hear
from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, seconds, text
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable


class MiniSweAgent:
    """Chat messages whose `extra` knows when they were made."""

    name = "mini-swe-agent-traj"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """Objects that name their `trajectory_format` so."""
        return any(
            str(run.get("trajectory_format")).startswith("mini-swe-agent")
            for run in glance(document)
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run an object, named by its instance."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            run = mapping(record)
            messages = objects(run.get("messages"))
            if not messages:
                yield Unreadable(file, line, "no messages")
                continue
            pairing = Pairing()
            for message in messages:
                hear(pairing, message, ts=seconds(mapping(message.get("extra")).get("timestamp")))
            yield Transcript(
                file, names.name(text(run.get("instance_id"))), self.name, pairing.calls()
            )
