"""K39 What opens the breaker; R192, R193, R194, and R159's two kinds of failure."""

from __future__ import annotations

import pytest

from lastcall import Call, Policy, Stopped, Where
from lastcall.rules import Breaker
from lastcall.testing import assert_stopped

POLICY = Policy(tools={"get": {"dependency": "shop"}}).replaced(Breaker(failures=3, wait=60))


class NotFound(Exception):
    status_code = 404


class Shop:
    """A guarded tool: each call does what the next of *script* says."""

    def __init__(self, guard, **tool):
        self.guard = guard
        self.script = []
        self.ran = 0
        self.runs = 0
        self.get = guard.wrap(self._get, name="get", **tool)

    def _get(self, n):
        self.ran += 1
        said = self.script.pop(0) if self.script else "ok"
        if isinstance(said, Exception):
            raise said
        return said

    def call(self, n=0):
        """A run of one call; what it raised."""
        self.runs += 1
        try:
            with self.guard.within(run=f"r{self.runs}"):
                self.get(n)
        except Exception as error:
            return error
        return None

    def opened(self):
        self.script = [ConnectionError("no")] * 3
        for n in range(3):
            self.call(n)
        return self


def reason(error):
    return error.stop.reason if isinstance(error, Stopped) else None


@pytest.mark.parametrize("answer", [{"is_error": True, "error": "no"}, NotFound("no")], ids=type)
@pytest.mark.parametrize("batch", [False, True])
def test_a_error_flags_and_404s_do_not(make_guard, answer, batch):
    guard = make_guard(POLICY)
    if batch:
        tickets = [
            guard.decide(Call("get", {"n": n}, Where("r", "r"), str(n), reply="m", size=3)).ticket
            for n in range(3)
        ]
        for ticket in tickets:
            made = guard.raised if isinstance(answer, Exception) else guard.returned
            guard.observe(ticket, made(ticket, answer))
    else:
        shop = Shop(guard)
        shop.script = [answer] * 3
        for n in range(3):
            shop.call(n)
    assert guard.store.peek(("dependency", "shop/"), guard.clock()) == {}


def test_b_transport_errors_do(make_guard):
    shop = Shop(make_guard(POLICY)).opened()
    stop = assert_stopped(shop.call(3), reason="breaker")
    assert (shop.ran, stop.executed) == (3, False)


@pytest.mark.parametrize("healed", [True, False])
def test_c_one_probe(make_guard, clock, healed):
    guard = make_guard(POLICY)
    shop = Shop(guard).opened()
    clock.tick(60)
    said = [guard.decide(Call("get", {"n": n}, Where(f"c{n}", "t"))) for n in range(10)]
    probes = [each.ticket for each in said if each.ticket is not None]
    assert len(probes) == 1
    assert {each.stop.reason for each in said if each.stop} == {"breaker"}
    guard.observe(
        probes[0],
        guard.returned(probes[0], "ok") if healed else guard.raised(probes[0], TimeoutError()),
    )
    assert reason(shop.call(10)) == (None if healed else "breaker")
    clock.tick(59)
    assert reason(shop.call(11)) == (None if healed else "breaker")
    clock.tick(1)
    assert reason(shop.call(12)) is None


def test_d_another_server_is_not_affected(make_guard):
    guard = make_guard(Policy().replaced(Breaker(failures=3, wait=60)))
    for n in range(3):
        ticket = guard.decide(Call("get", {"n": n}, Where(f"r{n}", "t"), server="one")).ticket
        guard.observe(ticket, guard.raised(ticket, ConnectionError()))
    assert guard.decide(Call("get", {"n": 3}, Where("x", "x"), server="one")).stop
    assert guard.decide(Call("get", {"n": 3}, Where("y", "y"), server="two")).stop is None


def test_r159_a_tools_own_error_is_no_transport_error(make_guard):
    guard = make_guard(POLICY)
    shop = Shop(guard)
    shard = ("dependency", "shop/")
    shop.script = [{"is_error": True, "error": "no such file"}, ConnectionError("gone")]
    shop.call(1)
    assert guard.store.peek(shard, guard.clock()) == {}
    shop.call(2)
    (state,) = guard.store.peek(shard, guard.clock()).values()
    assert state.failures == 1


def test_r192_off_and_with_numbers_of_ones_own(make_guard, clock):
    shop = Shop(make_guard(Policy()))
    shop.script = [ConnectionError("no")] * 10
    assert {reason(shop.call(n)) for n in range(10)} == {None}
    shop = Shop(make_guard(Policy().replaced(Breaker(failures=5, wait=10))))
    shop.script = [ConnectionError("no")] * 5
    assert [reason(shop.call(n)) for n in range(6)] == [None] * 5 + ["breaker"]
    clock.tick(9.9)
    assert reason(shop.call()) == "breaker"
    clock.tick(0.1)
    assert reason(shop.call()) is None


def test_r193_it_is_said_when_the_next_probe_is(make_guard, clock):
    shop = Shop(make_guard(POLICY)).opened()
    clock.tick(15)
    stop = assert_stopped(shop.call(), reason="breaker")
    assert (stop.retry_after, stop.resets_at.timestamp()) == (45.0, clock() + 45)
    assert shop.ran == 3


def test_r194_failures_of_the_policys_own_code_do_not_count(make_guard):
    asked = []

    def overrides(where):
        asked.append(where)
        raise ConnectionError("the policy service is down")

    guard = make_guard(POLICY, overrides=overrides)
    shop = Shop(guard)
    for n in range(5):
        assert reason(shop.call(n)) == "fault"
    assert asked
    assert guard.store.shards("dependency", guard.clock()) == []
