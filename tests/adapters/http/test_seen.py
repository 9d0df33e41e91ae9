"""The wire sees how requests were answered, whatever the tool makes of it."""

from __future__ import annotations

import pytest

from lastcall import Policy, Stopped
from lastcall.rules import Budget

from .service import DROP, Answer


def outcomes(events):
    return [(event.outcome, event.status) for event in events if event.kind == "attempt"]


class TestTheLastAnswer:
    def test_prose_over_a_final_status_is_stopped(self, http, serve, guard, events):
        service = serve(Answer(422, {"error": "the date lies in the past"}))

        def body():
            answer = yield "POST", f"{service.url}/charges", {"json": {}}
            return f"Sorry, that did not work out ({answer.json()['error']})."

        with pytest.raises(Stopped) as stopped:
            http.call(guard, body)
        stop = stopped.value.stop
        assert (stop.reason, stop.status, stop.executed) == ("terminal", 422, True)
        assert "the date lies in the past" in stop.text
        assert outcomes(events) == [("error", 422)]
        assert service.requests == 1

    def test_prose_over_a_passing_status_is_a_passing_failure(self, http, serve, guard, events):
        service = serve(Answer(503, None, {"Retry-After": "120"}))

        def body():
            yield "GET", service.url
            return "nothing today"

        with guard.within(run="r"), pytest.raises(Stopped) as stopped:
            for _ in range(5):
                assert http.call(guard, body) == "nothing today"
        last = stopped.value.stop
        assert (last.reason, last.status, last.retry_after) == ("failing", 503, 120.0)
        assert set(outcomes(events)) == {("error", 503)}

    def test_a_failure_before_a_success_is_none(self, http, serve, guard, events):
        service = serve(404, 200)

        def body():
            answer = yield "GET", f"{service.url}/a"
            assert answer.status_code == 404
            answer = yield "GET", f"{service.url}/b"
            return "found"

        assert http.call(guard, body) == "found"
        assert outcomes(events) == [("ok", None)]

    def test_a_status_that_the_tool_shows_stands(self, http, serve, guard, events):
        service = serve(404)

        def body():
            yield "GET", service.url
            return {"status_code": 200, "items": []}

        http.call(guard, body)
        assert outcomes(events) == [("ok", 200)]

    def test_what_the_policy_calls_fine_is_fine(self, http, serve, guard, events):
        service = serve(404)

        def body():
            yield "GET", service.url
            return "there is none"

        assert http.call(guard, body, declared={"statuses": {404: "ok"}}) == "there is none"
        assert outcomes(events) == [("ok", None)]

    def test_an_exception_without_a_status_gets_it(self, http, serve, guard, events):
        service = serve(422)

        def body():
            yield "GET", service.url
            raise ValueError("it did not work out") from None

        with pytest.raises(Stopped):
            http.call(guard, body)
        assert outcomes(events) == [("error", 422)]

    def test_a_lost_connection_is_a_passing_failure(self, http, serve, guard, events):
        service = serve(DROP)

        def body():
            try:
                yield "GET", service.url
            except Exception:
                return "nothing today"

        assert http.call(guard, body) == "nothing today"
        assert outcomes(events) == [("error", None)]

    def test_so_is_one_that_breaks_in_the_body(self, http, serve, guard, events):
        if http.library == "requests":
            pytest.skip("requests reads the body past its adapter; the exception tells of it")
        service = serve(Answer(200, {"n": 1}, torn=True))

        def body():
            try:
                yield "GET", service.url
            except Exception:
                return "nothing today"

        assert http.call(guard, body) == "nothing today"
        assert outcomes(events) == [("error", None)]

    def test_redirects_are_what_they_lead_to(self, http, serve, guard, events):
        service = serve(Answer(302, None, {"Location": "/there"}), 200)
        follow = {} if http.library == "requests" else {"follow_redirects": True}

        def body():
            answer = yield "GET", service.url, follow
            return answer.status_code

        assert http.call(guard, body) == 200
        assert [each.path for each in service.asked] == ["/", "/there"]
        assert outcomes(events) == [("ok", None)]
        assert guard.report("r").totals.attempts == 1

    def test_what_never_was_a_request_is_no_failure_of_the_service(self, http, guard, events):
        def body():
            try:
                yield "GET", "gopher://127.0.0.1"
            except Exception:
                return "cannot do that"

        assert http.call(guard, body) == "cannot do that"
        assert outcomes(events) == [("ok", None)]


class TestFurtherAttempts:
    def test_a_loop_of_the_tool_spends_attempts(self, http, serve, guard):
        service = serve(503, 503, 200)

        def body():
            while True:
                answer = yield "GET", service.url
                if answer.status_code == 200:
                    return "well"

        assert http.call(guard, body) == "well"
        totals = guard.report("r").totals
        assert (totals.executed, totals.attempts) == (1, 3)

    def test_and_no_more_than_there_are(self, http, serve, make_guard):
        limits = [{"quantity": "retries", "per": "run", "window": None, "most": 4}]
        guard = make_guard(Policy().replaced(Budget(limits=limits)))
        service = serve(429)

        def body():
            while True:
                yield "GET", service.url

        with pytest.raises(Stopped) as stopped:
            http.call(guard, body)
        assert stopped.value.stop.budget == "retries/run"
        assert service.requests == 5

    def test_pages_and_polls_are_none(self, http, serve, guard):
        service = serve(200)

        def body():
            for page in range(5):
                yield "GET", f"{service.url}/?page={page}"
            for _ in range(5):
                yield "GET", f"{service.url}/job"
            return "done"

        http.call(guard, body)
        assert guard.report("r").totals.attempts == 1

    def test_other_queries_to_a_busy_place_are(self, http, serve, guard):
        service = serve(429, 200)

        def body():
            yield "GET", f"{service.url}/?t=1"
            yield "GET", f"{service.url}/?t=2"
            return "done"

        http.call(guard, body)
        assert guard.report("r").totals.attempts == 2

    def test_other_queries_after_a_final_answer_are_not(self, http, serve, guard):
        service = serve(404, 200)

        def body():
            yield "GET", f"{service.url}/?id=1"
            yield "GET", f"{service.url}/?id=2"
            return "done"

        http.call(guard, body)
        assert guard.report("r").totals.attempts == 1

    def test_those_of_guard_retrying_are_not_counted_twice(self, http, serve, guard):
        service = serve(503, 503, 200)

        async def asleep(seconds):
            """Nobody waits here."""

        def body():
            answer = yield "GET", service.url
            return f"HTTP {answer.status_code}" if answer.status_code == 200 else "not today"

        layer = guard.retrying(name="tool", sleep=lambda s: None, asleep=asleep)
        assert http.call(guard, body, guarded=layer) == "HTTP 200"
        assert service.requests == 3
        totals = guard.report("r").totals
        assert (totals.executed, totals.attempts, totals.failed) == (1, 3, 1)


class TestOutside:
    def test_nothing_is_changed(self, http, serve, guard, events):
        if http.colour == "async":
            pytest.skip("the bytes are those of the sync client")
        from lastcall_http import client, session

        service = serve(500)
        made = session(guard) if http.library == "requests" else client(guard, library=http.library)
        with made, http.plain() as plain:
            for each in (plain, made):
                each.post(f"{service.url}/x?y=1", json={"a": 1}, headers={"X": "y"})
        first, second = service.asked
        assert first == second
        assert events == []

    def test_so_it_is_once_the_call_is_over(self, serve, guard):
        import contextvars

        from lastcall_http import client

        service = serve(500)
        kept = []
        with client(guard) as made, guard.within(run="r"):

            @guard.wrap
            def tool():
                kept.append(contextvars.copy_context())
                return "started something"

            tool()
            for _ in range(3):
                assert kept[0].run(made.get, service.url).status_code == 500
        assert guard.report("r").totals.attempts == 1
