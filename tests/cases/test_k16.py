"""K16 Nothing gathered is lost. (Last-answer mode is no part of the core; see the adapters' issues.)"""

from __future__ import annotations

import pytest

from lastcall import Policy, Stopped

from .playing import Run


def played(guard):
    run = Run(guard)
    for n in range(3):
        run.reply(("look", {"n": n}, f"result {n}"))
    return run.reply(("look", {"n": 3}, "never"))[0]


def entries(gathered):
    return [(each.call_id, each.tool, each.result) for each in gathered]


WANTED = [("c1.0", "look", "result 0"), ("c2.0", "look", "result 1"), ("c3.0", "look", "result 2")]


def test_the_stop_holds_what_was_gathered_in_order(make_guard):
    stop = played(make_guard(Policy(max_calls=3)))
    assert entries(stop.gathered) == WANTED
    assert (stop.reason, stop.limit, stop.observed) == ("ceiling", 3, 4)
    assert not any(each.failed for each in stop.gathered)


def test_the_report_holds_it_too_and_the_run_is_stopped_not_failed(make_guard):
    guard = make_guard(Policy(max_calls=3))
    played(guard)
    for report in (guard.report("r"), (guard.finish("r"), guard.report("r"))[1]):
        assert report.status == "stopped"
        assert entries(report.gathered) == WANTED
        assert (report.stopped_by.reason, report.stopped_by.limit) == ("ceiling", 3)
        assert (report.totals.executed, report.totals.refused, report.totals.failed) == (3, 1, 0)


def test_an_exception_carries_the_same_outcome(make_guard):
    guard = make_guard(Policy(max_calls=3))
    look = guard.wrap(lambda n: f"result {n}", name="look")
    with guard.within(run="r"):
        for n in range(3):
            look(n)
        with pytest.raises(Stopped) as caught:
            look(3)
    assert [each.result for each in caught.value.stop.gathered] == [each[2] for each in WANTED]


def test_failures_are_gathered_as_such(make_guard):
    run = Run(make_guard(Policy(max_calls=2)))
    run.call("look", 1, "found", id="a")
    run.call("look", 2, ValueError("no"), id="b")
    stop = run.call("look", 3)
    assert [(each.call_id, each.failed) for each in stop.gathered] == [("a", False), ("b", True)]
