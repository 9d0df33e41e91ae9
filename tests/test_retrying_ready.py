"""`guard.retrying`: guarded and retried, sync and async, each attempt with the guard's leave."""

from __future__ import annotations

import asyncio
import inspect
import logging
from functools import partial

import httpx
import pytest
import tenacity

from lastcall import MemoryStore, Policy, PolicyError, Stopped
from lastcall.retrying import Rolling, Share
from lastcall.rules import Breaker, Budget, Concurrency, Limit
from lastcall.testing import assert_stopped

REQUEST = httpx.Request("GET", "http://localhost")


def answered(status=503, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx.Response(status, headers=named, request=REQUEST)
    return httpx.HTTPStatusError(f"HTTP {status}", request=REQUEST, response=response)


class Service:
    """A tool, sync or async, that does what *script* says, and then its last word."""

    def __init__(self, guard, clock, colour, *script, **settings):
        self.guard = guard
        self.clock = clock
        self.script = list(script)
        self.requests = 0
        self.slept = []
        self.runs = 0
        retrying = guard.retrying(
            sleep=self.sleep, asleep=self.asleep, draw=lambda: 0.5, name="get", **settings
        )
        self.call = self.through if colour == "sync" else self.athrough
        self.tool = retrying(self.get if colour == "sync" else self.aget)

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.clock.tick(seconds)

    async def asleep(self, seconds):
        self.sleep(seconds)

    def get(self, n: int = 0) -> str:
        """Get it."""
        self.requests += 1
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(said, BaseException):
            raise said
        return said

    async def aget(self, n: int = 0) -> str:
        """Get it."""
        return self.get(n)

    def through(self, n=0, run=None):
        self.runs += 1
        with self.guard.within(run=run or f"r{self.runs}"):
            return self.tool(n)

    def athrough(self, n=0, run=None):
        async def main():
            self.runs += 1
            with self.guard.within(run=run or f"r{self.runs}"):
                return await self.tool(n)

        return asyncio.run(main())


@pytest.fixture(params=["sync", "async"])
def make(request, make_guard, clock):
    """Makes a service behind a guard of its own."""

    def made(*script, policy=None, listeners=(), **settings):
        guard = make_guard(policy, listeners=listeners)
        return Service(guard, clock, request.param, *script, **settings)

    return made


def limited(most, quantity="retries", per="run"):
    limits = (Limit(quantity=quantity, per=per, window=None, most=most),)
    return Policy().replaced(Budget(limits=limits))


class TestAttempts:
    def test_what_fails_in_passing_is_made_again(self, make):
        service = make(answered(503), ConnectionResetError(), "ok", attempts=4)
        assert service.call() == "ok"
        assert (service.requests, service.slept) == (3, [0.25, 0.5])

    def test_values_that_are_failures_too(self, make):
        service = make({"status_code": 503, "error": "busy"}, {"status_code": 200})
        assert service.call() == {"status_code": 200}
        assert service.requests == 2

    @pytest.mark.parametrize(
        "error", [ValueError("no"), asyncio.CancelledError(), KeyboardInterrupt()]
    )
    def test_nothing_else_is(self, make, error):
        service = make(error)
        with pytest.raises(type(error)):
            service.call()
        assert service.requests == 1

    def test_a_final_answer_is_a_stop_at_once(self, make):
        service = make(answered(422))
        with pytest.raises(Stopped) as stopped:
            service.call()
        assert_stopped(stopped.value.stop, reason="terminal", status=422)
        assert service.requests == 1

    def test_a_final_answer_to_a_retry_is_one_too(self, make):
        service = make(answered(503), answered(422), attempts=9)
        with pytest.raises(Stopped) as stopped:
            service.call()
        assert_stopped(stopped.value.stop, reason="terminal", status=422)
        assert service.requests == 2

    def test_after_the_last_the_failure_is_the_calls_own(self, make):
        service = make(answered(503))
        with pytest.raises(httpx.HTTPStatusError):
            service.call()
        assert service.requests == 3
        service = make({"status_code": 503, "error": "busy"})
        assert service.call() == {"status_code": 503, "error": "busy"}

    def test_each_counts_and_the_call_counts_once(self, make):
        service = make(answered(503), answered(503), "ok")
        service.call()
        totals = service.guard.report("r1").totals
        assert (totals.executed, totals.attempts, totals.failed) == (1, 3, 1)

    def test_a_service_that_recovers_is_no_row_of_failures(self, make):
        service = make(*[answered(503), "ok"] * 20)
        for n in range(10):
            assert service.call(n, run="one") == "ok"
        assert service.requests == 20

    @pytest.mark.parametrize("attempts", [0, -1, True, 1.5])
    def test_are_a_whole_number(self, make, attempts):
        with pytest.raises(ValueError, match="whole number"):
            make("ok", attempts=attempts)


class TestTheGuard:
    def test_refuses_further_attempts(self, make):
        service = make(answered(503), policy=limited(2), attempts=9)
        with pytest.raises(Stopped) as stopped:
            service.call()
        assert_stopped(stopped.value.stop, reason="retry_budget")
        assert service.requests == 3
        assert isinstance(stopped.value.__cause__, httpx.HTTPStatusError | None)

    def test_refuses_the_call_itself(self, make):
        service = make("ok", policy=Policy(max_calls=1))
        service.call(run="one")
        assert service.requests == 1
        guard = service.guard
        with guard.within(run="two"):
            with guard.calling("other", {"n": 1}) as call:
                call.result("ok")
            with pytest.raises(Stopped) as stopped:
                service.call(run="two")
        assert_stopped(stopped.value.stop, reason="ceiling")
        assert service.requests == 1

    def test_one_place_is_enough_for_all_attempts(self, make):
        policy = Policy().replaced(Concurrency(limit=1, per="run"))
        service = make(answered(503), answered(503), "ok", policy=policy)
        assert service.call() == "ok"
        assert service.call() == "ok"

    def test_a_breaker_that_opens_ends_the_retries(self, make, clock):
        policy = Policy().replaced(Breaker(failures=3))
        service = make(answered(503), policy=policy, attempts=9)
        with pytest.raises(Stopped) as stopped:
            service.call()
        assert_stopped(stopped.value.stop, reason="breaker", status=503)
        assert service.requests == 4
        with pytest.raises(Stopped):
            service.call()
        assert service.requests == 4
        # A trial is one request, whatever would be retried.
        clock.tick(30)
        with pytest.raises(Stopped):
            service.call()
        assert service.requests == 5
        with pytest.raises(Stopped):
            service.call()
        assert service.requests == 5

    def test_a_call_outside_any_run_has_one_of_its_own(self, make_guard, clock):
        guard = make_guard(limited(1))
        for colour in ("sync", "async"):
            service = Service(guard, clock, colour, answered(503), attempts=9)
            with pytest.raises(Stopped):
                service.tool() if colour == "sync" else asyncio.run(service.tool())
            assert service.requests == 2
        assert len(guard.store) == 0
        assert guard.bodies.held == set()

    def test_inside_another_seam_the_first_attempt_is_counted_there(self, make_guard, clock):
        guard = make_guard(limited(1))
        service = Service(guard, clock, "sync", answered(503), attempts=9)
        with guard.within(run="r"), pytest.raises(Stopped) as stopped:
            # As an adapter would, for the tool of that name.
            with guard.calling("get", {"n": 0}):
                service.tool()
        assert stopped.value.stop.reason == "retry_budget"
        assert service.requests == 2
        assert guard.report("r").totals.executed == 1


class TestGivingUp:
    def test_a_wait_that_would_reach_the_deadline_is_not_begun(self, make, clock):
        began = clock()
        service = make(answered(503, retry_after="4"), attempts=9, deadline=10.0)
        with pytest.raises(Stopped) as stopped:
            service.call()
        stop = assert_stopped(stopped.value.stop, reason="deadline", status=503)
        assert (stop.retry_after, stop.executed, stop.observed) == (4.0, True, 3)
        assert (service.slept, clock() - began) == ([4.5, 4.5], 9.0)
        assert "another attempt would come too late" in stop.text
        assert isinstance(stopped.value.__cause__, httpx.HTTPStatusError)
        assert service.guard.report("r1").stops == (stop.model_copy(update={"gathered": ()}),)

    def test_a_floor_that_is_too_high_is_not_shortened(self, make):
        service = make(answered(429, retry_after="9" * 300))
        with pytest.raises(Stopped) as stopped:
            service.call()
        assert stopped.value.stop.retry_after == float("9" * 300)
        assert service.slept == []

    def test_a_budget_that_is_spent_is_said_so(self, make):
        service = make(answered(429), attempts=9, budget=Rolling(5, None))
        with pytest.raises(Stopped) as stopped:
            service.call()
        stop = assert_stopped(stopped.value.stop, reason="retry_budget", status=429)
        assert (service.requests, stop.scope, stop.ends_run) == (6, "call", False)
        with pytest.raises(Stopped):
            service.call()
        assert service.requests == 7

    def test_a_value_that_is_given_up_is_a_stop_too(self, make):
        service = make({"status_code": 503, "error": "busy"}, budget=Rolling(0))
        with pytest.raises(Stopped) as stopped:
            service.call()
        assert_stopped(stopped.value.stop, reason="retry_budget")

    def test_a_share_of_what_was_sent(self, make):
        share = Share(0.1)
        service = make(answered(503), budget=share)
        for n in range(100):
            with pytest.raises(Stopped):
                service.call(n)
        assert service.requests == share.sent == 112

    @pytest.mark.parametrize("settings", [{"deadline": 0.0}, {"longest": -1.0}])
    def test_times_are_more_than_nothing(self, make, settings):
        with pytest.raises(ValueError, match="more than 0 seconds"):
            make("ok", **settings)


class TestWrites:
    @pytest.mark.parametrize("error", [TimeoutError(), answered(500), answered(504)], ids=repr)
    def test_what_may_have_been_carried_out_is_not_made_again(self, make, error):
        service = make(error, "ok", writes=True)
        with pytest.raises(type(error)):
            service.call()
        assert service.requests == 1
        service = make(error, "ok", writes=True, repeatable=True)
        assert service.call() == "ok"

    @pytest.mark.parametrize("status", [429, 503])
    def test_what_was_turned_away_is(self, make, status):
        assert make(answered(status), "ok", writes=True).call() == "ok"


class TestLayers:
    def test_only_one_retries(self, make_guard, clock):
        events = []
        guard = make_guard(listeners=[events.append])
        service = Service(guard, clock, "sync", answered(503))
        call = service.tool
        for name in ("client", "tool"):
            call = guard.retrying(name=name, sleep=service.sleep)(partial(call))
        for run in ("r", "s"):
            with guard.within(run=run), pytest.raises(httpx.HTTPStatusError):
                call()
        assert service.requests == 6
        said = [event.message for event in events if event.kind == "alert"]
        told = "get is retried inside client, which retries too: it makes one attempt"
        assert said.count(told) == 1

    @pytest.mark.asyncio
    async def test_of_event_loops_too(self, make_guard, clock):
        guard = make_guard()
        service = Service(guard, clock, "async", answered(503))

        async def outer():
            return await service.tool()

        with guard.within(run="r"), pytest.raises(httpx.HTTPStatusError):
            await guard.retrying(asleep=service.asleep)(outer)()
        assert service.requests == 3


class TestEvents:
    def test_every_retry_is_one(self, make):
        events = []
        service = make(answered(503), TimeoutError(), "ok", listeners=[events.append])
        service.call()
        assert [event.message for event in events if event.kind == "retry"] == [
            "attempt 2 in 0.25 s, after HTTP 503",
            "attempt 3 in 0.5 s, after a failed connection or a time-out",
        ]

    def test_many_in_a_minute_are_an_alert(self, make, caplog):
        service = make(*[answered(503), "ok"] * 9, alert=3)
        with caplog.at_level(logging.WARNING, "lastcall"):
            for n in range(9):
                service.call(n)
        alerts = [
            record.lastcall["message"]
            for record in caplog.records
            if getattr(record, "lastcall", {}).get("kind") == "alert"
        ]
        assert alerts == ["retries: 3 within 60 s"]


class TestTheFunction:
    def test_stays_what_it_was(self, make_guard):
        retrying = make_guard().retrying(reads=True)

        @retrying
        def get(n: int = 0) -> str:
            """Get it."""
            return str(n)

        @retrying
        async def aget(n: int = 0) -> str:
            """Get it."""
            return str(n)

        for fn in (get, aget):
            assert fn.__doc__ == "Get it."
            assert str(inspect.signature(fn)) == "(n: 'int' = 0) -> 'str'"
            assert fn.__lastcall_tool__.reads
        assert inspect.iscoroutinefunction(aget)
        assert get(3) == asyncio.run(aget(3)) == "3"

    def test_must_not_be_guarded_already_nor_a_generator(self, make_guard):
        guard = make_guard()
        with pytest.raises(TypeError, match="guarded already"):
            guard.retrying()(guard.wrap(lambda: 1))

        def numbers():
            yield 1

        with pytest.raises(TypeError, match="generator"):
            guard.retrying()(numbers)

    def test_must_be_async_def_where_its_result_is_awaited(self, make_guard):
        async def later():
            return 1

        class Later:
            def __await__(self):
                yield

        for result in (later, Later):
            with pytest.raises(TypeError, match="async def"):
                make_guard().retrying()(lambda result=result: result())()

    def test_settings_that_do_not_exist_are_named(self, make_guard):
        with pytest.raises(PolicyError, match="did you mean 'attempts'"):
            make_guard().retrying(attempt=3)

    def test_takes_a_wait_of_tenacitys_own_and_keeps_the_floor(self, make):
        wait = tenacity.wait_fixed(2)
        service = make(answered(503), answered(429, retry_after="7"), "ok", wait=wait)
        assert service.call() == "ok"
        assert service.slept == [2, 7.5]

    def test_is_called_off_while_an_answer_is_told(self, make_guard, clock):
        class Interrupted(MemoryStore):
            asked = 0

            def update(self, keys, step, now):
                self.asked += 1
                if self.asked == 3:  # the call, its second attempt, and what came of that
                    raise KeyboardInterrupt
                return super().update(keys, step, now)

        service = Service(make_guard(store=Interrupted()), clock, "sync", answered())
        with pytest.raises(KeyboardInterrupt):
            service.through(run="r")
        assert service.requests == 2

    def test_is_called_off_like_any_other(self, make_guard, clock):
        guard = make_guard()
        waits = asyncio.Event()

        async def asleep(seconds):
            waits.set()
            await asyncio.Event().wait()

        @guard.retrying(asleep=asleep)
        async def get():
            raise answered(503)

        async def main():
            with guard.within(run="r"):
                task = asyncio.create_task(get())
                await waits.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

        asyncio.run(main())
        totals = guard.report("r").totals
        assert (totals.attempts, totals.failed) == (1, 0)
