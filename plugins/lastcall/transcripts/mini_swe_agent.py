"""mini-swe-agent trajectories: chat messages with one tool, a shell."""

from __future__ import annotations

from collections.abc import Iterator

from lastcall.transcripts.chat import hear
from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, seconds, text
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable
from lastcall.transcripts.usage import amount, usage


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
                extra = mapping(message.get("extra"))
                ts, response = seconds(extra.get("timestamp")), mapping(extra.get("response"))
                hear(pairing, message, ts=ts)
                if message.get("role") == "assistant":
                    spent = usage(response.get("usage"), response.get("model"))
                    pairing.spent(spent, cost=amount(extra.get("cost")), ts=ts)
            name = names.name(text(run.get("instance_id")))
            yield Transcript(file, name, self.name, pairing.calls(), pairing.replies())
