"""The operator's half of the command: kill, revive, status, ready, quarantine, raise."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import subprocess
import sys
from uuid import uuid4

import pytest

from lastcall import Call, Guard, Outcome, Policy, ToolPolicy, Where
from lastcall.cli import main
from lastcall.rules import Breaker, Budget, Cooling, Limit, Quarantine, Streak
from lastcall.stores import open_store
from lastcall.testing import assert_stopped

from .redis_server import RedisServer

WHERE = Where("r1", "r1", agent="clerk", user="ann")
RUNS = itertools.count()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    """What the machine's own environment says is not meant for tests."""
    for name in ("LASTCALL_STORE", "LASTCALL_SWITCH"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def url(tmp_path):
    made = f"sqlite:///{tmp_path}/lastcall.db"
    store = open_store(made)
    store.shards("run", 0.0)
    store.close()
    return made


def test_a_file_that_is_not_there_is_made_and_said(lastcall, tmp_path):
    """Perhaps it is mistyped, and nobody will ever look there."""
    code, out, err = lastcall("ready", "--store", f"sqlite:///{tmp_path}/mistyped.db")
    assert (code, out) == (0, "ready\n")
    assert err == f"lastcall: {tmp_path}/mistyped.db is not there yet; it is made\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "switch.json"


@pytest.fixture
def lastcall(capsys, clock):
    """Calls the command; gives its exit code, what it printed, and what it complained of."""

    def call(*argv):
        try:
            code = main([str(word) for word in argv], clock=clock)
        except SystemExit as error:
            code = error.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def fleet(url, clock):
    """Makes guards of several workers, over one store."""
    made = []

    def make(*rules, **settings):
        if rules:
            settings["rules"] = (*Policy().rules, *rules)
        guard = Guard(Policy(**settings), store=open_store(url), clock=clock)
        made.append(guard)
        return guard

    yield make
    for guard in made:
        guard.close()


def made(guard, n=0, tool="pay", where=WHERE, **outcome):
    """One call; gives its verdict, of before it or of its answer."""
    verdict = guard.decide(Call(tool, {"n": n}, where))
    if verdict.ticket is None:
        return verdict
    return guard.observe(verdict.ticket, Outcome(**outcome))


def ended(guard, where=WHERE):
    """Plays until the run is ended, and gives the stop."""
    for n in range(40):
        verdict = made(guard, n, where=where)
        if verdict.stop is not None and verdict.ending is not None:
            return verdict.ending
    raise AssertionError("never ended")


@pytest.fixture(params=["store", "file"])
def place(request, url, path):
    """Where the switch is, as options."""
    return ("--store", url) if request.param == "store" else ("--file", str(path))


class TestKill:
    @pytest.mark.parametrize(
        ("selectors", "whom"),
        [
            (["--all"], "everything"),
            (["--agent", "clerk"], "agent 'clerk'"),
            (["--agent", "clerk", "--user", "ann"], "agent 'clerk' and user 'ann'"),
            (["--user", "ann"], "user 'ann'"),
            (["--run", "r1"], "run 'r1'"),
        ],
    )
    def test_it_stops_a_guard_in_another_process_within_a_second(
        self, lastcall, place, url, path, clock, selectors, whom
    ):
        switch = str(path) if place[0] == "--file" else None
        guard = Guard(store=open_store(url), switch=switch, clock=clock)
        assert made(guard, 1).stop is None
        assert lastcall("kill", *place, *selectors, "--why", "books twice", "--by", "eve") == (
            0,
            f"killed: {whom} (in {place[1]})\n",
            "",
        )
        clock.tick(1)
        stop = assert_stopped(made(guard, 2).stop, reason="kill")
        assert stop.detail == (
            f"The kill switch for {whom} was set by eve at 2027-01-15T08:00:00Z. Why: books twice"
        )
        code, out, _ = lastcall("revive", *place, *selectors)
        assert (code, out) == (0, f"revived: {whom} (in {place[1]})\n")
        clock.tick(1)
        assert made(guard, 3).stop is None
        guard.close()

    def test_who_sets_it_is_known_without_being_asked(self, lastcall, path, monkeypatch):
        monkeypatch.setenv("LOGNAME", "eve")
        lastcall("kill", "--file", path, "--all", "--why", "x")
        assert json.loads(path.read_text())["kills"][0]["by"] == "eve"

    @pytest.mark.parametrize(
        ("selectors", "said"),
        [
            ([], "whom? Say --all, --agent A, --user U, --run R"),
            (["--all", "--user", "ann"], "--all is everything"),
            (["--user", ""], "an empty name stops nobody; was a variable not set?"),
        ],
    )
    @pytest.mark.parametrize("word", ["kill", "revive"])
    def test_whom_it_is_for_has_to_be_said(self, lastcall, path, word, selectors, said):
        why = ["--why", "x"] if word == "kill" else []
        code, out, err = lastcall(word, "--file", path, *selectors, *why)
        assert (code, out) == (2, "")
        assert said in err
        assert not path.exists()

    def test_why_has_to_be_said(self, lastcall, path):
        assert lastcall("kill", "--file", path, "--all")[0] == 2
        code, _, err = lastcall("kill", "--file", path, "--all", "--why", " ")
        assert code == 2
        assert "--why is empty" in err

    def test_where_has_to_be_said(self, lastcall):
        code, _, err = lastcall("kill", "--all", "--why", "x")
        assert code == 2
        assert err == (
            "lastcall: where is the kill switch? Say --store URL or --file PATH, or set LASTCALL_STORE"
            " or LASTCALL_SWITCH\n"
        )

    def test_the_environment_says_where_and_the_command_wins(
        self, lastcall, path, url, monkeypatch, tmp_path
    ):
        monkeypatch.setenv("LASTCALL_SWITCH", str(path))
        assert lastcall("kill", "--all", "--why", "x")[0] == 0
        assert path.exists()
        other = f"sqlite:///{tmp_path}/other.db"
        assert lastcall("kill", "--store", other, "--user", "ann", "--why", "x")[0] == 0
        assert "user 'ann'" in lastcall("status", "--store", other)[1]
        assert "ann" not in path.read_text()
        monkeypatch.setenv("LASTCALL_STORE", url)
        # Both of the deployment: the switch is in its file, everything else in the store.
        assert "everything" in lastcall("status")[1]

    def test_a_store_of_one_process_is_no_place_for_it(self, lastcall):
        code, _, err = lastcall("kill", "--store", "memory://", "--all", "--why", "x")
        assert code == 2
        assert "nobody would see it" in err

    @pytest.mark.parametrize("url", ["nothing", "mysql://host/db"])
    def test_an_url_that_names_no_store_is_an_error_with_its_cure(self, lastcall, url):
        code, _, err = lastcall("status", "--store", url)
        assert code == 2
        assert "sqlite" in err

    def test_a_folder_that_is_not_there_is_an_error(self, lastcall, tmp_path):
        code, _, err = lastcall("kill", "--file", tmp_path / "no" / "s.json", "--all", "--why", "x")
        assert code == 2
        assert "is no folder; make it, or name another file" in err

    def test_a_damaged_file_is_left_alone(self, lastcall, path):
        path.write_text("{")
        code, _, err = lastcall("kill", "--file", path, "--all", "--why", "x")
        assert code == 2
        assert "Correct it by hand, or move it away" in err
        assert path.read_text() == "{"

    def test_a_password_is_not_printed(self, lastcall):
        _, _, err = lastcall("status", "--store", "redis://me:secret@127.0.0.1:1/0")
        assert "127.0.0.1" in err
        assert "secret" not in err


class TestRevive:
    def test_what_else_is_set_stays_and_is_shown(self, lastcall, place):
        lastcall("kill", *place, "--all", "--why", "x", "--by", "eve")
        lastcall("kill", *place, "--agent", "clerk", "--why", "books twice", "--by", "bob")
        code, out, _ = lastcall("revive", *place, "--all")
        assert code == 0
        assert out.splitlines()[1] == (
            "still set: agent 'clerk', set by bob at 2027-01-15T08:00:00Z: books twice"
        )

    def test_what_is_not_set_is_told(self, lastcall, place):
        lastcall("kill", *place, "--agent", "clerk", "--user", "ann", "--why", "x")
        code, out, err = lastcall("revive", *place, "--agent", "clerk")
        assert (code, out) == (1, "")
        assert f"nothing is set for exactly that in {place[1]}" in err
        assert "still set: agent 'clerk' and user 'ann'" in err


class TestStatus:
    def test_with_nothing_to_tell(self, lastcall, url, path):
        code, out, _ = lastcall("status", "--store", url)
        assert code == 0
        assert out == (
            f"kill switch ({url}):\n  nothing is set\ncooling off:\n  nothing\nquarantine: 0 calls\n"
        )
        assert lastcall("status", "--file", path)[1] == f"kill switch ({path}):\n  nothing is set\n"

    def test_with_everything_to_tell(self, lastcall, url, fleet, clock):
        guard = fleet(Cooling(seconds=300), Quarantine(seconds=900), max_calls=3)
        made(guard, 77, kind="error", status=422, grade="final")
        ended(guard)
        lastcall("kill", "--store", url, "--user", "bob", "--why", "x", "--by", "eve")
        clock.tick(60)
        _, out, _ = lastcall("status", "--store", url)
        assert out == (
            f"kill switch ({url}):\n"
            "  user 'bob', set by eve at 2027-01-15T08:00:00Z: x\n"
            "cooling off:\n"
            "  agent 'clerk' is cooling off until 2027-01-15T08:05:00Z (in 240 s): ceiling, run r1\n"
            "quarantine: 1 call\n"
        )
        _, out, _ = lastcall("status", "--store", url, "--json")
        assert json.loads(out) == {
            "switch": url,
            "kills": [
                {
                    "agent": None,
                    "user": "bob",
                    "run": None,
                    "by": "eve",
                    "at": "2027-01-15T08:00:00+00:00",
                    "why": "x",
                }
            ],
            "cooling": [
                {
                    "agent": "clerk",
                    "until": "2027-01-15T08:05:00Z",
                    "seconds": 240.0,
                    "reason": "ceiling",
                    "run": "r1",
                }
            ],
            "quarantined": 1,
            "unknown_writes": 0,
            "breakers": [],
        }

    def test_a_file_alone_knows_of_nothing_else(self, lastcall, path):
        _, out, _ = lastcall("status", "--file", path, "--json")
        assert json.loads(out) == {
            "switch": str(path),
            "kills": [],
            "cooling": None,
            "quarantined": None,
            "unknown_writes": None,
            "breakers": None,
        }


class TestReady:
    def test_an_agent_that_was_stopped_is_not_until_it_has_cooled_off(
        self, lastcall, url, fleet, clock
    ):
        asked = ("ready", "--store", url, "--agent", "clerk")
        assert lastcall(*asked) == (0, "ready\n", "")
        ended(fleet(Cooling(seconds=300), max_calls=3))
        at = "2027-01-15T08:05:00Z"
        assert lastcall(*asked) == (
            75,
            f"not ready: agent 'clerk' is cooling off until {at} (in 300 s): ceiling, run r1\n",
            "",
        )
        assert lastcall("ready", "--store", url, "--agent", "other")[0] == 0
        assert lastcall("ready", "--store", url)[0] == 0
        clock.tick(299.9)
        assert lastcall(*asked)[0] == 75
        clock.tick(0.1)
        assert lastcall(*asked)[0] == 0

    def test_a_dependency_cools_off_too(self, lastcall, url, fleet, clock):
        rules = Cooling(seconds=120), Streak()
        tools = {"pay": ToolPolicy(dependency="bank")}
        guard = Guard(Policy(rules=rules, tools=tools), store=open_store(url), clock=clock)
        for n in range(5):
            made(guard, n, kind="error", status=503, grade="passing", error="down")
        guard.close()
        code, out, _ = lastcall("ready", "--store", url, "--dependency", "bank")
        assert code == 75
        assert out.startswith("not ready: dependency 'bank' is cooling off until")
        clock.tick(120)
        assert lastcall("ready", "--store", url, "--dependency", "bank")[0] == 0

    def test_a_dependency_is_not_while_its_breaker_is_open(self, lastcall, url, fleet, clock):
        tools = {"pay": ToolPolicy(dependency="bank/eu", credential="live")}
        guard = Guard(Policy(rules=(Breaker(),), tools=tools), store=open_store(url), clock=clock)
        for n in range(5):
            made(guard, n, kind="error", status=503, grade="passing", error="down")
        asked = ("ready", "--store", url, "--dependency", "bank/eu")
        said = (
            "breaker of 'bank/eu' (credential 'live') is open until 2027-01-15T08:00:30Z (in 30 s),"
            " since 2027-01-15T08:00:00Z: HTTP 503, run r1\n"
        )
        assert lastcall(*asked) == (75, f"not ready: {said}", "")
        assert lastcall("ready", "--store", url, "--dependency", "bank")[0] == 0
        _, out, _ = lastcall("status", "--store", url)
        assert out.endswith(f"not closed:\n  {said}")
        clock.tick(30)
        assert lastcall(*asked) == (0, "ready\n", "")
        _, out, _ = lastcall("status", "--store", url, "--json")
        assert json.loads(out)["breakers"] == [
            {
                "dependency": "bank/eu",
                "credential": "live",
                "state": "half-open",
                "until": None,
                "seconds": 0.0,
                "since": "2027-01-15T08:00:00Z",
                "status": 503,
                "run": "r1",
            }
        ]
        _, out, _ = lastcall("status", "--store", url)
        assert "'live') is half-open, since 2027" in out
        for n in range(2):
            made(guard, n, content="paid")
        guard.close()
        _, out, _ = lastcall("status", "--store", url, "--json")
        (one,) = json.loads(out)["breakers"]
        assert (one["state"], one["seconds"]) == ("ramp", 30.0)

    @pytest.mark.parametrize(
        ("kill", "asked", "code"),
        [
            (["--all"], [], 75),
            (["--all"], ["--agent", "clerk"], 75),
            (["--agent", "clerk"], ["--agent", "clerk"], 75),
            (["--agent", "clerk"], ["--agent", "other"], 0),
            (["--agent", "clerk"], [], 0),
            # For one user it is stopped, and for the others it may start.
            (["--agent", "clerk", "--user", "ann"], ["--agent", "clerk"], 0),
            (["--run", "r1"], ["--agent", "clerk"], 0),
        ],
    )
    def test_nothing_starts_under_a_set_switch(self, lastcall, place, kill, asked, code):
        lastcall("kill", *place, *kill, "--why", "books twice", "--by", "eve")
        found, out, _ = lastcall("ready", *place, *asked)
        assert found == code
        if code:
            assert out.startswith("not ready: stopped from outside: ")
            assert out.endswith("set by eve at 2027-01-15T08:00:00Z: books twice\n")

    def test_every_reason_is_told(self, lastcall, url, fleet):
        ended(fleet(Cooling(), max_calls=3))
        lastcall("kill", "--store", url, "--all", "--why", "x")
        code, out, _ = lastcall("ready", "--store", url, "--agent", "clerk")
        assert code == 75
        assert [line.split(":")[0] for line in out.splitlines()] == ["not ready"] * 2

    def test_out_of_reach_is_not_ready_unless_told_otherwise(self, lastcall, tmp_path):
        broken = tmp_path / "broken.db"
        broken.write_bytes(b"this is no database" * 100)
        asked = ("ready", "--store", f"sqlite:///{broken}", "--agent", "clerk")
        code, out, _ = lastcall(*asked)
        assert code == 75
        assert out.startswith(f"not ready: sqlite:///{broken}: ")
        code, out, err = lastcall(*asked, "--on-fault", "open")
        assert (code, out) == (0, "")
        assert "ready all the same (--on-fault open)" in err

    @pytest.mark.parametrize(
        "words",
        [
            [],
            ["--agent", ""],
            ["--file", "x.json", "--dependency", "bank"],
            ["--store", "mysql://x"],
            ["--on-fault", "perhaps"],
        ],
    )
    def test_used_wrongly_is_neither(self, lastcall, words):
        assert lastcall("ready", *words)[0] == 2

    def test_as_a_supervisor_calls_it(self, tmp_path, url):
        env = {**os.environ, "LASTCALL_STORE": url}
        command = [sys.executable, "-m", "lastcall.cli", "ready", "--agent", "clerk"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")
        words = ["kill", "--agent", "clerk", "--why", "x"]
        subprocess.run([*command[:3], *words], env=env, check=True, capture_output=True)
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 75


class TestQuarantine:
    @pytest.fixture
    def held(self, fleet):
        """Two calls of one tool and one of another in quarantine, met by one worker; gives a second."""
        guard = fleet(Quarantine(seconds=900))
        for n, tool in ((1, "pay"), (2, "pay"), (3, "book")):
            made(guard, n, tool, kind="error", status=422, grade="final")
        return fleet(Quarantine(seconds=900))

    def refused(self, guard, n, tool="pay"):
        # A run of its own each time: two refusals in a row would end one.
        run = f"other-{next(RUNS)}"
        verdict = guard.decide(Call(tool, {"n": n}, Where(run, run)))
        return verdict.stop is not None and verdict.stop.reason == "quarantine"

    def test_list_shows_them_until_their_time_is_over(self, lastcall, url, held, clock):
        clock.tick(60)
        code, out, _ = lastcall("quarantine", "list", "--store", url)
        assert code == 0
        book, *pay = out.splitlines()
        print_ = Call("book", {"n": 3}).fingerprint
        assert book == (
            f"book {print_}, HTTP 422: until 2027-01-15T08:15:00Z (in 840 s), from run r1"
        )
        assert len(pay) == 2
        _, out, _ = lastcall("quarantine", "list", "--store", url, "--json")
        assert json.loads(out.splitlines()[0]) == {
            "tool": "book",
            "fingerprint": print_,
            "tenant": None,
            "status": 422,
            "since": "2027-01-15T08:00:00Z",
            "until": "2027-01-15T08:15:00Z",
            "seconds": 840.0,
            "answers": 1,
            "run": "r1",
        }
        clock.tick(840)
        assert lastcall("quarantine", "list", "--store", url)[1] == "nothing is in quarantine\n"
        assert lastcall("quarantine", "list", "--store", url, "--json")[1] == ""

    @pytest.mark.parametrize(
        ("which", "left"),
        [
            (["--tool", "pay"], [("book", 3)]),
            (["--tool", "p*"], [("book", 3)]),
            (["--fingerprint", Call("pay", {"n": 1}).fingerprint], [("pay", 2), ("book", 3)]),
            (["--all"], []),
        ],
    )
    def test_release_lets_calls_be_made_again(self, lastcall, url, held, which, left):
        every = [("pay", 1), ("pay", 2), ("book", 3)]
        assert all(self.refused(held, n, tool) for tool, n in every)
        code, out, _ = lastcall("quarantine", "release", "--store", url, *which)
        assert code == 0
        assert len(out.splitlines()) == 3 - len(left)
        assert [each for each in every if self.refused(held, each[1], each[0])] == left

    def test_nothing_to_release_is_told(self, lastcall, url):
        code, _, err = lastcall("quarantine", "release", "--store", url, "--all")
        assert code == 1
        assert "nothing of that is in quarantine" in err

    @pytest.mark.parametrize("words", [[], ["release"], ["release", "--all", "--tool", "pay"]])
    def test_what_to_release_has_to_be_said(self, lastcall, words):
        assert lastcall("quarantine", *words)[0] == 2


class TestRaise:
    def test_a_run_that_was_ended_goes_on(self, lastcall, url, fleet):
        guard = fleet(max_calls=3)
        assert_stopped(ended(guard), reason="ceiling")
        code, out, _ = lastcall("raise", "--store", url, "--run", "r1", "--calls", "+2")
        assert (code, out) == (0, "raised: calls of run 'r1' by 2\n")
        assert made(guard, 51).stop is None
        assert made(guard, 52).stop is None
        assert_stopped(made(guard, 53).stop, reason="ceiling")

    def test_one_tool(self, lastcall, url, fleet):
        guard = fleet(tools={"pay": ToolPolicy(max_calls=1)})
        made(guard, 1)
        assert made(guard, 2).stop.reason == "ceiling"
        words = ("raise", "--store", url, "--run", "r1", "--calls", "1", "--tool", "pay")
        assert lastcall(*words)[1] == "raised: calls:pay of run 'r1' by 1\n"
        assert made(guard, 3).stop is None

    def test_money_by_an_amount(self, lastcall, url, fleet):
        limit = Limit(quantity="money", per="run", window=None, most="1.00")
        guard = fleet(rules=[Budget(limits=(limit,))], tools={"pay": ToolPolicy(cost="0.60")})
        made(guard, 1)
        assert made(guard, 2).stop.cause == "money/run"
        words = (
            "raise",
            "--store",
            url,
            "--run",
            "r1",
            "--calls",
            "+0.20",
            "--budget",
            "money/run",
        )
        assert lastcall(*words)[1] == "raised: money/run of run 'r1' by 0.20\n"
        assert made(guard, 3).stop is None

    def test_a_run_that_nobody_knows_is_told(self, lastcall, url, fleet):
        made(fleet())
        code, out, err = lastcall("raise", "--store", url, "--run", "r9", "--calls", "+2")
        assert (code, out) == (1, "")
        assert f"{url} knows no run 'r9'; it may be over" in err
        assert "r9" not in "".join(row[0] for row in rows(url))

    @pytest.mark.parametrize("calls", ["0", "-3", "many", "1.5", "+"])
    def test_by_how_many_has_to_be_a_number(self, lastcall, url, calls):
        assert lastcall("raise", "--store", url, "--run", "r1", f"--calls={calls}")[0] == 2


def test_everything_on_redis_too(lastcall, redis_server, clock):
    url = f"{redis_server.url}?prefix=cli-{uuid4().hex}"
    rules = (*Policy().rules, Cooling(), Quarantine())
    guard = Guard(Policy(rules=rules, max_calls=3), store=open_store(url), clock=clock)
    made(guard, 77, kind="error", status=422, grade="final")
    ended(guard)
    assert lastcall("ready", "--store", url, "--agent", "clerk")[0] == 75
    assert lastcall("quarantine", "release", "--store", url, "--all")[0] == 0
    assert lastcall("raise", "--store", url, "--run", "r1", "--calls", "+2")[0] == 0
    assert made(guard, 51).stop is None
    assert lastcall("kill", "--store", url, "--user", "ann", "--why", "x")[0] == 0
    clock.tick(1)
    assert_stopped(made(guard, 52).stop, reason="kill", scope="user")
    assert "user 'ann'" in lastcall("status", "--store", url)[1]
    assert lastcall("revive", "--store", url, "--user", "ann")[0] == 0
    clock.tick(1)
    assert made(guard, 53).stop is None
    guard.close()


@pytest.fixture(scope="module")
def redis_server():
    """A real server."""
    server = RedisServer().start()
    yield server
    server.stop()


def rows(url):
    """What the database holds, as an operator would look."""
    with sqlite3.connect(url.removeprefix("sqlite:///")) as db:
        return db.execute("SELECT shard FROM shards").fetchall()


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert all(
        word in out for word in ("replay", "kill", "revive", "status", "ready", "quarantine")
    )


class TestWrites:
    @pytest.fixture
    def lost(self, url, clock):
        """A write whose answer was lost, one whose worker died, and one that runs; gives the first's stop."""
        guard = Guard(store=url, clock=clock)
        policy = ToolPolicy(writes=True, identity=("invoice",), on_repeat="replay")
        where = Where("r1", "r1", tenant="acme/eu")
        dead = guard.decide(Call("pay", {"invoice": 2}, where), policy)
        clock.tick(301)
        first = guard.decide(Call("pay", {"invoice": 1, "iban": "DE89"}, where), policy)
        guard.observe(first.ticket, Outcome("error", "lost", 504, "passing", "lost"))
        running = guard.decide(Call("pay", {"invoice": 3}, where), policy)
        stop = guard.decide(Call("pay", {"invoice": 1, "iban": "DE89"}, where), policy).stop
        assert stop.reason == "unknown_outcome"
        assert dead.ticket
        assert running.ticket
        guard.close()
        return stop

    def test_are_listed_with_nobodys_data(self, lastcall, url, lost):
        code, out, _ = lastcall("writes", "list", "--store", url)
        first, second = out.splitlines()
        assert code == 0
        assert "pay, tenant acme/eu, begun" in first
        assert second.startswith(f"{lost.key}: pay, HTTP 504, tenant acme/eu, begun")
        assert "DE89" not in out
        _, out, _ = lastcall("writes", "list", "--store", url, "--json")
        plain = [json.loads(line) for line in out.splitlines()]
        assert [each["status"] for each in plain] == [None, 504]
        assert plain[1]["key"] == lost.key

    def test_are_counted_by_status(self, lastcall, url, lost):
        assert (
            "2 writes of unknown outcome: lastcall writes list\n"
            in lastcall("status", "--store", url)[1]
        )
        assert json.loads(lastcall("status", "--store", url, "--json")[1])["unknown_writes"] == 2

    def test_one_that_happened_answers_with_its_result(self, lastcall, url, lost, clock):
        words = ("--tenant", "acme/eu", "--happened", "--result", '{"id": "ch_1"}')
        code, out, _ = lastcall("writes", "settle", lost.key, "--store", url, *words)
        assert (code, out) == (0, f"settled: {lost.key}: it happened\n")
        guard = Guard(store=url, clock=clock)
        policy = ToolPolicy(writes=True, identity=("invoice",), on_repeat="replay")
        call = Call("pay", {"invoice": 1, "iban": "DE89"}, Where("r2", "r2", tenant="acme/eu"))
        assert guard.decide(call, policy).replay.result == {"id": "ch_1"}
        guard.close()

    def test_one_that_did_not_may_be_made(self, lastcall, url, lost, clock):
        words = ("--tenant", "acme/eu", "--not-happened")
        assert lastcall("writes", "settle", lost.key, "--store", url, *words)[0] == 0
        guard = Guard(store=url, clock=clock)
        call = Call("pay", {"invoice": 1, "iban": "DE89"}, Where("r2", "r2", tenant="acme/eu"))
        policy = ToolPolicy(writes=True, identity=("invoice",), on_repeat="replay")
        assert guard.decide(call, policy).ticket
        guard.close()

    def test_where_there_is_none(self, lastcall, url):
        assert (
            lastcall("writes", "list", "--store", url)[1] == "no write waits for anybody's word\n"
        )
        code, _, err = lastcall("writes", "settle", "_:pay:0", "--store", url, "--happened")
        assert (code, err) == (1, "lastcall: no write _:pay:0 waits for anybody's word\n")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--happened", "--result", "{"), "not JSON"),
            (("--not-happened", "--result", "1"), "what did not happen brought nothing"),
            (("--happened", "--result", '"' + "x" * 70_000 + '"'), "below 64 KiB"),
        ],
    )
    def test_wrong_words(self, lastcall, url, words, said):
        code, _, err = lastcall("writes", "settle", "_:pay:0", "--store", url, *words)
        assert code == 2
        assert said in err
