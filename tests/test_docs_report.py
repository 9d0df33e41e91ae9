"""docs/report.md is run as it stands, and its pictures are there."""

from __future__ import annotations

import re
import shlex

import pytest

from lastcall.cli import main

from .documented import Page

PAGE = Page("docs/report.md")
SMALL = 150_000


def test_the_commands_write_pages(root, tmp_path, monkeypatch, capsys):
    (block,) = PAGE.blocks("sh")
    assert f"<!-- test: run -->\n```sh\n{block}" in PAGE.text
    (tmp_path / "examples").symlink_to(root / "examples")
    monkeypatch.chdir(tmp_path)
    for line in block.splitlines():
        assert main(shlex.split(line)[1:]) == 0
    for name in ("page.html", "all.html", "picture.svg"):
        assert (tmp_path / name).stat().st_size > 5000
    assert "# `create_reminder` was called 38 times." in capsys.readouterr().out


def test_the_redactor_does_what_is_said(capsys):
    PAGE.run({}, capsys)
    assert len(PAGE.programs()) == 1


@pytest.mark.parametrize("page", ["README.md", "docs/report.md"])
def test_pictures_are_there_and_small(root, page):
    file = root / page
    names = re.findall(r'(?:\]\(|src=")((?:docs/)?images/[^)"]+)', file.read_text())
    assert names
    for name in names:
        assert (file.parent / name).stat().st_size < SMALL
