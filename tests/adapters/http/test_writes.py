"""Idempotency keys on the wire (requirement E5)."""

from __future__ import annotations

import contextlib

import pytest

from lastcall import Call, Policy, Stopped
from lastcall.testing import SimulatedProvider, served

from .service import DROP, Answer

WRITES = {"writes": True}


def keys(service):
    return service.header("idempotency-key")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_write_is_sent_with_its_key(http, serve, guard, method):
    service = serve(201)

    def body():
        answer = yield method, service.url, {"json": {"amount": 1}}
        return answer.status_code

    http.call(guard, body, declared=WRITES, arguments={"invoice": 7})
    http.call(guard, body, declared=WRITES, arguments={"invoice": 8}, run="r2")
    first, second = keys(service)
    assert first
    assert second
    assert first != second
    assert len(first) <= 255


def test_tools_that_write_nothing_send_none(http, serve, guard):
    service = serve(200)

    def body():
        yield "POST", service.url
        return "found"

    http.call(guard, body)
    assert keys(service) == [None]


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_other_methods_send_none(http, serve, guard, method):
    service = serve(200)

    def body():
        yield method, service.url
        return "done"

    http.call(guard, body, declared=WRITES)
    assert keys(service) == [None]


def test_unless_they_are_asked_to(http, serve, guard):
    service = serve(200)

    def body():
        yield "DELETE", service.url
        yield "POST", service.url
        return "done"

    http.call(guard, body, declared=WRITES, keyed=["DELETE"])
    assert [key is not None for key in keys(service)] == [True, False]


def test_a_key_of_the_caller_stays(http, serve, guard):
    service = serve(201)

    def body():
        yield "POST", service.url, {"headers": {"idempotency-key": "mine"}}
        return "done"

    http.call(guard, body, declared=WRITES)
    assert keys(service) == ["mine"]


class TestOneCallWithSeveral:
    def test_each_write_has_its_own(self, http, serve, guard):
        service = serve(201)

        def body():
            yield "POST", f"{service.url}/customers", {"json": {"name": "A"}}
            yield "POST", f"{service.url}/charges", {"json": {"amount": 1}}
            yield "POST", f"{service.url}/charges", {"json": {"amount": 2}}
            return "done"

        http.call(guard, body, declared=WRITES)
        first, second, third = keys(service)
        assert (second, third) == (first, f"{first}:2")

    def test_where_each_endpoint_has_its_own_they_differ(self, http, serve, guard):
        service = serve(201)

        def body():
            yield "POST", f"{service.url}/customers", {"json": {"name": "A"}}
            yield "POST", f"{service.url}/charges", {"json": {"amount": 1}}
            yield "POST", f"{service.url}/charges", {"json": {"amount": 2}}
            return "done"

        http.call(guard, body, declared=WRITES, per_endpoint=True)
        first, second, third = keys(service)
        assert first != second
        assert third == f"{second}:2"

    def test_what_else_a_call_sends_changes_no_key(self, http, serve, guard):
        """A token that was expired the first time is not the second time."""
        service = serve(201)

        def paying(*paths):
            def body():
                for path in paths:
                    yield "POST", f"{service.url}{path}", {"json": {}}
                return "done"

            return body

        http.call(guard, paying("/token", "/charges"), declared=WRITES)
        http.call(guard, paying("/charges"), declared=WRITES, run="r2")
        assert len({each.headers["idempotency-key"] for each in service.asked[1:]}) == 1

    def test_the_same_once_more_has_the_same(self, http, serve, guard):
        service = serve(201, 201, DROP, 201)

        def body():
            yield "POST", f"{service.url}/a", {"json": {}}
            for _ in range(2):
                with contextlib.suppress(Exception):
                    yield "POST", f"{service.url}/a", {"json": {"b": 1}}
            yield "POST", f"{service.url}/a", {"json": {}}
            return "done"

        http.call(guard, body, declared=WRITES)
        first, second, third, fourth = keys(service)
        assert first == fourth
        assert second == third == f"{first}:2"

    def test_a_correction_has_that_of_what_was_refused(self, http, serve, guard):
        service = serve(422, 201, 201)

        def body():
            yield "POST", service.url, {"json": {"amount": "one"}}
            yield "POST", service.url, {"json": {"amount": 1}}
            yield "POST", service.url, {"json": {"amount": 2}}
            return "done"

        http.call(guard, body, declared=WRITES)
        first, second, third = keys(service)
        assert first == second
        assert third == f"{first}:2"

    @pytest.mark.parametrize("status", [500, 402])
    def test_but_not_where_nobody_knows_what_became_of_it(self, http, serve, guard, status):
        """Nor after a 402, which services keep under the key."""
        service = serve(status, 201)

        def body():
            yield "POST", service.url, {"json": {"amount": 1}}
            yield "POST", service.url, {"json": {"amount": 2}}
            return "done"

        http.call(guard, body, declared=WRITES)
        first, second = keys(service)
        assert second == f"{first}:2"

    def test_a_redirect_takes_it_along(self, http, serve, guard):
        service = serve(Answer(307, None, {"Location": "/there"}), 201)
        follow = {} if http.library == "requests" else {"follow_redirects": True}

        def body():
            yield "POST", service.url, {"json": {"amount": 1}, **follow}
            return "done"

        http.call(guard, body, declared=WRITES)
        first, second = keys(service)
        assert service.asked[1].path == "/there"
        assert first == second is not None


def test_a_request_that_is_sent_in_two_calls_has_two_keys(serve, guard):
    """A request of the caller's own is not written on."""
    import httpx2

    from lastcall_http import client

    service = serve(201)
    request = httpx2.Request("POST", service.url, json={})
    with client(guard) as made:

        @guard.wrap(writes=True)
        def pay(invoice):
            return made.send(request).status_code

        with guard.within(run="r"):
            pay(1)
            pay(2)
    assert "idempotency-key" not in request.headers
    assert len(set(keys(service))) == 2


def keyless(guard, monkeypatch_policy=None):
    return guard


class TestWithoutAKey:
    """A policy without the rule `writes` lets such a call begin."""

    @pytest.fixture
    def guard(self, make_guard, events):
        rules = [rule for rule in Policy().rules if rule.name != "writes"]
        return make_guard(
            Policy(rules=rules, tools={"tool": {"writes": True, "identity": ("invoice",)}}),
            listeners=[events.append],
        )

    def test_nothing_is_sent(self, http, serve, guard, events):
        service = serve(201)

        def body():
            yield "DELETE", service.url
            return "done"

        with pytest.raises(Stopped) as stopped:
            http.call(guard, body, arguments={"amount": 1})
        assert stopped.value.stop.reason == "no_key"
        assert service.requests == 0
        assert [event.reason for event in events if event.kind == "stop"] == ["no_key"]

    def test_but_reads(self, http, serve, guard):
        service = serve(200)

        def body():
            yield "GET", service.url
            return "done"

        assert http.call(guard, body, arguments={"amount": 1}) == "done"

    def test_and_what_has_one_of_the_callers(self, http, serve, guard):
        service = serve(200)

        def body():
            yield "POST", service.url, {"headers": {"Idempotency-Key": "mine"}}
            return "done"

        assert http.call(guard, body, arguments={"amount": 1}) == "done"

    def test_in_shadow_mode_everything_is_sent(self, http, serve, make_guard):
        rules = [rule for rule in Policy().rules if rule.name != "writes"]
        tools = {"tool": {"writes": True, "identity": ("invoice",)}}
        guard = make_guard(Policy(rules=rules, tools=tools, enforce=False))
        service = serve(200)

        def body():
            yield "POST", service.url
            return "done"

        assert http.call(guard, body, arguments={"amount": 1}) == "done"


def test_a_lost_answer_does_not_charge_twice(http, guard, clock, events):
    """The client sends it again under the same key, and the service answers by what it kept."""
    provider = SimulatedProvider(clock)
    with served(provider) as url:
        provider.lose_answers(1)

        def body():
            for _ in range(3):
                try:
                    answer = yield "POST", f"{url}/charges", {"json": {"amount": 1}}
                except Exception:
                    continue
                return f"HTTP {answer.status_code}"
            return "gave up"

        assert http.call(guard, body, declared=WRITES) == "HTTP 201"
    assert (len(provider.charges), provider.replayed) == (1, 1)
    told = [event.message for event in events if event.kind == "replayed"]
    assert len(told) == 1
    assert "kept under the key: 1" in told[0]


def test_the_key_is_that_of_the_call(guard, serve):
    from lastcall_http import client

    service = serve(201)
    call = Call("pay", {"invoice": 1}, key="ours")
    with client(guard) as made, guard.within(run="r"):
        verdict = guard.decide(call)
        assert verdict.ticket is not None
    with client(guard) as made, guard.within(run="r"):

        @guard.wrap(writes=True)
        def pay(invoice):
            body = guard.bodies.innermost()
            made.post(service.url)
            return body.ticket.call.key

        assert pay(1) == keys(service)[0]
