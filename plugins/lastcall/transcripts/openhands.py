"""OpenHands evaluation output: one run a line, its history a list of actions and observations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, seconds, text
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, RecordedCall, Transcript, Unreadable


class OpenHands:
    """Actions with `tool_call_metadata` are calls; an observation has that of its call."""

    name = "openhands-output-jsonl"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """Lines with a `history` of events that have a source and an action or an observation."""
        return any(
            "source" in event and ("action" in event or "observation" in event)
            for run in glance(document)
            for event in _events(run)[:1]
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a line, named by its instance."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            run = mapping(record)
            events = _events(run)
            if not events:
                yield Unreadable(file, line, "no events under `history`")
                continue
            yield Transcript(
                file, names.name(text(run.get("instance_id"))), self.name, _calls(events)
            )


def _events(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a run; older outputs keep them as pairs of action and observation."""
    history = run.get("history")
    if not isinstance(history, list):
        return []
    return [
        event
        for entry in history
        for event in (objects(entry) if isinstance(entry, list) else objects([entry]))
    ]


def _calls(events: list[dict[str, Any]]) -> tuple[RecordedCall, ...]:
    pairing, said = Pairing(), None
    for event in events:
        metadata = mapping(event.get("tool_call_metadata"))
        if "observation" in event:
            failed = event["observation"] == "error"
            if metadata or failed:
                pairing.answer(event.get("content"), id=metadata.get("tool_call_id"), failed=failed)
            continue
        if event.get("source") == "user" and event.get("action") == "message":
            pairing.user()
        elif event.get("source") == "agent" and metadata:
            response = mapping(metadata.get("model_response"))
            reply = text(response.get("id"))
            if reply is None or reply != said:
                pairing.reply()
            said = reply
            pairing.call(
                metadata.get("function_name"),
                _arguments(response, metadata, event),
                id=metadata.get("tool_call_id"),
                ts=seconds(event.get("timestamp")),
                shell=True if event.get("action") in ("run", "run_ipython") else None,
            )
        elif event.get("source") == "agent" and event.get("action") == "message":
            pairing.reply()
    return pairing.calls()


def _arguments(response: dict[str, Any], metadata: dict[str, Any], event: dict[str, Any]) -> Any:
    """The model's own arguments, or the action's where the response was not kept."""
    for choice in objects(response.get("choices")):
        for call in objects(mapping(choice.get("message")).get("tool_calls")):
            if call.get("id") == metadata.get("tool_call_id"):
                return mapping(call.get("function")).get("arguments")
    return {k: v for k, v in mapping(event.get("args")).items() if k != "thought"}
