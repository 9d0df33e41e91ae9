"""The transport as the one layer that retries."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import httpx2
import pytest

from lastcall import MemoryStore, Policy, Stopped
from lastcall.retrying import Rolling
from lastcall.rules import Breaker
from lastcall_http import AsyncGuardTransport, GuardTransport, client

from .service import DROP, Answer


@pytest.fixture
def layer(guard, clock):
    """Makes the settings of a layer that waits by the clock of the test."""

    async def asleep(seconds):
        clock.tick(seconds)

    def make(**settings):
        return guard.retrying(sleep=clock.tick, asleep=asleep, **{"draw": lambda: 0.5} | settings)

    return make


def once(url, method="GET", **request):
    def body():
        answer = yield method, url, request
        return f"HTTP {answer.status_code}"

    return body


def test_what_fails_in_passing_is_sent_again(http, serve, guard, events, layer):
    service = serve(503, DROP, 200)
    assert http.call(guard, once(service.url), retries=layer()) == "HTTP 200"
    assert service.requests == 3
    totals = guard.report("r").totals
    assert (totals.executed, totals.attempts) == (1, 3)
    assert [event.kind for event in events].count("retry") == 2


def test_the_last_answer_is_the_tools(http, serve, guard, layer):
    service = serve(503)
    with guard.within(run="r"):
        assert http.call(guard, once(service.url), retries=layer()) == "HTTP 503"
    assert service.requests == 3


def test_the_last_exception_too(http, serve, guard, layer):
    service = serve(DROP)

    def body():
        try:
            yield "GET", service.url
        except Exception as error:
            return type(error).__name__

    assert "Error" in http.call(guard, body, retries=layer())
    assert service.requests == 3


def test_what_is_final_is_not(http, serve, guard, layer):
    service = serve(400)
    with pytest.raises(Stopped):
        http.call(guard, once(service.url), retries=layer())
    assert service.requests == 1


QUOTA = {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota."}}


def test_an_account_that_is_used_up_is_final(http, serve, guard, layer):
    """Its 429 says so in the body, which is read before it is decided about."""
    service = serve(Answer(429, QUOTA))
    read = []

    def body():
        answer = yield "GET", service.url
        read.append(answer.json())
        return "sorry"

    with pytest.raises(Stopped) as stopped:
        http.call(guard, body, retries=layer())
    assert (stopped.value.stop.reason, stopped.value.stop.status) == ("terminal", 429)
    assert service.requests == 1
    assert read == [QUOTA]


def test_a_429_whose_body_breaks_is_one_all_the_same(http, serve, guard, layer):
    service = serve(Answer(429, "slow down", {"Retry-After": "1"}, torn=True), 200)
    assert http.call(guard, once(service.url), retries=layer()) == "HTTP 200"
    assert service.requests == 2


def test_a_429_that_cannot_be_decoded_is_one_all_the_same(guard):
    def answer(request):
        stream = httpx2.ByteStream(b"no gzip")
        return httpx2.Response(429, headers={"Content-Encoding": "gzip"}, stream=stream)

    read = []
    with httpx2.Client(transport=GuardTransport(guard, httpx2.MockTransport(answer))) as http:

        @guard.wrap
        def tool():
            with http.stream("GET", "http://x/") as got:
                read.append((got.status_code, b"".join(got.iter_raw())))

        with guard.within(run="r"):
            tool()
    assert read == [(429, b"no gzip")]


@pytest.mark.parametrize("colour", ["sync", "async"])
class TestLongAnswers:
    """A 429 that goes on and on is looked at as far as its beginning, and comes whole to who reads it."""

    def read(self, guard, colour, body):
        if colour == "sync":
            inner = httpx2.MockTransport(lambda request: httpx2.Response(429, content=body()))
            with httpx2.Client(transport=GuardTransport(guard, inner)) as http:

                @guard.wrap
                def tool():
                    with http.stream("GET", "http://x/") as answer:
                        return sum(map(len, answer.iter_raw()))

                with guard.within(run="r"):
                    return tool()

        async def parts():
            for part in body():
                yield part

        async def main():
            inner = httpx2.MockTransport(lambda request: httpx2.Response(429, content=parts()))
            async with httpx2.AsyncClient(transport=AsyncGuardTransport(guard, inner)) as http:

                @guard.wrap
                async def tool():
                    async with http.stream("GET", "http://x/") as answer:
                        return sum([len(part) async for part in answer.aiter_raw()])

                with guard.within(run="r"):
                    return await tool()

        return asyncio.run(main())

    def test_all_of_it_arrives(self, guard, colour):
        assert self.read(guard, colour, lambda: iter([b"x" * 1000] * 100)) == 100_000

    def test_what_breaks_breaks_for_the_reader(self, guard, colour, events):
        def broken():
            yield b"x"
            raise httpx2.ReadError("gone")

        with pytest.raises(httpx2.ReadError):
            self.read(guard, colour, broken)


class TestCalledOff:
    """Who is called off after a bad answer arrived is not made to try again."""

    def test_while_the_store_is_told(self, serve, make_guard, layer):
        class Slow(MemoryStore):
            told: Any = None

            async def aupdate(self, keys, step, now):
                if self.told is not None and keys[0][0][0] == "dependency" and service.requests:
                    self.told.set()
                    self.told = None
                    await asyncio.Event().wait()
                return await super().aupdate(keys, step, now)

        service, store = serve(503), Slow()
        guard = make_guard(Policy().replaced(Breaker()), store=store)
        closed = []

        class Inner(httpx2.AsyncHTTPTransport):
            async def handle_async_request(self, request):
                response = await super().handle_async_request(request)
                close = response.stream.aclose

                async def aclose():
                    closed.append(True)
                    await close()

                response.stream.aclose = aclose
                return response

        async def main():
            store.told = told = asyncio.Event()
            transport = AsyncGuardTransport(guard, Inner(verify=False), retries=guard.retrying())
            async with httpx2.AsyncClient(transport=transport) as http:
                tool = guard.wrap(partial(http.get, service.url), name="tool")
                with guard.within(run="r"):
                    task = asyncio.ensure_future(tool())
                    await asyncio.wait_for(told.wait(), 5)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task

        asyncio.run(main())
        assert service.requests == 1
        assert closed == [True]

    def test_by_the_keyboard(self, serve, make_guard):
        class Interrupted(MemoryStore):
            def update(self, keys, step, now):
                if keys[0][0][0] == "dependency" and service.requests:
                    raise KeyboardInterrupt
                return super().update(keys, step, now)

        service = serve(503)
        guard = make_guard(Policy().replaced(Breaker()), store=Interrupted())
        with client(guard, verify=False, retries=guard.retrying()) as http:
            tool = guard.wrap(partial(http.get, service.url), name="tool")
            with guard.within(run="r"), pytest.raises(KeyboardInterrupt):
                tool()
        assert service.requests == 1


def test_retry_after_is_a_floor(http, serve, guard, clock, layer):
    service = serve(Answer(429, None, {"Retry-After": "7"}), 200)
    start = clock()
    assert http.call(guard, once(service.url), retries=layer()) == "HTTP 200"
    assert 7 <= clock() - start <= 8


def test_a_wait_that_would_take_too_long_is_not_begun(http, serve, guard, clock, layer):
    service = serve(Answer(429, None, {"Retry-After": "70"}))
    start = clock()
    with pytest.raises(Stopped) as stopped:
        http.call(guard, once(service.url), retries=layer(deadline=20.0))
    assert (stopped.value.stop.reason, stopped.value.stop.status) == ("deadline", 429)
    assert clock() == start
    assert service.requests == 1


def test_429_for_ever_stays_within_the_budget(http, serve, guard, layer):
    service = serve(429)
    with pytest.raises(Stopped) as stopped:
        http.call(guard, once(service.url), retries=layer(attempts=99, budget=Rolling(4)))
    assert stopped.value.stop.reason == "retry_budget"
    assert service.requests == 5


def test_the_guard_may_refuse_the_next(http, serve, make_guard, clock):
    from lastcall.rules import Budget

    limits = [{"quantity": "retries", "per": "run", "window": None, "most": 2}]
    guard = make_guard(Policy().replaced(Budget(limits=limits)))

    async def asleep(seconds):
        clock.tick(seconds)

    layer = guard.retrying(attempts=9, sleep=clock.tick, asleep=asleep)
    service = serve(503)
    with pytest.raises(Stopped) as stopped:
        http.call(guard, once(service.url), retries=layer)
    assert stopped.value.stop.budget == "retries/run"
    assert service.requests == 3


class TestWrites:
    def test_what_may_have_been_carried_out_is_not_sent_again(self, http, serve, guard, layer):
        service = serve(500)
        http.call(guard, once(service.url, "POST"), declared={"writes": True}, retries=layer())
        assert service.requests == 1

    @pytest.mark.parametrize(
        ("method", "declared"),
        [
            ("POST", {"writes": True, "keyed": True}),
            ("PUT", {"writes": True}),
            ("GET", {"writes": True}),
            ("POST", {}),
        ],
    )
    def test_but_where_twice_is_once(self, http, serve, guard, layer, method, declared):
        service = serve(500, 200)
        said = http.call(guard, once(service.url, method), declared=declared, retries=layer())
        assert said == "HTTP 200"
        assert len(set(service.header("idempotency-key"))) == 1


def test_a_stream_is_not_sent_twice(http, serve, guard, layer):
    service = serve(503)

    def parts():
        yield b"once"

    async def aparts():
        yield b"once"

    given = aparts() if http.colour == "async" else parts()
    content = {"data" if http.library == "requests" else "content": given}
    if http.library == "requests":
        pytest.skip("the service of these tests takes no chunks")
    body = once(service.url, "POST", headers={"Content-Length": "4"}, **content)
    assert http.call(guard, body, retries=layer()) == "HTTP 503"
    assert service.requests == 1


def test_inside_guard_retrying_it_makes_one_attempt(http, serve, guard, events, layer, clock):
    service = serve(503)

    async def asleep(seconds):
        clock.tick(seconds)

    outer = guard.retrying(name="tool", sleep=clock.tick, asleep=asleep)
    http.call(guard, once(service.url), guarded=outer, retries=layer())
    assert service.requests == 3
    (alert,) = [event.message for event in events if event.kind == "alert"]
    assert "the transport's retries" in alert
    assert "guard.retrying of tool" in alert


def test_outside_a_call_it_retries_nothing(serve, guard, layer):
    from lastcall_http import client

    service = serve(503)
    with client(guard, retries=layer(), verify=False) as made:
        assert made.get(service.url).status_code == 503
    assert service.requests == 1
