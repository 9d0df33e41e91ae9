"""What a transcript does not tell is not judged, and replay says so (requirement H4)."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lastcall import Policy
from lastcall.call import Usage
from lastcall.cli import main
from lastcall.replay import Replayed, Replayer
from lastcall.rules import Budget, Concurrency
from lastcall.rules.budget import Limit
from lastcall.transcripts import RecordedCall, RecordedReply, Transcript, read

RESULTS = ("same", "near", "cycle", "stale")
FAILURES = ("terminal", "failing", "streak")


def replayed(path: Path, *rows: dict[str, Any], policy: Policy | None = None) -> Replayed:
    path.write_text("".join(json.dumps({"name": "f", "args": {}} | row) + "\n" for row in rows))
    (run,) = read(path)
    assert isinstance(run, Transcript)
    return Replayer(policy).replay(run)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_calls_alone_leave_rules_about_results_and_failures_unjudged(path: Path) -> None:
    done = replayed(path, {})
    assert set(done.not_judged) == {*RESULTS, *FAILURES}
    assert done.lacks == ("errors", "results", "statuses", "time", "usage")


@pytest.mark.parametrize("known", [{"status": "ok"}, {"status": 200}, {"error": "no"}])
def test_what_came_of_a_call_lets_failures_be_judged(path: Path, known: Any) -> None:
    assert not set(FAILURES) & set(replayed(path, known).not_judged)


def test_results_let_repeats_be_judged(path: Path) -> None:
    done = replayed(path, {"result": "x"}, {})
    assert set(done.not_judged) == set(FAILURES)


def test_a_failure_seen_in_a_result_lets_failures_be_judged(path: Path) -> None:
    done = replayed(path, {"result": {"error": "no", "status": 422}})
    assert done.not_judged == ()
    assert "statuses" in done.lacks


def test_a_rule_that_stopped_the_run_has_judged_it(path: Path) -> None:
    same = [{"args": {"n": 1}} for _ in range(5)]
    done = replayed(path, *same)
    assert done.stopped
    reasons = {stop.reason for stop in done.stops}
    assert reasons & set(RESULTS)
    assert not reasons & set(done.not_judged)


def test_a_run_without_calls_lacks_nothing_that_calls_would_tell() -> None:
    empty = Transcript("f", "r", "x", ())
    assert Replayer().replay(empty).not_judged == ()


def test_calls_at_once_are_never_judged(path: Path) -> None:
    policy = Policy(rules=[Concurrency(limit=1)])
    done = replayed(path, {"status": 200, "result": "x"}, policy=policy)
    assert done.not_judged == ("concurrency",)


@pytest.mark.parametrize(
    ("quantity", "most", "judged"),
    [("calls", 5, True), ("tokens", 5, False), ("money", "1.5", False), ("seconds", 5, False)],
)
def test_a_budget_is_judged_where_its_quantity_is_told(
    path: Path, quantity: Any, most: Any, judged: bool
) -> None:
    limit = Limit(quantity=quantity, per="run", window=None, most=most)
    done = replayed(path, {"status": 200}, policy=Policy(rules=[Budget(limits=(limit,))]))
    assert ("budget" not in done.not_judged) is judged


def test_requests_spend_before_the_calls_they_asked_for() -> None:
    calls = tuple(RecordedCall("f", {"n": n}, reply=n, result="x") for n in range(5))
    replies = tuple(
        RecordedReply(n, usage=Usage("m", 10, 5), cost=Decimal("0.5")) for n in range(5)
    )
    run = Transcript("f", "r", "x", calls, replies)
    for quantity, most, index in (("requests", 2, 2), ("tokens", 40, 3), ("money", "1.5", 2)):
        limit = Limit(quantity=quantity, per="run", window=None, most=most)
        done = Replayer(Policy(rules=[Budget(limits=(limit,))])).replay(run)
        assert (done.stops[0].index, done.stops[0].reason) == (index, "budget"), quantity


def test_a_rule_of_somebody_else_says_what_it_needs() -> None:
    class Slow(Concurrency, frozen=True):
        name: ClassVar[Any] = "slow"
        needs: ClassVar[tuple[str, ...]] = ("time",)

    run = Transcript("f", "r", "x", (RecordedCall("f", {}),), lacks=frozenset({"time"}))
    assert Replayer(Policy(rules=[Slow(limit=9)])).replay(run).not_judged == ("slow",)


def test_the_command_says_what_was_not_judged(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text('{"name": "f", "args": {}}\n')
    assert main(["replay", str(path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("not judged in 1 run: ")
    assert last.endswith("(no errors, no results, no statuses, no time, no usage)")
    main(["replay", "--json", str(path)])
    (one,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert set(one["not_judged"]) == {*RESULTS, *FAILURES}
