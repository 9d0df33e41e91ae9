"""ToolBench answers: a search tree whose branches each start again from an older state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, RecordedCall, Transcript, Unreadable

FINE = frozenset({0, 3, 4})
"""Codes of an observation that are no failures: an answer, the end, giving up a branch."""

UNKNOWN_TOOL = 1


class ToolBench:
    """An Action node names a tool, its Action Input child holds arguments and answer; walked depth
    first, as it was run, with a turn for each branch between two forks."""

    name = "toolbench-answer-tree"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """Objects with a `tree` whose `tree` is a node."""
        return any("node_type" in _root(answer) for answer in glance(document))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a tree."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            root = _root(mapping(record))
            if not root:
                yield Unreadable(file, line, "no tree")
                continue
            yield Transcript(file, names.name(), self.name, _calls(root))


def _root(answer: dict[str, Any]) -> dict[str, Any]:
    return mapping(mapping(answer.get("tree")).get("tree"))


def _calls(root: dict[str, Any]) -> tuple[RecordedCall, ...]:
    pairing = Pairing()
    # A stack, since a chain is as deep as a run is long. The flag: the parent has other children, so
    # that a branch begins here; the state before it is shared by all of them and belongs to none.
    waiting: list[tuple[dict[str, Any], Any, bool]] = [(root, None, False)]
    while waiting:
        node, tool, forked = waiting.pop()
        if forked:
            pairing.user()
        kind = node.get("node_type")
        if kind == "Action":
            tool = node.get("description")
        elif kind == "Action Input" and tool is not None:
            _call(pairing, tool, node)
            tool = None
        children = objects(node.get("children"))
        waiting += [(child, tool, len(children) > 1) for child in reversed(children)]
    return pairing.calls()


def _call(pairing: Pairing, tool: Any, node: dict[str, Any]) -> None:
    code = node.get("observation_code")
    pairing.reply()
    pairing.call(tool, node.get("description"), malformed=code == UNKNOWN_TOOL)
    if node.get("observation") is not None:
        failed = code not in FINE if isinstance(code, int) else None
        pairing.answer(node["observation"], failed=failed)
