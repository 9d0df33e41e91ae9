"""The pages of the documentation as tests see them: blocks of code, and what they print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lastcall.cli import main

ROOT = Path(__file__).parents[1]

_FENCED = re.compile(
    # What it prints is looked at alone: it is a block of its own, too.
    r"(?:^`([\w.]+)`\n\n)?^```(\w*)\n(.*?)^```$(?=(?:\n\n```text\n(.*?)^```$)?)",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A fenced block."""

    name: str
    """The file that it is, where one is named above it."""
    kind: str
    """Its language."""
    text: str
    printed: str
    """The text directly below it: what the page says that it prints."""


class Page:
    """A page, by its path from the root."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = (ROOT / name).read_text()
        self.all = [Block(*found) for found in _FENCED.findall(self.text)]
        assert len(self.all) * 2 == self.text.count("```"), "a block that does not end"

    def blocks(self, kind: str) -> list[str]:
        """The text of every block in that language."""
        return [block.text for block in self.all if block.kind == kind]

    def programs(self) -> list[Block]:
        """The blocks of Python that are no files."""
        return [block for block in self.all if block.kind == "python" and not block.name]

    def run(self, given: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
        """Run every program in *given*, one after the other: each prints what stands below it, and nothing
        else on the page is text."""
        programs = self.programs()
        assert programs
        assert [each.printed for each in programs if each.printed] == self.blocks("text")
        for each in programs:
            execute(each.text, given)
            assert capsys.readouterr().out == each.printed


def execute(program: str, given: dict[str, Any]) -> None:
    """Run *program*, whose names are those of *given*, as it would run by itself."""
    exec(compile(program, "page", "exec", dont_inherit=True), given)


def commands(console: str) -> list[tuple[str, str]]:
    """The commands of a console, each with what it prints."""
    before, *rest = re.split(r"^\$ (.*)\n", console, flags=re.MULTILINE)
    assert not before
    assert rest
    return list(zip(rest[::2], rest[1::2], strict=True))


def called(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints: `lastcall`, which ends well, or `cat`."""
    program, *words = shlex.split(command)
    if program == "cat":
        return Path(*words).read_text()
    assert program == "lastcall"
    assert main(words) == 0
    return capsys.readouterr().out
