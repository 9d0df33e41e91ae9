"""Puts the calls of a conversation together with their answers, their turns and their replies."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from lastcall.call import Usage
from lastcall.transcripts.fields import NAMELESS, arguments, text
from lastcall.transcripts.recorded import RecordedCall, RecordedReply

SHELLS = frozenset({
    "bash", "cmd", "code_interpreter", "computer_terminal", "exec", "exec_command", "execute_bash",
    "execute_code", "execute_command", "execute_ipython_cell", "local_shell", "powershell",
    "python", "python_interpreter", "run_code", "run_command", "run_shell_command", "sh", "shell",
    "str_replace_based_edit_tool", "str_replace_editor", "terminal",
})  # fmt: skip
"""Tools, in lower case, that print what other programs say, under the names agents know them by."""


class Pairing:
    """One run while it is walked from its first message to its last."""

    __slots__ = ("_calls", "_named", "_open", "_replies", "_reply", "_spoken", "_turn")

    def __init__(self) -> None:
        self._calls: list[RecordedCall] = []
        self._replies: list[RecordedReply] = []
        self._open: dict[int, None] = {}
        self._named: dict[str, list[int]] = {}
        self._turn = 0
        self._reply = -1
        self._spoken = False

    def user(self) -> None:
        """A user message: it starts a turn when the agent has said something in this one."""
        self._turn += self._spoken
        self._spoken = False

    def reply(self) -> None:
        """A model message, with or without calls; those that follow belong to it."""
        self._reply += 1
        self._spoken = True

    def spent(
        self, usage: Usage | None, *, cost: Decimal | None = None, ts: float | None = None
    ) -> None:
        """What the last reply used and cost; nothing is noted where neither is known, and what is told
        again of the same reply counts once."""
        # Writers put 0 where they know no price.
        cost = cost or None
        if usage is None and cost is None:
            return
        if self._replies and self._replies[-1].reply == self._reply:
            self._replies.pop()
        self._replies.append(RecordedReply(self._reply, self._turn, ts, usage, cost))

    def call(
        self,
        tool: Any,
        args: Any = None,
        *,
        id: Any = None,  # noqa: A002
        ts: float | None = None,
        malformed: bool = False,
        shell: bool | None = None,
        agent: Any = None,
    ) -> None:
        """A call of the last reply; *shell* is known by the tool's name unless said."""
        if self._reply < 0:
            self.reply()
        name = text(tool) or NAMELESS
        given, broken = arguments(args)
        made = RecordedCall(
            tool=name,
            args=given,
            turn=self._turn,
            reply=self._reply,
            id=text(id),
            ts=ts,
            malformed=malformed or broken or name == NAMELESS,
            shell=name.lower() in SHELLS if shell is None else shell,
            agent=text(agent),
        )
        place = len(self._calls)
        self._calls.append(made)
        self._open[place] = None
        if made.id is not None:
            self._named.setdefault(made.id, []).append(place)

    def answer(
        self,
        result: Any,
        *,
        id: Any = None,  # noqa: A002
        tool: Any = None,
        failed: bool | None = None,
        status: int | None = None,
    ) -> None:
        """What a call was answered: the one of that id, else the first open one of its reply."""
        place = self._place(text(id), text(tool))
        if place is None:
            return
        del self._open[place]
        asked = self._calls[place]
        if asked.id is not None:
            self._named[asked.id].remove(place)
        # A shell's error flag may be no more than an exit code, and agents probe with those.
        said = None if failed and asked.shell else failed
        self._calls[place] = replace(asked, result=result, failed=said, status=status)

    def _place(self, wanted: str | None, tool: str | None) -> int | None:
        if wanted is not None and wanted in self._named:
            return self._first(self._named[wanted], None)
        return self._first(self._unanswered(), tool)

    def _first(self, places: list[int], tool: str | None) -> int | None:
        # An id may come again in a later reply; an answer belongs to the last one that asked.
        last = [n for n in places if self._calls[n].reply == self._calls[places[-1]].reply]
        alike = [n for n in last if self._calls[n].tool == tool]
        return next(iter(alike or last), None)

    def _unanswered(self) -> list[int]:
        places: list[int] = []
        for place in reversed(self._open):
            if places and self._calls[place].reply != self._calls[places[0]].reply:
                break
            places.append(place)
        return places[::-1]

    @property
    def place(self) -> tuple[int, int]:
        """The turn and the reply it is at."""
        return self._turn, self._reply

    def replies(self) -> tuple[RecordedReply, ...]:
        """The replies of which it is known what they used."""
        return tuple(self._replies)

    def __len__(self) -> int:
        """How many calls there are so far."""
        return len(self._calls)

    def calls(self) -> tuple[RecordedCall, ...]:
        """The calls so far, in order."""
        return tuple(self._calls)
