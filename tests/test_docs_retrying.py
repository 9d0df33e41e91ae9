"""The page on retrying: every block runs and prints what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from lastcall.cli import main

PAGE = (Path(__file__).parents[1] / "docs" / "retrying.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def test_every_block_does_what_the_page_says(capsys):
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == PAGE.count("```python")
    assert sum(bool(printed) for _, printed in blocks) == PAGE.count("```text")
    given = {}
    for code, printed in blocks:
        exec(compile(code, "docs/retrying.md", "exec"), given)
        assert capsys.readouterr().out == printed


def test_the_worst_case_is_the_one_that_is_printed(tmp_path, monkeypatch, capsys):
    (policy,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (block,) = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("policy.toml").write_text(policy)
    line, _, printed = block.partition("\n")
    assert main(shlex.split(line.removeprefix("$ lastcall "))) == 0
    assert capsys.readouterr().out == printed


def test_the_table_names_every_setting(make_guard):
    import inspect

    from lastcall.retrying import Retries

    asked = inspect.signature(Retries.__init__).parameters
    settings = [name for name, each in asked.items() if each.kind is each.KEYWORD_ONLY]
    assert [name for name in settings if f"`{name}`" not in PAGE] == []
    with pytest.raises(TypeError):
        make_guard().retrying(3)
