"""The page on retrying: every block runs and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from .documented import Page, called, commands

PAGE = Page("docs/retrying.md")


def test_every_block_does_what_the_page_says(capsys):
    PAGE.run({}, capsys)


def test_the_worst_case_is_the_one_that_is_printed(tmp_path, monkeypatch, capsys):
    (policy,), (console,) = PAGE.blocks("toml"), PAGE.blocks("console")
    ((command, printed),) = commands(console)
    monkeypatch.chdir(tmp_path)
    Path("policy.toml").write_text(policy)
    assert called(command, capsys) == printed


def test_the_table_names_every_setting(make_guard):
    import inspect

    from lastcall.retrying import Retries

    asked = inspect.signature(Retries.__init__).parameters
    settings = [name for name, each in asked.items() if each.kind is each.KEYWORD_ONLY]
    assert [name for name in settings if f"`{name}`" not in PAGE.text] == []
    with pytest.raises(TypeError):
        make_guard().retrying(3)
