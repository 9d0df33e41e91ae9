"""Hears one OpenAI Responses item; several formats are made of them."""

from __future__ import annotations

from typing import Any

from lastcall.transcripts.fields import text, words
from lastcall.transcripts.pairing import Pairing

CALLS: dict[str, tuple[str | None, str]] = {
    "function_call": (None, "arguments"),
    "custom_tool_call": (None, "input"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "computer_call": ("computer", "action"),
}
"""Items that ask for a tool of the agent's own: the tool's name where the item has none, and the
field of its arguments. Hosted tools run at the provider, where no guard sees them: left out."""

ANSWERS = frozenset(f"{kind}_output" for kind in CALLS)


class Items:
    """The items of one run on their way into its pairing: those of one response follow each other, with
    no answer in between."""

    def __init__(self, pairing: Pairing) -> None:
        self.pairing = pairing
        self._answering = False

    def hear(
        self,
        item: dict[str, Any],
        *,
        ts: float | None = None,
        agent: Any = None,
        failed: bool | None = None,
    ) -> bool:
        """Adds the call, the answer or the turn that *item* brings. Returns whether a response begins
        with it."""
        kind, role = text(item.get("type")), item.get("role")
        if role == "user":
            self.pairing.user()
            self._answering = False
        elif kind is not None and kind in ANSWERS:
            said = _failed(item) if kind == "apply_patch_call_output" else failed
            # That of a local shell has the id of its call in its own.
            self.pairing.answer(
                words(item.get("output")),
                id=item.get("call_id") or item.get("id"),
                tool=CALLS[kind.removesuffix("_output")][0],
                failed=said,
            )
            self._answering = False
        elif role == "assistant" or (role is None and kind is not None):
            begins = not self._answering
            if begins:
                self.pairing.reply()
                self._answering = True
            if kind in CALLS:
                self._ask(kind, item, ts, agent)
            return begins
        return False

    def _ask(self, kind: str, item: dict[str, Any], ts: float | None, agent: Any) -> None:
        name, field = CALLS[kind]
        args = item.get(field)
        if kind == "custom_tool_call":
            args = {"input": args}
        name = name or item.get("name")
        id_ = item.get("call_id") or item.get("id")
        self.pairing.call(name, args, id=id_, ts=ts, agent=agent)


def _failed(item: dict[str, Any]) -> bool | None:
    return item.get("status") == "failed" if text(item.get("status")) else None
