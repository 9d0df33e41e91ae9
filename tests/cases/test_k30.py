"""K30 Which statuses are final."""

from __future__ import annotations

import pytest

from lastcall import Policy, Stopped, ToolPolicy
from lastcall.testing import assert_stopped

from .playing import Body, HttpError, ResponseError, stops_of

ERRORS = pytest.mark.parametrize("error", [HttpError, ResponseError])

# 409 is contested; the table of decisions: terminal unless the map says otherwise.
FINAL = [400, 401, 403, 404, 422, 409]
PASSING = [408, 429, 500, 503]


def played(guard, status, error, times=5, **declared):
    body = Body(error(status))
    look = guard.wrap(**declared)(body)
    with guard.within(run="r"):
        return body, stops_of(look, *[{"q": "x"}] * times)


@ERRORS
@pytest.mark.parametrize("status", FINAL)
def test_a_final_one_is_executed_once(make_guard, status, error):
    body, stops = played(make_guard(Policy(max_repeats=3)), status, error, times=2)
    assert body.runs == 1
    first, second = stops
    assert_stopped(first, reason="terminal", scope="call", status=status)
    assert_stopped(second, reason="terminal", scope="call", status=status)
    assert (first.executed, second.executed) == (True, False)


@ERRORS
@pytest.mark.parametrize("status", PASSING)
@pytest.mark.parametrize(
    ("policy", "reason"),
    [(Policy(), "failing"), (Policy(max_repeats=3), "repeat")],
    ids=["default", "max_repeats=3"],
)
def test_a_passing_one_is_executed_three_times(make_guard, policy, reason, status, error):
    body, stops = played(make_guard(policy), status, error, times=4)
    assert body.runs == 3
    assert stops[:3] == [None] * 3
    assert_stopped(stops[3], reason=reason, scope="call")
    if reason == "failing":
        assert stops[3].status == status


@ERRORS
class TestAMapOfTheUser:
    def test_makes_a_final_status_passing(self, make_guard, error):
        for settings in (
            {"statuses": {404: "passing"}},
            {"tools": {"look": ToolPolicy(statuses={404: "passing"})}},
        ):
            body, stops = played(make_guard(Policy(**settings)), 404, error, times=4)
            assert body.runs == 3
            assert_stopped(stops[3], reason="failing", status=404)

    def test_makes_a_passing_status_final(self, make_guard, error):
        for settings in (
            {"statuses": {503: "final"}},
            {"terminal_statuses": (503,)},
            {"tools": {"look": ToolPolicy(terminal_statuses=(503,))}},
        ):
            body, stops = played(make_guard(Policy(**settings)), 503, error, times=2)
            assert body.runs == 1
            assert_stopped(stops[1], reason="terminal", status=503)

    def test_may_be_given_at_the_function(self, make_guard, error):
        body, stops = played(make_guard(), 409, error, times=4, statuses={409: "passing"})
        assert body.runs == 3
        assert_stopped(stops[3], reason="failing", status=409)


@ERRORS
def test_the_first_final_answer_keeps_the_original_exception(make_guard, error):
    guard = make_guard()
    original = error(422, "customer_id must be a number")
    with guard.within(run="r"), pytest.raises(Stopped) as caught:
        guard.wrap(Body(original))(q="x")
    assert caught.value.__cause__ is original
    assert caught.value.stop.detail == "customer_id must be a number"
    assert "HTTP 422" in str(caught.value)
