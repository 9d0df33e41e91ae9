"""The plain tool log: one call a line, as `lastcall.record` and most programs would write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastcall.transcripts.conversations import glance
from lastcall.transcripts.fields import arguments, http, seconds, text
from lastcall.transcripts.pairing import SHELLS
from lastcall.transcripts.recorded import Document, RecordedCall, Transcript, Unreadable

WORDS = {
    "ok": False,
    "success": False,
    "succeeded": False,
    "error": True,
    "failed": True,
    "failure": True,
}
"""What a status in words says of the question whether the call failed."""


class ToolLog:
    """Lines with `name` and `args`, and with ts, status, result, turn, run and more where known."""

    name = "jsonl"
    specificity = 5

    def sniff(self, document: Document) -> bool:
        """Any of the first lines is a call."""
        return any(map(_call, glance(document))) and not isinstance(document.value, list)

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a value of `run`; lines of several runs may be mixed."""
        file, runs = str(document.path), dict[str, _Run]()
        for line, row in document.rows or ((1, document.value),):
            if not isinstance(row, dict) or not _call(row):
                yield Unreadable(file, line, "no call: it has no text `name` beside `args` or `ts`")
                continue
            run = text(row.get("run")) or document.path.name.split(".")[0]
            runs.setdefault(run, _Run()).add(row)
        for run, log in runs.items():
            yield Transcript(file, run, self.name, tuple(log.calls))


class _Run:
    """One run while its lines are read."""

    def __init__(self) -> None:
        self.calls: list[RecordedCall] = []
        self._turn = -1
        self._said: Any = object()
        self._replies: dict[object, int] = {}

    def add(self, row: dict[str, Any]) -> None:
        said = row.get("turn")
        if self._turn < 0 or said not in (None, self._said):
            self._turn, self._said = self._turn + 1, said
        args, broken = arguments(row.get("args"))
        tool, server = str(row["name"]), text(row.get("server"))
        result, failed, status = _outcome(row)
        self.calls.append(
            RecordedCall(
                tool=tool if server is None else f"{server}/{tool}",
                args=args,
                turn=self._turn,
                reply=self._number(text(row.get("reply"))),
                id=text(row.get("id")),
                ts=seconds(row.get("ts")),
                result=result,
                status=status,
                failed=failed,
                malformed=broken or row.get("malformed") is True,
                shell=tool.lower() in SHELLS,
                agent=text(row.get("agent")),
            )
        )

    def _number(self, reply: str | None) -> int:
        # A line that names no reply is one of its own.
        key = object() if reply is None else (self._turn, reply)
        return self._replies.setdefault(key, len(self._replies))


def _call(row: dict[str, Any]) -> bool:
    return bool(row.get("name")) and isinstance(row["name"], str) and ("args" in row or "ts" in row)


def _outcome(row: dict[str, Any]) -> tuple[Any, bool | None, int | None]:
    """A line's result, whether it says that the call failed, and its HTTP status."""
    said, error = row.get("status"), row.get("error")
    word = said.strip().lower() if isinstance(said, str) else ""
    result = row.get("result") if row.get("result") is not None else error or None
    return result, True if error else WORDS.get(word), http(word or said)
