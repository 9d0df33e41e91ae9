"""The page on formats: its table names what readers say, its commands print what it shows, its reader reads."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from lastcall.cli import main
from lastcall.transcripts import Transcript, Unreadable, find, read, readers
from lastcall.transcripts.recorded import Aspect

from .documented import ROOT, Page, commands, execute

PAGE = Page("docs/transcripts.md")
ASPECTS = Aspect.__args__
DATA = Path(__file__).parent / "transcripts" / "data"


def table():
    lines = re.findall(r"^\| `([a-z0-9-]+)` \| .*? \| ([a-z |]+) \|$", PAGE.text, re.MULTILINE)
    return {name: dict(zip(ASPECTS, cells.split(" | "), strict=True)) for name, cells in lines}


def test_every_reader_has_a_row_and_every_row_a_reader():
    assert set(table()) == {reader.name for reader in readers()}
    assert f"{len(readers())} formats" in PAGE.text
    assert f"{len(readers())} formats" in (ROOT / "README.md").read_text()


def test_what_a_reader_says_it_never_tells_is_no_in_the_table():
    for reader in readers():
        lacks = getattr(reader, "lacks", frozenset())
        row = table()[reader.name]
        assert all(row[aspect] == "no" for aspect in lacks if reader.name != "har"), reader.name


@pytest.mark.parametrize("path", find([DATA]), ids=lambda path: path.stem)
def test_samples_tell_what_the_table_says(path):
    if path.suffix == ".yaml":
        pytest.importorskip("yaml")
    runs = [run for run in read(path) if isinstance(run, Transcript)]
    row = table()[path.stem]
    for aspect, told in row.items():
        lacking = [aspect in run.lacks for run in runs]
        if aspect in ("turns", "replies"):
            continue
        if told == "no":
            assert all(lacking), aspect
        elif told == "yes":
            assert not all(lacking), aspect


def test_the_command_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (log,), (session,) = PAGE.blocks("json"), PAGE.blocks("console")
    Path("night.jsonl.gz").write_bytes(gzip.compress(log.encode()))
    command, printed = commands(session)[-1]
    assert command.startswith("lastcall ")
    assert main(command.split()[1:]) == 2
    out, err = capsys.readouterr()
    assert err + out == printed


def test_the_reader_of_the_page_reads(tmp_path, monkeypatch):
    (program,) = PAGE.blocks("python")
    given = {}
    execute(program, given)
    monkeypatch.setattr("lastcall.transcripts.readers", lambda: (given["Shouts"](),))
    path = tmp_path / "x.jsonl"
    path.write_text('{"shout": "look", "echo": "seen"}\n{"shout": "go"}\n{"x": 1}\n{\n')
    *broken, run = read(path)
    assert isinstance(run, Transcript)
    assert [(call.tool, call.result) for call in run.calls] == [("look", "seen"), ("go", None)]
    assert run.lacks == {"turns", "statuses", "errors", "usage", "time"}
    assert {one.line for one in broken if isinstance(one, Unreadable)} == {3, 4}
