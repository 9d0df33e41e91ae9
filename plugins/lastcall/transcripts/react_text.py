"""ReAct scratchpads: plain text with numbered thoughts, actions and observations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lastcall.transcripts.conversations import Names
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Aspect, Document, Transcript, Unreadable

STEP = re.compile(r"^(Question|Thought|Action|Observation)(?: (\d+))?: ?", re.MULTILINE)
ACTION = re.compile(r"\s*(\w[\w -]*)\[(.*)\]\s*", re.DOTALL)
HEAD = 100_000
"""How many characters are looked at to tell the format."""

FINISH = "finish"
"""The action that gives the answer: no tool."""


class ReactText:
    """`Action 1: Search[x]` is a call and `Observation 1:` its answer; a question starts a run."""

    name = "react-text"
    specificity = 10
    lacks: frozenset[Aspect] = frozenset({"turns"})

    def sniff(self, document: Document) -> bool:
        """Text with a numbered thought and a numbered action."""
        if document.value is not None or document.rows:
            return False
        return {"Thought", "Action"} <= {m[1] for m in STEP.finditer(document.start(HEAD)) if m[2]}

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a question."""
        file, names, pairing = str(document.path), Names(document), Pairing()
        started = False
        for kind, body in _steps(document.text):
            if kind == "Question" and started:
                yield Transcript(file, names.name(), self.name, pairing.calls())
                pairing, started = Pairing(), False
            elif kind == "Thought":
                pairing.reply()
                started = True
            elif kind == "Action":
                started = True
                found = ACTION.fullmatch(body)
                if found is None:
                    pairing.call(None, body, malformed=True)
                elif found[1].lower() != FINISH:
                    pairing.call(found[1], {"input": found[2]})
            elif kind == "Observation":
                pairing.answer(body)
        yield Transcript(file, names.name(), self.name, pairing.calls())


def _steps(text: str) -> Iterator[tuple[str, str]]:
    """The kind of each step and what it says, up to the next."""
    marks = list(STEP.finditer(text))
    for number, mark in enumerate(marks, 1):
        end = marks[number].start() if number < len(marks) else len(text)
        yield mark[1], text[mark.end() : end].rstrip("\n")
