"""smolagents benchmark lines: the calls are Python literals inside text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Document, Transcript, Unreadable

CALLING = "Calling tools:"
FINISH = "final_answer"
"""The tool that gives the answer and ends the run: no call."""

ERROR = re.compile(r"(?:Call id: .*\n)?Error:")


class SmolAgents:
    """Steps with the roles `tool-call` and `tool-response`; a code cell is a call, too."""

    name = "smolagents-jsonl"
    specificity = 50

    def sniff(self, document: Document) -> bool:
        """Lines with `intermediate_steps` that have roles."""
        return any(
            "role" in step
            for run in glance(document)
            for step in objects(run.get("intermediate_steps"))[:1]
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a line."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            run = mapping(record)
            if not isinstance(run.get("intermediate_steps"), list):
                yield Unreadable(file, line, "no `intermediate_steps`")
                continue
            pairing = Pairing()
            for problem in _walk(pairing, objects(run["intermediate_steps"])):
                yield Unreadable(file, line, problem)
            yield Transcript(file, names.name(), self.name, pairing.calls())


def _walk(pairing: Pairing, steps: list[dict[str, Any]]) -> Iterator[str]:
    asked = 0
    for number, step in enumerate(steps, 1):
        role, said = step.get("role"), words(step.get("content"))
        if role == "user":
            pairing.user()
        elif role == "assistant":
            pairing.reply()
        elif role == "tool-call":
            calls = _literal(said)
            if calls is None:
                yield f"step {number}: its calls are no Python literal"
            asked = 0
            for call in calls or []:
                function = mapping(call.get("function"))
                if function.get("name") == FINISH:
                    continue
                asked += 1
                args = function.get("arguments")
                # A code cell comes as bare text.
                given = {"code": args} if isinstance(args, str) else args
                pairing.call(function.get("name"), given, id=call.get("id"))
        elif role == "tool-response":
            failed = isinstance(said, str) and ERROR.match(said) is not None
            # Calls of one step share one observation.
            for _ in range(asked):
                pairing.answer(said, failed=failed)
            asked = 0


def _literal(said: Any) -> list[dict[str, Any]] | None:
    if not isinstance(said, str) or not said.startswith(CALLING):
        return None
    try:
        value = ast.literal_eval(said.removeprefix(CALLING).strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return objects(value)
