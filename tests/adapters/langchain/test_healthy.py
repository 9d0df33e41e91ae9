"""Healthy runs are not touched: every body runs, every result is the tool's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from lastcall import Guard

from .playing import WAYS, build, config_of, play
from .scripted import asked_alone, asking, reply, scripted


class Desk:
    """Tools that count how often they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def read(self, page: int) -> str:
        """Read a page."""
        self.ran.append("read")
        return f"page {page}: {page * 7919}"

    def write(self, row: int) -> str:
        """Write a row."""
        self.ran.append("write")
        return "ok"

    def poll(self, job: str) -> dict[str, Any]:
        """Ask how far a job is."""
        self.ran.append("poll")
        return {"job": job, "done": 10 * len(self.ran)}

    def edit(self, line: int) -> str:
        """Edit a line."""
        self.ran.append("edit")
        return f"line {line} changed"

    def test(self, suite: str) -> str:
        """Run the tests."""
        self.ran.append("test")
        return f"{len(self.ran)} passed, {20 - len(self.ran)} failed"

    def restore(self, file: str) -> str:
        """Restore a file."""
        self.ran.append("restore")
        return ""

    def tools(self, script: list[AIMessage]) -> list[Callable[..., Any]]:
        """Those that *script* asks for."""
        asked = dict.fromkeys(call["name"] for message in script for call in message.tool_calls)
        return [getattr(self, name) for name in asked]


def one_by_one(*calls: tuple[str, dict[str, Any]]) -> list[AIMessage]:
    return [reply(asking(name, args, f"c{i}")) for i, (name, args) in enumerate(calls)]


RUNS: dict[str, list[AIMessage]] = {
    "12 distinct reads": asked_alone("read", ({"page": i} for i in range(12))),
    "12 writes that all answer ok": asked_alone("write", ({"row": i} for i in range(12))),
    "6 polls whose result changes": asked_alone("poll", ({"job": "j"} for _ in range(6))),
    "6 rounds of edit and test": one_by_one(
        *(pair for i in range(6) for pair in (("edit", {"line": i}), ("test", {"suite": "all"})))
    ),
    "12 pages": asked_alone("read", ({"page": 100 + i} for i in range(12))),
    "6 restores between edits": one_by_one(
        *(pair for i in range(6) for pair in (("edit", {"line": i}), ("restore", {"file": "a"})))
    ),
    "12 reads in one reply": [reply(*(asking("read", {"page": i}, f"c{i}") for i in range(12)))],
}


PLAYED = [
    (*way, run, ("invoke", "ainvoke")[(at + i) % 2])
    for at, way in enumerate(WAYS)
    for i, run in enumerate(RUNS)
]
"""Every run every way; every way, and every run, in both modes."""


@pytest.mark.parametrize(("entry", "kind", "run", "mode"), PLAYED)
def test_a_healthy_run_is_not_touched(entry: str, kind: str, run: str, mode: str) -> None:
    desk, script = Desk(), RUNS[run]
    guard = Guard()
    played = play(
        build(entry, kind, guard, scripted(*script), *desk.tools(script)),
        config_of(guard, entry),
        mode,
    )
    assert played.raised is None
    assert played.stop is None
    assert len(desk.ran) == sum(len(message.tool_calls) for message in script)
    assert played.saved[-1].content == "done"
    assert not any(message.status == "error" for message in played.saved if message.type == "tool")
    assert len(guard.store) == 0  # type: ignore[arg-type]
