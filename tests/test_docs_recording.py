"""The page on recording: its program writes what it says, its commands print what it says."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from lastcall.call import Where
from lastcall.cli import main

PAGE = (Path(__file__).parents[1] / "docs" / "recording.md").read_text()
VARY = ("ts", "policy", "fingerprint", "near", "digest", "user")
"""Values of which the page shows one of many."""


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder in which the page's first program has run, and its second lies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    records, clerk = blocks("python")
    exec(compile(records, "recording.md", "exec"), {})
    (tmp_path / "clerk.py").write_text(clerk)
    yield tmp_path
    sys.modules.pop("clerk", None)


def test_the_commands_print_what_the_page_says(here, capsys):
    for block in blocks("console"):
        _, command, printed = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
        assert main(shlex.split(command)[1:]) == 0
        out = re.sub(r"\d{8}T\d{6}-\d+-", "20260101T120000-4711-", capsys.readouterr().out)
        assert out == printed


def test_the_lines_are_as_the_page_says(here):
    (path,) = (here / "runs").iterdir()
    written = list(map(json.loads, path.read_text().splitlines()))
    told = list(map(json.loads, "".join(blocks("json")).splitlines()))
    assert [list(line) for line in written] == [list(line) for line in told]
    for ours, theirs in zip(written, told, strict=True):
        plain = {name: value for name, value in ours.items() if name not in VARY}
        assert plain == {name: value for name, value in theirs.items() if name not in VARY}
    assert re.fullmatch(r"\[redacted:email:\w+\]", told[0]["user"])
    assert "@" not in path.read_text()


def test_every_field_is_in_the_table():
    source = (Path(__file__).parents[1] / "plugins/lastcall/recording.py").read_text()
    body = source[source.index("def decided") : source.index("def close")]
    fields = set(re.findall(r'^ +"(\w+)": ', body, re.MULTILINE))
    fields |= set(re.findall(r"^ {16}(\w+)=", body, re.MULTILINE))
    fields |= {*Where.__struct_fields__, "over", "more", "from", "runs", "of"}
    table = PAGE[PAGE.index("| field |") : PAGE.index("Results and arguments of more")]
    assert fields <= set(re.findall(r"`(\w+)`", table))
