"""The page on recording: its program writes what it says, its commands print what it says."""

from __future__ import annotations

import json
import re
import sys

import pytest

from lastcall.call import Where

from .documented import ROOT, Page, called, commands, execute

PAGE = Page("docs/recording.md")
VARY = ("ts", "policy", "fingerprint", "near", "digest", "user")
"""Values of which the page shows one of many."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder in which the page's first program has run, and its second lies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    records, clerk = PAGE.blocks("python")
    execute(records, {})
    (tmp_path / "clerk.py").write_text(clerk)
    yield tmp_path
    sys.modules.pop("clerk", None)


def test_the_commands_print_what_the_page_says(here, capsys):
    for block in PAGE.blocks("console"):
        ((command, printed),) = commands(block)
        out = called(command, capsys)
        assert re.sub(r"\d{8}T\d{6}-\d+-", "20260101T120000-4711-", out) == printed


def test_the_lines_are_as_the_page_says(here):
    (path,) = (here / "runs").iterdir()
    written = list(map(json.loads, path.read_text().splitlines()))
    told = list(map(json.loads, "".join(PAGE.blocks("json")).splitlines()))
    assert [list(line) for line in written] == [list(line) for line in told]
    for ours, theirs in zip(written, told, strict=True):
        plain = {name: value for name, value in ours.items() if name not in VARY}
        assert plain == {name: value for name, value in theirs.items() if name not in VARY}
    assert re.fullmatch(r"\[redacted:email:\w+\]", told[0]["user"])
    assert "@" not in path.read_text()


def test_every_field_is_in_the_table():
    source = (ROOT / "plugins/lastcall/recording.py").read_text()
    body = source[source.index("def decided") : source.index("def close")]
    fields = set(re.findall(r'^ +"(\w+)": ', body, re.MULTILINE))
    fields |= set(re.findall(r"^ {16}(\w+)=", body, re.MULTILINE))
    fields |= {*Where.__struct_fields__, "over", "more", "from", "runs", "of"}
    table = PAGE.text[PAGE.text.index("| field |") :]
    table = table[: table.index("Results and arguments of more")]
    assert fields <= set(re.findall(r"`(\w+)`", table))
