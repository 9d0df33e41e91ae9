"""No request outlasts the time that the run, the tool's retries or the budget leave it."""

from __future__ import annotations

import threading

import pytest
from urllib3 import Timeout

from lastcall import Policy, Stopped
from lastcall.rules import Budget
from lastcall_http.adapter import within

from .service import Answer


@pytest.fixture
def guard(make_guard):
    limits = [{"quantity": "seconds", "most": 30}]
    return make_guard(Policy().replaced(Budget(limits=limits)))


def test_a_hanging_service_is_given_up(http, serve, make_guard, clock):
    """Real time: 50 ms are left."""
    limits = [{"quantity": "seconds", "most": 30}]
    guard = make_guard(Policy().replaced(Budget(limits=limits)))
    over = threading.Event()

    def hang(number, asked):
        over.wait(5)
        return Answer(200)

    service = serve(by=hang)
    with guard.within(run="r"):
        guard.wrap(lambda: "first", name="begin")()
        clock.tick(29.95)

        def body():
            try:
                yield "GET", service.url, {"timeout": 60}
            except Exception as error:
                return type(error).__name__
            return "answered"

        said = http.call(guard, body)
    over.set()
    assert "Timeout" in said


def test_nothing_is_sent_once_it_is_over(http, serve, guard, clock):
    service = serve(200)

    def body():
        yield "GET", service.url
        clock.tick(31)
        yield "GET", f"{service.url}/more"
        return "done"

    with pytest.raises(Stopped) as stopped:
        http.call(guard, body)
    assert (stopped.value.stop.reason, stopped.value.stop.scope) == ("budget", "run")
    assert service.requests == 1


def test_unless_a_person_gives_the_run_more(http, serve, guard, clock):
    service = serve(200)

    def body():
        yield "GET", service.url
        clock.tick(31)
        guard.raise_limit("r", 60, budget="seconds/run")
        yield "GET", f"{service.url}/more"
        return "done"

    assert http.call(guard, body) == "done"


def test_the_deadline_of_retries_is_one(http, serve, make_guard, clock):
    guard = make_guard()
    service = serve(200)

    def body():
        yield "GET", service.url
        clock.tick(11)
        yield "GET", f"{service.url}/more"
        return "done"

    layer = guard.retrying(name="tool", deadline=10.0)
    with pytest.raises(Stopped) as stopped:
        http.call(guard, body, guarded=layer)
    assert stopped.value.stop.reason == "deadline"
    assert service.requests == 1


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        (None, (10, 10, 10)),
        (5, (5, 5, 10)),
        ((1, 2), (1, 2, 10)),
        (100.0, (10, 10, 10)),
        (Timeout(connect=1, read=20, total=30), (1, 10, 10)),
    ],
)
def test_time_outs_are_bounded(given, bound):
    made = within(10, given)
    assert (made.connect_timeout, made.read_timeout, made.total) == bound


def test_a_wait_that_outlasts_the_run_is_not_begun(http, serve, guard, clock):
    service = serve(Answer(429, None, {"Retry-After": "60"}))
    layer = guard.retrying(sleep=clock.tick)

    def body():
        yield "GET", service.url
        return "done"

    with pytest.raises(Stopped) as stopped:
        http.call(guard, body, retries=layer)
    assert stopped.value.stop.reason == "deadline"
    assert service.requests == 1
