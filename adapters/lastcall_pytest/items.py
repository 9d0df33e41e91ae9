"""A transcript as a test of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lastcall import PolicyError
from lastcall.commands.printed import located
from lastcall.expectation import Expectation, ExpectationError, Expectations, beside, expected
from lastcall.plural import counted
from lastcall.redaction import Redactor
from lastcall.replay import Replayer
from lastcall.timeline import indented, timeline
from lastcall.transcripts import Transcript, read
from lastcall.visible import visible
from lastcall_pytest import RECORDED
from lastcall_pytest.policies import chosen, kept

SHOWN = 3
"""Runs of one file whose timelines are shown; the others are counted."""


class NotAsExpectedError(Exception):
    """What is wrong with a transcript; its text is all there is to be told."""


class TranscriptFile(pytest.File):
    """One file: one test, whatever runs it holds, since names of tests must be known before it is read."""

    def collect(self) -> Iterator[TranscriptItem]:
        """The test."""
        yield TranscriptItem.from_parent(self, name="replay")


class TranscriptItem(pytest.Item):
    """Every run of the file must be readable, judged, and as expected."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.add_marker("lastcall")

    def runtest(self) -> None:
        """Replay. Raises NotAsExpectedError."""
        beside_it = beside(self.path)
        try:
            told = expected(self.path) or Expectations()
            name, policy = chosen(self.config, told.policy, self.path.parent)
        except (ExpectationError, PolicyError, OSError) as error:
            raise NotAsExpectedError(str(error)) from None
        replayer = Replayer(policy)
        came_to: dict[str, Expectation] = {}
        unreadable: list[str] = []
        failed: list[str] = []
        missed = 0
        redactor = Redactor.of_environment()
        for found in read(self.path):
            if not isinstance(found, Transcript):
                unreadable.append(f"unreadable: {located(found, redactor.text)}")
                continue
            done = replayer.replay(found)
            one = told.of(found.run)
            problem = one.missed(done)
            came_to[found.run] = one if problem is None else Expectation.of(done)
            if problem is None:
                continue
            missed += 1
            if missed <= SHOWN:
                failed += [
                    redactor.text(f"run {found.run}: {problem}"),
                    f"{counted(done.calls, 'call')}, {done.format}, policy {name}",
                    "",
                    indented(timeline(found, done, policy)),
                    "",
                ]
        if unreadable:
            raise NotAsExpectedError("\n".join((*unreadable, "", *failed)))
        if not came_to:
            raise NotAsExpectedError(f"{self.path}: holds no run")
        absent = sorted(set(told.runs) - set(came_to))
        if missed and self.config.getoption("--lastcall-update"):
            told = told.model_copy(update={"policy": kept(self.config, told.policy, self.path)})
            self.record(recorded(told, came_to), beside_it)
            return
        if absent:
            failed.append(f"{beside_it.name} names runs that are not there: {', '.join(absent)}")
        if failed:
            if missed > SHOWN:
                failed.append(f"{missed - SHOWN} more runs are not as expected")
            there = "" if beside_it.is_file() else " (there is none: taken for healthy)"
            failed.append(f"expected by {beside_it.name}{there};")
            failed.append("pytest --lastcall-update records what it comes to now")
            raise NotAsExpectedError("\n".join(failed))

    def record(self, expectations: Expectations, path: Path) -> None:
        """Write them, and say so at the end of the session, in whichever process that is."""
        try:
            expectations.write(path)
        except OSError as error:
            raise NotAsExpectedError(f"not recorded: {error}") from None
        self.user_properties.append((RECORDED, f"recorded {path}"))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What is wrong, without the plugin's own frames."""
        if isinstance(excinfo.value, NotAsExpectedError):
            return visible(str(excinfo.value))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it is, and its name for the head of a failure."""
        return self.path, None, f"replay of {self.path.name}"


def recorded(told: Expectations, came_to: dict[str, Expectation]) -> Expectations:
    """What is to be written: one word for all runs where one will do."""
    kinds = set(came_to.values())
    if len(kinds) == 1:
        return Expectations(policy=told.policy, every=kinds.pop())
    return Expectations(
        policy=told.policy,
        every=told.every,
        runs={run: one for run, one in came_to.items() if one != told.every},
    )
