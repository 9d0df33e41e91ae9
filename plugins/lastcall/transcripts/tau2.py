"""tau2-bench result files: simulations of an agent, its tools and a user who has tools too."""

from __future__ import annotations

from collections.abc import Iterator

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, seconds, text, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable
from lastcall.transcripts.usage import amount, usage


class Tau2:
    """Messages whose calls name their requestor and whose answers carry an error flag."""

    name = "tau2-results"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """Objects with `simulations` that hold messages."""
        return any(
            isinstance(simulation.get("messages"), list)
            for results in glance(document)
            for simulation in objects(results.get("simulations"))[:1]
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a simulation."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            simulations = objects(mapping(record).get("simulations"))
            if not simulations:
                yield Unreadable(file, line, "no simulations")
            for simulation in simulations:
                name = names.name(text(simulation.get("id")))
                pairing = _heard(simulation)
                yield Transcript(file, name, self.name, pairing.calls(), pairing.replies())


def _heard(simulation: dict[str, object]) -> Pairing:
    pairing = Pairing()
    for message in objects(simulation.get("messages")):
        role, ts = message.get("role"), seconds(message.get("timestamp"))
        if role == "user":
            pairing.user()
        elif role == "assistant":
            pairing.reply()
            pairing.spent(usage(message.get("usage")), cost=amount(message.get("cost")), ts=ts)
            for call in objects(message.get("tool_calls")):
                pairing.call(call.get("name"), call.get("arguments"), id=call.get("id"), ts=ts)
        elif role == "tool" and message.get("requestor") != "user":
            flag = message.get("error")
            pairing.answer(
                words(message.get("content")),
                id=message.get("id"),
                failed=flag if isinstance(flag, bool) else None,
            )
    return pairing
