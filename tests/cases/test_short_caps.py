"""The short cases of theme C, caps and counting, as far as their rules exist."""

from __future__ import annotations

import asyncio

import pytest

from lastcall import Outcome, Policy, PolicyError, ToolPolicy
from lastcall.testing import assert_stopped

from .playing import Body, HttpError, Run, reasons, stop_of


def test_r050_caps_of_single_tools_beside_the_total(make_guard):
    tools = {"dear": ToolPolicy(max_calls=2), "cheap": ToolPolicy(max_calls=10)}
    run = Run(make_guard(Policy(max_calls=20, tools=tools)))
    assert reasons(run.call("dear", n) for n in range(3)) == [None, None, "ceiling"]
    assert [run.call("cheap", n) for n in range(10)] == [None] * 10
    stop = assert_stopped(run.call("cheap", 10), reason="ceiling", scope="tool")
    assert (stop.limit, stop.observed) == (10, 11)


def test_r051_a_failed_attempt_uses_up_the_cap(make_guard):
    # Contested; the table of decisions: every execution counts.
    run = Run(make_guard(Policy(max_calls=3)))
    stops = [run.call("look", n, ValueError(f"ask me {n} more times")) for n in range(4)]
    assert reasons(stops) == [None, None, None, "ceiling"]


def test_r052_the_work_is_readable_without_catching_an_exception(make_guard):
    run = Run(make_guard(Policy(max_calls=3)))
    for n in range(4):
        run.call("look", n, f"result {n}")
    wanted = ["result 0", "result 1", "result 2"]
    assert [each.result for each in run.ended.gathered] == wanted
    assert [each.result for each in run.guard.report("r").gathered] == wanted


def test_r057_parallel_failures_of_one_batch_count_one_a_call(make_guard):
    # Contested: the case counts one per turn; the table of decisions: one per call.
    run = Run(make_guard())
    batch = [("read", n, HttpError(404, f"no file {n}")) for n in range(5)]
    stops = run.reply(*batch)
    assert [(stop.scope, stop.executed) for stop in stops] == [
        ("call", True),
        ("call", True),
        ("tool", True),
        ("tool", False),
        ("tool", False),
    ]


def test_r060_the_body_runs_once_a_call(make_guard):
    guard, body = make_guard(), Body()
    with guard.within(run="r"):
        guard.wrap(body)(n=1)
        with guard.calling("look", {"n": 2}) as call:
            call.result(body(n=2))

        async def alook(n):
            return body(n=n)

        asyncio.run(guard.wrap(alook)(3))
    assert [args["n"] for args in body.started] == [1, 2, 3]
    assert guard.report("r").totals.executed == 3


def test_r062_only_the_excess_of_a_batch_is_refused_and_counted(make_guard):
    guard = make_guard(Policy(max_calls=2))
    run = Run(guard, turn="1")
    stops = run.reply(*(("look", n) for n in range(5)))
    assert reasons(stops) == [None, None, "ceiling", "ceiling", "ceiling"]
    totals = guard.report("r").totals
    assert (totals.executed, totals.refused) == (2, 3)
    following = Run(guard, turn="2")
    assert reasons(following.reply(*(("look", n) for n in range(3)))) == [None, None, "ceiling"]


class TestR063:
    """Contested; the table of decisions: a success does not exempt from the repeat rule, and a call
    that succeeded may be made again."""

    def test_r063_a_call_that_succeeded_may_run_again(self, make_guard):
        run = Run(make_guard())
        assert [run.call("look", 1, "found"), run.call("look", 1, "found")] == [None, None]
        assert run.bodies == 2

    def test_r063_a_failure_and_a_success_are_two_executions(self, make_guard):
        run = Run(make_guard())
        results = [ValueError("no"), "found", "found"]
        assert [run.call("look", 1, result) for result in results] == [None] * 3

    def test_r063_three_failures_and_then_a_stop(self, make_guard):
        run = Run(make_guard())
        stops = [run.call("look", 1, ValueError("no")) for _ in range(4)]
        assert reasons(stops) == [None, None, None, "failing"]


def test_r065_one_guard_enforces_a_map_of_ten_limits(make_guard):
    limits = {f"tool_{n}": n for n in range(1, 11)}
    tools = {name: ToolPolicy(max_calls=limit) for name, limit in limits.items()}
    run = Run(make_guard(Policy(tools=tools)))
    for name, limit in limits.items():
        stops = [run.call(name, n) for n in range(limit + 1)]
        assert reasons(stops) == [None] * limit + ["ceiling"]
    assert run.bodies == sum(limits.values())


def test_r066_parallel_calls_count_toward_the_limit(make_guard):
    run = Run(make_guard(Policy(max_calls=4)))
    batches = [reasons(run.reply(*(("look", (reply, n)) for n in range(3)))) for reply in range(2)]
    assert batches == [[None] * 3, [None, "ceiling", "ceiling"]]


@pytest.mark.parametrize("limit", [1, 4])
def test_r067_r068_r069_the_cap_holds_whatever_the_framework_allows(make_guard, limit):
    # A model and a framework that ignore everything: forty more calls.
    guard, body = make_guard(Policy(tools={"look": ToolPolicy(max_calls=limit)})), Body()
    look = guard.wrap(body)
    with guard.within(run="r"):
        stops = [stop_of(look, n=n) for n in range(limit + 40)]
    assert body.runs == limit
    assert stops[:limit] == [None] * limit
    assert None not in stops[limit:]


def test_r070_a_runner_that_ignores_its_own_limit_is_ended_at_the_guards(make_guard):
    run = Run(make_guard(Policy(max_calls=200)))
    for n in range(650):
        run.call("step", n, n)
    assert run.bodies == 200
    assert_stopped(run.ended, reason="ceiling", scope="turn")


class TestR071:
    @pytest.mark.parametrize("value", [True, 0, -1])
    @pytest.mark.parametrize("name", ["max_calls", "max_refusals"])
    def test_r071_a_limit_that_cannot_be_is_an_error_where_it_is_set(self, name, value):
        with pytest.raises(PolicyError, match=name):
            Policy(**{name: value})

    @pytest.mark.parametrize("value", [True, -1])
    def test_r071_of_repeats_zero_means_off(self, value):
        assert Policy(max_repeats=0)
        with pytest.raises(PolicyError, match="max_repeats"):
            Policy(max_repeats=value)

    @pytest.mark.parametrize("value", [True, 0, -1])
    def test_r071_a_limit_of_a_tool_too(self, make_guard, value):
        with pytest.raises(PolicyError, match="max_calls"):
            Policy(tools={"look": {"max_calls": value}})
        with pytest.raises(ValueError, match="max_calls"):
            make_guard().wrap(max_calls=value)(Body())

    def test_r071_the_text_of_a_stop_is_marked_as_made_by_the_guard(self, make_guard):
        run = Run(make_guard(Policy(max_calls=1)))
        run.call("look", 1)
        assert run.call("look", 2).text.startswith("Stopped: look:")


def test_a_cancelled_and_a_paused_call_were_executed_too(make_guard):
    # The table of decisions: every execution counts.
    run = Run(make_guard(Policy(max_calls=2)))
    assert run.call("look", 1, Outcome("cancelled")) is None
    assert run.call("look", 2, Outcome("paused")) is None
    assert_stopped(run.call("look", 3), reason="ceiling")
    assert run.guard.report("r").totals.failed == 0
