"""Files that are no transcripts, or only in part, are told of and never raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lastcall.transcripts import RecordedCall, Transcript, Unreadable, find, read, readers
from lastcall.transcripts.opening import opened
from lastcall.transcripts.recorded import Document

Told = Callable[[Any], list[Any]]
Calls = Callable[[Any], tuple[RecordedCall, ...]]

LINE = '{"name": "f", "args": {}}'


def problem(told: list[Any]) -> str:
    (only,) = told
    assert isinstance(only, Unreadable)
    return only.problem


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "an empty file"),
        (" \n\t\n", "an empty file"),
        (b"\x00\x01\x02", "a binary file, not text"),
        ('[{"role": "user", "content": "cut o', "broken JSON: Unterminated string"),
        ('{\n "messages": [\n  {"role"', "broken JSON:"),
        ("[" * 100_000, "broken JSON: nested too deep"),
        ('"\xff"'.encode("latin-1"), "not a transcript"),
    ],
)
def test_a_file_that_holds_nothing_to_read_says_why(told: Told, content: Any, says: str) -> None:
    assert problem(told(content)).startswith(says)


@pytest.mark.parametrize("value", [{}, [], {"a": 1}, [1, 2], 7, "prose", None, [[]], [{}]])
def test_an_unknown_format_names_the_known_ones(told: Told, value: Any) -> None:
    said = problem(told(value))
    assert said.startswith("not a transcript: no reader of ")
    assert all(reader.name in said for reader in readers())


def test_prose_is_no_transcript(told: Told) -> None:
    assert problem(told("Dear diary,\n{}\nnothing happened.\n")).startswith("not a transcript")


def test_broken_lines_of_no_format_name_the_first(told: Told) -> None:
    (only,) = told('{"a": 1}\n{"b": \n')
    assert isinstance(only, Unreadable)
    assert only.line == 2
    assert only.problem.startswith("not a transcript, and broken line")


def test_a_missing_file_and_a_folder_are_unreadable(tmp_path: Path) -> None:
    assert problem(list(read(tmp_path / "none"))) == "no such file"
    assert problem(list(read(tmp_path))) == "a folder, not a file"
    assert problem(list(read(Path("a\0b")))).startswith("cannot be opened")


def test_a_broken_line_has_its_number_and_the_rest_is_read(told: Told) -> None:
    broken, run = told(f'{LINE}\n\n{{"name": "f", \n{LINE}\n')
    assert isinstance(broken, Unreadable)
    assert (broken.line, broken.problem[:11]) == (3, "broken line")
    assert isinstance(run, Transcript)
    assert len(run.calls) == 2


def test_a_line_that_is_not_utf_8_is_broken_alone(told: Told) -> None:
    broken, run = told(f'{LINE}\n{{"name": "'.encode() + b'\xff"}\n' + LINE.encode())
    assert broken == Unreadable(run.file, 2, "broken line: not UTF-8")
    assert len(run.calls) == 2


def test_a_first_line_cut_in_two_does_not_hide_the_rest(told: Told) -> None:
    broken, run = told(f'": 1, "args": {{}}}}\n{LINE}\n{LINE}\n')
    assert broken.line == 1
    assert len(run.calls) == 2


def test_line_separators_inside_text_do_not_break_lines(calls: Calls) -> None:
    (call,) = calls('{"name": "f", "args": {"text": "a\u2028b\x85c"}}\n')
    assert call.args == {"text": "a\u2028b\x85c"}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_does_no_harm(told: Told, encoding: str) -> None:
    (run,) = told(f"{LINE}\r\n{LINE}\r\n".encode(encoding))
    assert len(run.calls) == 2


def test_a_reader_that_raises_is_reported_and_not_raised(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clumsy:
        name = "clumsy"

        def sniff(self, document: Document) -> bool:
            return True

        def read(self, document: Document) -> Iterator[Transcript]:
            raise LookupError("dropped it")
            yield

    monkeypatch.setattr("lastcall.transcripts.readers", lambda: (Clumsy(),))
    assert problem(told({"a": 1})) == "the reader stumbled: LookupError('dropped it')"


def test_readers_are_ordered_by_what_they_say_of_themselves_alone() -> None:
    said = [(-getattr(reader, "specificity", 0), reader.name) for reader in readers()]
    assert said == sorted(said)
    assert len({reader.name for reader in readers()}) == len(said)


@pytest.mark.parametrize(
    ("content", "says", "foreign"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "a binary file, not text", True),
        (b"\x37\x7f\x06\x82\0\x2d", "a binary file, not text", True),
        (b'{"ts": 1}\n\0\0\0', "a binary file, not text", False),
        (b"PK\x03\x04\x14\0", "a zip archive: unpack it first", False),
        (b"PAR1\x15", "a Parquet file: write it as JSON lines first, a row a line", False),
    ],
)
def test_what_never_was_a_transcript_is_told_from_what_may_have_been(
    told: Told, content: bytes, says: str, foreign: bool
) -> None:
    (only,) = told(content)
    assert (only.problem, only.foreign) == (says, foreign)


def test_what_sqlite_keeps_beside_a_database_is_part_of_it(tmp_path: Path) -> None:
    for name in ("a.db", "a.db-shm", "a.db-wal", "b.jsonl-wal"):
        (tmp_path / name).write_bytes(b"x")
    assert [path.name for path in find([tmp_path])] == ["a.db", "b.jsonl-wal"]


def test_find_expands_folders_and_leaves_notes_and_hidden_files_out(tmp_path: Path) -> None:
    for name in ("b.json", "a/z.jsonl", "a/.hidden", ".git/config", "README.md", "a/SOURCE.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    named, missing = tmp_path / "a" / ".hidden", tmp_path / "none"
    found = find([tmp_path, named, tmp_path / "b.json", missing])
    assert found == [tmp_path / "b.json", tmp_path / "a" / "z.jsonl", named, missing]


def test_a_document_knows_the_lines_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text('\n{"a": 1}\n\n[2]\n')
    document = opened(path)
    assert isinstance(document, Document)
    assert list(document.rows) == list(document.head) == [(2, {"a": 1}), (4, [2])]
    assert document.text == '\n{"a": 1}\n\n[2]\n'
    assert document.value is None


def test_a_path_may_be_text(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"ts": 1, "name": "look", "args": {}, "status": 200}\n')
    assert find([str(tmp_path)]) == [file]
    (run,) = read(str(file))
    assert len(run.calls) == 1
