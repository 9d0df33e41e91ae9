"""Live runs written down: redacted, rotated, whole after a crash, and replayed to the same verdicts."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall import Call, Guard, Outcome, Policy, Stopped, ToolPolicy, Usage, Where
from lastcall.recording import LEFT_OUT, Recorder
from lastcall.redaction import Redactor
from lastcall.replay import Replayer
from lastcall.rules import Breaker, Budget, Concurrency, Limit
from lastcall.rules import Path as AgentPath
from lastcall.testing import FakeClock
from lastcall.transcripts import Transcript, find, read

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF"


class Stops:
    """What the guard said live, in the words of replay."""

    def __init__(self):
        self.numbers = {}
        self.told = {}
        """The stops of each run: the number of the call there, reason, scope, and whether it refused."""

    def __call__(self, event):
        pass

    def decided(self, call, stops, now):
        if call.kind == "model":
            return
        run = call.where.run
        self.numbers[run] = self.numbers.get(run, -1) + 1
        call.mark(self, self.numbers[run])
        self._tell(call, stops, refused=True)

    def settled(self, call, outcome, stops, now):
        if call.kind != "model":
            self._tell(call, stops, refused=False)

    def _tell(self, call, stops, *, refused):
        if stops:
            wide = [stop for stop in stops if stop.ends_run]
            stop = wide[0] if wide else stops[0]
            said = (call.marked(self), stop.reason, stop.scope, refused)
            self.told.setdefault(call.where.run, []).append(said)


def replayed(folder, policy=None):
    """The stops of each run in the recordings of *folder*, and what could not be read."""
    replayer, stops, broken = Replayer(policy), {}, []
    for path in find([folder]):
        for found in read(path):
            if isinstance(found, Transcript):
                assert found.format == "lastcall"
                done = replayer.replay(found)
                told = [(each.index, each.reason, each.scope, each.refused) for each in done.stops]
                if told:
                    stops[found.run] = told
            else:
                broken.append(found)
    return stops, broken


def lines(folder):
    return [
        json.loads(line)
        for path in sorted(Path(folder).iterdir())
        for line in path.read_text().splitlines()
    ]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs"


POLICY = Policy(
    max_calls=12,
    tools={
        "pay_*": {"writes": True, "on_repeat": "replay", "identity": ("n",)},
        "poll_*": {"polls": True},
        "look_*": {"reads": True, "volatile": ("at",)},
    },
).replaced(
    Breaker(failures=3, wait=20.0),
    Concurrency(limit=3, per="run"),
    Budget(
        limits=(
            Limit(quantity="requests", per="run", window=None, most=4),
            Limit(quantity="tokens", per="run", window=None, most=4000),
        )
    ),
)

OUTCOMES = st.sampled_from(
    [
        Outcome(content="same"),
        Outcome(content="same", kept='"same"'),
        Outcome(content={"rows": [1, 2], "at": "12:00:01"}),
        Outcome(content={"rows": [1, 2], "at": "12:00:02"}),
        Outcome("error", "no such field", 422, "final", "no such field"),
        Outcome("error", "busy", 503, "passing", "busy", 7.0),
        Outcome("error", "timed out", error="timed out", transport=True),
        Outcome("cancelled"),
        Outcome("paused"),
        Outcome("lost"),
        Outcome(recorded=False),
    ]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("decide"),
            st.sampled_from(["pay", "poll", "look", "other"]),
            st.integers(0, 2),
            st.sampled_from(["r1", "r2"]),
            st.sampled_from(["", SECRET]),
            st.booleans(),
        ),
        st.tuples(st.just("observe"), st.integers(0, 5), OUTCOMES),
        st.tuples(st.just("request"), st.sampled_from(["r1", "r2"]), st.integers(0, 2000)),
        st.tuples(st.just("tick"), st.sampled_from([0.5, 21.0])),
    ),
    min_size=5,
    max_size=60,
)


@settings(deadline=None)
@given(STEPS, st.sampled_from([None, b"a key of 16 bytes"]))
def test_live_and_replay_agree(tmp_path_factory, played, key):
    """Whatever is in flight beside each other, and though secrets are written as something else."""
    folder, clock, stops = tmp_path_factory.mktemp("runs"), FakeClock(), Stops()
    recorder = Recorder(folder, fingerprint_key=key)
    guard = Guard(POLICY, clock=clock, listeners=[stops, recorder])
    open_tickets, numbers = [], itertools.count()
    for kind, *rest in played:
        number = next(numbers)
        if kind == "tick":
            clock.tick(rest[0])
        elif kind == "request":
            run, tokens = rest
            verdict = guard.decide(Call("model", kind="model", where=Where(run, "t", agent="a")))
            if verdict.ticket:
                guard.observe(verdict.ticket, Outcome(usage=Usage("m", tokens, 1)))
        elif kind == "decide":
            tool, n, run, token, again = rest
            # Replay judges each run alone, so they share nothing, a service that is down neither.
            tool = f"{tool}_{run}"
            args = {"n": n, "token": token, "at": number}
            reply = f"m{number // 3}"
            where = Where(run, "t", run, "a", "ann@example.com", run)
            verdict = guard.decide(Call(tool, args, where, f"c{number}", reply=reply, size=3))
            if verdict.ticket:
                open_tickets.append(verdict.ticket)
                if again:
                    inner = guard.decide(
                        Call(tool, args, where, f"c{number}", "attempt", reply, size=3)
                    )
                    if inner.ticket:
                        guard.observe(inner.ticket, Outcome("error", "busy", 503, "passing", "b"))
        elif open_tickets:
            at, outcome = rest
            guard.observe(open_tickets.pop(at % len(open_tickets)), outcome)
    recorder.close()
    assert replayed(folder, POLICY) == (stops.told, [])
    written = "".join(path.read_text() for path in folder.iterdir())
    assert SECRET not in written
    assert "ann@example.com" not in written


@pytest.mark.parametrize("name", ["billing", SECRET, "ann@example.com"])
def test_an_agent_that_would_call_itself_is_refused_in_replay_too(folder, name):
    """Though what is in its name is written as something else."""
    policy, stops = Policy().replaced(AgentPath()), Stops()
    guard = Guard(policy, clock=FakeClock(), listeners=[stops, Recorder(folder)])
    where = Where("r", "t", agent=name, path=("triage", name))
    for into in ("other", name):
        verdict = guard.decide(Call("ask", {"of": into}, where, into=into))
        if verdict.ticket:
            guard.observe(verdict.ticket, Outcome(content="done"))
    guard.finish("r")
    assert stops.told == {"r": [(1, "path", "call", True)]}
    assert replayed(folder, policy) == (stops.told, [])


def test_another_policy_reads_what_statuses_mean_anew(folder):
    guard = Guard(Policy.permissive(), listeners=[Recorder(folder)])
    look = guard.wrap(lambda n: {"status": 409, "error": "taken"}, name="look")
    with guard.within(run="r"):
        for _ in range(3):
            look(1)
    assert replayed(folder, Policy.permissive()) == ({}, [])
    assert replayed(folder, Policy(terminal_statuses=[409]))[0]["r"][0] == (
        0, "terminal", "call", False,
    )  # fmt: skip


def test_a_line_says_what_happened(folder):
    guard = Guard(listeners=[Recorder(folder, redactor=False)], clock=FakeClock(1000.0))
    look = guard.wrap(lambda q: {"rows": [q]}, name="look", reads=True)
    with guard.within(run="r", user="ann", thread="t1"):
        look("x")
    call, result, over = lines(folder)
    assert call == {
        "lastcall": 1, "call": 1, "ts": 1000.0, "name": "look", "args": {"q": "x"},
        "fingerprint": Call("look", {"q": "x"}).fingerprint, "near": call["near"],
        "tool": {"reads": True}, "policy": guard.policy.version,
        "run": "r", "turn": "r", "thread": "t1", "user": "ann",
    }  # fmt: skip
    digest = Outcome(content={"rows": ["x"]}).digest
    assert result == {
        "lastcall": 1, "result": 1, "ts": 1000.0, "outcome": "ok", "content": {"rows": ["x"]},
        "digest": digest,
    }  # fmt: skip
    assert over == {"lastcall": 1, "over": "r"}


def test_equal_secrets_stay_equal_in_every_process_with_one_key(folder):
    written = []
    for number in range(2):
        guard = Guard(listeners=[Recorder(folder / str(number), redactor=Redactor(b"key"))])
        with guard.within(run="r"):
            guard.wrap(lambda token: token, name="look")(SECRET)
        call, result, _ = lines(folder / str(number))
        written.append((call["args"]["token"], result["content"]))
        assert call["fingerprint"] == Call("look", {"token": SECRET}).fingerprint
    assert written[0] == written[1]
    assert SECRET not in str(written)


@pytest.mark.parametrize("result", [None, "x" * 100_000])
def test_a_result_of_which_only_the_digest_is_written_is_judged(folder, result):
    guard = Guard(listeners=[Recorder(folder)], clock=FakeClock())
    with guard.within(run="r"), contextlib.suppress(Stopped):
        for _ in range(5):
            guard.wrap(lambda: result, name="f")()
    (run,) = (each for path in find([folder]) for each in read(path))
    assert "results" not in run.lacks
    assert Replayer().replay(run).stops[0].reason == "same"
    blind = Transcript(run.file, run.run, run.format, run.calls[:2], run.replies, run.lacks)
    assert Replayer().replay(blind).not_judged == ()


def test_what_is_large_is_left_out_and_still_known(folder):
    guard = Guard(listeners=[Recorder(folder)])
    look = guard.wrap(lambda q: "x" * 100_000, name="look")
    with guard.within(run="r"):
        look("y" * 100_000)
    call, result, _ = lines(folder)
    assert (call["args"], result["content"]) == ({LEFT_OUT: 100_008}, {LEFT_OUT: 100_002})
    assert result["digest"] == Outcome(content="x" * 100_000).digest


@pytest.mark.parametrize(
    "value", ["\ud800", 2**70, b"bytes", {1: object}, float("nan"), {"a": ("t",)}, None], ids=str
)
def test_whatever_a_model_writes_and_a_tool_returns(folder, value):
    guard = Guard(listeners=[Recorder(folder, redactor=False), Recorder(folder / "safe")])
    with guard.within(run="r"):
        guard.wrap(lambda q: value, name="look")(value)
    assert replayed(folder) == ({}, [])


class TestFiles:
    def test_follow_each_other_between_runs(self, folder):
        guard = Guard(listeners=[Recorder(folder, max_bytes=600)])
        look = guard.wrap(lambda q: "found", name="look")
        for run in range(6):
            with guard.within(run=f"r{run}"):
                look(run)
        files = sorted(folder.iterdir())
        assert len(files) == 3
        assert len(list(itertools.chain(*(read(each) for each in files)))) == 6
        assert replayed(folder) == ({}, [])

    def test_of_a_run_that_does_not_end_is_followed_all_the_same(self, folder):
        guard = Guard(Policy.permissive(), listeners=[Recorder(folder, max_bytes=600)])
        look = guard.wrap(lambda q: "found", name="look")
        with guard.within(run="r"):
            for n in range(20):
                look(n)
        files = sorted(folder.iterdir())
        assert len(files) > 2
        found = [each for path in files for each in read(path)]
        assert [(each.file, each.run, len(each.calls)) for each in found] == [
            (str(files[0]), "r", 20)
        ]
        assert found[0].calls[19].args == {"q": 19}

    @settings(max_examples=25)
    @given(
        st.lists(
            st.tuples(st.sampled_from(["r1", "r2", "r3"]), st.integers(0, 2), st.booleans()),
            min_size=30,
            max_size=60,
        )
    )
    def test_that_go_on_with_runs_replay_to_the_same_stops(self, tmp_path_factory, played):
        """Calls are in flight, runs end and begin again, while the files follow each other."""
        folder, stops = tmp_path_factory.mktemp("runs"), Stops()
        recorder = Recorder(folder, max_bytes=1500)
        guard = Guard(Policy(max_calls=9), clock=FakeClock(), listeners=[stops, recorder])
        tickets, names = [], {}
        for n, (run, q, flying) in enumerate(played):
            name = f"{run}.{names.setdefault(run, 0)}"
            verdict = guard.decide(Call("look", {"q": q}, Where(name, name), f"c{n}"))
            if verdict.ticket:
                tickets.append(verdict.ticket)
            while tickets and not flying:
                guard.observe(tickets.pop(0), Outcome(content="same"))
            if n % 13 == 12:
                guard.finish(name)
                names[run] += 1
        recorder.close()
        assert len(list(folder.iterdir())) > 2
        assert replayed(folder, Policy(max_calls=9)) == (stops.told, [])

    def test_whose_beginning_is_gone_are_read_from_where_they_are(self, folder):
        stops = Stops()
        guard = Guard(Policy(max_calls=3), listeners=[stops, Recorder(folder, max_bytes=900)])
        with guard.within(run="r"):
            for n in range(9):
                ticket = guard.decide(Call("look", {"q": n}, id=f"c{n}")).ticket
                if ticket:
                    guard.observe(ticket, Outcome(content="found"))
        first, *others = sorted(folder.iterdir())
        assert others
        assert replayed(folder, Policy(max_calls=3)) == (stops.told, [])
        first.unlink()
        found = [each for path in others for each in read(path)]
        assert {type(each) for each in found} == {Transcript}
        assert [each.run for each in found] == ["r"]
        assert 0 < len(found[0].calls) < 9

    def test_may_be_compressed_afterwards(self, folder):
        guard = Guard(Policy.permissive(), listeners=[Recorder(folder, max_bytes=600)])
        look = guard.wrap(lambda q: "found", name="look")
        with guard.within(run="r"):
            for n in range(20):
                look(n)
        for path in list(folder.iterdir()):
            with gzip.open(f"{path}.gz", "wb") as packed:
                packed.write(path.read_bytes())
            path.unlink()
        found = [each for path in find([folder]) for each in read(path)]
        assert [(each.run, len(each.calls)) for each in found] == [("r", 20)]

    def test_that_name_each_other_in_a_circle_are_read_once(self, folder):
        folder.mkdir()
        for name, other in ("ab", "ba"):
            rows = [
                {"lastcall": 1, "call": 1, "ts": 1.0, "name": "look", "args": {}, "run": name},
                {"lastcall": 1, "more": f"{other}.lastcall.jsonl"},
            ]
            path = folder / f"{name}.lastcall.jsonl"
            path.write_text("\n".join(map(json.dumps, rows)))
        found = [(each.run, len(each.calls)) for path in find([folder]) for each in read(path)]
        assert found == [("a", 1), ("b", 1)]

    def test_elsewhere_are_not_followed(self, folder):
        (folder / "inside").mkdir(parents=True)
        row = {"lastcall": 1, "call": 1, "ts": 1.0, "name": "look", "args": {}, "run": "r"}
        other = folder / "x.lastcall.jsonl"
        other.write_text(json.dumps(row))
        path = folder / "inside" / "y.lastcall.jsonl"
        for name in ("../x.lastcall.jsonl", str(other), "absent", 5):
            path.write_text(f"{json.dumps(row)}\n{json.dumps({'lastcall': 1, 'more': name})}")
            assert [len(each.calls) for each in read(path)] == [1]

    def test_of_two_recorders_are_both_whole(self, folder):
        """In one folder, for one guard, in one second."""
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        some = [Recorder(folder, clock=lambda: moment, max_bytes=n) for n in (900, 2000)]
        guard = Guard(Policy.permissive(), listeners=some)
        look = guard.wrap(lambda q: "found", name="look")
        with guard.within(run="r"):
            for n in range(20):
                look(n)
        found = [each for path in find([folder]) for each in read(path)]
        assert [(each.run, len(each.calls)) for each in found] == [("r", 20)] * 2
        assert all(call.result == "found" for each in found for call in each.calls)

    def test_many_of_one_second_are_in_order(self, folder):
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        recorder = Recorder(folder, clock=lambda: moment, max_bytes=1, keep=3)
        guard = Guard(listeners=[recorder])
        look = guard.wrap(lambda q: "found", name="look")
        for run in range(12):
            with guard.within(run=f"r{run}"):
                look(run)
        assert [each.run for path in find([folder]) for each in read(path)] == ["r9", "r10", "r11"]

    def test_go_on_after_the_recorder_was_closed(self, folder):
        recorder = Recorder(folder)
        guard = Guard(Policy(max_calls=3), listeners=[recorder])
        look = guard.wrap(lambda q: q, name="look")
        with guard.within(run="r"):
            look(1)
            recorder.close()
            recorder.close()
            look(2)
        assert len(list(folder.iterdir())) == 2
        found = [each for path in find([folder]) for each in read(path)]
        assert [(each.run, len(each.calls)) for each in found] == [("r", 2)]

    def test_in_a_folder_that_is_a_file_harm_nobody(self, tmp_path, caplog):
        (tmp_path / "runs").write_text("mine")
        guard = Guard(listeners=[Recorder(tmp_path / "runs")])
        with guard.within(run="r"):
            assert guard.wrap(lambda q: q, name="look")(1) == 1
        assert caplog.text.count("nothing is recorded from now on") == 1
        assert (tmp_path / "runs").read_text() == "mine"

    def test_that_somebody_takes_away_harm_nobody(self, folder, caplog):
        recorder = Recorder(folder, max_bytes=300)
        guard = Guard(Policy.permissive(), listeners=[recorder])
        look = guard.wrap(lambda q: q, name="look")
        with guard.within(run="r"):
            for n in range(9):
                look(n)
                shutil.rmtree(folder, ignore_errors=True)
        assert not caplog.records

    def test_the_newest_stay(self, folder):
        guard = Guard(listeners=[Recorder(folder, max_bytes=1, keep=2)])
        look = guard.wrap(lambda q: "found", name="look")
        for run in range(5):
            with guard.within(run=f"r{run}"):
                look(run)
        found = [each.run for path in find([folder]) for each in read(path)]
        assert found == ["r3", "r4"]

    def test_that_cannot_be_written_harm_nobody(self, tmp_path, caplog):
        (tmp_path / "file").write_text("")
        guard = Guard(listeners=[Recorder(tmp_path / "file" / "runs")])
        look = guard.wrap(lambda q: "found", name="look")
        with guard.within(run="r"):
            assert [look(1), look(2)] == ["found", "found"]
        assert caplog.text.count("nothing is recorded from now on") == 1

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
    def test_on_a_full_disk_harm_nobody(self, folder, caplog, monkeypatch):
        guard = Guard(listeners=[Recorder(folder)])
        look = guard.wrap(lambda q: "found", name="look")
        real = os.open
        monkeypatch.setattr(os, "open", lambda path, *rest: real("/dev/full", os.O_WRONLY))
        with guard.within(run="r"):
            assert [look(1), look(2)] == ["found", "found"]
        assert caplog.text.count("nothing is recorded from now on") == 1

    def test_of_threads_have_whole_lines(self, folder):
        guard = Guard(Policy.permissive(), listeners=[Recorder(folder)])
        look = guard.wrap(lambda q: "x" * 3000, name="look")
        start = threading.Barrier(8)

        def work(number):
            start.wait(20)
            with guard.within(run=f"r{number}"):
                for n in range(50):
                    look(n)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert len(lines(folder)) == 8 * (2 * 50 + 1)
        assert replayed(folder, Policy.permissive()) == ({}, [])

    def test_of_a_fork_are_its_own(self, folder):
        guard = Guard(listeners=[Recorder(folder)])
        look = guard.wrap(lambda q: "found", name="look")
        with guard.within(run="parent"):
            look(1)
            child = os.fork()
            if child == 0:
                look(3)
                with guard.within(run="child"):
                    look(2)
                # It does not end its parent's run, and begins no run of that name in the parent's file.
                guard.finish("parent")
                os._exit(0)
            os.waitpid(child, 0)
            look(3)
        assert len(list(folder.iterdir())) == 2
        found = [(each.run, len(each.calls)) for path in find([folder]) for each in read(path)]
        assert sorted(found) == [("child", 1), ("parent", 1), ("parent", 2)]


KILLED = """
import sys, threading
from lastcall import Guard, Policy
from lastcall.recording import Recorder
guard = Guard(Policy.permissive(), listeners=[Recorder(sys.argv[1])])
look = guard.wrap(lambda q: "x" * 500, name="look")
with guard.within(run="r"):
    for n in range(10**9):
        look(n)
        if n == 200:
            print("under way", flush=True)
"""


def test_a_process_that_is_killed_loses_the_line_it_was_writing(folder):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"under way\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    (path,) = folder.iterdir()
    content = path.read_bytes()
    *whole, last = content.split(b"\n")
    numbers = [row["call"] for row in map(json.loads, whole) if "call" in row]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 200
    assert last == b"" or not last.endswith(b"}"), "a line is whole, or the last"
    found = [each for each in read(path) if isinstance(each, Transcript)]
    assert [(each.run, len(each.calls)) for each in found] == [("r", len(numbers))]


def test_lines_that_are_none_are_named(folder):
    folder.mkdir()
    path = folder / "x.lastcall.jsonl"
    rows = [
        {"lastcall": 1, "call": 1, "ts": 1.0, "name": "look", "args": {}, "run": "r"},
        {"lastcall": 1, "result": 7, "outcome": "ok"},
        {"lastcall": 1, "result": 1, "outcome": "fine"},
        {"lastcall": 2, "call": 2, "ts": 1.0, "name": "look", "args": {}, "run": "r"},
        {"lastcall": 1, "call": 3, "ts": 1.0, "name": "look", "index": "x", "run": "r"},
        {"else": 1},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = list(read(path))
    problems = [
        (each.line, each.problem[:30]) for each in found if not isinstance(each, Transcript)
    ]
    assert [line for line, _ in problems] == [2, 3, 4, 5, 6]
    assert [len(each.calls) for each in found if isinstance(each, Transcript)] == [1]


def test_a_stopped_run_is_stopped_at_the_same_call(folder):
    guard = Guard(Policy(max_calls=3), listeners=[Recorder(folder)])
    look = guard.wrap(lambda q: q, name="look")
    with guard.within(run="r"):
        for n in range(5):
            with contextlib.suppress(Stopped):
                look(n)
    stops, _ = replayed(folder, Policy(max_calls=3))
    assert [index for index, *_ in stops["r"]] == [3, 4]


def test_names_that_others_gave_hold_no_secrets_either(folder):
    guard = Guard(listeners=[Recorder(folder)])
    policy = ToolPolicy(writes=True)
    where = Where(run="r", user="ann@example.com", tenant=SECRET)
    call = Call("pay", {}, where, f"call {SECRET}", reply=SECRET, key=SECRET)
    ticket = guard.decide(call, policy).ticket
    guard.observe(ticket, Outcome("error", SECRET, error=SECRET))
    written = "".join(path.read_text() for path in folder.iterdir())
    assert SECRET not in written
    assert "ann@example.com" not in written


def test_a_write_that_was_answered_by_its_first_result_is_among_the_calls(folder):
    guard = Guard(listeners=[Recorder(folder)])
    paid = []
    pay = guard.wrap(
        lambda n: paid.append(n) or "paid", name="pay", writes=True, on_repeat="replay"
    )
    with guard.within(run="r"):
        assert [pay(7), pay(7)] == ["paid", "paid"]
        for _ in range(4):
            try:
                pay(7)
            except Stopped as stopped:
                last = stopped.stop
    (found,) = (each for path in find([folder]) for each in read(path))
    assert [each.result for each in found.calls[:4]] == ["paid"] * 4
    done = Replayer().replay(found)
    assert (done.stops[0].reason, done.stops[0].index) == ("repeat", 4)
    assert last.reason in ("repeat", "refusals")
