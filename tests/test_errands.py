"""What a store keeps for adapters beside decisions, while it is out of reach: nothing is raised, everything is
seen, and what a person said holds as far as it can."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from lastcall import Call, Outcome, Policy, Where
from lastcall.testing import FailingStore, Trouble, assert_stopped

HERE = Where(run="r", turn="t", thread="thread")
TROUBLES = [trouble for trouble in get_args(Trouble) if trouble != "lost"]


@pytest.fixture
def store():
    return FailingStore()


@pytest.fixture(params=["sync", "async"])
def do(request):
    """Calls a method of the guard, or of one of its parts, by its name, or its twin for an event loop."""

    def do(of, name, *args, **options):
        if request.param == "sync":
            return getattr(of, name)(*args, **options)

        async def done():
            return await getattr(of, f"a{name}")(*args, **options)

        return asyncio.run(done())

    return do


@pytest.fixture
def heard():
    return []


@pytest.fixture
def guard(make_guard, store, heard):
    policy = Policy(max_calls=1, on_stop="ask")
    return make_guard(policy, store=store, listeners=[heard.append])


def call(n=0, **fields):
    return Call("search", {"n": n}, HERE, **{"id": f"c{n}", "reply": f"m{n}", **fields})


def refused(guard, do):
    """The second call, over the ceiling."""
    do(guard, "observe", do(guard, "decide", call(0)).ticket, Outcome(content="x"))
    verdict = do(guard, "decide", call(1))
    assert_stopped(verdict.stop, reason="ceiling")
    return verdict


def faults(heard):
    return [event.message for event in heard if event.kind == "fault"]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_nothing_of_it_raises_and_all_of_it_is_seen(guard, do, store, heard, caplog, trouble):
    store.fail(trouble)
    assert do(guard, "closed", "r") == {}
    assert do(guard.pauses, "keep", "r", "thread", None) is None
    assert do(guard.pauses, "drop", "thread", None) is None
    assert do(guard.pauses, "find", "thread", None).unread
    error = "UnreadableRecordError" if trouble == "damaged" else "StoreError"
    assert faults(heard) == [error] * 4
    assert [event.run for event in heard] == ["r", "r", None, None]
    assert [event.thread for event in heard] == [None, "thread", "thread", "thread"]
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert any("run 'r' are offered" in each for each in said)
    assert any("will not know run 'r'" in each for each in said)
    assert guard.report("r").faults == tuple([f"{error}: {said_by(store)}"] * 2)


def said_by(store):
    try:
        store.peek(("run", "r"), 0.0)
    except Exception as error:
        return str(error)
    raise AssertionError("it does not fail")


def test_a_clock_that_fails_breaks_nothing_either(make_guard, do, heard):
    guard = make_guard(Policy(), listeners=[heard.append])

    def broken():
        raise OSError("no time")

    guard._errands._clock = guard.clock = broken
    assert do(guard, "closed", "r") == {}
    assert do(guard.pauses, "find", "thread", None).unread
    assert faults(heard) == ["OSError", "OSError"]


def test_what_can_be_asked_is_answered_as_ever(guard, do):
    assert do(guard.pauses, "find", "thread", None) is None
    do(guard.pauses, "keep", "r", "thread", None, "note")
    pause = do(guard.pauses, "find", "thread", None)
    assert (pause.run, pause.note, pause.unread) == ("r", "note", False)
    assert do(guard.pauses, "find", "thread", "another graph") is None
    do(guard.pauses, "drop", "thread", None)
    assert do(guard.pauses, "find", "thread", None) is None


class TestPardon:
    def test_leave_that_is_not_kept_is_none(self, guard, do, store, heard, caplog):
        verdict = refused(guard, do)
        store.fail()
        stands = do(guard.person, "pardon", verdict, 5)
        assert_stopped(stands.stop, reason="store")
        assert faults(heard) == ["StoreError"]
        assert "stays refused" in caplog.text
        store.recover()
        # Nobody was asked again, and nothing was forgotten.
        assert_stopped(do(guard, "decide", call(2)).stop, reason="ceiling")

    def test_leave_that_is_kept_is_asked_about_again(self, guard, do):
        verdict = refused(guard, do)
        assert do(guard.person, "pardon", verdict, 5) is None
        assert do(guard, "decide", call(2)).stop is None

    def test_an_override_that_raises_is_no_exception_for_the_agent(self, make_guard, do):
        broken = []

        def overrides(where):
            if broken:
                raise KeyError(where.user)

        guard = make_guard(Policy(max_calls=1), overrides=overrides)
        verdict = refused(guard, do)
        broken.append(True)
        assert_stopped(do(guard.person, "pardon", verdict).stop, reason="fault")


class TestEnd:
    def test_a_run_that_a_person_ended_stays_so_when_the_store_is_back(
        self, guard, do, store, heard
    ):
        verdict = refused(guard, do)
        do(guard.person, "pardon", verdict, 50)
        store.fail()
        stop = do(guard.person, "end", verdict)
        assert (stop.reason, stop.scope, stop.asked) == ("ceiling", "run", True)
        assert faults(heard) == ["StoreError"]
        assert_stopped(do(guard, "decide", call(3)).stop, reason="store")
        store.recover()
        again = do(guard, "decide", call(4)).stop
        assert (again.reason, again.scope, again.asked) == ("ceiling", "run", True)
        # It is written by now, so others know.
        assert guard.person.owed == {}

    def test_others_are_no_part_of_it(self, guard, do, store):
        verdict = refused(guard, do)
        store.fail()
        do(guard.person, "end", verdict)
        store.recover()
        elsewhere = Call("search", {"n": 1}, Where(run="s", turn="s"), id="c", reply="m")
        assert do(guard, "decide", elsewhere).stop is None
        guard.finish("r")
        assert do(guard, "decide", call(5)).stop is None

    @pytest.mark.parametrize("mode", ["open", "last-known"])
    def test_also_where_this_process_decides_alone_meanwhile(self, make_guard, do, store, mode):
        guard = make_guard(Policy(max_calls=1, on_store=mode), store=store)
        ticking = iter(range(0, 1000, 2))
        guard._standby._monotonic = lambda: next(ticking)
        verdict = refused(guard, do)
        do(guard.person, "pardon", verdict, 50)
        store.fail()
        do(guard.person, "end", verdict)
        assert do(guard, "decide", call(3)).stop.asked
        store.recover()
        assert do(guard, "decide", call(4)).stop.asked
        assert guard.person.owed == {}

    def test_they_are_remembered_within_bounds(self, guard, do, store, monkeypatch):
        monkeypatch.setattr("lastcall.person.MOST_OWED", 2)
        verdict = refused(guard, do)
        store.fail()
        for run in "xyz":
            ended = Call("search", {}, Where(run=run, turn=run))
            do(guard.person, "end", verdict.__class__(ended, None, verdict.stop))
        assert list(guard.person.owed) == ["y", "z"]

    def test_where_nothing_was_refused_there_is_nothing_to_end(self, guard, do):
        verdict = do(guard, "decide", call(0))
        with pytest.raises(ValueError, match="nothing was refused"):
            do(guard.person, "end", verdict)


def test_a_note_of_a_request_raises_nothing(make_guard, heard):
    def lost():
        raise RuntimeError("where am I?")

    guard = make_guard(Policy(), scope=lost, listeners=[heard.append])
    guard.note(Call("model", kind="model", where=HERE), Outcome())
    assert faults(heard) == ["RuntimeError"]


def test_counts_that_cannot_be_dropped_expire_and_are_seen(guard, store, heard):
    guard.decide(call(0))
    store.fail()
    guard.finish("r")
    assert faults(heard) == ["StoreError"]
    assert guard.report("r").status == "finished"
