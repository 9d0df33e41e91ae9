"""LiteLLM completion logs: one model call with the messages before it and the response to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.chat import hear
from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable
from lastcall.transcripts.usage import usage


class LiteLLMLog:
    """The last call of a run holds the whole run; its own calls have no answers yet."""

    name = "litellm-completion-log"
    specificity = 40

    def sniff(self, document: Document) -> bool:
        """Objects with `messages` and a `response` that has choices."""
        return any(objects(record.get("messages")) and _said(record) for record in glance(document))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a record."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            messages = objects(mapping(record).get("messages"))
            if not messages:
                yield Unreadable(file, line, "no messages")
                continue
            pairing = Pairing()
            for message in messages + _said(mapping(record)):
                hear(pairing, message)
            response = mapping(mapping(record).get("response"))
            pairing.spent(usage(response.get("usage"), response.get("model")))
            yield Transcript(file, names.name(), self.name, pairing.calls(), pairing.replies())


def _said(record: dict[str, Any]) -> list[dict[str, Any]]:
    choices = objects(mapping(record.get("response")).get("choices"))[:1]
    return [choice["message"] for choice in choices if isinstance(choice.get("message"), dict)]
