"""A day of a time zone: its own midnight, 23 and 25 hours where clocks change, on every store alike."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lastcall import Call, Guard, Outcome, Policy, Where
from lastcall.rules import Budget, Limit
from lastcall.stores.tallies import bucket
from lastcall.testing import FakeClock
from lastcall.zones import midnight_after, offset_of

BERLIN = "Europe/Berlin"
ZONES = [BERLIN, "America/St_Johns", "Asia/Kathmandu", "Pacific/Apia", "Australia/Lord_Howe", "UTC"]


def at(text, zone=BERLIN):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def guard_of(clock, **limit):
    rule = Budget(limits=[Limit(per="user", window="day", most=2, **limit)])
    return Guard(Policy(rules=[rule]), clock=clock)


def ask(guard, run="r"):
    verdict = guard.decide(Call("t", {}, Where(run=run, user="ann")))
    if verdict.ticket:
        guard.observe(verdict.ticket, Outcome(content="x"))
    return verdict.stop


@pytest.mark.parametrize(
    ("evening", "hours"),
    [("2026-03-28T23:30", 23), ("2026-10-24T23:30", 25), ("2026-06-01T23:30", 24)],
)
def test_a_day_begins_at_its_own_midnight_and_ends_at_the_next(evening, hours):
    clock = FakeClock(at(evening))
    guard = guard_of(clock, zone=BERLIN)
    assert [ask(guard) for _ in range(2)] == [None, None]
    stop = ask(guard)
    assert (stop.reason, stop.budget) == ("budget", f"calls/day:{BERLIN}/user")
    assert (stop.retry_after, stop.resets_at.timestamp()) == (1800.0, clock() + 1800)
    clock.tick(1799)
    assert ask(guard)
    clock.tick(1)
    assert [ask(guard) for _ in range(2)] == [None, None]
    stop = ask(guard)
    assert stop.retry_after == hours * 3600.0
    clock.tick(hours * 3600 - 1)
    assert ask(guard)
    clock.tick(1)
    assert ask(guard) is None


def test_without_a_zone_it_is_a_utc_day():
    clock = FakeClock(at("2026-06-01T23:30"))
    guard = guard_of(clock)
    assert [ask(guard) for _ in range(2)] == [None, None]
    clock.tick(1800)
    assert ask(guard).resets_at == datetime(2026, 6, 2, tzinfo=UTC)


def test_a_reservation_belongs_to_the_day_it_was_made():
    clock = FakeClock(at("2026-06-01T23:59:59"))
    limit = Limit(quantity="money", per="user", window="day", zone=BERLIN, most="1.00")
    policy = Policy(rules=[Budget(limits=[limit])], tools={"pay": {"cost": "1.00"}})
    guard = Guard(policy, clock=clock)
    where = Where(run="r", user="ann")
    evening = guard.decide(Call("pay", {"n": 1}, where)).ticket
    clock.tick(2)
    night = guard.decide(Call("pay", {"n": 2}, where)).ticket
    guard.observe(evening, Outcome("cancelled", started=False))
    assert guard.decide(Call("pay", {"n": 3}, where)).stop.reason == "budget"
    guard.observe(night, Outcome("cancelled", started=False))
    assert guard.decide(Call("pay", {"n": 4}, Where(run="r2", user="ann"))).ticket


@given(st.sampled_from(ZONES), st.integers(0, 2_000_000_000), st.integers(1, 200_000))
def test_the_number_of_a_day_is_that_of_the_calendar(zone, now, later):
    def day(when):
        return bucket(86_400.0, when + offset_of(zone, when))

    def date(when):
        return datetime.fromtimestamp(when, ZoneInfo(zone)).date()

    epoch = datetime(1970, 1, 1).date()
    assert day(now) == (date(now) - epoch).days
    end = midnight_after(zone, now)
    assert now < end
    assert date(end) > date(now)
    assert date(end - 1) <= date(now) or zone == "Pacific/Apia", "Apia left a day out"
    if later < end - now:
        assert day(now + later) == day(now)


@pytest.mark.parametrize("zone", ["Europe/Bärlin", "", "../../etc/passwd", "Europe"])
def test_a_zone_that_is_none(zone):
    with pytest.raises(ValidationError) as caught:
        Limit(window="day", most=1, zone=zone)
    said = str(caught.value)
    assert "IANA" in said or "at least 1 character" in said


@pytest.mark.parametrize("window", ["hour", 86_400.0, None])
def test_a_zone_is_a_days(window):
    with pytest.raises(ValidationError, match="where a day begins"):
        Limit(window=window, most=1, zone=BERLIN)


def test_it_survives_a_file():
    policy = Policy(rules=[Budget(limits=[Limit(window="day", most=1, zone=BERLIN)])])
    assert Policy.from_toml(policy.to_toml()) == policy
