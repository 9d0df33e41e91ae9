"""`lastcall fingerprints`: which calls own most of what saved runs did."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from lastcall import Policy, Usage
from lastcall.cli import main
from lastcall.fingerprint import exact, loose
from lastcall.ownership import Ledger
from lastcall.replay import Replayer
from lastcall.transcripts import RecordedCall, RecordedReply, Transcript


@pytest.fixture
def log(tmp_path):
    """Writes a plain tool log and gives its path."""

    def write(*rows, name="run.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


REMIND = {"due": "2026-02-30"}


def call(name="search", ts=0, status=200, result="x", **args):
    return {"ts": ts, "name": name, "args": args, "status": status, "result": result}


NIGHT = [
    call("find", 0, who="ann"),
    call("find", 10, who="ann", result="y"),
    call("find", 20, who=" Ann ", result="z"),
    *[call("remind", 30 + n, 422, due="2026-02-30", result=None) for n in range(4)],
]


def run(capsys, *argv):
    code = main(["fingerprints", *[str(word) for word in argv]])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def counted(capsys, *argv):
    code, out, err = run(capsys, *argv, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_exact_and_loose_owners_with_their_totals(capsys, log):
    found = counted(capsys, log(*NIGHT))
    assert (found["runs"], found["calls"], found["failures"]) == (1, 7, 4)
    first, second, third = found["exact"]
    assert first["fingerprint"] == exact("remind", {"due": "2026-02-30"})
    assert (first["calls"], first["failures"], first["runs"]) == (4, 4, 1)
    assert (second["calls"], third["calls"]) == (2, 1)
    both = next(one for one in found["loose"] if one["calls"] == 3)
    assert both["fingerprint"] == loose("find", {"who": "ann"})
    assert both["variants"] == 2


def test_what_the_guard_would_have_blocked_first(capsys, log):
    found = counted(capsys, log(*NIGHT), log(*NIGHT, name="again.jsonl"))
    (blocked,) = found["blocked_first"]
    assert blocked["fingerprint"] == exact("remind", {"due": "2026-02-30"})
    assert (blocked["reason"], blocked["runs"], blocked["earliest"]) == ("terminal", 2, 5)


def test_time_is_until_the_next_call_of_the_turn(capsys, log):
    found = counted(capsys, log(*NIGHT), "--by", "time")
    assert [one["seconds"] for one in found["exact"]] == [20, 10, 3]


def test_the_order_and_how_many(capsys, log):
    path = log(*NIGHT)
    assert counted(capsys, path, "--by", "failures", "--top", 1)["exact"][0]["failures"] == 4
    assert len(counted(capsys, path, "--top", 2)["exact"]) == 2


def test_cost_by_what_the_policy_declares(capsys, log, tmp_path):
    policy = tmp_path / "p.toml"
    policy.write_text('[tools.remind]\ncost = { ok = "1", 422 = "0.25" }\n')
    found = counted(capsys, log(*NIGHT), "--policy", policy, "--by", "cost")
    assert Decimal(found["exact"][0]["cost"]) == 1
    assert found["exact"][1]["cost"] is None


def test_a_reply_that_cost_something_is_shared_by_its_calls():
    calls = [RecordedCall("a", {"n": n}, reply=n // 2) for n in range(3)]
    replies = [
        RecordedReply(0, cost=Decimal("0.3")),
        RecordedReply(1, usage=Usage(model="m", input=1_000_000)),
    ]
    policy = Policy(prices={"m": {"input": "2", "output": "1"}})
    transcript = Transcript("f", "r", "x", tuple(calls), tuple(replies))
    ledger = Ledger(policy)
    ledger.add(transcript, Replayer(policy).replay(transcript))
    assert sorted(one.cost for one in ledger.exact()) == [Decimal("0.15"), Decimal("0.15"), 2]


def test_a_model_without_a_price_costs_nobody_knows_what():
    reply = RecordedReply(0, usage=Usage(model="nobody-sells-this", input=5))
    transcript = Transcript("f", "r", "x", (RecordedCall("a", {}),), (reply,))
    ledger = Ledger(Policy())
    ledger.add(transcript, Replayer().replay(transcript))
    assert ledger.exact()[0].cost is None


@pytest.mark.parametrize(
    ("by", "said"), [("cost", "--policy may declare it"), ("time", "no call has a time")]
)
def test_what_nobody_told_is_no_order(capsys, log, by, said):
    path = log({"name": "a", "args": {}, "status": 200})
    code, out, err = run(capsys, path, "--by", by)
    assert (code, out) == (2, "")
    assert said in err


def test_for_people(capsys, log, monkeypatch):
    monkeypatch.setenv("COLUMNS", "78")
    _, out, _ = run(capsys, log(*NIGHT), "--top", 1)
    print_, near = exact("remind", REMIND), loose("remind", REMIND)
    assert out.splitlines() == [
        "1 run, 7 calls, 4 failed",
        "",
        "exact, by calls",
        "calls  share  failed  seconds  cost  runs  fingerprint       call",
        f'    4   57 %       4        3     -     1  {print_}  remind(due="20...',
        "",
        "loose, by calls",
        "calls  share  failed  seconds  cost  runs  fingerprint       call",
        f'    4   57 %       4        3     -     1  {near}  remind(due="20...',
        "",
        "blocked first",
        "runs  at call    reason  fingerprint       call",
        f'   1        5  terminal  {print_}  remind(due="2026-02-30")',
    ]


def test_secrets_are_not_shown(capsys, log):
    _, out, _ = run(capsys, log(call(password="hunter22", to="ann@example.com")), "--json")
    assert "hunter22" not in out
    assert "ann@example.com" not in out


def test_what_cannot_be_read_is_said_and_the_rest_is_counted(capsys, log, tmp_path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{")
    code, out, err = run(capsys, log(*NIGHT), broken)
    assert code == 2
    assert "broken.jsonl" in err
    assert "7 calls" in out


def test_nothing_to_count(capsys, tmp_path):
    code, _, err = run(capsys, tmp_path)
    assert code == 2
    assert "no run with a call" in err


@pytest.mark.parametrize("top", ["0", "-1", "x", "²"])
def test_so_many_is_a_number(capsys, log, top):
    with pytest.raises(SystemExit) as left:
        run(capsys, log(*NIGHT), "--top", top)
    assert left.value.code == 2


def test_real_runs_are_counted_as_they_are(capsys, corpus):
    found = counted(capsys, corpus / "tau2-bench")
    rows = map(json.loads, (corpus / "index.jsonl").read_text().splitlines())
    calls = sum(row["n_tool_calls"] for row in rows if row["source"] == "tau2-bench")
    assert found["calls"] == calls
    assert found["blocked_first"]
