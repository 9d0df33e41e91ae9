"""What `codex exec --json` prints: one event a line, about items of a thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from lastcall.call import Usage
from lastcall.transcripts.conversations import Names, glance, records
from lastcall.transcripts.fields import mapping, objects, text, untold, words
from lastcall.transcripts.pairing import Pairing
from lastcall.transcripts.recorded import Aspect, Document, Transcript, Unreadable
from lastcall.transcripts.usage import usage

BEGINS = "thread.started"
ITEMS = frozenset({"item.started", "item.updated", "item.completed"})

SHELL = "command_execution"
PATCH = "file_change"
MCP = "mcp_tool_call"
AGENTS = "collab_tool_call"
CALLS = frozenset({SHELL, PATCH, MCP, AGENTS})
"""Items that are calls. A search runs at the provider, and a plan has less in it than its call had."""

KINDS = CALLS | {"agent_message", "reasoning", "web_search", "todo_list", "error"}

ENDED = frozenset({"completed", "failed", "declined"})

COUNTED = ("input", "output", "cached", "reasoning")


class CodexExec:
    """Events of threads, turns and items; which calls came in one reply is not in them."""

    name = "codex-exec-jsonl"
    specificity = 50
    lacks: frozenset[Aspect] = frozenset({"replies"})

    def sniff(self, document: Document) -> bool:
        """The event with which a thread begins, or one about an item of it."""
        return any(_about_thread(row) or _about_item(row) for row in glance(document))

    def read(self, document: Document) -> Iterator[Transcript | Unreadable]:
        """One run a thread; a thread that was resumed says its name again, and goes on."""
        file, names = str(document.path), Names(document)
        thread: _Thread | None = None
        for line, row in records(document):
            if not isinstance(row, dict):
                yield Unreadable(file, line, "no event")
                continue
            if _about_thread(row):
                id_ = text(row["thread_id"])
                if thread is not None and thread.id not in (None, id_):
                    yield thread.told(file, names)
                    thread = None
                thread = thread or _Thread()
                thread.begin(id_)
                continue
            thread = thread or _Thread()
            thread.add(row)
        if thread is not None:
            yield thread.told(file, names)


def _about_thread(row: dict[str, Any]) -> bool:
    return row.get("type") == BEGINS and text(row.get("thread_id")) is not None


def _about_item(row: dict[str, Any]) -> bool:
    return str(row.get("type")) in ITEMS and str(mapping(row.get("item")).get("type")) in KINDS


class _Thread:
    """One thread while its events are read."""

    def __init__(self) -> None:
        self.id: str | None = None
        self._pairing = Pairing()
        self._open: dict[str, str] = {}
        """The ids of the calls that wait for their ends, by those of their items."""

        self._total = Usage()
        self._told = False
        self._spoken = False

    def begin(self, id_: str | None) -> None:
        """It begins, or goes on in another process, whose items are counted from 0 again."""
        self.id = id_
        self._open.clear()

    def add(self, event: dict[str, Any]) -> None:
        """Hear an event."""
        kind, item = event.get("type"), mapping(event.get("item"))
        if kind == "turn.started":
            self._pairing.user()
            self._spoken = False
        elif kind == "turn.completed":
            self._spent(usage(event.get("usage")))
        elif str(kind) in ITEMS:
            if str(item.get("type")) in CALLS:
                self._call(item)
            elif kind == "item.completed" and item.get("type") in ("agent_message", "reasoning"):
                self._reply()

    def told(self, file: str, names: Names) -> Transcript:
        """The run, now that all of its events were heard."""
        calls, replies = self._pairing.calls(), self._pairing.replies()
        hidden = bool(calls) and not self._told
        lacks: frozenset[Aspect] = frozenset({"arguments"}) if hidden else frozenset()
        return Transcript(file, names.name(self.id), CodexExec.name, calls, replies, lacks)

    def _reply(self) -> None:
        self._pairing.reply()
        self._spoken = True

    def _spent(self, total: Usage | None) -> None:
        """What a turn used: the numbers are those of the whole thread."""
        if total is None:
            return
        if not self._spoken:
            self._reply()
        self._pairing.spent(_beyond(self._total, total))
        self._total = total

    def _call(self, item: dict[str, Any]) -> None:
        place, tool = len(self._pairing), _tool(item)
        id_ = text(item.get("id")) or f"?{place}"
        own = self._open.get(id_)
        if own is None:
            args = _arguments(item)
            self._told = self._told or args is not None
            own = self._open[id_] = f"{id_}@{place}"
            self._reply()
            self._pairing.call(
                tool,
                untold(place) if args is None else args,
                id=own,
                shell=item.get("type") == SHELL,
            )
        status = text(item.get("status"))
        if status in ENDED:
            del self._open[id_]
            self._pairing.answer(_result(item), id=own, failed=status != "completed")


def _tool(item: dict[str, Any]) -> str | None:
    kind, tool = text(item.get("type")), text(item.get("tool"))
    if kind == MCP:
        server = text(item.get("server"))
        return tool if server is None or tool is None else f"{server}/{tool}"
    return tool if kind == AGENTS else kind


def _arguments(item: dict[str, Any]) -> Any:
    """With what it was called, None where that is not told: of patches there are the names of files alone."""
    kind = item.get("type")
    if kind == SHELL:
        return {"command": item.get("command")}
    if kind == MCP:
        # The first versions of the events had no arguments.
        return item.get("arguments") or {} if "arguments" in item else None
    if kind == AGENTS:
        return {key: item.get(key) for key in ("prompt", "receiver_thread_ids")}
    return None


def _result(item: dict[str, Any]) -> Any:
    kind, status = item.get("type"), item.get("status")
    if kind == SHELL:
        output, code = item.get("aggregated_output"), item.get("exit_code")
        if status == "declined":
            return output or status
        # As Codex itself tells its model, which reads of a failure in the text alone.
        return f"Exit code: {code}\n{output or ''}" if code else output
    if kind == MCP:
        error, result = mapping(item.get("error")), mapping(item.get("result"))
        if error:
            return error.get("message") or error
        return words(result.get("content")) or result.get("structured_content")
    if kind == AGENTS:
        return item.get("agents_states")
    return {
        "status": status,
        "files": [
            {"path": one.get("path"), "kind": one.get("kind")}
            for one in objects(item.get("changes"))
        ],
    }


def _beyond(before: Usage, total: Usage) -> Usage:
    """What *total* counts beyond what it counted *before*; all of it where it began anew."""
    parts = {key: getattr(total, key) - getattr(before, key) for key in COUNTED}
    return total if any(part < 0 for part in parts.values()) else replace(total, **parts)
