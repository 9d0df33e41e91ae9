"""Inspect evaluation logs: one run a sample and epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, text, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, RecordedCall, Transcript, Unreadable


class InspectLog:
    """Chat messages whose calls name their function plainly and whose answers may hold an error."""

    name = "inspect-eval-log"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """Objects with an `eval` and its `samples`."""
        return any("eval" in log and objects(log.get("samples")) for log in glance(document))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a sample, named `<sample>-e<epoch>`."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            samples = objects(mapping(record).get("samples"))
            if not samples:
                yield Unreadable(file, line, "no samples")
            for sample in samples:
                epoch = text(sample.get("epoch")) or "1"
                name = names.name(f"{text(sample.get('id')) or '?'}-e{epoch}")
                yield Transcript(file, name, self.name, _calls(sample))


def _calls(sample: dict[str, Any]) -> tuple[RecordedCall, ...]:
    pairing = Pairing()
    for message in objects(sample.get("messages")):
        role = message.get("role")
        if role == "user":
            pairing.user()
        elif role == "assistant":
            pairing.reply()
            for call in objects(message.get("tool_calls")):
                pairing.call(
                    call.get("function"),
                    call.get("arguments"),
                    id=call.get("id"),
                    malformed=bool(call.get("parse_error")),
                )
        elif role == "tool":
            error = mapping(message.get("error"))
            pairing.answer(
                words(message.get("content")) or error.get("message"),
                id=message.get("tool_call_id"),
                tool=message.get("function"),
                failed=bool(error),
            )
    return pairing.calls()
