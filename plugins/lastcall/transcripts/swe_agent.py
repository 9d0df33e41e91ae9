"""SWE-agent trajectories: one command line a step, no JSON calls."""

from __future__ import annotations

from collections.abc import Iterator

from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, text
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Aspect, Document, Transcript, Unreadable

COMMANDS = frozenset({
    "append", "create", "edit", "exit_context", "exit_cost", "exit_error", "exit_format",
    "exit_forfeit", "find_file", "goto", "insert", "open", "scroll_down", "scroll_up",
    "search_dir", "search_file", "str_replace_editor", "submit", "view_image",
})  # fmt: skip
"""The agent's own commands; any other word is a program, run by its shell."""

PRINTS = frozenset({"bash", "edit", "insert", "str_replace_editor"})
"""Those that print what a program says: an edit shows the linter's words."""


class SweAgent:
    """A `trajectory` of steps with `action` and `observation`; every step is one reply."""

    name = "swe-agent-traj"
    specificity = 50
    lacks: frozenset[Aspect] = frozenset({"turns"})

    def sniff(self, document: Document) -> bool:
        """Objects with a `trajectory` whose first step has an action and an observation."""
        return any(
            "action" in step and "observation" in step
            for run in glance(document)
            for step in objects(run.get("trajectory"))[:1]
        )

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a trajectory."""
        file, names = str(document.path), Names(document)
        for line, record in records(document):
            run = mapping(record)
            steps = objects(run.get("trajectory"))
            if not steps:
                yield Unreadable(file, line, "no steps under `trajectory`")
                continue
            pairing = Pairing()
            for step in steps:
                action = step.get("action")
                words = action.split(maxsplit=1) if isinstance(action, str) else []
                tool = words[0] if words and words[0] in COMMANDS else "bash" if words else None
                pairing.reply()
                pairing.call(tool, {"command": action}, shell=tool in PRINTS)
                pairing.answer(step.get("observation"))
            yield Transcript(
                file, names.name(text(run.get("instance_id"))), self.name, pairing.calls()
            )
