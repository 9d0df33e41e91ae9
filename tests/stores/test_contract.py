"""What every store promises. A new store is one more line in conftest.py."""

from __future__ import annotations

import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastcall import MemoryStore
from lastcall.contracts import Free, Give, Lease, Plan, Take

RUN = ("run", "r1")
A, B = (RUN, "a"), (RUN, "b")
NOW = 1_000.0


def claim(store, *claims, now=NOW, writes=(), otherwise=None, keys=(A,)):
    plan = Plan("asked", writes, claims=claims, otherwise=otherwise)
    return store.update(keys, lambda _: plan, now)[1]


def release(store, *releases, now=NOW):
    store.update((A,), lambda _: Plan(None, releases=releases), now)


def records(store, *keys, now=NOW):
    return store.update(keys, lambda found: Plan(list(found)), now)[0]


def write(store, key, value, now=NOW):
    store.update((key,), lambda _: Plan(None, [(0, value)]), now)


def test_an_absent_record_is_none(store):
    assert records(store, A, B) == [None, None]


def test_a_written_record_is_read_again(store):
    write(store, A, (1, "x"))
    assert records(store, A, B) == [(1, "x"), None]


def test_a_step_sees_the_records_in_the_order_of_the_keys(store):
    write(store, A, (1,))
    write(store, B, (2,))
    assert records(store, B, A) == [(2,), (1,)]


def test_none_forgets_a_record_and_no_other(store):
    write(store, A, (1,))
    write(store, B, (2,))
    store.update((A, B), lambda _: Plan(None, [(0, None)]), NOW)
    assert records(store, A, B) == [None, (2,)]
    store.update((A, B), lambda _: Plan(None, [(1, None), (0, (3,))]), NOW)
    assert records(store, A, B) == [(3,), None]
    store.update((A,), lambda _: Plan(None, [(0, None)]), NOW)
    assert store.peek(RUN, NOW) == {}
    write(store, A, None)
    assert records(store, A) == [None]


def test_the_plans_value_comes_back(store):
    value, answer = store.update((A,), lambda _: Plan("v"), NOW)
    assert (value, answer.refused, answer.observed) == ("v", None, ())


def test_a_step_that_raises_writes_nothing(store):
    write(store, A, (1,))
    with pytest.raises(ZeroDivisionError):
        store.update((A,), lambda _: 1 / 0, NOW)
    assert records(store, A) == [(1,)]


def test_after_a_step_that_raised_the_store_still_answers(store):
    with pytest.raises(ZeroDivisionError):
        store.update((A,), lambda _: 1 / 0, NOW)
    write(store, A, (2,))
    assert records(store, A) == [(2,)]


def test_a_dropped_shard_is_forgotten_and_others_are_not(store):
    other = (("run", "r2"), "a")
    write(store, A, (1,))
    write(store, other, (2,))
    claim(store, Take((RUN, "n"), 1, 5))
    store.drop(RUN)
    assert records(store, A, other) == [None, (2,)]
    assert claim(store, Take((RUN, "n"), 1, 5)).observed == (1,)


def test_dropping_what_is_not_there_does_nothing(store):
    store.drop(("run", "never"))


def test_half_a_character_in_a_name_holds_a_place_like_any_other(store):
    """A model writes the ids of its calls, and JSON may hold half a character."""
    key = (("user", "u"), "places")
    ours, theirs = (Lease(key, f"r {half} c", 1, 60.0) for half in ("\ud83d", "\udc4d"))
    assert claim(store, ours).refused is None
    assert claim(store, theirs).refused == 0
    release(store, Free(key, ours.holder))
    assert claim(store, theirs).refused is None


def test_what_peek_gives_load_puts_back(store):
    write(store, A, (1,))
    claim(store, Take((RUN, "n"), 2, 5))
    kept = store.peek(RUN, NOW)
    store.drop(RUN)
    store.load(kept, NOW)
    assert records(store, A) == [(1,)]
    assert claim(store, Take((RUN, "n"), 1, 5)).observed == (3,)


def test_many_records_are_put_back_too(store):
    many = {(RUN, "a", str(n)): (n,) for n in range(5000)}
    store.load(many, NOW)
    assert store.peek(RUN, NOW) == many


def test_what_holds_something_is_listed_by_its_kind(store):
    write(store, A, (1,))
    write(store, (("user", "u:1"), "a"), (1,))
    write(store, (("users", "u"), "a"), (1,))
    write(store, (("user", None), "a"), (1,))
    assert sorted(store.shards("user", NOW), key=str) == [("user", "u:1"), ("user", None)]
    assert store.shards("run", NOW) == [RUN]
    store.drop(RUN)
    assert store.shards("run", NOW) == []


class TestTake:
    N = (RUN, "n")

    def test_the_limit_is_granted_and_one_more_is_not(self, store):
        answers = [claim(store, Take(self.N, 1, 3)) for _ in range(5)]
        assert [answer.refused for answer in answers] == [None, None, None, 0, 0]
        assert [answer.observed for answer in answers] == [(1,), (2,), (3,), (3,), (3,)]

    def test_without_a_limit_it_only_counts(self, store):
        assert [claim(store, Take(self.N)).observed for _ in range(3)] == [(1,), (2,), (3,)]

    def test_an_amount_that_does_not_fit_takes_nothing(self, store):
        claim(store, Take(self.N, 3, 5))
        assert claim(store, Take(self.N, 3, 5)).refused == 0
        assert claim(store, Take(self.N, 2, 5)).observed == (5,)

    def test_all_claims_of_a_decision_or_none(self, store):
        m = (RUN, "m")
        answer = claim(store, Take(self.N, 1, 5), Take(m, 2, 1))
        assert answer.refused == 1
        assert claim(store, Take(self.N, 0)).observed == (0,)

    def test_the_first_claim_that_does_not_fit_is_named(self, store):
        answer = claim(store, Take(self.N, 9, 1), Take((RUN, "m"), 9, 1))
        assert answer.refused == 0

    def test_two_claims_on_one_counter_add_up(self, store):
        assert claim(store, Take(self.N, 2, 3), Take(self.N, 2, 3)).refused == 1
        assert claim(store, Take(self.N, 1, 3), Take(self.N, 2, 3)).observed == (1, 3)

    def test_a_window_starts_anew(self, store):
        hourly = Take(self.N, 1, 1, 3600.0)
        assert claim(store, hourly, now=7199.0).refused is None
        assert claim(store, hourly, now=7199.5).refused == 0
        assert claim(store, hourly, now=7200.0).refused is None

    def test_a_window_never_goes_back(self, store):
        # A worker whose clock is behind, or a thread that read its clock before another took.
        hourly = Take(self.N, 1, 2, 3600.0)
        assert claim(store, hourly, now=7200.0).observed == (1,)
        assert claim(store, hourly, now=7199.9).observed == (2,)
        assert claim(store, hourly, now=7199.9).refused == 0
        assert claim(store, hourly, now=7200.1).refused == 0
        assert claim(store, hourly, now=10_800.0).observed == (1,)

    def test_a_window_never_goes_back_beside_other_claims(self, store):
        hourly, other = Take(self.N, 1, 2, 3600.0), Take((RUN, "m"))
        assert claim(store, hourly, other, now=7200.0).observed == (1, 1)
        assert claim(store, hourly, other, now=7199.9).observed == (2, 2)
        assert claim(store, hourly, other, now=7199.9).refused == 0
        assert claim(store, hourly, other, now=7200.1).refused == 0

    def test_writes_happen_when_granted_and_the_otherwise_ones_when_not(self, store):
        take = Take(self.N, 1, 1)
        for _ in range(2):
            claim(store, take, writes=[(0, ("go",))], otherwise=lambda i: [(0, ("no", i))])
        assert records(store, A) == [("no", 0)]

    def test_a_refused_claim_without_otherwise_writes_nothing(self, store):
        claim(store, Take(self.N, 2, 1), writes=[(0, ("go",))])
        assert records(store, A) == [None]


class TestGive:
    N = (RUN, "n")

    def test_what_was_taken_can_be_toldback(self, store):
        claim(store, Take(self.N, 2, 2))
        release(store, Give(self.N, 1))
        assert claim(store, Take(self.N, 1, 2)).observed == (2,)

    def test_more_than_was_taken_raises_and_changes_nothing(self, store):
        claim(store, Take(self.N, 2, 5))
        with pytest.raises(ValueError, match="3 given back"):
            release(store, Give(self.N, 3))
        assert claim(store, Take(self.N, 1, 5)).observed == (3,)

    def test_a_window_that_is_over_has_nothing_to_be_toldback_to(self, store):
        hourly = 3600.0
        claim(store, Take(self.N, 2, 5, hourly), now=10.0)
        claim(store, Take(self.N, 1, 5, hourly), now=4000.0)
        release(store, Give(self.N, 2, hourly, taken_at=10.0), now=4000.0)
        assert claim(store, Take(self.N, 1, 5, hourly), now=4000.0).observed == (2,)

    def test_a_clock_that_is_behind_gives_back_to_the_window_it_took_from(self, store):
        hourly = 3600.0
        claim(store, Take(self.N, 3, 5, hourly), now=7200.0)
        release(store, Give(self.N, 1, hourly, taken_at=7200.0), now=7199.0)
        assert claim(store, Take(self.N, 0, 5, hourly), now=7199.0).observed == (2,)
        assert claim(store, Take(self.N, 0, 5, hourly), now=7200.0).observed == (2,)


class TestLease:
    N = (RUN, "places")

    def lease(self, holder, limit=2, ttl=300.0):
        return Lease(self.N, holder, limit, ttl)

    def test_as_many_holders_as_places(self, store):
        refused = [claim(store, self.lease(who)).refused for who in "abc"]
        assert refused == [None, None, 0]

    def test_a_freed_place_is_free(self, store):
        for who in "ab":
            claim(store, self.lease(who))
        release(store, Free(self.N, "a"))
        assert claim(store, self.lease("c")).refused is None

    def test_a_holder_that_asks_again_keeps_its_one_place(self, store):
        for who in "aab":
            assert claim(store, self.lease(who)).refused is None

    def test_a_lease_ends_by_itself(self, store):
        for who in "ab":
            claim(store, self.lease(who, ttl=10.0))
        assert claim(store, self.lease("c"), now=NOW + 9.9).refused == 0
        assert claim(store, self.lease("c"), now=NOW + 10.0).refused is None

    def test_freeing_nobodys_place_does_nothing(self, store):
        release(store, Free(self.N, "nobody"))
        assert claim(store, self.lease("a")).observed == (1,)


def test_a_counter_is_exact_under_threads(store):
    granted, barrier = [], threading.Barrier(8)

    def worker():
        barrier.wait()
        for _ in range(40):
            if claim(store, Take((RUN, "n"), 1, 100)).refused is None:
                granted.append(1)

    threads = [threading.Thread(target=worker) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 100


def test_a_record_is_never_lost_under_threads(store):
    barrier = threading.Barrier(6)

    def add():
        barrier.wait()
        for _ in range(50):
            store.update((A,), lambda found: Plan(None, [(0, ((found[0] or (0,))[0] + 1,))]), NOW)

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert records(store, A) == [(300,)]


OPERATIONS = st.one_of(
    st.tuples(st.just("take"), st.sampled_from("nm"), st.integers(0, 3), st.integers(0, 5)),
    st.tuples(st.just("give"), st.sampled_from("nm"), st.integers(0, 3)),
    st.tuples(st.just("lease"), st.sampled_from("abc"), st.integers(1, 2)),
    st.tuples(st.just("free"), st.sampled_from("abc")),
    st.tuples(st.just("tick"), st.integers(1, 20)),
)

SKEWED = st.one_of(
    st.tuples(st.just("take"), st.integers(-15, 15), st.integers(0, 3), st.integers(0, 6)),
    st.tuples(st.just("give"), st.integers(-15, 15), st.integers(-15, 15), st.integers(1, 2)),
    st.tuples(st.just("tick"), st.integers(1, 20)),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(SKEWED, max_size=40), st.booleans())
def test_windows_agree_with_a_plain_model_whatever_each_workers_clock_says(store, operations, two):
    """Ten seconds a window; every worker's clock is up to 15 s off."""
    store.drop(RUN)
    key, beside = (RUN, "n"), [Take((RUN, "m"))] if two else []
    window, total, now = 0, 0, NOW
    for kind, *rest in operations:
        if kind == "tick":
            now += rest[0]
            continue
        skew, *told = rest
        here = max(window, int((now + skew) // 10))
        held = total if here == window else 0
        if kind == "take":
            amount, limit = told
            answer = claim(store, Take(key, amount, limit, 10.0), *beside, now=now + skew)
            assert (answer.refused is None) == (held + amount <= limit)
            if answer.refused is None:
                window, total = here, held + amount
                assert answer.observed[0] == total
        else:
            taken_at, amount = now + told[0], told[1]
            give = Give(key, amount, 10.0, taken_at)
            if int(taken_at // 10) != here:
                release(store, give, now=now + skew)
            elif amount > held:
                with pytest.raises(ValueError, match="given back"):
                    release(store, give, now=now + skew)
            else:
                release(store, give, now=now + skew)
                window, total = here, held - amount


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(OPERATIONS, max_size=40))
def test_tallies_agree_with_a_plain_model(store, operations):
    store.drop(RUN)
    counts, held, now = {"n": 0, "m": 0}, {}, NOW
    for kind, *rest in operations:
        if kind == "tick":
            now += rest[0]
        elif kind == "take":
            name, amount, limit = rest
            fits = counts[name] + amount <= limit
            assert (claim(store, Take((RUN, name), amount, limit), now=now).refused is None) == fits
            counts[name] += amount if fits else 0
        elif kind == "give":
            name, amount = rest
            if amount > counts[name]:
                with pytest.raises(ValueError, match="given back"):
                    release(store, Give((RUN, name), amount), now=now)
            else:
                release(store, Give((RUN, name), amount), now=now)
                counts[name] -= amount
        elif kind == "lease":
            who, limit = rest
            held = {one: until for one, until in held.items() if until > now}
            fits = len(held.keys() - {who}) + 1 <= limit
            lease = Lease((RUN, "places"), who, limit, 10.0)
            assert (claim(store, lease, now=now).refused is None) == fits
            if fits:
                held[who] = now + 10.0
        else:
            held.pop(rest[0], None)
            release(store, Free((RUN, "places"), rest[0]), now=now)


class TestMemory:
    """What is the memory store's alone."""

    def test_an_untouched_shard_is_forgotten_after_twice_its_time(self):
        store = MemoryStore(ttl=100.0)
        write(store, A, (1,), now=0.0)
        for now in (100.0, 200.0):
            write(store, (("run", "other"), "a"), (2,), now=now)
        assert records(store, A, now=200.0) == [None]
        assert len(store) == 1

    def test_a_shard_that_is_touched_stays(self):
        store = MemoryStore(ttl=100.0)
        write(store, A, (1,), now=0.0)
        for now in range(60, 1000, 60):
            assert records(store, A, now=float(now)) == [(1,)]

    def test_a_long_silence_forgets_everything(self):
        store = MemoryStore(ttl=100.0)
        write(store, A, (1,), now=0.0)
        assert records(store, A, now=500.0) == [None]

    @pytest.mark.parametrize("name", ["ttl", "keep"])
    @pytest.mark.parametrize("seconds", [0, -1, float("nan")])
    def test_a_time_to_live_that_cannot_be_is_refused(self, name, seconds):
        with pytest.raises(ValueError, match=name):
            MemoryStore(**{name: seconds})

    @pytest.mark.parametrize("kind", ["user", "agent", "tenant", "all", "quarantine"])
    def test_what_outlives_a_run_is_kept_for_48_hours(self, kind):
        store = MemoryStore()
        shard = (kind, "x")
        claim(store, Take((shard, "n"), 1, 1, 86_400.0), now=0.0)
        write(store, (shard, "a"), (1,), now=0.0)
        write(store, A, (1,), now=0.0)
        for hours in range(6, 49, 6):
            write(store, (("run", "other"), "a"), (2,), now=hours * 3600.0)
        now = 48 * 3600.0
        assert records(store, A, (shard, "a"), now=now) == [None, (1,)]
        for hours in range(49, 150, 6):
            write(store, (("run", "other"), "a"), (2,), now=hours * 3600.0)
        assert records(store, (shard, "a"), now=150 * 3600.0) == [None]

    @pytest.mark.parametrize("kind", ["user", "thread", "run"])
    def test_a_counter_is_kept_for_longer_than_its_window(self, kind):
        store, week = MemoryStore(ttl=10.0, keep=10.0), 7 * 86_400.0
        weekly = Take(((kind, "x"), "n"), 1, 1, week)
        write(store, (("run", "other"), "a"), (2,), now=0.0)
        claim(store, weekly, now=1.0)
        for day in range(1, 7):
            write(store, (("run", "other"), "a"), (2,), now=day * 86_400.0)
        assert claim(store, weekly, now=week - 1).refused == 0
        assert claim(store, weekly, now=week).refused is None

    def test_a_lease_is_kept_for_as_long_as_it_holds(self):
        store = MemoryStore(ttl=10.0, keep=10.0)
        key = (("agent", "x"), "places")
        claim(store, Lease(key, "a", 1, 1000.0), now=0.0)
        for now in range(100, 1000, 100):
            write(store, A, (2,), now=float(now))
        assert claim(store, Lease(key, "b", 1, 1000.0), now=999.0).refused == 0
        assert claim(store, Lease(key, "b", 1, 1000.0), now=1000.0).refused is None

    def test_a_shard_that_outlives_runs_can_be_dropped_and_emptied(self):
        store, key = MemoryStore(), (("user", "x"), "a")
        write(store, key, (1,))
        assert len(store) == 1
        write(store, key, None)
        assert len(store) == 0
        write(store, key, (1,))
        store.drop(("user", "x"))
        assert records(store, key) == [None]
