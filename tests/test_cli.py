from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lastcall.cli import main


@pytest.fixture
def log(tmp_path):
    """Writes a plain tool log and gives its path."""

    def write(*rows, name="run.jsonl"):
        path = tmp_path / name
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def call(n=0, ts=0, **fields):
    return {"ts": ts, "name": "search", "args": {"n": n}, "status": 200, "result": "x", **fields}


LOOP = [call(1, ts) for ts in range(10)]
CLEAN = [call(ts, ts, result=f"page {ts}") for ts in range(10)]


def run(capsys, *argv):
    code = main([str(word) for word in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def objects(out):
    return [json.loads(line) for line in out.splitlines()]


class TestJson:
    def test_a_loop_is_one_object_that_says_where_it_would_have_stopped(self, capsys, log):
        code, out, _ = run(capsys, "replay", log(*LOOP), "--json")
        (one,) = objects(out)
        assert code == 0
        assert one.keys() == {
            "file", "run", "format", "calls", "executed", "stops", "saved",
            "further", "lacks", "not_judged",
        }  # fmt: skip
        assert (one["calls"], one["executed"], one["saved"]) == (10, 3, 7)
        first = one["stops"][0]
        assert first.keys() == {
            "index", "reason", "scope", "tool", "fingerprint", "status", "refused",
        }  # fmt: skip
        assert (first["index"], first["reason"], first["refused"]) == (3, "same", True)

    def test_a_final_answer_is_a_stop_that_refused_nothing(self, capsys, log):
        _, out, _ = run(capsys, "replay", log(call(1, status=422)), "--json")
        (one,) = objects(out)
        assert (one["executed"], one["saved"]) == (1, 0)
        assert [(stop["status"], stop["refused"]) for stop in one["stops"]] == [(422, False)]

    def test_several_runs_of_a_file_are_an_object_each(self, capsys, log):
        rows = [call(n, run=run) for run in "ab" for n in range(2)]
        _, out, _ = run(capsys, "replay", log(*rows), "--json")
        assert [one["run"] for one in objects(out)] == ["a", "b"]

    def test_a_new_turn_begins_at_zero(self, capsys, log):
        rows = [call(1, ts, turn=ts // 3) for ts in range(9)]
        _, out, _ = run(capsys, "replay", log(*rows), "--json")
        assert objects(out)[0]["stops"] == []


class TestExpect:
    @pytest.mark.parametrize(
        ("rows", "expect", "code"),
        [(LOOP, "stop", 0), (LOOP, "clean", 1), (CLEAN, "clean", 0), (CLEAN, "stop", 1)],
    )
    def test_the_exit_code_says_whether_it_is_as_expected(self, capsys, log, rows, expect, code):
        assert run(capsys, "replay", log(*rows), "--expect", expect)[0] == code

    def test_every_run_must_be_as_expected(self, capsys, log):
        loop, clean = log(*LOOP, name="a.jsonl"), log(*CLEAN, name="b.jsonl")
        code, out, _ = run(capsys, "replay", loop, clean, "--expect", "stop")
        assert code == 1
        assert "1 not stopped as expected" in out

    def test_a_run_whose_last_answer_ends_the_turn_was_stopped(self, capsys, log):
        path = log(call(1, status=422))
        assert run(capsys, "replay", path, "--policy", "strict", "--expect", "stop")[0] == 0


class TestForPeople:
    def test_one_line_a_run_then_why_and_a_summary(self, capsys, log):
        _, out, _ = run(capsys, "replay", log(*LOOP))
        head, why, summary = out.splitlines()
        assert head.startswith("stop ")
        assert "call 4, search (same" in why
        assert "7 calls saved (70 %)" in why
        assert summary == "1 run, 10 calls: 1 stopped, 7 calls saved"

    def test_piped_output_is_plain(self, log):
        done = subprocess.run(
            [sys.executable, "-m", "lastcall.cli", "replay", log(*LOOP)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0
        assert "\x1b" not in done.stdout + done.stderr
        assert done.stderr == ""


class TestTrouble:
    def test_a_broken_line_is_named_and_the_rest_is_read(self, capsys, log):
        path = log(*LOOP[:2], '{"ts": 3, "name": ', *LOOP[2:])
        code, out, err = run(capsys, "replay", path, "--json")
        assert code == 2
        assert f"{path}:3: broken line" in err
        assert objects(out)[0]["calls"] == 10

    def test_a_missing_file(self, capsys, tmp_path):
        code, _, err = run(capsys, "replay", tmp_path / "none.jsonl")
        assert (code, "no such file" in err) == (2, True)

    def test_something_else_named_is_unreadable_and_in_a_folder_passed_over(self, capsys, log):
        note = log("dear diary", name="note.txt")
        log(*CLEAN)
        assert run(capsys, "replay", note)[0] == 2
        code, out, _ = run(capsys, "replay", note.parent)
        assert code == 0
        assert "1 file passed over" in out

    def test_a_folder_without_transcripts(self, capsys, tmp_path):
        assert run(capsys, "replay", tmp_path)[0] == 2

    def test_an_unknown_policy_names_the_nearest(self, capsys, log):
        code, _, err = run(capsys, "replay", log(*LOOP), "--policy", "strikt")
        assert code == 2
        assert "did you mean 'strict'" in err

    def test_a_policy_file_is_used_and_its_errors_are_told(self, capsys, log, tmp_path):
        policy = tmp_path / "p.toml"
        policy.write_text("max_calls = 5")
        _, out, _ = run(capsys, "replay", log(*CLEAN), "--policy", policy, "--json")
        assert objects(out)[0]["executed"] == 5
        policy.write_text("max_cals = 5")
        code, _, err = run(capsys, "replay", log(*CLEAN), "--policy", policy)
        assert (code, "did you mean 'max_calls'" in err) == (2, True)

    @pytest.mark.parametrize(
        "argv", [[], ["replay"], ["replay", "x", "--expect", "maybe"], ["rep"]]
    )
    def test_wrong_use_is_two(self, argv, capsys):
        with pytest.raises(SystemExit) as left:
            main(argv)
        assert left.value.code == 2
        assert "usage" in capsys.readouterr().err


def interruptible():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(*argv, **settings):
    command = [sys.executable, "-m", "lastcall.cli", *map(str, argv)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **settings
    )


class TestOddFiles:
    def test_names_and_tools_with_half_a_character(self, capsys, log, tmp_path):
        path = tmp_path / os.fsdecode(b"odd\xff.jsonl")
        log(*[call(1, ts, status=422, name="x\ud800", run="\udfff") for ts in range(6)]).rename(
            path
        )
        code, out, _ = run(capsys, "replay", path, "--json", "--expect", "stop")
        (one,) = objects(out)
        assert (code, one["file"], one["executed"]) == (0, str(path), 1)
        done = started("replay", path, env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"})
        assert "odd\\udcff.jsonl" in done.communicate()[0]
        assert done.returncode == 0

    def test_a_name_that_is_too_long(self, capsys):
        code, _, err = run(capsys, "replay", "a" * 5000)
        assert (code, "cannot be opened" in err) == (2, True)

    def test_a_pipe_in_a_folder_is_not_waited_for(self, capsys, log):
        os.mkfifo(log(*CLEAN).parent / "pipe.jsonl")
        code, out, _ = run(capsys, "replay", log(*CLEAN).parent, "--json")
        assert (code, len(objects(out))) == (0, 1)

    def test_a_folder_that_cannot_be_listed_is_unreadable(self, capsys, log, monkeypatch):
        folder = log(*CLEAN).parent
        (folder / "closed").mkdir()
        listed = os.scandir

        def scandir(path):
            if str(path).endswith("closed"):
                raise PermissionError(13, "Permission denied", str(path))
            return listed(path)

        monkeypatch.setattr(os, "scandir", scandir)
        code, _, err = run(capsys, "replay", folder, "--expect", "clean")
        assert (code, "closed: " in err) == (2, True)

    def test_a_policy_that_is_no_text(self, capsys, log, tmp_path):
        policy = tmp_path / "p.toml"
        policy.write_bytes(b"\xff\x00")
        code, _, err = run(capsys, "replay", log(*CLEAN), "--policy", policy)
        assert (code, "not TOML" in err) == (2, True)


class TestBreakingOff:
    def test_a_reader_that_has_seen_enough(self, log):
        done = started("replay", log(*LOOP))
        done.stdout.close()
        assert (done.wait(), done.stderr.read()) == (0, "")
        done.stderr.close()

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is wanted")
    def test_a_full_disk_is_told(self, log):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "lastcall.cli", "replay", log(*LOOP)],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 2
        assert "Traceback" not in done.stderr

    def test_an_interrupt_is_quiet(self, tmp_path):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        # What was begun in the background (nohup, `&` in a script) ignores interrupts, and hands that on.
        done = started("replay", pipe, preexec_fn=interruptible)
        # The pipe opens once somebody reads it: the command is at work by then, and waits for more.
        with pipe.open("w"):
            done.send_signal(signal.SIGINT)
            assert done.communicate() == ("", "")
        assert done.returncode == 130
