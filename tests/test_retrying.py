"""Waits, stops, budgets and the predicate: pure, and in tenacity's own loops. Nobody sleeps."""

from __future__ import annotations

import asyncio
import math
import random
from functools import partial

import httpx
import pytest
import tenacity
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Call, MemoryStore, Policy, Stopped, ToolPolicy, Where
from lastcall.retrying import (
    Bucket,
    Rolling,
    Share,
    astop_if_refused,
    astop_when_spent,
    passing,
    retry_if_passing,
    stop_at,
    stop_if_refused,
    stop_when_spent,
    wait_at_least,
    wait_decorrelated,
    wait_full_jitter,
)
from lastcall.retrying.waits import decorrelated, full_jitter
from lastcall.rules import Budget, Limit
from lastcall.status import raised
from lastcall.stores.sqlite import SQLiteStore
from lastcall.testing import FailingStore, FakeClock
from lastcall.volume import Volume

REQUEST = httpx.Request("GET", "http://localhost")
NOW = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT


def answered(status=503, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx.Response(status, headers=named, request=REQUEST)
    return httpx.HTTPStatusError(f"HTTP {status}", request=REQUEST, response=response)


def state(error=None, attempt=1, value=None, upcoming=0.0):
    """What tenacity would hand over."""
    made = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    made.attempt_number = attempt
    made.upcoming_sleep = upcoming
    if error is None:
        made.set_result(value)
    else:
        made.set_exception((type(error), error, None))
    return made


class Service:
    """Answers by *script*, then by its last word; keeps what it was asked, and what was slept."""

    def __init__(self, *script):
        self.script = list(script)
        self.requests = 0
        self.slept = []

    def __call__(self, *_):
        self.requests += 1
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(said, BaseException):
            raise said
        return said

    async def arequest(self, *_):
        return self()

    def sleep(self, seconds):
        self.slept.append(seconds)

    async def asleep(self, seconds):
        self.slept.append(seconds)


class TestWaits:
    @pytest.mark.parametrize(
        ("attempt", "highest"),
        [(0, 1.0), (1, 2.0), (3, 8.0), (6, 60.0), (1024, 60.0), (10**9, 60.0)],
    )
    def test_full_jitter_is_random_up_to_a_power_of_two(self, attempt, highest):
        assert full_jitter(attempt, 1.0, 60.0, lambda: 0.5) == highest / 2
        assert full_jitter(attempt, 1.0, 60.0, lambda: 0.0) == 0.0

    def test_nothing_overflows_without_a_cap_either(self):
        assert math.isfinite(full_jitter(1024, 1.0, math.inf, lambda: 1.0))

    def test_decorrelated_jitter_goes_by_the_wait_before(self):
        assert decorrelated(0.0, 1.0, 60.0, lambda: 0.9) == 1.0
        assert decorrelated(4.0, 1.0, 60.0, lambda: 0.5) == 6.5
        assert decorrelated(40.0, 1.0, 60.0, lambda: 1.0) == 60.0

    @given(st.integers(0, 2000), st.floats(0, 100), st.randoms())
    def test_they_stay_within_their_bounds(self, attempt, previous, rng):
        assert 0 <= full_jitter(attempt, 0.5, 60.0, rng.random) <= 60
        assert 0.5 <= decorrelated(previous, 0.5, 60.0, rng.random) <= 60

    def test_the_strategies_count_the_first_retry_as_0(self):
        wait = wait_full_jitter(base=1.0, draw=lambda: 0.5)
        assert [wait(state(ValueError(), n)) for n in (1, 2, 3)] == [0.5, 1.0, 2.0]
        wait = wait_decorrelated(base=1.0, draw=lambda: 0.5)
        assert wait(state(ValueError(), 2, upcoming=4.0)) == 6.5

    @pytest.mark.parametrize(
        "kind",
        [
            wait_full_jitter,
            wait_decorrelated,
            lambda **_: wait_at_least(tenacity.wait_fixed(1), draw=_["draw"], clock=_["clock"]),
        ],
    )
    @pytest.mark.parametrize(
        ("header", "floor"),
        [
            ({"retry_after": "120"}, 120.0),
            ({"retry_after": "Fri, 15 Jan 2027 08:02:00 GMT"}, 120.0),
            (
                {
                    "retry_after": "Fri, 15 Jan 2027 09:00:30 GMT",
                    "date": "Fri, 15 Jan 2027 09:00:00 GMT",
                },
                30.0,
            ),
        ],
    )
    def test_what_the_service_asks_for_is_a_floor_with_a_scatter_above(self, kind, header, floor):
        error = answered(429, **header)
        for share in (0.0, 0.25, 0.999):
            wait = kind(draw=lambda share=share: share, clock=lambda: NOW)
            assert wait(state(error)) == max(floor + share, wait.own(state(error)))

    @pytest.mark.parametrize("text", ["٣", "-3", "1e3", "3.5", "", "soon"])
    def test_what_is_no_number_in_ascii_is_none(self, text):
        headers = [(b"Retry-After", text.encode())]
        response = httpx.Response(429, headers=headers, request=REQUEST)
        error = httpx.HTTPStatusError("429", request=REQUEST, response=response)
        wait = wait_full_jitter(base=1.0, draw=lambda: 0.5, clock=lambda: NOW)
        assert wait(state(error)) == 0.5
        assert raised(error, now=NOW).retry_after is None

    @given(st.integers(0, 10**6), st.randoms())
    def test_no_sleep_is_below_the_floor(self, seconds, rng):
        wait = wait_full_jitter(draw=rng.random)
        assert seconds <= wait(state(answered(429, retry_after=str(seconds))))

    def test_they_compose_with_tenacitys_own(self):
        wait = wait_full_jitter(base=1.0, draw=lambda: 0.5) + tenacity.wait_fixed(3)
        assert wait(state(ValueError())) == 3.5
        assert wait_full_jitter()(state(value="fine")) <= 0.5


class TestWhatIsRetried:
    @pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
    def test_passing_statuses(self, status):
        assert retry_if_passing()(state(answered(status)))
        assert retry_if_passing()(state(value={"status_code": status, "error": "no"}))

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 501, 505])
    def test_and_no_others(self, status):
        assert not retry_if_passing()(state(answered(status)))

    def test_connections_that_failed(self):
        assert retry_if_passing()(state(ConnectionResetError()))
        assert retry_if_passing()(state(httpx.ReadTimeout("late")))

    @pytest.mark.parametrize(
        "error", [ValueError(), KeyboardInterrupt(), asyncio.CancelledError()], ids=repr
    )
    def test_nothing_else(self, error):
        assert not retry_if_passing()(state(error))

    def test_nothing_that_a_guard_stopped(self, make_guard):
        guard = make_guard(Policy(max_calls=1))
        tool = guard.wrap(lambda n: n, name="t")
        with guard.within(run="r"):
            tool(1)
            with pytest.raises(Stopped) as stopped:
                tool(2)
        assert not retry_if_passing()(state(stopped.value))

    def test_by_what_is_declared_of_the_tool(self):
        again = retry_if_passing(ToolPolicy(statuses={503: "final", 401: "passing"}))
        assert not again(state(answered(503)))
        assert again(state(answered(401)))

    def test_it_composes_with_tenacitys_own(self):
        either = retry_if_passing() | tenacity.retry_if_exception_type(KeyError)
        assert either(state(KeyError()))
        assert either(state(answered(503)))
        both = retry_if_passing() & tenacity.retry_if_exception_type(OSError)
        assert not both(state(answered(503)))

    def test_a_loop_that_asks_before_anything_was_sent(self):
        made = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
        assert not retry_if_passing()(made)


class TestStops:
    def test_a_sleep_that_would_reach_the_deadline_is_not_begun(self):
        clock = FakeClock(NOW)
        service = Service(answered(503))

        def sleep(seconds):
            service.sleep(seconds)
            clock.tick(seconds)

        loop = tenacity.Retrying(
            stop=stop_at(NOW + 10, clock=clock),
            wait=tenacity.wait_fixed(3),
            retry=retry_if_passing(),
            sleep=sleep,
            reraise=True,
        )
        with pytest.raises(httpx.HTTPStatusError):
            loop(service)
        assert service.slept == [3, 3, 3]
        assert clock() == NOW + 9
        assert stop_at(NOW + 3, clock=lambda: NOW)(state(ValueError(), upcoming=3.0))

    def test_the_budget_is_asked_once_for_each_retry(self):
        budget = Rolling(2)
        service = Service(answered(503))
        loop = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(9) | stop_when_spent(budget, clock=lambda: NOW),
            retry=retry_if_passing(budget=budget),
            sleep=service.sleep,
            reraise=True,
        )
        with pytest.raises(httpx.HTTPStatusError):
            loop(service)
        assert service.requests == 3

    def test_the_guard_is_asked_before_each_retry(self, make_guard):
        guard = make_guard(
            Policy().replaced(
                Budget(limits=(Limit(quantity="retries", per="run", window=None, most=2),))
            )
        )
        service = Service(answered(503))
        loop = tenacity.Retrying(
            stop=stop_if_refused(guard, Call("t", None, Where("r", "r"))),
            retry=retry_if_passing(),
            sleep=service.sleep,
            reraise=True,
        )
        with pytest.raises(httpx.HTTPStatusError):
            loop(service)
        assert service.requests == 3
        assert guard.report("r").totals.attempts == 2

    @pytest.mark.asyncio
    async def test_the_same_for_event_loops(self, make_guard):
        limits = (Limit(quantity="retries", per="run", window=None, most=2),)
        guard = make_guard(Policy().replaced(Budget(limits=limits)))
        for stop in (
            astop_if_refused(guard, Call("t", None, Where("r", "r"))),
            astop_when_spent(Rolling(2), clock=lambda: NOW),
        ):
            service = Service(answered(503))
            loop = tenacity.AsyncRetrying(
                stop=stop, retry=retry_if_passing(), sleep=service.asleep, reraise=True
            )
            with pytest.raises(httpx.HTTPStatusError):
                await loop(service.arequest)
            assert service.requests == 3


def layered(service, layers, **settings):
    """The service behind so many retrying layers of three attempts each."""
    call = service
    for _ in range(layers):
        loop = tenacity.Retrying(
            stop=settings.get("stop", tenacity.stop_after_attempt(3)),
            retry=retry_if_passing(),
            sleep=service.sleep,
            reraise=True,
        )
        call = partial(loop, call)
    with pytest.raises(httpx.HTTPStatusError):
        call()
    return service.requests


class TestFigures:
    @pytest.mark.parametrize(("layers", "requests"), [(3, 27), (4, 81), (1, 3)])
    def test_layers_multiply(self, layers, requests):
        assert layered(Service(answered(503)), layers) == requests

    @pytest.mark.parametrize(("budget", "attempts"), [(None, 3000), (Share(0.1), 1112)])
    def test_a_thousand_requests_against_a_dead_service(self, budget, attempts):
        service = Service(answered(503))
        stop = tenacity.stop_after_attempt(3)
        if budget is not None:
            stop |= stop_when_spent(budget, clock=lambda: NOW)
        for _ in range(1000):
            loop = tenacity.Retrying(
                stop=stop, retry=retry_if_passing(budget=budget), sleep=service.sleep, reraise=True
            )
            with pytest.raises(httpx.HTTPStatusError):
                loop(service)
        assert service.requests == attempts
        if budget is not None:
            assert (budget.sent, budget.retried) == (1112, 112)

    def test_k34_three_layers_with_one_budget(self):
        """K34: three layers of 3, 3 and 5 attempts make 45; a budget of 5 retries makes 6 of them."""
        for budget, most in ((None, 45), (Rolling(5, None), 6)):
            service = Service(answered(429))
            call = service
            for attempts in (3, 3, 5):
                stop = tenacity.stop_after_attempt(attempts)
                if budget is not None:
                    stop |= stop_when_spent(budget, clock=lambda: NOW)
                loop = tenacity.Retrying(
                    stop=stop, retry=retry_if_passing(), sleep=service.sleep, reraise=True
                )
                call = partial(loop, call)
            with pytest.raises(httpx.HTTPStatusError):
                call()
            assert service.requests == most


class TestShare:
    def test_is_of_what_was_sent(self):
        share = Share(0.5)
        assert not share.take(NOW)
        share.told(NOW, ok=True)
        assert [share.take(NOW) for _ in range(2)] == [True, False]

    @pytest.mark.parametrize("share", [0, -0.1, 1.1])
    def test_is_a_part(self, share):
        with pytest.raises(ValueError, match="share"):
            Share(share)

    @given(st.lists(st.booleans(), max_size=200))
    def test_is_never_exceeded_by_more_than_one(self, steps):
        share = Share(0.1)
        for sends in steps:
            if sends or not share.take(NOW):
                share.told(NOW, ok=False)
        assert share.retried <= 0.1 * share.sent + 1


class TestRolling:
    def test_lets_twenty_through_in_a_minute(self):
        rolling = Rolling()
        assert [rolling.take(NOW + n) for n in range(21)] == [True] * 20 + [False]
        assert not rolling.take(NOW + 59.9)
        assert rolling.take(NOW + 60)
        assert not rolling.take(NOW + 60.5)

    def test_of_a_run_never_comes_back(self):
        rolling = Rolling(1, None)
        assert [rolling.take(NOW + n * 1e6) for n in range(3)] == [True, False, False]

    @pytest.mark.parametrize("most", [-1, True, 1.5])
    def test_counts_in_whole_numbers(self, most):
        with pytest.raises(ValueError, match="whole number"):
            Rolling(most)

    @given(st.lists(st.integers(0, 30), max_size=60))
    def test_never_lets_more_through_within_its_time(self, gaps):
        rolling, now, taken = Rolling(3, 60.0), NOW, []
        for gap in gaps:
            now += gap
            allowed = sum(1 for at in taken if at > now - 60) < 3
            assert rolling.take(now) == allowed
            taken += [now] * allowed


@pytest.fixture(params=["memory", "sqlite"])
def stores(request, tmp_path):
    """Two sights of one store."""
    if request.param == "memory":
        yield [MemoryStore()] * 2
        return
    made = [SQLiteStore(tmp_path / "lastcall.db", timeout=20) for _ in range(2)]
    yield made
    for store in made:
        store.close()


class TestBucket:
    def test_starts_empty_and_fills_by_the_second(self, stores):
        bucket = Bucket(stores[0], "bank")
        assert not bucket.take(NOW)
        assert not bucket.take(NOW + 0.9)
        assert bucket.take(NOW + 1)
        assert not bucket.take(NOW + 1.5)
        assert bucket.take(NOW + 2)

    def test_ten_successes_are_one_retry_for_whoever_comes(self, stores):
        one, two = (Bucket(store, "bank", second=0.0) for store in stores)
        for n in range(10):
            assert not two.take(NOW)
            (one, two)[n % 2].told(NOW, ok=True)
            one.told(NOW, ok=False)
        assert two.take(NOW)
        assert not one.take(NOW)
        assert not Bucket(stores[0], "shop").take(NOW)

    def test_holds_a_hundred(self, stores):
        bucket = Bucket(stores[0], "bank")
        assert not bucket.take(NOW)
        for _ in range(3):
            bucket.told(NOW + 1000, ok=True)
        assert sum(bucket.take(NOW + 1000) for _ in range(150)) == 100

    def test_time_that_goes_back_brings_nothing(self, stores):
        bucket = Bucket(stores[0], "bank")
        assert not bucket.take(NOW)
        assert not bucket.take(NOW - 100)
        assert not bucket.take(NOW + 0.5)

    @pytest.mark.asyncio
    async def test_does_the_same_in_event_loops(self, stores):
        bucket = Bucket(stores[0], "bank", success=1.0, second=0.0)
        await bucket.atold(NOW, ok=False)
        assert not await bucket.atake(NOW)
        await bucket.atold(NOW, ok=True)
        assert [await bucket.atake(NOW) for _ in range(2)] == [True, False]

    @pytest.mark.asyncio
    async def test_without_its_store_nothing_is_retried(self):
        store = FailingStore()
        store.fail()
        bucket = Bucket(store, "bank")
        bucket.told(NOW, ok=True)
        await bucket.atold(NOW, ok=True)
        assert not bucket.take(NOW)
        assert not await bucket.atake(NOW)


def test_the_local_ones_do_the_same_in_event_loops():
    async def main():
        share = Share(1.0)
        await share.atold(NOW, ok=True)
        assert await share.atake(NOW)
        rolling = Rolling(1)
        await rolling.atold(NOW, ok=True)
        assert [await rolling.atake(NOW) for _ in range(2)] == [True, False]

    asyncio.run(main())


def test_many_retries_within_a_minute_are_one_alert():
    volume = Volume()
    assert [volume.reached(NOW + n, 3) for n in range(6)] == [False, False, True] + [False] * 3
    assert not any(volume.reached(NOW + 200 + 31 * n, 3) for n in range(5))
    assert [volume.reached(NOW + 900, 3) for _ in range(3)] == [False, False, True]


def test_passing_is_what_the_guard_calls_so():
    assert passing(raised(answered(503)))
    assert not passing(raised(answered(404)))


def test_tenacity_is_loaded_by_those_alone_who_retry():
    import subprocess
    import sys

    code = "import lastcall, sys; lastcall.Guard(); assert 'tenacity' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_jitter_is_spread_over_the_whole_range():
    rng = random.Random(7)
    waits = [full_jitter(3, 1.0, 60.0, rng.random) for _ in range(1000)]
    parts = [sum(n <= wait < n + 1 for wait in waits) for n in range(8)]
    assert min(parts) > 80
