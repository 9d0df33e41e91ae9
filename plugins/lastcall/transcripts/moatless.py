"""Moatless trajectories: nodes of a search tree, in the order they were made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, text
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, RecordedCall, Transcript, Unreadable

CLASS = "action_args_class"
ASIDE = frozenset({CLASS, "scratch_pad"})
"""Fields of an action that are no arguments: its class, and the thought before it."""

PRINTS = frozenset({"EditActionArguments", "RunTestsArgs", "CreateFileArgs", "StringReplaceArgs"})
"""Actions that run the tests and print what they say."""


class Moatless:
    """Nodes with action and observation; one that is no child of the node before starts a turn."""

    name = "moatless-trajectory"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """Objects with `nodes`, one of the first with an `action_args_class`."""
        return any(
            CLASS in mapping(node.get("action"))
            for run in glance(document)
            for node in objects(run.get("nodes"))[:3]
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run an object, named by its instance."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            nodes = objects(mapping(record).get("nodes"))
            if not nodes:
                yield Unreadable(file, line, "no nodes")
                continue
            around = mapping(mapping(record).get("metadata"))
            name = names.name(text(around.get("instance_id")))
            yield Transcript(file, name, self.name, _calls(nodes))


def _calls(nodes: list[dict[str, Any]]) -> tuple[RecordedCall, ...]:
    pairing, last = Pairing(), nodes[0].get("parent_id")
    for node in nodes:
        if node.get("parent_id") != last:
            pairing.user()
        last = node.get("node_id")
        action, observed = mapping(node.get("action")), mapping(node.get("observation"))
        if not action:
            continue
        tool = (text(action.get(CLASS)) or "").rpartition(".")[2]
        args = {key: value for key, value in action.items() if key not in ASIDE}
        pairing.reply()
        pairing.call(tool, args, id=last, shell=tool in PRINTS)
        if observed:
            wrong = observed.get("expect_correction")
            failed = wrong if isinstance(wrong, bool) else None
            pairing.answer(observed.get("message"), failed=failed)
    return pairing.calls()
