from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall import Call, Guard, Kill, MemoryStore, Outcome, Policy, Switch, Where
from lastcall.kills import Kills, matching
from lastcall.stores.sqlite import SQLiteStore
from lastcall.testing import FakeClock, assert_stopped

ANN = Where("r1", "t1", agent="clerk", user="ann")
NESTED = Where("r1", "t1", agent="clerk", user="ann", path=("boss", "clerk"))


class Flaky(MemoryStore):
    """A store that can be out of reach, counts how often it is asked, and can be made to wait."""

    def __init__(self):
        super().__init__()
        self.broken = False
        self.reads = 0
        self.gate = None
        self.agate = None

    def update(self, keys, step, now):
        if keys[0][0] == ("switch", None):
            self.reads += 1
            if self.gate is not None:
                self.gate.wait()
            if self.broken:
                raise ConnectionError("nobody there")
        return super().update(keys, step, now)

    async def aupdate(self, keys, step, now):
        if self.agate is not None:
            self.reads += 1
            await self.agate.wait()
            return super().update(keys, step, now)
        return self.update(keys, step, now)


@pytest.fixture
def store():
    return Flaky()


@pytest.fixture(params=["sync", "async"])
def checked(request):
    """The stop of a call made somewhere, asked in either way."""

    def check(switch, where=ANN):
        call = Call("look", {"q": 1}, where)
        if request.param == "sync":
            return switch.check(call)
        return asyncio.run(switch.acheck(call))

    return check


@pytest.fixture
def path(tmp_path):
    return tmp_path / "switch.json"


@pytest.fixture(params=["file", "memory", "sqlite"])
def source(request, path):
    if request.param == "file":
        yield path
        return
    made = MemoryStore() if request.param == "memory" else SQLiteStore(path, timeout=20)
    yield made
    made.close()


@pytest.fixture
def switch(source, clock):
    return Switch(source, clock=clock)


class TestMatching:
    @pytest.mark.parametrize(
        ("kill", "where", "stopped"),
        [
            (Kill(), Where(), True),
            (Kill(), NESTED, True),
            (Kill(agent="clerk"), ANN, True),
            (Kill(agent="boss"), NESTED, True),
            (Kill(agent="boss"), ANN, False),
            (Kill(agent="clerk"), Where("r"), False),
            (Kill(user="ann"), ANN, True),
            (Kill(user="an"), ANN, False),
            (Kill(user="Ann"), ANN, False),
            (Kill(agent="clerk", user="ann"), ANN, True),
            (Kill(agent="clerk", user="bob"), ANN, False),
            (Kill(agent="other", user="ann"), ANN, False),
            (Kill(run="r1"), NESTED, True),
            (Kill(run="r"), NESTED, False),
            (Kill(run="r1", user="bob"), ANN, False),
        ],
    )
    def test_an_entry_stops_what_meets_all_of_its_conditions(self, kill, where, stopped):
        assert kill.matches(where) == stopped

    @pytest.mark.parametrize(
        ("kill", "scope"),
        [
            (Kill(), "all"),
            (Kill(agent="a"), "agent"),
            (Kill(agent="a", user="u"), "user"),
            (Kill(user="u"), "user"),
            (Kill(run="r"), "run"),
            (Kill(run="r", agent="a"), "agent"),
        ],
    )
    def test_the_scope_is_that_of_the_widest_condition(self, kill, scope):
        assert kill.scope == scope

    def test_of_several_the_widest_is_told(self):
        kills = [Kill(run="r1"), Kill(agent="clerk"), Kill(user="ann"), Kill(user="bob")]
        assert matching(kills, ANN) == Kill(user="ann")
        assert matching([Kill(user="bob")], ANN) is None

    @given(
        st.tuples(*[st.none() | st.sampled_from("xy")] * 3),
        st.tuples(*[st.none() | st.sampled_from("xy")] * 3),
    )
    def test_a_condition_more_never_stops_more(self, selectors, at):
        where = Where(agent=at[0], user=at[1], run=at[2])
        if Kill(*selectors).matches(where):
            for i in range(3):
                fewer = [None if i == j else each for j, each in enumerate(selectors)]
                assert Kill(*fewer).matches(where)


class TestSetting:
    def test_what_is_set_stops_and_what_is_taken_back_does_not(self, switch, checked):
        assert checked(switch) is None
        switch.kill(agent="clerk", by="eve", why="books everything twice")
        assert_stopped(checked(switch), reason="kill", scope="agent")
        switch.revive(agent="clerk")
        assert checked(switch) is None

    def test_the_stop_says_who_set_it_and_when_and_why(self, switch, checked):
        switch.kill(agent="clerk", user="ann", by="eve", why="books everything twice")
        stop = checked(switch)
        assert stop.detail == (
            "The kill switch for agent 'clerk' and user 'ann' was set by eve at"
            " 2027-01-15T08:00:00Z. Why: books everything twice"
        )
        assert (stop.rule, stop.retryable, stop.executed) == ("switch", False, False)
        assert (stop.agent, stop.user, stop.run, stop.tool) == ("clerk", "ann", "r1", "look")

    def test_kills_gives_all_that_is_set(self, switch):
        switch.kill(all=True, by="eve")
        switch.kill(run="r7", why="x")
        at = datetime(2027, 1, 15, 8, tzinfo=UTC)
        assert switch.kills() == (
            Kill(by="eve", at=at),
            Kill(run="r7", at=at, why="x"),
        )

    def test_one_for_the_same_is_replaced(self, switch):
        switch.kill(user="ann", why="first")
        switch.kill(user="ann", why="second")
        assert [each.why for each in switch.kills()] == ["second"]

    def test_revive_takes_back_exactly_what_it_names(self, switch):
        switch.kill(all=True)
        switch.kill(agent="clerk")
        switch.kill(agent="clerk", user="ann")
        assert switch.revive(agent="clerk").selectors == ("clerk", None, None)
        assert switch.revive(agent="clerk") is None
        assert switch.revive(all=True).selectors == (None, None, None)
        assert [each.selectors for each in switch.kills()] == [("clerk", "ann", None)]

    @pytest.mark.parametrize("what", [{}, {"agent": ""}, {"user": "ann", "all": True}])
    def test_a_name_that_is_missing_by_mistake_stops_nobody(self, switch, what):
        for change in (switch.kill, switch.revive):
            with pytest.raises(ValueError, match="all=True"):
                change(**what)
        assert switch.kills() == ()

    def test_the_async_twins_do_the_same(self, switch):
        async def play():
            await switch.akill(agent="clerk", by="eve")
            stop = await switch.acheck(Call("look", {}, ANN))
            kept = await switch.akills()
            gone = await switch.arevive(agent="clerk")
            return stop, kept, gone, await switch.akills()

        stop, kept, gone, left = asyncio.run(play())
        assert_stopped(stop, reason="kill")
        assert kept == (gone,)
        assert left == ()

    def test_two_operators_at_once_lose_nothing(self, source):
        switches = [Switch(source) for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: switches[n % 8].kill(user=f"u{n}"), range(40)))
        assert len(switches[0].kills()) == 40


class TestReading:
    def test_what_others_set_is_seen_within_the_ttl(self, source, clock, checked):
        mine, theirs = Switch(source, clock=clock), Switch(source, clock=clock)
        assert checked(mine) is None
        theirs.kill(all=True)
        clock.tick(0.999)
        assert checked(mine) is None
        clock.tick(0.001)
        assert_stopped(checked(mine), scope="all")
        theirs.revive(all=True)
        assert checked(mine) is not None
        clock.tick(1)
        assert checked(mine) is None

    def test_within_the_ttl_nothing_is_read(self, store, clock, checked):
        switch = Switch(store, clock=clock)
        for _ in range(100):
            checked(switch)
        assert store.reads == 1
        clock.tick(1)
        checked(switch)
        assert store.reads == 2

    def test_a_ttl_of_nothing_reads_at_each_call(self, store, clock, checked):
        switch = Switch(store, ttl=0, clock=clock)
        for _ in range(3):
            checked(switch)
        assert store.reads == 3

    def test_out_of_reach_what_was_known_counts_until_it_is_stale(
        self, store, clock, checked, caplog
    ):
        switch = Switch(store, clock=clock)
        switch.kill(user="bob")
        store.broken = True
        for _ in range(30):
            clock.tick(1)
            assert checked(switch) is None
            assert_stopped(checked(switch, Where("r2", user="bob")), scope="user")
        clock.tick(0.5)
        stop = assert_stopped(checked(switch), reason="kill", scope="all")
        assert stop.detail == (
            "The kill switch cannot be read; it was last read 30 seconds ago. No call is made until"
            " it can be."
        )
        assert [each.message for each in caplog.records] == [
            "the kill switch in the Flaky cannot be read: ConnectionError: nobody there"
        ]

    def test_a_first_reading_that_fails_refuses(self, store, clock, checked):
        store.broken = True
        stop = assert_stopped(checked(Switch(store, clock=clock)), reason="kill", scope="all")
        assert "it was never read" in stop.detail

    def test_it_recovers_by_itself_and_says_so(self, store, clock, checked, caplog):
        switch = Switch(store, clock=clock)
        store.broken = True
        assert checked(switch) is not None
        store.broken = False
        # Not asked again at each call: what is down is not to be hammered.
        assert checked(switch) is not None
        assert store.reads == 1
        clock.tick(1)
        assert checked(switch) is None
        assert caplog.records[-1].message == "the kill switch in the Flaky can be read again"

    @pytest.mark.parametrize(
        "settings", [{"ttl": -1}, {"ttl": float("nan")}, {"ttl": 5, "max_staleness": 4}]
    )
    def test_times_that_cannot_be_are_errors(self, store, settings):
        with pytest.raises(ValueError, match="must be at least"):
            Switch(store, **settings)

    def test_ages_are_those_of_a_clock_that_never_goes_back(self, store):
        epoch, steady = [2e9], FakeClock()
        switch = Switch(store, clock=lambda: epoch[0], monotonic=steady)
        switch.check(Call("look"))
        epoch[0] -= 86_400
        steady.tick(1)
        switch.check(Call("look"))
        assert store.reads == 2


class TestAtOnce:
    def test_one_thread_reads_and_the_others_wait(self, store, clock):
        switch = Switch(store, clock=clock)
        Switch(store, clock=clock).kill(all=True)
        store.reads, store.gate = 0, threading.Event()
        with ThreadPoolExecutor(8) as pool:
            waiting = [pool.submit(switch.check, Call("look", {}, ANN)) for _ in range(8)]
            store.gate.set()
            assert all(each.result() is not None for each in waiting)
        assert store.reads == 1

    def test_one_task_reads_and_the_others_wait(self, store, clock):
        async def play():
            switch = Switch(store, clock=clock)
            await switch.akill(all=True)
            clock.tick(5)
            store.reads, store.agate = 0, asyncio.Event()
            waiting = [asyncio.create_task(switch.acheck(Call("look"))) for _ in range(8)]
            await asyncio.sleep(0)
            # Whoever gives up takes the reading from nobody.
            waiting[0].cancel()
            await asyncio.sleep(0)
            store.agate.set()
            return await asyncio.gather(*waiting, return_exceptions=True)

        first, *others = asyncio.run(play())
        assert isinstance(first, asyncio.CancelledError)
        assert all(stop.reason == "kill" for stop in others)
        assert store.reads == 1

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
    def test_a_slow_file_blocks_no_event_loop(self, path, clock):
        os.mkfifo(path)

        async def play():
            switch = Switch(path, clock=clock)
            check = asyncio.create_task(switch.acheck(Call("look", {}, ANN)))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not check.done()
            # A pipe is opened once somebody reads it.
            with path.open("wb") as pipe:
                pipe.write(b'{"kills": [{"user": "ann"}]}')
            return await check

        assert_stopped(asyncio.run(play()), scope="user")

    def test_a_new_event_loop_reads_again(self, store, clock):
        switch = Switch(store, clock=clock)
        for _ in range(3):
            asyncio.run(switch.acheck(Call("look")))
            clock.tick(1)
        assert store.reads == 3

    def test_a_loop_that_ends_during_a_reading_leaves_nothing_behind(self, store, clock):
        async def play():
            store.agate = asyncio.Event()
            waiting = asyncio.create_task(switch.acheck(Call("look")))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            waiting.cancel()

        switch = Switch(store, clock=clock)
        asyncio.run(play())
        store.agate = None
        assert asyncio.run(switch.acheck(Call("look"))) is None


class TestFile:
    def test_a_missing_file_means_that_nothing_is_set(self, path, clock, checked):
        switch = Switch(path, clock=clock)
        assert checked(switch) is None
        switch.kill(all=True)
        assert checked(switch) is not None
        path.unlink()
        clock.tick(1)
        assert checked(switch) is None

    def test_a_missing_folder_does_not(self, tmp_path, clock, checked, caplog):
        switch = Switch(tmp_path / "nowhere" / "switch.json", clock=clock)
        assert_stopped(checked(switch), scope="all")
        assert "nowhere is no folder; make it, or name another file" in caplog.text
        with pytest.raises(FileNotFoundError, match="make it"):
            switch.kill(all=True)

    @pytest.mark.parametrize("cut", [1, 20, 60])
    def test_a_half_written_one_keeps_the_last_list_that_parsed(
        self, path, clock, checked, cut, caplog
    ):
        switch = Switch(path, clock=clock)
        switch.kill(user="bob", why="x")
        path.write_bytes(path.read_bytes()[:cut])
        for _ in range(3):
            clock.tick(20)
            assert checked(switch) is None
            assert checked(switch, Where("r", user="bob")) is not None
        assert len(caplog.records) == 1
        assert "is damaged" in caplog.text

    @pytest.mark.parametrize(
        "text", ["", "{", '{"kills": [{"agnet": "clerk"}]}', '{"version": 2}', '{"kills": 1}', "[]"]
    )
    def test_one_that_never_parsed_refuses_and_is_not_written_over(
        self, path, clock, checked, text
    ):
        path.write_text(text)
        switch = Switch(path, clock=clock)
        assert_stopped(checked(switch), reason="kill", scope="all")
        with pytest.raises(ValueError, match=str(path)):
            switch.kill(all=True)
        assert path.read_text() == text

    def test_it_can_be_written_by_hand(self, path, clock, checked):
        path.write_text('{"kills": [{"agent": "clerk", "by": "eve", "why": "asks for it"}]}')
        stop = checked(Switch(path, clock=clock))
        assert stop.detail == ("The kill switch for agent 'clerk' was set by eve. Why: asks for it")

    def test_it_can_be_read(self, path, clock):
        Switch(path, clock=clock).kill(agent="clerk", by="eve", why="asks for it")
        assert json.loads(path.read_text()) == {
            "version": 1,
            "kills": [
                {
                    "agent": "clerk",
                    "by": "eve",
                    "at": "2027-01-15T08:00:00Z",
                    "why": "asks for it",
                }
            ],
        }
        assert path.read_text().count("\n") > 5

    def test_its_rights_and_links_stay(self, path, tmp_path):
        link = tmp_path / "link.json"
        path.write_text("{}")
        path.chmod(0o664)
        link.symlink_to(path)
        Switch(str(link)).kill(all=True)
        assert link.is_symlink()
        assert stat.S_IMODE(path.stat().st_mode) == 0o664
        assert len(Switch(path).kills()) == 1

    def test_nothing_is_left_beside_it_but_a_lock(self, path, tmp_path):
        Switch(path).kill(all=True)
        Switch(path).revive(all=True)
        assert {each.name for each in tmp_path.iterdir()} <= {path.name, f".{path.name}.lock"}

    def test_whoever_may_write_into_the_folder_may_lock(self, path, tmp_path):
        tmp_path.chmod(0o770)
        Switch(path).kill(all=True)
        lock = tmp_path / f".{path.name}.lock"
        assert not lock.exists() or stat.S_IMODE(lock.stat().st_mode) == 0o660

    def test_whoever_reads_while_it_is_written_sees_a_whole_list(self, path):
        writer, done = Switch(path), threading.Event()

        def write():
            for n in range(50):
                writer.kill(user=f"u{n}", why="x" * 2000)
            done.set()

        thread = threading.Thread(target=write)
        thread.start()
        seen = [0]
        while not done.is_set():
            seen.append(len(Switch(path).kills()))
        thread.join()
        assert seen == sorted(seen)


@pytest.fixture(params=["sync", "async"])
def decided(request):
    """The guard's verdict on a call, asked in either way."""

    def decide(guard, call):
        if request.param == "sync":
            return guard.decide(call)
        return asyncio.run(guard.adecide(call))

    return decide


class TestGuard:
    def test_every_kind_of_call_is_refused(self, make_guard, path, decided):
        guard = make_guard(switch=path)
        guard.switch.kill(user="ann", by="eve")
        for kind in ("tool", "model", "attempt", "malformed"):
            verdict = decided(guard, Call("look", {"q": 1}, ANN, kind=kind))
            assert verdict.ticket is None
            assert_stopped(verdict.stop, reason="kill", scope="user")
            assert verdict.ending is verdict.stop
        assert decided(guard, Call("look", {"q": 1}, Where("r2", "r2", user="bob"))).ticket

    def test_nothing_is_counted_by_it_and_a_revived_run_goes_on(self, make_guard, path, decided):
        guard = make_guard(Policy(max_calls=2), switch=path)
        guard.switch.kill(run="r1")
        for n in range(5):
            assert decided(guard, Call("look", {"q": n}, ANN)).stop.reason == "kill"
        assert len(guard.store) == 0
        guard.switch.revive(run="r1")
        assert decided(guard, Call("look", {"q": 1}, ANN)).ticket
        assert decided(guard, Call("look", {"q": 2}, ANN)).ticket
        assert decided(guard, Call("look", {"q": 3}, ANN)).stop.reason == "ceiling"

    def test_what_runs_may_finish_and_its_result_is_kept(self, make_guard, path, decided):
        guard = make_guard(switch=path)
        first = decided(guard, Call("look", {"q": 1}, ANN, id="c1"))
        guard.switch.kill(all=True)
        assert guard.observe(first.ticket, Outcome(content="found")).stop is None
        stop = decided(guard, Call("look", {"q": 2}, ANN)).stop
        assert [(each.call_id, each.result) for each in stop.gathered] == [("c1", "found")]
        assert guard.report("r1").stopped_by.reason == "kill"

    def test_the_stop_is_an_event_and_its_words_invite_to_nothing(self, make_guard, path, decided):
        heard = []
        guard = make_guard(switch=path, listeners=[heard.append])
        guard.switch.kill(all=True, by="eve", why="A retry storm. Try again tomorrow.")
        stop = decided(guard, Call("look", {}, ANN)).stop
        (event,) = heard
        assert (event.kind, event.reason, event.verdict) == ("refused", "kill", "refused")
        # The data is as the operator wrote it.
        assert stop.detail.endswith("Why: A retry storm. Try again tomorrow.")
        assert "eve" in stop.text
        assert "retry" not in stop.text.lower()
        assert "again" not in stop.text.lower()

    def test_shadow_mode_refuses_nothing_and_tells(self, make_guard, path, decided):
        heard = []
        guard = make_guard(Policy(enforce=False), switch=path, listeners=[heard.append])
        guard.switch.kill(all=True)
        verdict = decided(guard, Call("look", {}, ANN))
        assert verdict.ticket is not None
        assert [each.reason for each in verdict.shadow] == ["kill"]
        assert [(each.kind, each.reason) for each in heard] == [("shadow", "kill")]

    def test_a_guard_that_fails_open_still_stops_what_is_stopped(self, clock, path, decided):
        store = Flaky()
        guard = Guard(Policy(on_fault="open"), store=store, clock=clock, switch=path)
        store.update = store.aupdate = None
        assert decided(guard, Call("look", {}, ANN)).ticket is not None
        guard.switch.kill(user="ann")
        assert decided(guard, Call("look", {}, ANN)).stop.reason == "kill"

    def test_a_call_outside_any_run_is_stopped_too(self, make_guard, path, decided, caplog):
        guard = make_guard(switch=path)
        guard.switch.kill(all=True)
        caplog.set_level(logging.ERROR)
        assert decided(guard, Call("look")).stop.reason == "kill"
        assert len(guard.store) == 0

    def test_a_wrapped_function_never_starts(self, make_guard, path):
        ran = []
        guard = make_guard(switch=path)
        body = guard.wrap(ran.append)
        with guard.within(agent="clerk", user="ann"):
            body(1)
            guard.switch.kill(agent="clerk", user="ann")
            with pytest.raises(Exception, match="Stopped") as caught:
                body(2)
        assert_stopped(caught.value, reason="kill", scope="user")
        with guard.within(agent="clerk", user="bob"):
            body(3)
        assert ran == [1, 3]

    def test_nested_agents_are_stopped_with_the_outer_one(self, make_guard, path, decided):
        guard = make_guard(switch=path)
        guard.switch.kill(agent="boss")
        assert_stopped(decided(guard, Call("look", {}, NESTED)).stop, scope="agent")
        assert decided(guard, Call("look", {}, ANN)).ticket


class TestWhichSwitch:
    def test_without_a_shared_store_there_is_none(self, make_guard):
        assert make_guard().switch is None

    def test_the_one_in_a_shared_store_counts(self, clock, decided):
        shared = Flaky()
        shared.shared = True
        guard, other = Guard(store=shared, clock=clock), Guard(store=shared, clock=clock)
        other.switch.kill(all=True, by="eve")
        assert decided(guard, Call("look", {}, ANN)).stop.reason == "kill"
        assert Guard(store=shared, clock=clock, switch=False).switch is None

    def test_it_can_be_a_switch_a_path_or_a_url(self, make_guard, path):
        own = Switch(path)
        assert make_guard(switch=own).switch is own
        assert str(make_guard(switch=str(path)).switch) == str(path)
        assert str(make_guard(switch=path).switch) == str(path)

    def test_a_store_that_learns_is_told_of_the_record(self, clock):
        class Learning(MemoryStore):
            types = {}

            def learn(self, types):
                self.types.update(types)

        store = Learning()
        Switch(store, clock=clock)
        assert store.types == {"kills": Kills}
