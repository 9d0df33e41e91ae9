"""ATIF trajectories, the interchange format of Harbor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, seconds, text, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable
from lastcall.transcripts.usage import amount, usage


class Atif:
    """Steps of system, user and agent; an agent's step holds its calls and what they gave."""

    name = "atif"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """Objects whose `schema_version` says so."""
        return any(
            str(run.get("schema_version")).startswith("ATIF") and "steps" in run
            for run in glance(document)
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a trajectory, named by its session."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            run = mapping(record)
            if not isinstance(run.get("steps"), list):
                yield Unreadable(file, line, "no steps")
                continue
            name = names.name(text(run.get("session_id")))
            pairing = _heard(objects(run["steps"]))
            yield Transcript(file, name, self.name, pairing.calls(), pairing.replies())


def _heard(steps: list[dict[str, Any]]) -> Pairing:
    pairing = Pairing()
    for step in steps:
        source = step.get("source")
        if source == "user":
            pairing.user()
        if source != "agent":
            continue
        pairing.reply()
        metrics, ts = mapping(step.get("metrics")), seconds(step.get("timestamp"))
        spent = usage(metrics, step.get("model_name"))
        pairing.spent(spent, cost=amount(metrics.get("cost_usd")), ts=ts)
        asked = objects(step.get("tool_calls"))
        for call in asked:
            pairing.call(
                call.get("function_name"),
                call.get("arguments"),
                id=call.get("tool_call_id"),
                ts=ts,
            )
        # A step without calls has an observation all the same when its agent writes them as text.
        results = objects(mapping(step.get("observation")).get("results")) if asked else []
        for result in results:
            pairing.answer(words(result.get("content")), id=result.get("source_call_id"))
    return pairing
