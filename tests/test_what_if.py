"""`lastcall replay --what-if`, and `--expect recorded`."""

from __future__ import annotations

import json

import pytest

from lastcall.cli import main


def call(n=0, **fields):
    return {
        "ts": n,
        "name": "search",
        "args": {"n": n},
        "status": 200,
        "result": f"p {n}",
        **fields,
    }


GOOD = [call(n) for n in range(12)]
LOOP = [call(n, args={"q": "inv-7"}, result="nothing") for n in range(9)]


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Writes files into the folder at hand; rows as a plain log."""
    monkeypatch.chdir(tmp_path)

    def put(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = (
            content if isinstance(content, str) else "".join(json.dumps(r) + "\n" for r in content)
        )
        path.write_text(rows)

    return put


@pytest.fixture
def marked(put):
    """Two good runs, one of them long, and two bad ones."""
    put("good/a.jsonl", GOOD)
    put("good/b.jsonl", GOOD[:3])
    put("bad/loop.jsonl", LOOP)
    put("bad/calm.jsonl", GOOD[:5])


def run(capsys, *argv):
    code = main(["replay", *[str(word) for word in argv]])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


class TestWhatIf:
    @pytest.mark.usefixtures("marked")
    def test_policies_side_by_side(self, capsys):
        argv = ("--what-if", "strict", "--good", "good", "--bad", "bad")
        code, out, err = run(capsys, *argv)
        assert (code, err) == (0, "")
        assert out.splitlines() == [
            "4 runs, 29 calls; marked: 2 good, 2 bad",
            "",
            "policy   stopped  calls saved  false stops      loops caught",
            "default  1        6 (21 %)     0 of 2 (77.6 %)  1 of 2",
            "strict   2        11 (38 %)    1 of 2 (97.5 %)  1 of 2",
            "(false stops: in brackets the rate that is not exceeded, with 95 % confidence)",
            "",
            "Judged differently, or wrongly:",
            "good  good/a.jsonl",
            "      default: clean",
            "      strict: call 9, search (ceiling)",
            "bad   bad/calm.jsonl",
            "      default: clean",
            "      strict: clean",
        ]

    @pytest.mark.usefixtures("marked")
    def test_as_json(self, capsys):
        argv = ("--policy", "permissive", "--what-if", "strict", "--what-if", "default")
        code, out, _ = run(capsys, *argv, "--bad", "bad", "good", "--json")
        found = json.loads(out)
        assert code == 0
        assert [one["policy"] for one in found["policies"]] == ["permissive", "strict", "default"]
        assert [one["caught"] for one in found["policies"]] == [0, 1, 1]
        assert [one["good"] for one in found["policies"]] == [0, 0, 0]
        by_name = {one["name"]: one for one in found["runs"]}
        assert set(by_name) == {"good/a.jsonl", "bad/calm.jsonl", "bad/loop.jsonl"}
        stops = by_name["bad/loop.jsonl"]["stops"]
        assert [stop and stop["index"] for stop in stops] == [None, 2, 3]

    def test_expectations_beside_transcripts_are_marks(self, capsys, put):
        put("runs/a.transcript.jsonl", GOOD)
        put("runs/a.expect.toml", 'expect = "clean"')
        put("runs/b.transcript.jsonl", LOOP)
        put("runs/b.expect.toml", 'expect = "stop"')
        put("runs/c.transcript.jsonl", GOOD)
        _, out, _ = run(capsys, "runs", "--what-if", "strict")
        assert "marked: 1 good, 1 bad" in out
        assert "-     runs/c.transcript.jsonl" in out

    def test_without_marks_there_is_nothing_to_be_wrong_about(self, capsys, put):
        put("a.jsonl", GOOD[:3])
        _, out, _ = run(capsys, "a.jsonl", "--what-if", "strict")
        assert out.splitlines()[3] == "default  0        0 (0 %)      -            -"
        assert len(out.splitlines()) == 5

    @pytest.mark.usefixtures("marked")
    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (("--good", "good"), "--good and --bad mark runs for --what-if"),
            (("good", "--what-if", "strict", "--expect", "clean"), "leave --expect out"),
            (("--what-if", "strict", "--good", "good", "--bad", "."), "both good and bad"),
            (("good", "--what-if", "strikt"), "did you mean 'strict'"),
            (("good", "--what-if", "strikt"), "--what-if strikt: neither"),
        ],
    )
    def test_wrong_use(self, capsys, argv, said):
        code, _, err = run(capsys, *argv)
        assert (code, said in err) == (2, True), err

    def test_of_many_runs_some_are_named(self, capsys, put):
        for n in range(25):
            put(f"runs/{n}.jsonl", GOOD)
        _, out, _ = run(capsys, "runs", "--what-if", "strict")
        assert out.endswith("... and 5 more\n")

    def test_nothing_to_compare(self, capsys, put):
        put("notes/a.txt", "dear diary")
        code, _, err = run(capsys, "notes", "--what-if", "strict")
        assert (code, "none of these files is a transcript" in err) == (2, True)

    def test_several_runs_of_a_file_are_told_apart(self, capsys, put):
        put("a.jsonl", [{**row, "run": name} for name in "xy" for row in GOOD])
        put("a.expect.toml", '[runs.y]\nexpect = "stop"')
        _, out, _ = run(capsys, "a.jsonl", "--what-if", "strict")
        assert "marked: 1 good, 1 bad" in out
        assert "bad   a.jsonl [y]" in out

    @pytest.mark.usefixtures("marked")
    def test_what_cannot_be_read_is_said(self, capsys, put):
        put("bad/broken.jsonl", json.dumps(call()) + "\n{")
        code, out, err = run(capsys, "bad", "--what-if", "strict")
        assert code == 2
        assert "bad/broken.jsonl:2: broken line" in err
        assert out.startswith("3 runs")


class TestRecorded:
    def test_each_file_as_it_says_and_others_clean(self, capsys, put):
        put("runs/a.transcript.jsonl", GOOD)
        put("runs/b.transcript.jsonl", LOOP)
        code, out, _ = run(capsys, "runs", "--expect", "recorded")
        assert code == 1
        assert "NOT AS EXPECTED: expected clean, and call 4 would have been the last" in out
        put("runs/b.expect.toml", 'expect = "stop"\nreason = "same"\nby_call = 4')
        code, out, _ = run(capsys, "runs", "--expect", "recorded")
        assert code == 0
        assert out.endswith("1 stopped, 6 calls saved; 0 not as expected\n")
        put("runs/b.expect.toml", 'expect = "stop"\nby_call = 3')
        code, out, _ = run(capsys, "runs", "--expect", "recorded")
        assert code == 1
        assert "stopped at call 4, later than at call 3" in out

    def test_what_cannot_be_judged_fails(self, capsys, put):
        put("a.transcript.jsonl", [{k: v for k, v in row.items() if k != "result"} for row in GOOD])
        code, out, _ = run(capsys, ".", "--expect", "recorded")
        assert code == 1
        assert "NOT AS EXPECTED: cannot be judged by same, near, cycle, stale" in out
        assert run(capsys, ".", "--expect", "clean")[0] == 0
        put("a.expect.toml", 'expect = "clean"\nunjudged = ["same", "near", "cycle", "stale"]')
        assert run(capsys, ".", "--expect", "recorded")[0] == 0

    def test_an_expectation_stands_for_its_transcript(self, capsys, put):
        put("a.transcript.jsonl", LOOP)
        put("a.expect.toml", 'expect = "clean"')
        assert run(capsys, "a.expect.toml", "--expect", "recorded")[0] == 1
        put("b.expect.toml", 'expect = "clean"')
        assert run(capsys, "b.expect.toml", "--expect", "recorded")[0] == 2

    def test_the_policy_beside_unless_the_command_names_one(self, capsys, put):
        put("a.transcript.jsonl", GOOD)
        put("a.expect.toml", 'policy = "strict"\nexpect = "stop"')
        assert run(capsys, ".", "--expect", "recorded")[0] == 0
        assert run(capsys, ".", "--expect", "recorded", "--policy", "default")[0] == 1

    def test_a_policy_file_is_looked_for_beside_it(self, capsys, put):
        put("runs/a.transcript.jsonl", GOOD)
        put("runs/a.expect.toml", 'policy = "two.toml"\nexpect = "stop"\nby_call = 3')
        put("runs/two.toml", "max_calls = 2")
        assert run(capsys, "runs/a.transcript.jsonl", "--expect", "recorded")[0] == 0

    def test_an_expectation_that_cannot_be(self, capsys, put):
        put("a.transcript.jsonl", GOOD)
        put("a.expect.toml", 'expekt = "stop"')
        code, _, err = run(capsys, ".", "--expect", "recorded")
        assert (code, "a.expect.toml: " in err) == (2, True)
