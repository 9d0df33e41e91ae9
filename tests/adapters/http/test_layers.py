"""Layers that retry on top of each other: found, named, and bounded all the same (requirement C1)."""

from __future__ import annotations

import os

os.environ.setdefault("OPENAI_API_KEY", "none")

import contextlib

import httpx2
import openai
import pytest
import tenacity
from urllib3.util import Retry

from lastcall import Policy, Stopped
from lastcall.rules import Budget
from lastcall_http import client, session
from lastcall_http.layers import on_stack

from .service import DROP, Answer


def alerts(events):
    return [event.message for event in events if event.kind == "alert"]


def three(function):
    """Three attempts, at once."""
    again = tenacity.retry_if_exception_type((openai.RateLimitError, RuntimeError))
    return tenacity.retry(stop=tenacity.stop_after_attempt(3), retry=again, reraise=True)(function)


# A client that waits for nothing: the service asks it not to.
BUSY = Answer(429, {"error": {"message": "slow down"}}, {"Retry-After-Ms": "1"})


def model(service, http_client, retries=2):
    return openai.OpenAI(
        base_url=service.url, api_key="k", max_retries=retries, http_client=http_client
    )


def ask(made):
    return made.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])


class TestTheFigures:
    def test_three_layers_of_three_make_27(self, serve, guard, events):
        """The client's own retries inside two of tenacity's."""
        service = serve(BUSY)

        def attempt(made):
            inner = three(lambda: ask(made))
            return three(inner)()

        with pytest.raises(openai.RateLimitError):
            attempt(model(service, None))
        assert service.requests == 27
        service.asked.clear()

        @guard.wrap
        def tool():
            with client(guard, verify=False) as http:
                attempt(model(service, http))

        with guard.within(run="r"), pytest.raises((openai.RateLimitError, Stopped)):
            tool()
        assert service.requests == 27
        (alert,) = alerts(events)
        assert "the client's own retries (max_retries)" in alert
        assert "tenacity around" in alert

    def test_four_make_81(self, serve, guard, events):
        """urllib3's inside three of tenacity's."""
        service = serve(503)

        def attempt(http):
            def once():
                raise RuntimeError(http.get(service.url))

            three(three(three(once)))()

        def made(guarded):
            retry = Retry(2, status_forcelist=[503], backoff_factor=0, raise_on_status=False)
            if guarded:
                return session(guard, max_retries=retry)
            import requests

            plain = requests.Session()
            plain.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
            return plain

        with made(guarded=False) as http, pytest.raises(RuntimeError):
            attempt(http)
        assert service.requests == 81
        service.asked.clear()

        @guard.wrap
        def tool():
            with made(guarded=True) as http:
                attempt(http)

        with guard.within(run="r"), pytest.raises((RuntimeError, Stopped)):
            tool()
        assert service.requests == 81
        (alert,) = alerts(events)
        assert "urllib3's Retry" in alert
        assert "tenacity around" in alert

    def test_k34_retries_do_not_multiply(self, serve, make_guard):
        """Layers of 3, 3 and 5 make 45; with a budget of 5 retries for the run they make 6."""
        service = serve(429)
        limits = [{"quantity": "retries", "per": "run", "window": None, "most": 5}]
        guard = make_guard(Policy().replaced(Budget(limits=limits)))

        def layered(http):
            def once():
                answer = http.get(service.url)
                raise RuntimeError(answer.status_code)

            again = tenacity.retry_if_exception_type(RuntimeError)
            five = tenacity.retry(stop=tenacity.stop_after_attempt(5), retry=again, reraise=True)
            three(three(five(once)))()

        with httpx2.Client() as http, pytest.raises(RuntimeError):
            layered(http)
        assert service.requests == 45
        service.asked.clear()
        with client(guard, verify=False) as http, guard.within(run="r"):
            with pytest.raises(Stopped) as stopped:
                guard.wrap(lambda: layered(http), name="tool")()
        assert stopped.value.stop.budget == "retries/run"
        assert service.requests == 6

    def test_one_layer_makes_3(self, serve, guard, events, clock):
        service = serve(BUSY)
        layer = guard.retrying(sleep=clock.tick)

        @guard.wrap
        def tool():
            with client(guard, verify=False, retries=layer) as http:
                ask(model(service, http, retries=0))

        with guard.within(run="r"), pytest.raises(openai.RateLimitError):
            tool()
        assert service.requests == 3
        assert alerts(events) == []

    def test_three_layers_of_ours_make_3(self, serve, guard, events, clock):
        service = serve(503)
        layer = guard.retrying(sleep=clock.tick)

        with session(guard, retries=layer) as http:

            @guard.retrying(sleep=clock.tick)
            def tool():
                http.get(service.url).raise_for_status()

            with guard.within(run="r"), pytest.raises(Exception, match="503"):
                tool()
        assert service.requests == 3
        assert len(alerts(events)) == 1


class TestTwoLayers:
    def test_a_clients_own_beside_the_transports(self, serve, guard, events, clock):
        """The transport leaves it to the client from the second on: 3 + 2, and not 9."""
        service = serve(BUSY)
        layer = guard.retrying(sleep=clock.tick)

        @guard.wrap
        def tool():
            with client(guard, verify=False, retries=layer) as http:
                ask(model(service, http, retries=2))

        with guard.within(run="r"), pytest.raises(openai.RateLimitError):
            tool()
        assert service.requests == 5
        (alert,) = alerts(events)
        assert "the transport's retries (of tool)" in alert
        assert "the client's own retries" in alert

    def test_guard_retrying_beside_urllib3(self, serve, guard, events, clock):
        service = serve(503)
        retry = Retry(2, status_forcelist=[503], backoff_factor=0, raise_on_status=False)
        with session(guard, max_retries=retry) as http:

            @guard.retrying(sleep=clock.tick)
            def tool():
                return f"HTTP {http.get(service.url).status_code}"

            with guard.within(run="r"):
                tool()
        assert service.requests == 9
        (alert,) = alerts(events)
        assert "urllib3's Retry" in alert
        assert "guard.retrying of tool" in alert

    def test_a_loop_that_nobody_knows(self, serve, guard, events):
        service = serve(BUSY)

        @guard.wrap
        def tool():
            with client(guard, verify=False) as http:
                for _ in range(3):
                    with contextlib.suppress(openai.RateLimitError):
                        ask(model(service, http, retries=1))
            return "nothing"

        with guard.within(run="r"):
            tool()
        assert service.requests == 6
        (alert,) = alerts(events)
        assert "a loop around it" in alert

    def test_it_is_said_once(self, serve, guard, events):
        service = serve(BUSY)

        @guard.wrap
        def tool(n):
            with client(guard, verify=False) as http:
                for _ in range(3):
                    with contextlib.suppress(openai.RateLimitError):
                        ask(model(service, http, retries=1))
            return f"nothing {n}"

        with guard.within(run="r"):
            tool(1)
            tool(2)
        assert len(alerts(events)) == 1

    def test_one_layer_alone_is_nothing_to_tell(self, serve, guard, events):
        service = serve(BUSY)

        @guard.wrap
        def tool():
            with client(guard, verify=False) as http:
                ask(model(service, http))

        with guard.within(run="r"), pytest.raises(openai.RateLimitError):
            tool()
        assert (service.requests, alerts(events)) == (3, [])


class TestUrllib3:
    """Its retries happen beneath the adapter, and pass the guard all the same."""

    def limited(self, make_guard, most):
        limits = [{"quantity": "retries", "per": "run", "window": None, "most": most}]
        return make_guard(Policy().replaced(Budget(limits=limits)))

    def test_each_is_an_attempt(self, serve, guard):
        service = serve(503, 503, 200)
        retry = Retry(5, status_forcelist=[503], backoff_factor=0)
        with session(guard, max_retries=retry) as http, guard.within(run="r"):
            tool = guard.wrap(lambda: http.get(service.url).status_code, name="tool")
            assert tool() == 200
        assert guard.report("r").totals.attempts == 3

    def test_and_may_be_refused(self, serve, make_guard):
        guard = self.limited(make_guard, 2)
        service = serve(503)
        retry = Retry(9, status_forcelist=[503], backoff_factor=0)
        with session(guard, max_retries=retry) as http, guard.within(run="r"):
            tool = guard.wrap(lambda: http.get(service.url).status_code, name="tool")
            with pytest.raises(Stopped) as stopped:
                tool()
        assert stopped.value.stop.budget == "retries/run"
        assert service.requests == 3

    def test_when_they_are_used_up_the_status_is_known(self, serve, guard, events):
        service = serve(503)
        retry = Retry(2, status_forcelist=[503], backoff_factor=0)
        with session(guard, max_retries=retry) as http, guard.within(run="r"):

            @guard.wrap
            def tool():
                try:
                    http.get(service.url)
                except Exception:
                    return "nothing today"

            assert tool() == "nothing today"
        assert [event.status for event in events if event.kind == "attempt"] == [503] * 3

    def test_also_after_a_lost_connection(self, serve, make_guard):
        guard = self.limited(make_guard, 1)
        service = serve(DROP)
        with session(guard, max_retries=Retry(9, backoff_factor=0)) as http:
            tool = guard.wrap(lambda: http.get(service.url).status_code, name="tool")
            with guard.within(run="r"), pytest.raises(Stopped):
                tool()
        assert service.requests == 2

    def test_lost_connections_too(self, serve, guard):
        service = serve(DROP, DROP, 200)
        retry = Retry(5, backoff_factor=0)
        with session(guard, max_retries=retry) as http, guard.within(run="r"):
            tool = guard.wrap(lambda: http.get(service.url).status_code, name="tool")
            assert tool() == 200
        assert guard.report("r").totals.attempts == 3

    def test_outside_a_call_they_are_its_own(self, serve, guard):
        service = serve(503, 503, 200)
        retry = Retry(5, status_forcelist=[503], backoff_factor=0)
        with session(guard, max_retries=retry) as http:
            assert http.get(service.url).status_code == 200
        assert guard.report("r") is None


def test_backoff_is_known_by_its_tries():
    """By the names that backoff gives to what it holds; it is not among what the tests install."""
    names = {"__name__": "backoff._sync", "on_stack": on_stack}
    code = "def retry(target, tries):\n    import sys\n    return on_stack(sys._getframe())\n"
    exec(code, names)
    assert names["retry"](len, 2) == ["backoff around len"]
    assert names["retry"](len, 1) == []


def test_what_is_deep_in_the_stack_is_not_looked_for():
    import sys

    def deeper(n):
        return deeper(n - 1) if n else on_stack(sys._getframe())

    again = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda found: not found),
        stop=tenacity.stop_after_attempt(2),
        retry_error_callback=lambda state: state.outcome.result(),
    )
    assert again(deeper, 10) != []
    assert again(deeper, 300) == []
