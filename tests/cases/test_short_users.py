"""The short cases of theme M, users and money, as far as what they count exists; and what an operator
of several workers asks of the limits that these share."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from lastcall import Call, MemoryStore, Outcome, Policy, Where
from lastcall.rules import Budget, Concurrency, Cooling, Limit, Quarantine
from lastcall.testing import assert_stopped

from .playing import Body, HttpError, Run, astop_of, at_once, gathered, reasons, stop_of


def budget(*limits, **settings):
    return Policy(**settings).replaced(Budget(limits=limits))


class TestR218FirstCallsOfANewUserAtOnce:
    LIMIT = Limit(per="user", window="day", most=1)

    @pytest.mark.parametrize("repetition", range(10))
    def test_on_threads(self, make_guard, repetition):
        guard, body = make_guard(budget(self.LIMIT)), Body()
        look = guard.wrap(body)

        def first(n):
            with guard.within(run=f"r{n}", user="new"):
                return stop_of(look, n=n)

        stops = at_once(8, first)
        assert body.runs == 1
        assert sorted(reasons(stops), key=str) == [None, *["budget"] * 7]
        assert {stop.scope for stop in stops if stop} == {"user"}

    def test_on_asyncio(self, make_guard):
        guard, started = make_guard(budget(self.LIMIT)), []

        @guard.wrap
        async def look(n):
            started.append(n)
            await asyncio.sleep(0)

        async def first(n):
            with guard.within(run=f"r{n}", user="new"):
                return await astop_of(look, n)

        stops = gathered(8, first)
        assert len(started) == 1
        assert reasons(stops).count("budget") == 7


def test_r219_a_budget_by_reference_is_enforced_like_one_inline(make_guard, tmp_path):
    file = tmp_path / "policy.toml"
    file.write_text("[[rules.budget.limits]]\nper = 'user'\nmost = 3\n")
    for policy in (Policy.from_toml(file), budget(Limit(per="user", most=3))):
        guard = make_guard(policy)
        stops = []
        for n in range(9):
            run = Run(guard, run=f"r{n}")
            run.where = Where(run=f"r{n}", turn="t", user="ann")
            stops.append(run.call("look", n))
        assert reasons(stops) == [None] * 3 + ["budget"] * 6


def test_r221_a_cap_per_user_beside_that_of_the_organisation(make_guard):
    guard = make_guard(budget(Limit(per="user", most=5), Limit(per="tenant", most=8)))
    body = Body()
    look = guard.wrap(body)

    def asks(user, times):
        stops = []
        for n in range(times):
            with guard.within(run=f"{user}{n}", user=user, tenant="acme"):
                stops.append(stop_of(look, n=n))
        return stops

    ann, bob = asks("ann", 9), asks("bob", 9)
    assert [stop and stop.scope for stop in ann] == [None] * 5 + ["user"] * 4
    assert [stop and stop.scope for stop in bob] == [None] * 3 + ["tenant"] * 6
    assert body.runs == 8


def test_r223_a_limit_of_ten_for_two_workers_is_ten_in_all(make_guard):
    # Two processes: tests/stores. The rule's part is that both count in one place.
    store, body = MemoryStore(), Body()
    workers = [make_guard(budget(Limit(per="all", most=10)), store=store) for _ in range(2)]
    looks = [guard.wrap(body) for guard in workers]

    def work(index):
        with workers[index % 2].within(run=f"r{index}"):
            return [stop_of(looks[index % 2], n=n) for n in range(4)]

    stops = [stop for each in at_once(8, work) for stop in each]
    assert body.runs == 10
    assert reasons(stops).count("budget") == 22


@pytest.mark.parametrize(("case", "most"), [("R225", 50), ("R227", 10)])
def test_r225_r227_a_bound_on_requests_to_the_model_is_one_line(make_guard, case, most):
    limit = Limit(quantity="requests", per="run", window=None, most=most)
    guard = make_guard(budget(limit))
    where, requests = Where(run="r", turn="t"), 0
    for n in range(2 * most):
        if guard.decide(Call("llm", None, where, kind="model")).ticket is None:
            break
        requests += 1
        run = Run(guard)
        assert run.call("look", n, f"new {n}") is None
    assert requests == most
    stop = guard.report("r").stopped_by
    assert_stopped(stop, reason="budget", scope="run")
    assert (stop.budget, stop.limit) == ("requests/run", most)


def test_r226_the_stop_names_what_was_used_up(make_guard):
    limits = (
        Limit(quantity="requests", per="run", window=None, most=20),
        Limit(per="user", window="hour", most=3),
    )
    guard = make_guard(budget(*limits))
    where = Where(run="r", turn="t", user="ann")
    for n in range(4):
        verdict = guard.decide(Call("look", n, where))
    assert verdict.stop.budget == "calls/hour/user"
    other = Where(run="r2", turn="t", user="bob")
    for _ in range(21):
        verdict = guard.decide(Call("llm", None, other, kind="model"))
    assert verdict.stop.budget == "requests/run"


def test_b9_reconnecting_resets_nothing(make_guard):
    # 20 calls an hour for one client: 21 calls, 20 served, however often it begins anew.
    guard, body = make_guard(budget(Limit(per="user", most=20))), Body()
    look = guard.wrap(body)
    for n in range(21):
        with guard.within(run=f"session{n}", thread=f"t{n}", user="client"):
            stop = stop_of(look, n=n)
    assert (body.runs, stop.reason) == (20, "budget")
    assert stop.resets_at is not None


class TestF3:
    def test_five_at_once_under_a_cap_of_two(self, make_guard):
        guard = make_guard(Policy().replaced(Concurrency(limit=2, per="user")))
        served = []

        async def every():
            release = asyncio.Event()

            @guard.wrap
            async def look(n):
                served.append(n)
                await release.wait()

            async def one(n):
                with guard.within(run=f"r{n}", user="ann"):
                    return await astop_of(look, n)

            tasks = [asyncio.create_task(one(n)) for n in range(5)]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            while len(done) < 3:
                done, _ = await asyncio.wait(tasks, timeout=0)
            release.set()
            return await asyncio.gather(*tasks)

        stops = asyncio.run(every())
        assert len(served) == 2
        refused = [stop for stop in stops if stop]
        assert reasons(refused) == ["concurrency"] * 3
        assert {(stop.retryable, stop.retry_after) for stop in refused} == {(True, 1.0)}

    @pytest.mark.parametrize("how", ["raises", "cancelled", "returns"])
    def test_a_slot_is_freed_whatever_happens(self, make_guard, how):
        guard = make_guard(Policy().replaced(Concurrency(limit=1, per="all")))

        @guard.wrap
        async def look(how):
            if how == "raises":
                raise ValueError(how)
            if how == "cancelled":
                raise asyncio.CancelledError
            return how

        async def every():
            for n in range(3):
                with guard.within(run=f"r{n}"):
                    with suppress(ValueError, asyncio.CancelledError):
                        await look(how)

        asyncio.run(every())
        with guard.within(run="last"):
            assert stop_of(guard.wrap(Body())) is None

    def test_a_dead_worker_holds_its_slot_no_longer_than_the_timeout(self, make_guard, clock):
        store = MemoryStore()
        policy = Policy(tools={"look": {"timeout": 30}}).replaced(Concurrency(limit=1, per="all"))
        dead, alive = (make_guard(policy, store=store) for _ in range(2))
        assert dead.decide(Call("look", 1, Where("r1", "t"))).ticket is not None
        ask = Call("look", 2, Where("r2", "t"))
        clock.tick(29)
        assert_stopped(alive.decide(ask).stop, reason="concurrency")
        clock.tick(1)
        assert alive.decide(ask).ticket is not None


def test_d7_what_failed_finally_is_not_paid_for_again_by_the_next_run(make_guard, clock):
    store, policy = MemoryStore(), Policy().replaced(Quarantine())
    body = Body(HttpError(422, "no such field"), name="book")
    for n in range(5):
        guard = make_guard(policy, store=store)
        book = guard.wrap(body)
        with guard.within(run=f"r{n}"):
            stop = stop_of(book, n=1)
            assert stop.status == 422
    assert body.runs == 1
    clock.tick(900)
    with guard.within(run="later"):
        stop_of(book, n=1)
    assert body.runs == 2


def test_d8_a_supervisor_that_restarts_a_failing_agent_meets_it_cooling_off(make_guard, clock):
    store, policy = MemoryStore(), Policy.strict().replaced(Cooling(seconds=300))
    requests = 0
    for restart in range(100):
        guard = make_guard(policy, store=store)
        run = Run(guard, run=f"r{restart}")
        run.where = Where(run=f"r{restart}", turn="t", agent="clerk")
        if guard.decide(Call("llm", None, run.where, kind="model")).ticket is None:
            clock.tick(10)
            continue
        requests += 1
        run.call("book", {"n": 1}, Outcome("error", "no", 401, "final", "no"))
        assert run.ended
        clock.tick(10)
    # 1,000 seconds of restarts every ten: one start in 300.
    assert requests == 4
