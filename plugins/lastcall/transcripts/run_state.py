"""Paused runs of the OpenAI Agents SDK, as `RunState.to_json` and `to_string` write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, text
from lastcall.transcripts.items import Items
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable
from lastcall.transcripts.usage import usage

MADE = ("session_items", "generated_items")
"""What the run made: whole, where the SDK keeps it so, else what is still handed to the model."""


class RunStates:
    """What went in, then what the agents made; the requests to the model say what they used."""

    name = "openai-agents-run-state"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """Objects with the SDK's schema version."""
        return any(_state(record) for record in glance(document))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a state."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            state = mapping(record)
            if not _state(state):
                yield Unreadable(file, line, "no run state")
                continue
            pairing = _heard(state)
            name = names.name(text(state.get("conversation_id")))
            yield Transcript(file, name, self.name, pairing.calls(), pairing.replies())


def _state(record: dict[str, Any]) -> bool:
    return "$schemaVersion" in record and "original_input" in record


def _heard(state: dict[str, Any]) -> Pairing:
    pairing = Pairing()
    items = Items(pairing)
    given = state["original_input"]
    for item in [{"role": "user"}] if isinstance(given, str) else objects(given):
        items.hear(item)
    made = next((some for key in MADE if (some := objects(state.get(key)))), [])
    responses = iter(objects(state.get("model_responses")))
    for item in made:
        kind = item.get("type")
        # An approval stands beside the call that it is about.
        if kind == "tool_approval_item":
            continue
        agent = mapping(item.get("agent")).get("name")
        raw = mapping(item.get("raw_item"))
        if items.hear(raw, agent=agent):
            pairing.spent(usage(_flat(next(responses, {}).get("usage"))))
    return pairing


def _flat(value: Any) -> dict[str, Any]:
    """A usage whose details are objects: the SDK keeps each in a list."""
    fields = mapping(value)
    return {
        key: (objects(inside) or [{}])[0] if isinstance(inside, list) else inside
        for key, inside in fields.items()
    }
