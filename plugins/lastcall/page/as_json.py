"""The page as plain data, for other programs."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from lastcall.page.findings import headline, story
from lastcall.page.model import Page, RunPage, entries

__all__ = ["plain"]

VERSION = 1
"""Goes up when a field changes its meaning."""


def plain(page: Page) -> dict[str, Any]:
    """*page* for JSON."""
    return {
        "version": VERSION,
        "policy": page.policy,
        "redacted": page.redacted,
        "calls": page.calls,
        "stopped": page.stopped,
        "saved": page.saved,
        "unreadable": list(page.unreadable),
        "runs": [_run(run) for run in page.runs],
    }


def _run(run: RunPage) -> dict[str, Any]:
    saved = to_builtins(run.saved)
    return {
        "file": run.file,
        "run": run.run,
        "format": run.format,
        "headline": sentence(run),
        "story": story(run.finding, run.stop, run.calls, untold=run.untold),
        "calls": run.calls,
        "failed": run.failed,
        "executed": run.executed,
        "turns": run.turns,
        "seconds": run.seconds,
        "stop": to_builtins(run.stop),
        "saved": saved,
        "finding": to_builtins(run.finding),
        "lacks": list(run.lacks),
        "not_judged": list(run.not_judged),
        "timeline": [
            {
                "call": number,
                "tool": run.tools[line.tool],
                "arguments": to_builtins(run.arguments[line.arguments]),
                "result": None if line.result is None else to_builtins(run.results[line.result]),
                "answer": run.answers[line.answer],
                "failed": line.failed,
                "turn": line.turn,
                "seconds": line.seconds,
                "stop": line.stop,
                "made": number <= run.executed,
            }
            for number, line in entries(run)
        ],
    }


def sentence(run: RunPage) -> str:
    """The headline of a run."""
    return headline(run.finding, run.stop, run.calls, run.executed, run.saved.calls)
