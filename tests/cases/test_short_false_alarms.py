"""The short cases of theme P, false alarms, as far as their rules exist."""

from __future__ import annotations

import pytest

from lastcall import Policy, ToolPolicy
from lastcall.rules import Ceiling
from lastcall.testing import assert_stopped

from .playing import Run, reasons


def test_r037_one_tool_may_wait_longer_than_the_others(make_guard):
    policy = Policy(max_repeats=4, tools={"wait": ToolPolicy(max_repeats=10)})
    run = Run(make_guard(policy))
    waits = [run.call("wait", {}, "") for _ in range(11)]
    assert reasons(waits) == [None] * 10 + ["repeat"]
    others = [run.call("list", {}, "") for _ in range(5)]
    assert reasons(others) == [None] * 4 + ["repeat"]


@pytest.mark.parametrize("policy", [Policy(max_calls=12), Policy(max_calls=12, max_repeats=2)])
def test_r040_an_exempt_tool_still_counts_for_the_ceiling(make_guard, policy):
    policy = policy.replaced(tools={"sequence": ToolPolicy(exempt=True)})
    run = Run(make_guard(policy))
    stops = [run.call("sequence", {"step": 1}, "same") for _ in range(13)]
    assert reasons(stops) == [None] * 12 + ["ceiling"]


@pytest.mark.parametrize("policy", [Policy(max_calls=50), Policy(max_calls=50, max_repeats=3)])
def test_r041_many_new_artefacts_are_a_budget_not_a_loop(make_guard, policy):
    run = Run(make_guard(policy))
    stops = [run.call("create_pr", {"title": f"Fix number {n}"}, {"number": n}) for n in range(60)]
    assert reasons(stops) == [None] * 50 + ["ceiling"] * 10


def test_r042_of_a_poll_only_an_unchanged_result_counts(make_guard):
    policy = Policy(max_repeats=2, tools={"job": ToolPolicy(polls=True)})
    run = Run(make_guard(policy))
    assert [run.call("job", 1, f"{n} percent") for n in range(10)] == [None] * 10
    run = Run(make_guard(policy))
    assert reasons(run.call("job", 1, "waiting") for _ in range(3)) == [None, None, "repeat"]
    plain = Run(make_guard(Policy(max_repeats=2)))
    assert reasons(plain.call("job", 1, f"{n} percent") for n in range(3))[2] == "repeat"


class TestR043:
    POLICY = Policy(max_repeats=5, tools={"board": ToolPolicy(polls=True)})

    def test_r043_five_unchanged_results_and_the_sixth_call_is_stopped(self, make_guard):
        run = Run(make_guard(self.POLICY))
        assert reasons(run.call("board", {}, "open") for _ in range(6)) == [None] * 5 + ["repeat"]

    def test_r043_one_changed_result_restarts_the_count(self, make_guard):
        run = Run(make_guard(self.POLICY))
        results = ["open"] * 4 + ["taken"] * 5
        assert [run.call("board", {}, result) for result in results] == [None] * 9
        assert_stopped(run.call("board", {}, "taken"), reason="repeat")

    def test_r043_no_result_counts_as_unchanged(self, make_guard):
        guard = make_guard(self.POLICY)
        with guard.within(run="r"):
            for _ in range(5):
                with guard.calling("board"):
                    pass
            with pytest.raises(Exception, match="board") as caught, guard.calling("board"):
                pass
        assert_stopped(caught.value, reason="repeat")


def test_r045_busy_and_varied_work_is_no_loop(make_guard):
    run = Run(make_guard(Policy().replaced(Ceiling(calls=None))))
    stops = [run.call("edit", {"file": f"f{n % 7}", "line": n}, "ok") for n in range(174)]
    assert stops == [None] * 174


def test_r046_a_warning_at_a_threshold_and_a_stop_at_twice_that(make_guard):
    events = []
    poll = ToolPolicy(polls=True, alert_calls=10, max_repeats=20)
    run = Run(make_guard(Policy(tools={"poll": poll}), listeners=[events.append]))
    for n in range(1, 22):
        stop = run.call("poll", {}, "waiting")
        assert len([event for event in events if event.kind == "alert"]) == (n >= 10)
        assert (stop is not None) == (n == 21)
    assert_stopped(stop, reason="repeat")
    assert run.bodies == 20


@pytest.mark.parametrize("varied", [False, True], ids=["one call", "varied calls"])
def test_r047_trouble_of_the_provider_is_not_called_a_loop(make_guard, varied):
    # The breaker they feed comes with a later issue; here: the reason is not that of a repeat.
    run = Run(make_guard())
    body = {"status_code": 503, "error": "upstream busy"}
    stops = [run.call("look", n if varied else 0, body) for n in range(5)]
    made = [stop for stop in stops if stop is not None]
    assert made
    assert {(stop.reason, stop.status) for stop in made} == {("failing", 503)}
