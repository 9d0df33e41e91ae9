"""The short cases of theme E, error classification, as far as their rules exist."""

from __future__ import annotations

import pytest

from lastcall import Call, Policy, ToolPolicy
from lastcall.testing import assert_stopped

from .playing import Body, HttpError, ResponseError, Run, reasons, stop_of, stops_of


def test_r146_a_422_is_one_request_and_a_500_the_configured_number(make_guard):
    # Contested for 409; the table of decisions: terminal.
    for status, runs in ((422, 1), (404, 1), (409, 1), (500, 3)):
        guard, body = make_guard(), Body(HttpError(status))
        look = guard.wrap(body)
        with guard.within(run="r"):
            stops_of(look, *[{"q": 1}] * 8)
        assert body.runs == runs, status


def test_r147_the_map_of_the_user_wins(make_guard):
    guard, body = make_guard(Policy(statuses={401: "passing"})), Body(HttpError(401))
    look = guard.wrap(body)
    with guard.within(run="r"):
        stops = stops_of(look, *[{"q": 1}] * 4)
    assert reasons(stops) == [None, None, None, "failing"]
    assert body.runs == 3


PAGE = "<!doctype html><html><head><title>{}</title></head><body><h1>{}</h1></body></html>"


def test_r153_a_page_titled_only_with_a_status_line_has_that_status(make_guard):
    run = Run(make_guard())
    stop = run.call("fetch", {"url": "x"}, PAGE.format("404 Not Found", "Not Found"))
    assert_stopped(stop, reason="terminal", status=404)
    title = "How we built the 404 page of our dreams: a story in five parts"
    assert run.call("fetch", {"url": "y"}, PAGE.format(title, title)) is None
    assert run.guard.report("r").totals.failed == 1


def test_r161_an_exception_of_a_framework_is_a_failure_without_a_status(make_guard):
    class ToolException(Exception):
        pass

    run = Run(make_guard())
    assert run.call("look", 1, ToolException("nothing found")) is None
    verdict = run.guard.decide(Call("look", 2, run.where))
    outcome = run.guard.raised(verdict.ticket, ToolException("nothing found"))
    assert (outcome.kind, outcome.status, outcome.grade) == ("error", None, None)
    assert run.guard.report("r").totals.failed == 1


def test_r162_failures_that_come_back_as_values_are_counted(make_guard):
    run = Run(make_guard())
    questions = [
        "Berlin",
        "Paris",
        "Rome",
        "Madrid",
        "Lisbon",
        "Vienna",
        "Prague",
        "Warsaw",
        "Oslo",
    ]
    stops = [run.call("search", {"q": q}, {"error": f"no index for {q}"}) for q in questions]
    assert stops == [None] * 9
    totals = run.guard.report("r").totals
    assert (totals.executed, totals.failed) == (9, 9)
    assert all(each.failed for each in run.guard.report("r").gathered)


@pytest.mark.parametrize("error", [HttpError, ResponseError])
def test_r165_the_status_is_read_from_the_exception_not_from_its_text(make_guard, error):
    guard = make_guard()
    look = guard.wrap(Body(error(422, "HTTP 500 in 404 ms: try port 14010")))
    with guard.within(run="r"):
        assert_stopped(stop_of(look, q=1), reason="terminal", status=422)


def test_r166_the_text_of_a_stop_is_never_empty(make_guard):
    for words in (lambda stop: "", lambda stop: 1 / 0):
        run = Run(make_guard(Policy(max_calls=1), words=words))
        run.call("look", 1)
        assert run.call("look", 2).text.strip()


class TestTheOnCallGuard:
    """Three tests written after the night of the 422, under the policy that was in use."""

    POLICY = Policy(max_calls=8, max_repeats=2)

    def test_a_422_is_a_stop_on_the_first_call_and_names_the_status(self, make_guard):
        guard, body = make_guard(self.POLICY), Body(HttpError(422, "customer_id is missing"))
        with guard.within(run="r"):
            stop = assert_stopped(stop_of(guard.wrap(body), q=1), reason="terminal", status=422)
        assert "422" in stop.text
        assert "customer_id is missing" in stop.text
        assert body.runs == 1

    def test_of_three_identical_503s_two_run_and_the_third_is_refused(self, make_guard):
        guard, body = make_guard(self.POLICY), Body(HttpError(503))
        with guard.within(run="r"):
            stops = stops_of(guard.wrap(body), *[{"q": 1}] * 3)
        assert reasons(stops) == [None, None, "repeat"]
        assert body.runs == 2

    def test_with_distinct_arguments_the_fourth_of_three_is_refused_for_the_budget(
        self, make_guard
    ):
        guard, body = make_guard(Policy(max_calls=3)), Body()
        with guard.within(run="r"):
            stops = stops_of(guard.wrap(body), *({"q": n} for n in range(4)))
        assert reasons(stops) == [None, None, None, "ceiling"]
        assert "budget" in stops[3].text
        assert "spent" in stops[3].text


class TestTheOrderOfReasons:
    """A13 and the order of checks: the first that holds is the reason."""

    def fail(self, run, outcome, times, tool="look", args=1):
        return [run.call(tool, args, outcome) for _ in range(times)]

    def test_terminal_comes_before_the_repeat(self, make_guard):
        run = Run(make_guard(Policy(max_repeats=1)))
        assert reasons(self.fail(run, HttpError(404), 3)) == ["terminal"] * 3

    def test_max_repeats_governs_instead_of_failing_same_and_stale(self, make_guard):
        run = Run(make_guard(Policy(max_repeats=5)))
        assert reasons(self.fail(run, HttpError(500), 6))[5] == "repeat"
        run = Run(make_guard(Policy(max_repeats=0)))
        assert reasons(self.fail(run, "same", 40)) == [None] * 40

    def test_failing_comes_before_a_closed_tool_and_before_the_same(self, make_guard):
        run = Run(make_guard())
        stops = self.fail(run, HttpError(503), 3) + self.fail(run, HttpError(503), 2, args=2)
        assert reasons(stops) == [None, None, None, None, "failing"]
        # The fifth passing status closed the tool; the first call's own past is the nearer reason.
        assert (stops[4].scope, stops[4].executed) == ("tool", True)
        assert_stopped(run.call("look", 1), reason="failing", scope="call")
        assert_stopped(run.call("look", 3), reason="failing", scope="tool")

    def test_the_same_comes_before_a_cycle_and_before_stale(self, make_guard):
        run = Run(make_guard(Policy(max_calls=3)))
        assert reasons(self.fail(run, "same", 4))[3] == "same"

    def test_near_comes_before_the_ceiling(self, make_guard):
        run = Run(make_guard(Policy(max_calls=3)))
        stops = [run.call("look", {key: "x"}, "same") for key in ("q", "query", "text", "term")]
        assert reasons(stops) == [None, None, None, "near"]

    def test_a_cycle_comes_before_stale_and_before_the_ceiling(self, make_guard):
        run = Run(make_guard(Policy(max_calls=12)))
        stops = [run.call("look", n % 4, f"result {n % 4}") for n in range(13)]
        assert reasons(stops) == [None] * 12 + ["cycle"]

    def test_tools_may_differ(self, make_guard):
        run = Run(make_guard(Policy(tools={"poll": ToolPolicy(max_repeats=6)})))
        assert reasons(self.fail(run, "same", 7, tool="poll"))[6] == "repeat"
        assert reasons(self.fail(run, "same", 4))[3] == "same"
