"""tau-bench result files: a list of runs, each with its `traj` of chat messages."""

from __future__ import annotations

from collections.abc import Iterator

from lastcall.transcripts.chat import hear
from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, text
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable


class TauBench:
    """Chat messages whose tools report a failure as a text that begins with `Error:`."""

    name = "tau-bench-traj"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """Runs with a `traj`."""
        return any(isinstance(run.get("traj"), list) for run in glance(document))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a `traj`, named by its task and trial."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            run = mapping(record)
            if not isinstance(run.get("traj"), list):
                yield Unreadable(file, line, "no run: it has no list `traj`")
                continue
            pairing = Pairing()
            for message in objects(run["traj"]):
                content = message.get("content")
                failed = isinstance(content, str) and content.startswith("Error:")
                hear(pairing, message, failed=failed)
            parts = [f"{k}{run[k]}" for k in ("task_id", "trial") if text(run.get(k))]
            name = "-".join(parts).replace("task_id", "task")
            yield Transcript(file, names.name(name), self.name, pairing.calls())
