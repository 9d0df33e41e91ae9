"""Files of any size are read in little memory; packed ones as they are; hostile ones to a clear word."""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lastcall import Policy, replay
from lastcall.replay import Replayer
from lastcall.transcripts import Transcript, Unreadable, read, rows, source, tool_log
from lastcall.transcripts.fields import decoded

LINE = '{"name": "f", "args": {}}'


def log(path: Path, lines: int, run: Any = None, width: int = 1000) -> Path:
    """A plain log; *run* makes a run's name of a line's number."""
    with path.open("w") as file:
        for n in range(lines):
            row = {"name": "f", "args": {"n": n}, "ts": n, "result": f"{n}".ljust(width, "x")}
            file.write(json.dumps(row | ({"run": run(n)} if run else {})) + "\n")
    return path


def peak(path: Path) -> int:
    """The most bytes that replaying a file takes."""
    replayer = Replayer(Policy(max_calls=15))
    tracemalloc.start()
    for told in read(path):
        assert isinstance(told, Transcript)
        replayer.replay(told)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts as large is small, so that tests need no gigabytes."""
    monkeypatch.setattr(source, "LARGE", 100_000)
    monkeypatch.setattr(source, "CHUNK", 64 * 1024)
    monkeypatch.setattr(tool_log, "LARGE", 200_000)
    monkeypatch.setattr(replay, "MOST_STOPS", 100)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "run",
    [None, lambda n: f"run {n // 20}", lambda n: f"run {n // 20 * 2 + n % 2}"],
    ids=["one run", "one after the other", "two at a time"],
)
def test_memory_does_not_grow_with_a_log(tmp_path: Path, run: Any) -> None:
    short, long = log(tmp_path / "short", 1_000, run), log(tmp_path / "long", 4_000, run)
    peak(short)
    assert peak(long) < peak(short) + 1_000_000 < long.stat().st_size


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "x" * 2000}]},
        {"history": [{"source": "agent", "action": "message", "content": "x" * 2000}]},
        {"traceId": "", "spanId": "s", "name": "x", "attributes": {"a": "x" * 2000}},
    ],
    ids=["chats", "events", "spans"],
)
def test_memory_does_not_grow_with_a_file_of_a_run_a_line(tmp_path: Path, row: Any) -> None:
    peaks = []
    for times in (20, 500, 2_000):
        path = tmp_path / f"{times}"
        with path.open("w") as file:
            file.writelines(
                json.dumps(
                    {**row, **({"traceId": f"t{n}"} if "traceId" in row else {"id": f"i{n}"})}
                )
                + "\n"
                for n in range(times)
            )
        peaks.append(peak(path))
    assert peaks[2] < peaks[1] + 1_000_000


@pytest.mark.usefixtures("small")
def test_traces_that_end_in_one_line_come_in_the_order_of_their_beginnings(tmp_path: Path) -> None:
    path, names = tmp_path / "x.jsonl", [f"t{n}" for n in range(20)]
    spans = [
        {"traceId": name, "spanId": "s", "name": "x", "attributes": {"a": "x" * 10_000}}
        for name in names
    ]
    late = {"traceId": "t0", "spanId": "z", "name": "x", "attributes": {}}
    path.write_text(json.dumps({"spans": spans}) + "\n" + json.dumps({"spans": [late]}) + "\n")
    runs: list[Any] = list(read(path))
    assert [run.run for run in runs] == [*names[1:], "t0"]


@pytest.mark.usefixtures("small")
def test_a_run_too_large_to_hold_is_walked_as_a_sequence(tmp_path: Path) -> None:
    path = log(tmp_path / "x", 400, lambda n: "big" if n % 40 else "small")
    big, small = sorted(
        (run for run in read(path) if isinstance(run, Transcript)), key=lambda run: run.run
    )
    assert isinstance(small.calls, tuple)
    assert not isinstance(big.calls, tuple)
    whole = tuple(big.calls)
    assert (len(whole), len(small.calls)) == (len(big.calls), 10) == (390, 10)
    assert whole == tuple(big.calls)
    assert [call.reply for call in whole] == list(range(390))
    assert (big.calls[0], big.calls[-1]) == (whole[0], whole[-1])
    for place in (slice(5), slice(-3, None), slice(10, 2, -3), slice(None, None, -1)):
        assert big.calls[place] == whole[place]
    with pytest.raises(IndexError):
        big.calls[390]
    assert all(a.args["n"] < b.args["n"] for a, b in pairwise(big.calls))


@pytest.mark.usefixtures("small")
def test_of_many_runs_at_once_some_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_log, "HELD", 100_000)
    runs = [
        run
        for run in read(log(tmp_path / "x", 400, lambda n: f"{n % 8}"))
        if isinstance(run, Transcript)
    ]
    held = [isinstance(run.calls, tuple) for run in runs]
    assert held == [True] + [False] * 7
    for place, run in enumerate(runs):
        assert [call.args["n"] for call in run.calls] == list(range(place, 400, 8))


@pytest.mark.usefixtures("small")
def test_broken_lines_of_a_large_log_are_told_once(tmp_path: Path) -> None:
    path = log(tmp_path / "x", 400)
    with path.open("a") as file:
        file.write("{broken\n[1]\n" + LINE)
    first, second, run = read(path)
    assert isinstance(first, Unreadable)
    assert isinstance(second, Unreadable)
    assert (first.line, second.line) == (401, 402)
    assert isinstance(run, Transcript)
    assert sum(1 for _ in run.calls) == len(run.calls) == 401


def test_of_many_broken_lines_the_first_are_told_and_the_others_counted(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(f"{LINE}\n" + "{\n" * 1000 + f"{LINE}\n")
    *told, run = read(path)
    assert isinstance(run, Transcript)
    assert len(told) == rows.PENDING + 1
    last = told[-1]
    assert isinstance(last, Unreadable)
    assert last.problem.startswith(f"and {1000 - rows.PENDING} more broken lines")


def zstd(content: bytes) -> bytes:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    made: bytes = pytest.importorskip(name).compress(content)
    return made


PACKERS = [gzip.compress, zstd]


@pytest.mark.parametrize("pack", PACKERS)
def test_packed_files_are_read_whatever_their_name(told: Any, pack: Any) -> None:
    (run,) = told(pack(f"{LINE}\n{LINE}\n".encode()))
    assert len(run.calls) == 2
    (run,) = told(pack(f"{LINE}\n".encode("utf-16")) + pack(b""))
    assert len(run.calls) == 1


@pytest.mark.parametrize("pack", PACKERS)
def test_of_a_packed_file_that_is_cut_off_the_beginning_is_read(
    tmp_path: Path, pack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    content = "".join(f'{{"name": "{os.urandom(9).hex()}", "args": {{}}}}\n' for _ in range(9999))
    path.write_bytes(pack(content.encode())[:-9000])
    broken, run = read(path)
    assert isinstance(broken, Unreadable)
    assert isinstance(run, Transcript)
    assert broken.problem.startswith("the file is cut off in the middle of its compressed data")
    assert 1000 < len(run.calls) < 9999
    assert broken.line == len(run.calls) + 1


def test_one_value_in_a_packed_file_that_is_cut_off_is_not_read(told: Any) -> None:
    content = json.dumps(
        {"messages": [{"role": "user", "content": os.urandom(99).hex()}]}, indent=1
    )
    (only,) = told(gzip.compress(content.encode())[:-40])
    assert only.problem == "the file is cut off in the middle of its compressed data"


def test_a_damaged_packed_file_says_so(told: Any) -> None:
    packed = bytearray(gzip.compress(os.urandom(200_000)))
    packed[5000:5100] = bytes(100)
    (only,) = told(bytes(packed))
    assert isinstance(only, Unreadable)


def test_a_packed_database_is_to_be_unpacked_first(told: Any) -> None:
    (only,) = told(gzip.compress(b"SQLite format 3\0" + bytes(100)))
    assert only.problem == "a compressed database: unpack it first"


def test_nothing_but_the_head_of_a_packed_file(told: Any) -> None:
    (only,) = told(gzip.compress(LINE.encode())[:6])
    assert only.problem.startswith("the file is cut off")


def test_without_a_zstd_library_its_extra_is_named(
    told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    (only,) = told(b"\x28\xb5\x2f\xfd123")
    assert 'pip install "lastcall[zstd]"' in only.problem


def test_a_bomb_is_not_unpacked_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(LINE.encode() + b"\n" + b"[" * 50_000_000))
    tracemalloc.start()
    broken, run = read(path, limit=1_000_000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(run, Transcript)
    assert isinstance(broken, Unreadable)
    said = "the file unpacks to a line of more than 1000000 bytes; only what comes before this line"
    assert (broken.line, broken.problem) == (2, f"{said} is read")
    assert most < 10_000_000


def test_a_bomb_of_one_value_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(b"[\n" + b"[],\n" * 1_000_000))
    (only,) = read(path, limit=1 << 20)
    assert isinstance(only, Unreadable)
    assert only.problem.startswith("the file unpacks to more than 1 MiB and is not JSON lines")


def test_a_long_line_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "x"
    long = json.dumps({"name": "f", "args": {"x": "y" * 3_000_000}})
    path.write_text(f"{LINE}\n{long}\n{LINE}\n{long}")
    told = list(read(path, limit=1_000_000))
    (run,) = (one for one in told if isinstance(one, Transcript))
    assert len(run.calls) == 2
    assert [(one.line, one.problem) for one in told if isinstance(one, Unreadable)] == [
        (2, "broken line: a line of more than 1000000 bytes"),
        (4, "broken line: a line of more than 1000000 bytes"),
    ]


def test_a_value_of_more_parts_than_memory_bears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lastcall.transcripts.fields.VAST", 100)
    monkeypatch.setattr("lastcall.transcripts.fields.MANY", 50)
    with pytest.raises(ValueError, match="more than 50 lists and objects"):
        decoded(b"[" + b"[]," * 60 + b"[]]")


@pytest.mark.parametrize(
    "text",
    [
        "123456789012345678901234567890",
        "-9999999999999999999",
        "18446744073709551616",
        "1e400",
        '"\\ud800"',
        "[1.0, -0.0, 1]",
        '{"a": 1, "a": 2}',
    ],
)
def test_bytes_and_text_are_the_same_value(text: str) -> None:
    assert repr(decoded(text.encode())) == repr(decoded(text)) == repr(json.loads(text))


@pytest.mark.parametrize("text", ["1" * 5000, '{"a": ' * 100_000, "NaN,", "\xff"])
def test_hostile_values_are_broken_lines(told: Any, text: str) -> None:
    broken, run = told(f'{LINE}\n{{"name": {text}\n'.encode("latin-1"))
    assert (broken.line, broken.problem[:11]) == (2, "broken line")
    assert len(run.calls) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(f"{LINE}\n{LINE}\n",))
    writer.start()
    (run,) = read(path)
    writer.join()
    assert isinstance(run, Transcript)
    assert len(run.calls) == 2


def test_reading_begins_before_the_end_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x"
    chat = json.dumps({"messages": [{"role": "user", "content": "x" * 100}]})
    with path.open("w") as file:
        file.writelines(f"{chat}\n" for _ in range(50_000))
    runs: Iterator[Any] = read(path)
    assert next(runs).run == "x"
    assert next(runs).run == "x#2"
