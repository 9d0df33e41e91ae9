"""What is the file store's alone: many processes, a restart, and a file in trouble."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sqlite3
import threading

import pytest

from lastcall import Call, Guard, Policy, Where
from lastcall.contracts import Lease, Plan, Take
from lastcall.stores import StoreError, UnreadableRecordError, open_store
from lastcall.stores.sqlite import SWEEP_EVERY, SQLiteStore

RUN = ("run", "r1")
A = (RUN, "a")
TYPES = {"a": tuple, "n": "counter"}
NOW = 1_000.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lastcall.db"


@pytest.fixture
def make(path):
    made = []

    def make(**settings):
        store = SQLiteStore(path, **settings)
        store.learn(TYPES)
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


def write(store, value, key=A, now=NOW):
    store.update((key,), lambda _: Plan(None, [(0, value)]), now)


def read(store, key=A, now=NOW):
    return store.update((key,), lambda found: Plan(found[0]), now)[0]


def take(store, limit=100):
    plan = Plan(None, claims=(Take((("user", "u"), "n"), 1, limit),))
    return store.update((A,), lambda _: plan, NOW)[1].refused is None


def test_what_was_written_is_there_after_a_restart(make):
    first = make()
    write(first, (1,))
    take(first)
    first.close()
    again = make()
    assert read(again) == (1,)
    assert again.peek(("user", "u"), NOW) == {(("user", "u"), "n"): (0, 1)}


def test_an_operator_reads_it_with_any_tool(make, path):
    store = make()
    write(store, (1, "x"))
    take(store)
    rows = (
        sqlite3.connect(path)
        .execute("SELECT shard, name, value FROM records ORDER BY 1")
        .fetchall()
    )
    assert rows == [("run:r1", "a", '1 [1,"x"]'), ("user:u", "n", "1 [0,1]")]


def work(path, limit, granted):
    store = SQLiteStore(path, timeout=30)
    count = sum(take(store, limit) for _ in range(60))
    store.close()
    granted.put(count)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_share_one_limit(path, make, method):
    store = make(timeout=30)
    take(store, 150)
    context = multiprocessing.get_context(method)
    granted = context.Queue()
    processes = [context.Process(target=work, args=(path, 150, granted)) for _ in range(4)]
    for process in processes:
        process.start()
    total = 1 + sum(granted.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    assert total == 150
    assert not take(store, 150)


def test_a_child_process_makes_connections_of_its_own(make):
    """A connection that was forked must not be used, nor closed, by the child."""
    store = make(timeout=30)
    write(store, (1,))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write(store, (2,))
            os.write(writing, b"ok" if read(store) == (2,) else b"no")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 2) == b"ok"
    os.close(reading)
    os.close(writing)
    write(store, (*read(store), 3))
    assert read(store) == (2, 3)


def test_closing_waits_for_what_another_thread_is_in_the_middle_of(make):
    """SQLite does not survive the loss of a connection that is at work."""
    store = make()

    def step(_):
        closer = threading.Thread(target=store.close)
        closer.start()
        closers.append(closer)
        closer.join(0.2)
        return Plan(None, [(0, (1,))])

    closers = []
    store.update((A,), step, NOW)
    closers[0].join()
    assert read(store) == (1,)


def test_one_that_waits_for_others_gives_up_in_time_and_says_so(make, path):
    store = make(timeout=0.05)
    write(store, (1,))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked by others for 0.05 s"):
        read(store)
    other.execute("ROLLBACK")
    assert read(store) == (1,)
    other.close()


def test_many_that_wait_at_once_do_not_wait_for_one_another(make, path):
    """The bound is each decision's own, also for those that queue in this process."""
    store = make(timeout=0.05)
    write(store, (1,))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def all_at_once():
        asked = [store.aupdate((A,), lambda found: Plan(found[0]), NOW) for _ in range(40)]
        return await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 2)

    answers = asyncio.run(all_at_once())
    assert {type(answer) for answer in answers} == {StoreError}
    other.execute("ROLLBACK")
    other.close()


def test_a_file_that_is_none_is_said_and_left_as_it_is(make, path):
    path.write_bytes(b"this is no database, though it is long enough to be looked at closely" * 20)
    before = path.read_bytes()
    store = make()
    with pytest.raises(StoreError, match="no SQLite file: move it away"):
        read(store)
    assert path.read_bytes() == before
    path.unlink()
    write(store, (1,))
    assert read(store) == (1,)


def test_a_half_written_file_is_trouble_and_no_new_beginning(make, path):
    store = make()
    for n in range(300):
        write(store, (n, "x" * 200), (RUN, "a", str(n)))
    store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError):
        for n in range(300):
            read(store, (RUN, "a", str(n)))
    path.write_bytes(whole)
    assert read(store, (RUN, "a", "7"))[0] == 7


def test_a_damaged_record_is_said_and_never_taken_for_a_new_one(make, path):
    store = make()
    write(store, (1,))
    with sqlite3.connect(path) as other:
        other.execute("UPDATE records SET value = '1 [1,' WHERE shard = 'run:r1'")
    other.close()
    with pytest.raises(UnreadableRecordError, match="'a' of 'run:r1' cannot be read"):
        read(store)
    guard = Guard(Policy(), store=store)
    call = Call("t", {}, Where(run="r1", turn="r1"), id="c", reply="1")
    assert guard.decide(call).ticket is not None, "others of its records are as good as ever"


def test_a_file_moved_away_under_us_is_made_anew(make, path, monkeypatch):
    monkeypatch.setattr("lastcall.stores.sqlite.LOOK_EVERY", 0.0)
    store = make()
    write(store, (1,))
    path.rename(path.with_suffix(".old"))
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    assert read(store) is None
    write(store, (2,))
    assert read(store) == (2,)
    assert path.exists()


def test_a_folder_that_is_missing_is_said(tmp_path):
    store = SQLiteStore(tmp_path / "nowhere" / "x.db")
    with pytest.raises(StoreError, match="its folder must exist"):
        read(store)
    (tmp_path / "nowhere").mkdir()
    assert read(store) is None
    store.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_said(make, path):
    store = make()
    write(store, (1,))
    store.close()
    path.chmod(0o400)
    with pytest.raises(StoreError, match="may not write"):
        write(store, (2,))


def test_a_full_disk_is_said_and_nothing_is_half_written(make):
    store = make()
    write(store, (1,))
    # SQLite's own bound on the file stands for the disk's; what it raises is the same.
    connection = store._connection(store._home())
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="free some space"):
        store.update((A, (RUN, "b")), lambda _: Plan(None, [(0, (2,)), (1, ("x" * 100_000,))]), NOW)
    assert read(store) == (1,)


def test_a_newer_layout_is_left_alone(make, path):
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 9")
    other.close()
    with pytest.raises(StoreError, match=r"newer version of lastcall \(layout 9"):
        read(make())


def test_what_nobody_touches_is_gone_after_its_time_and_swept(make, path):
    store = make(ttl=100.0, keep=1000.0)
    write(store, (1,))
    write(store, (1,), (("user", "u"), "a"))
    assert read(store, now=NOW + 99) == (1,)
    assert read(store, now=NOW + 101) is None
    assert read(store, (("user", "u"), "a"), now=NOW + 999) == (1,)
    for n in range(SWEEP_EVERY):
        write(store, (n,), (("run", "other"), "a"), now=NOW + 5000)
    rows = sqlite3.connect(path).execute("SELECT DISTINCT shard FROM records").fetchall()
    assert rows == [("run:other",)]


def test_what_is_touched_stays(make):
    store = make(ttl=100.0)
    for n in range(1, 20):
        write(store, (n,), now=NOW + n * 60)
        assert read(store, now=NOW + n * 60) == (n,)


def test_a_window_longer_than_the_time_of_its_shard_is_kept_for_as_long(make):
    store = make(keep=100.0)
    month = Take((("user", "u"), "n"), 1, 1, 2_592_000.0)
    ask = lambda now: store.update((A,), lambda _: Plan(None, claims=(month,)), now)[1].refused
    assert ask(0.0) is None
    assert ask(2_000_000.0) == 0


def test_a_switch_is_kept_until_somebody_takes_it_back(make):
    store = make(ttl=1.0, keep=1.0)
    write(store, (1,), (("switch", None), "a"))
    assert read(store, (("switch", None), "a"), now=NOW + 1e9) == (1,)


def test_its_threads_have_connections_of_their_own(make):
    store = make(timeout=30)
    errors = []

    def one(n):
        try:
            for i in range(20):
                write(store, (i,), (("run", str(n)), "a"))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(store.shards("run", NOW)) == 8


def test_within_an_event_loop_the_synchronous_face_works_too(make):
    store = make()

    async def main():
        write(store, (1,))
        store.drop(RUN)
        write(store, (2,), (RUN, "b"))
        return read(store), read(store, (RUN, "b"))

    store.learn({"b": tuple})
    assert asyncio.run(main()) == (None, (2,))


def test_a_place_is_free_after_its_time_though_its_process_was_killed(path, make):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=hold, args=(path, ready))
    process.start()
    assert ready.wait(60)
    process.kill()
    process.join()
    store = make()
    lease = Lease((("user", "u"), "places"), "me", 1, 300.0)
    ask = lambda now: store.update((A,), lambda _: Plan(None, claims=(lease,)), now)[1].refused
    assert ask(NOW + 299.9) == 0
    assert ask(NOW + 300.0) is None


def hold(path, ready):
    store = SQLiteStore(path)
    lease = Lease((("user", "u"), "places"), "it", 1, 300.0)
    store.update((A,), lambda _: Plan(None, claims=(lease,)), NOW)
    ready.set()
    threading.Event().wait()


@pytest.mark.parametrize("settings", [{"timeout": 0}, {"timeout": 61}, {"ttl": -1}, {"keep": 0}])
def test_a_setting_that_cannot_be_is_refused(path, settings):
    with pytest.raises(ValueError, match="must be"):
        SQLiteStore(path, **settings)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite://lastcall.db", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:lastcall.db", "names no file"),
        ("sqlite:///x.db?timeout=soon", "must be seconds"),
        ("sqlite:///x.db?color=red", "names no file"),
        ("postgres://h/db", "begins with one of memory:, redis:"),
        ("lastcall.db", "no store 'lastcall.db'"),
        (7, "no store 7"),
    ],
)
def test_a_url_that_names_no_store_is_said(url, said):
    with pytest.raises(ValueError, match=said):
        open_store(url)


def test_a_store_by_its_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = open_store("sqlite:///x.db?timeout=1.5")
    assert here.path == tmp_path / "x.db"
    assert here._timeout == 1.5
    assert open_store(f"sqlite:///{tmp_path}/a%20b.db").path == tmp_path / "a b.db"
    assert type(open_store("memory://")).__name__ == "MemoryStore"
