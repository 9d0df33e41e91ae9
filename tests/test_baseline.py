"""Limits derived from healthy runs: each quantity from its own distribution."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Policy
from lastcall.baseline import Baseline, Spread
from lastcall.cli import main
from lastcall.transcripts import RecordedCall, Transcript


def run(capsys, *argv):
    code = main([str(word) for word in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def logs(folder, *lengths):
    """A healthy run of each length, as a plain tool log."""
    for index, length in enumerate(lengths):
        rows = [
            {"ts": 100 * n, "name": "look", "args": {"n": n}, "result": f"page {n}"}
            for n in range(length)
        ]
        path = folder / f"run-{index:03}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)) + "\n")


class TestSpread:
    def test_of_two_hundred_runs(self):
        assert Spread.of(range(1, 201)) == Spread(200, 100, 190, 198, 200)

    def test_of_one_run_is_that_run(self):
        assert Spread.of([7]) == Spread(1, 7, 7, 7, 7)

    def test_alert_is_p99_and_the_limit_twice_that(self):
        spread = Spread.of([1] * 98 + [4, 90])
        assert (spread.alert, spread.limit) == (4, 8)

    @given(st.lists(st.integers(0, 1000), min_size=1))
    def test_so_many_per_cent_are_within(self, values):
        spread = Spread.of(values)
        for share, bound in ((50, spread.p50), (95, spread.p95), (99, spread.p99)):
            assert 100 * sum(value <= bound for value in values) >= share * len(values)
            assert 100 * sum(value < bound for value in values) < share * len(values)

    def test_of_nothing_is_an_error(self):
        with pytest.raises(ValueError, match="nothing"):
            Spread.of([])


def test_each_turn_is_a_run_with_requests_of_its_own():
    calls = [
        RecordedCall("a", {}, turn=0, reply=0),
        RecordedCall("a", {}, turn=0, reply=0),
        RecordedCall("a", {}, turn=0, reply=1),
        RecordedCall("a", {}, turn=1, reply=2, ts=5.0),
        RecordedCall("a", {}, turn=1, reply=3, ts=7.5),
    ]
    baseline = Baseline()
    baseline.add(Transcript("f", "r", "x", tuple(calls)))
    baseline.add(Transcript("f", "s", "x", ()))
    spreads = baseline.spreads()
    assert spreads["calls a run"] == Spread(2, 2, 3, 3, 3)
    assert spreads["requests a run"] == Spread(2, 3, 3, 3, 3)
    assert spreads["calls a transcript"] == Spread(1, 5, 5, 5, 5)
    assert spreads["seconds a run"] == Spread(1, 3, 3, 3, 3)
    assert "1 without a call, of which no run is known" in baseline.untold()


class TestCommand:
    def test_writes_a_policy_that_is_read_back(self, capsys, tmp_path):
        (tmp_path / "runs").mkdir()
        logs(tmp_path / "runs", *[5] * 198, 12, 40)
        policy = tmp_path / "policy.toml"
        code, out, err = run(capsys, "baseline", tmp_path / "runs", "-o", policy)
        assert (code, err) == (0, "")
        assert out.startswith("200 transcripts, 1042 calls; not judged: tokens and money")
        made = Policy.from_toml(policy)
        rules = {rule.name: rule for rule in made.rules}
        assert (rules["ceiling"].calls, rules["ceiling"].alert) == (10, 5)
        (limit,) = rules["budget"].limits
        assert (limit.name, limit.most, limit.alert) == ("requests/run", 12, 6)
        text = policy.read_text()
        assert "from 200 transcripts taken for healthy: 200 runs, 1042 calls" in text
        assert "There are only" not in text
        assert '# quantity = "seconds"' in text
        assert sorted(path.name for path in tmp_path.iterdir()) == ["policy.toml", "runs"]

    def test_few_runs_are_said_to_be_few(self, capsys, tmp_path):
        logs(tmp_path, 3)
        code, out, err = run(capsys, "baseline", tmp_path)
        assert code == 0
        assert "Of 1 run p99 is the greatest: derive it from more" in out
        assert err.startswith("1 transcript, 3 calls; not judged")
        assert Policy.from_toml(out)

    def test_what_cannot_be_read_is_said_and_the_rest_is_judged(self, capsys, tmp_path):
        logs(tmp_path, 3)
        broken = tmp_path / "broken.jsonl"
        broken.write_text("{")
        code, out, err = run(capsys, "baseline", tmp_path, broken, "-o", tmp_path / "p.toml")
        assert code == 2
        assert "broken.jsonl" in err
        assert "1 unreadable" in out
        assert (tmp_path / "p.toml").exists()

    def test_nothing_to_derive_from_writes_nothing(self, capsys, tmp_path):
        code, _, err = run(capsys, "baseline", tmp_path, "-o", tmp_path / "p.toml")
        assert code == 2
        assert "nothing to derive limits from" in err
        assert not (tmp_path / "p.toml").exists()

    def test_a_file_that_cannot_be_written_leaves_the_old_one(self, capsys, tmp_path):
        logs(tmp_path, 3)
        code, _, err = run(capsys, "baseline", tmp_path, "-o", tmp_path / "no" / "p.toml")
        assert code == 2
        assert "p.toml" in err

    def test_real_runs(self, capsys, corpus):
        code, out, _ = run(capsys, "baseline", corpus / "tau2-bench")
        assert code == 0
        assert Policy.from_toml(out)
