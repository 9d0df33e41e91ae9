"""The pytest plugin: a transcript in the repository is a test with no code."""

from __future__ import annotations

import gzip
import json

import pytest

import lastcall_pytest.items  # noqa: F401 - stays loaded from one inner run to the next

pytest_plugins = ["pytester"]


def call(n=0, **fields):
    return {
        "ts": n,
        "name": "search",
        "args": {"n": n},
        "status": 200,
        "result": f"page {n}",
        **fields,
    }


CLEAN = [call(n) for n in range(6)]
LOOP = [call(n, args={"q": "inv-7"}, result="nothing") for n in range(9)]
TEST = {"test_x.py": "def test_x(): pass"}


def text(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def put(pytester):
    """Writes files into the folder of the inner run, `a__b_json` as `a/b.json`; rows as a plain log."""

    def put(plain=None, **files):
        named = {name.replace("__", "/").replace("_", "."): files[name] for name in files}
        for name, content in {**named, **(plain or {})}.items():
            path = pytester.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else text(content))
        return path

    return put


@pytest.fixture
def played(pytester):
    """Runs pytest in there."""

    def played(*words):
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio", *words)

    return played


class TestCollecting:
    def test_a_transcript_is_a_test(self, put, played):
        put(good_transcript_jsonl=CLEAN)
        done = played("-v")
        done.assert_outcomes(passed=1)
        done.stdout.fnmatch_lines(["good.transcript.jsonl::replay PASSED*"])

    def test_other_endings_are_when_an_expectation_is_beside_them(self, put, played):
        put(a_transcript_json=json.dumps(CLEAN), b_transcript_json="[]", c_json="{}")
        assert played().ret == pytest.ExitCode.NO_TESTS_COLLECTED
        put(a_expect_toml='expect = "clean"')
        played("--collect-only", "-q").stdout.fnmatch_lines(["a.transcript.json::replay"])

    def test_and_so_are_those_that_are_named(self, put, played):
        put(a_transcript_json=text(CLEAN))
        played("a.transcript.json").assert_outcomes(passed=1)

    def test_the_setting_says_which_names(self, put, played):
        put(a_log=CLEAN, b_transcript_jsonl=LOOP, pytest_ini="[pytest]\nlastcall_files = *.log\n")
        played().assert_outcomes(passed=1)

    def test_a_packed_one(self, pytester, played):
        path = pytester.path / "a.transcript.jsonl.gz"
        path.write_bytes(gzip.compress(text(LOOP).encode()))
        (pytester.path / "a.expect.toml").write_text('expect = "stop"')
        played().assert_outcomes(passed=1)

    def test_chosen_by_name_by_mark_and_by_id(self, put, played):
        put(TEST, a_transcript_jsonl=CLEAN, b_transcript_jsonl=CLEAN)
        played("-k", "a.transcript").assert_outcomes(passed=1, deselected=2)
        played("-m", "lastcall", "--strict-markers").assert_outcomes(passed=2, deselected=1)
        played("--deselect", "a.transcript.jsonl::replay").assert_outcomes(passed=2, deselected=1)
        played("b.transcript.jsonl::replay").assert_outcomes(passed=1)

    def test_collecting_reads_nothing(self, put, played):
        put(a_transcript_jsonl="{broken")
        done = played("--collect-only", "-q")
        assert done.ret == 0
        done.stdout.fnmatch_lines(["a.transcript.jsonl::replay"])


class TestExpecting:
    def test_without_an_expectation_a_run_must_be_clean_and_the_failure_shows_why(
        self, put, played
    ):
        put(night_transcript_jsonl=LOOP)
        done = played()
        done.assert_outcomes(failed=1)
        out = done.stdout.str()
        told = out[out.index("run night:") : out.index("= short test summary")]
        assert told.splitlines()[:9] == [
            "run night: expected clean, and call 4 would have been the last",
            "9 calls, jsonl, policy default",
            "",
            "       call  nth tool and arguments                          answer",
            '        1-3   x3 search(q="inv-7")                           200',
            "  >       4   x4 search(as before)                           refused: same",
            "                 ^ same, scope call",
            "        5-9      5 more, saved",
            "",
        ]
        assert "expected by night.expect.toml (there is none: taken for healthy)" in told
        assert "--lastcall-update" in told
        assert max(map(len, told.splitlines())) <= 80

    @pytest.mark.parametrize(
        ("wanted", "said"),
        [
            ('expect = "stop"', None),
            ('expect = "stop"\nreason = "same"\ntool = "search"\nby_call = 4', None),
            ('expect = "stop"\nby_call = 30', None),
            ('expect = "stop"\nby_call = 3', "stopped at call 4, later than at call 3"),
            (
                'expect = "stop"\nreason = "ceiling"',
                "stopped at call 4, but the reason is same, not ceiling",
            ),
            ('expect = "stop"\ntool = "pay"', "but the tool is search, not pay"),
            ('expect = "clean"', "expected clean, and call 4 would have been the last"),
        ],
    )
    def test_what_a_stop_may_be_asked_for(self, put, played, wanted, said):
        put(night_transcript_jsonl=LOOP, night_expect_toml=wanted)
        done = played()
        done.assert_outcomes(failed=said is not None, passed=said is None)
        assert said is None or said in done.stdout.str()

    def test_a_stop_that_does_not_come(self, put, played):
        put(good_transcript_jsonl=CLEAN, good_expect_toml='expect = "stop"')
        done = played()
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(["*expected a stop, and nothing would have stopped it*"])

    def test_several_runs_of_a_file_each_have_their_own(self, put, played):
        rows = [{**row, "run": name} for name, rows in (("a", CLEAN), ("b", LOOP)) for row in rows]
        put(both_transcript_jsonl=rows, both_expect_toml='[runs.b]\nexpect = "stop"')
        played().assert_outcomes(passed=1)
        put(both_expect_toml='expect = "clean"\n[runs.c]\nexpect = "stop"')
        done = played()
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(["run b: expected clean*", "*runs that are not there: c"])

    def test_a_run_that_is_named_and_gone_fails_though_the_others_are_well(self, put, played):
        put(a_transcript_jsonl=CLEAN, a_expect_toml='[runs.b]\nexpect = "stop"')
        done = played()
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(["a.expect.toml names runs that are not there: b"])

    def test_of_many_runs_some_are_shown_and_the_others_counted(self, put, played):
        put(many_transcript_jsonl=[{**row, "run": f"r{n}"} for n in range(5) for row in LOOP])
        done = played()
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(["2 more runs are not as expected"])
        told, _, _ = done.stdout.str().partition("= short test summary")  # which CI has in full
        assert told.count("refused: same") == 3

    def test_what_cannot_be_judged_fails_until_it_is_known(self, put, played):
        rows = [{"ts": n, "name": "search", "args": {"n": n}, "status": 200} for n in range(6)]
        put(mute_transcript_jsonl=rows)
        done = played()
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(
            ["run mute: cannot be judged by same, near, cycle, stale: *results*"]
        )
        played("--lastcall-update").assert_outcomes(passed=1)
        played().assert_outcomes(passed=1)


class TestTrouble:
    def test_a_broken_line_is_named_and_fails_though_the_rest_is_clean(self, put, played):
        put(a_transcript_jsonl=text(CLEAN[:2]) + "{broken\n" + text(CLEAN[2:]))
        done = played()
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(["unreadable: *a.transcript.jsonl:3: broken line*"])

    def test_what_is_no_transcript(self, put, played):
        put(a_transcript_jsonl="dear diary")
        done = played()
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(["unreadable: *a.transcript.jsonl: not a transcript*"])

    def test_a_reader_that_finds_nothing(self, put, played, monkeypatch):
        class Blank:
            name = "blank"

            def sniff(self, document):
                return True

            def read(self, document):
                return iter(())

        monkeypatch.setattr("lastcall.transcripts.readers", lambda: (Blank(),))
        put(a_transcript_jsonl=CLEAN)
        done = played()
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(["*a.transcript.jsonl: holds no run"])

    def test_a_fault_of_the_plugin_itself_is_shown_as_one(self, put, played, monkeypatch):
        monkeypatch.setattr("lastcall_pytest.items.timeline", lambda *_: 1 / 0)
        put(a_transcript_jsonl=LOOP)
        done = played()
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(["*ZeroDivisionError*"])

    @pytest.mark.parametrize(
        ("wanted", "said"),
        [
            ("expect = ", "*night.expect.toml: not TOML*"),
            ('expekt = "stop"', "*night.expect.toml: *say expect = *"),
            (
                'expect = "stop"\nby_cal = 3',
                "*night.expect.toml: no key 'by_cal'; did you mean 'by_call'?",
            ),
            ('expect = "maybe"', "*night.expect.toml: expect: *"),
            ('expect = "clean"\nby_call = 3', "*night.expect.toml: by_call are said of a stop*"),
            ('expect = "stop"\nby_call = 0', "*night.expect.toml: by_call: *"),
            ('expect = "stop"\npolicy = "strikt"', "*policy = strikt: *did you mean 'strict'*"),
        ],
    )
    def test_an_expectation_that_cannot_be(self, put, played, wanted, said):
        put(night_transcript_jsonl=LOOP, night_expect_toml=wanted)
        done = played()
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines([said])

    def test_secrets_do_not_reach_the_log_of_the_tests(self, put, played):
        row = call(1, args={"password": "hunter22", "to": "ann@example.com"}, result="no")
        put(a_transcript_jsonl=[row] * 6)
        out = played().stdout.str()
        assert "search(password=" in out
        assert "hunter22" not in out
        assert "ann@example.com" not in out

    def test_neither_do_those_in_names_nor_colours(self, put, played):
        key = "sk-live-abcdefghijk1234567890"
        row = {**call(1, args={"\x1b[31m": 1}, result="no"), "name": f"\x1b[31m{key}"}
        rows = [{**row, "run": run} for run in ("ann@example.com", "b\x1b[31m") for _ in range(6)]
        put(
            a_transcript_jsonl=rows,
            b_transcript_jsonl=rows,
            b_expect_toml='expect = "stop"\ntool = "other"\n',
            plain={
                "test_x.py": "def test_x(lastcall_replay):\n"
                "    lastcall_replay('a.transcript.jsonl').assert_clean()\n"
            },
        )
        done = played()
        done.assert_outcomes(failed=3)
        out = done.stdout.str()
        assert "[redacted:api-key:" in out
        assert "[redacted:email:" in out
        assert key[:20] not in out
        assert "ann@example.com" not in out
        assert "\x1b" not in out


class TestPolicy:
    LIMIT = "max_calls = 2"

    def test_the_command_line_beats_what_is_beside_and_that_the_setting(self, put, played):
        put(a_transcript_jsonl=CLEAN, two_toml=self.LIMIT)
        played().assert_outcomes(passed=1)
        put(pytest_ini="[pytest]\nlastcall_policy = two.toml\n")
        played().assert_outcomes(failed=1)
        put(a_expect_toml='policy = "permissive"\nexpect = "clean"')
        played().assert_outcomes(passed=1)
        played("--lastcall-policy", "two.toml").assert_outcomes(failed=1)

    def test_each_from_its_own_folder(self, pytester, put, played, monkeypatch):
        put(
            runs__a_transcript_jsonl=CLEAN,
            runs__a_expect_toml='policy = "two.toml"\nexpect = "stop"\nby_call = 3',
            runs__two_toml=self.LIMIT,
            pytest_ini="[pytest]\n",
            elsewhere__two_toml=self.LIMIT,
            runs__b_transcript_jsonl=CLEAN,
        )
        played("runs/a.transcript.jsonl").assert_outcomes(passed=1)
        monkeypatch.chdir(pytester.path / "elsewhere")
        played("--rootdir", "..", "../runs").assert_outcomes(passed=2)
        played("../runs/b.transcript.jsonl", "--lastcall-policy", "two.toml").assert_outcomes(
            failed=1
        )

    def test_one_that_is_not_there(self, put, played):
        put(a_transcript_jsonl=CLEAN)
        done = played("--lastcall-policy", "no.toml")
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(["--lastcall-policy no.toml: No such file or directory"])


class TestUpdating:
    def test_records_what_the_run_comes_to_and_says_so(self, pytester, put, played):
        put(night_transcript_jsonl=LOOP, good_transcript_jsonl=CLEAN)
        done = played("--lastcall-update")
        done.assert_outcomes(passed=2)
        done.stdout.fnmatch_lines(["lastcall: recorded *night.expect.toml"])
        written = pytester.path / "night.expect.toml"
        assert written.read_text().splitlines()[1:] == [
            'expect = "stop"',
            'reason = "same"',
            'tool = "search"',
            "by_call = 4",
        ]
        assert sorted(path.name for path in pytester.path.glob("*.toml")) == [written.name]
        played().assert_outcomes(passed=2)

    def test_leaves_alone_what_is_as_expected(self, put, played):
        put(night_transcript_jsonl=LOOP)
        path = put(night_expect_toml='# by hand\nexpect = "stop"\nby_call = 8\n')
        before = path.read_text()
        played("--lastcall-update").assert_outcomes(passed=1)
        assert path.read_text() == before

    def test_keeps_the_policy_and_runs_that_are_as_expected(self, put, played):
        rows = [{**row, "run": name} for name in ("a", "b") for row in LOOP]
        put(both_transcript_jsonl=rows)
        path = put(both_expect_toml='policy = "default"\n[runs.a]\nexpect = "stop"\nby_call = 8\n')
        played("--lastcall-update").assert_outcomes(passed=1)
        text = path.read_text()
        assert 'policy = "default"' in text
        assert '[runs."a"]\nexpect = "stop"\nby_call = 8\n' in text
        assert '[runs."b"]\nexpect = "stop"\nreason = "same"' in text
        played().assert_outcomes(passed=1)

    @pytest.mark.parametrize(
        ("named", "written"), [("strict", "strict"), ("two.toml", "../two.toml")]
    )
    def test_records_the_policy_that_the_command_named(self, put, played, named, written):
        put(runs__a_transcript_jsonl=CLEAN * 2, two_toml="max_calls = 2")
        played("--lastcall-update", "--lastcall-policy", named).assert_outcomes(passed=1)
        path = put(runs__b_txt="")
        assert f'policy = "{written}"' in path.with_name("a.expect.toml").read_text()
        played().assert_outcomes(passed=1)

    def test_says_so_where_it_cannot(self, pytester, put, played):
        put(a_transcript_jsonl=LOOP, a_expect_toml__x="in the way")
        done = played("--lastcall-update")
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(["not recorded: * Is a directory: *a.expect.toml'"])

    def test_never_records_what_cannot_be_read(self, pytester, put, played):
        put(a_transcript_jsonl=text(LOOP) + "{broken\n")
        played("--lastcall-update").assert_outcomes(failed=1)
        assert not (pytester.path / "a.expect.toml").exists()


class TestBesideOthers:
    def test_under_xdist(self, pytester, put):
        put(
            **{f"n{n}_transcript_jsonl": LOOP for n in range(4)},
            g_transcript_jsonl=CLEAN,
            two_toml="max_calls = 2",
        )
        # langsmith's plugin takes longer to import than pytest, six times here.
        run = ("-n", "2", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin")
        done = pytester.runpytest_subprocess(*run, "--lastcall-policy", "two.toml")
        done.assert_outcomes(failed=5)
        done.stdout.fnmatch_lines(["*refused: ceiling*"])
        done = pytester.runpytest_subprocess(*run, "--lastcall-update")
        done.assert_outcomes(passed=5)
        assert done.stdout.str().count("lastcall: recorded") == 4

    def test_who_does_not_use_it_does_not_load_it(self, pytester):
        pytester.makepyfile(
            """
            import sys

            def test_x():
                assert "lastcall_pytest" in sys.modules
                assert not [name for name in sys.modules if name.split(".")[0] == "lastcall"]
            """
        )
        pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)

    def test_it_can_be_left_out(self, pytester, put):
        put(TEST, a_transcript_jsonl=LOOP)
        done = pytester.runpytest_subprocess("-p", "no:lastcall", "-p", "no:cacheprovider")
        done.assert_outcomes(passed=1)


class TestFixture:
    def passed(self, pytester, played, body):
        pytester.makepyfile("import pytest\n\n" + body)
        played().assert_outcomes(passed=1)

    def test_a_path_beside_the_test(self, pytester, put, played):
        put(night_jsonl=LOOP)
        self.passed(
            pytester,
            played,
            """
def test_x(lastcall_replay):
    played = lastcall_replay("night.jsonl").assert_stopped(reason="same", by_call=4)
    assert played.stop.tool == "search"
    assert [run.calls for run in played.runs] == [9]
    assert "refused: same" in played.timeline
""",
        )

    def test_calls_and_policies(self, pytester, put, played):
        put(two_toml="max_calls = 2")
        self.passed(
            pytester,
            played,
            """
from lastcall import Policy

def test_x(lastcall_replay):
    calls = [{"name": "search", "args": {"n": n}, "result": f"page {n}"} for n in range(5)]
    assert lastcall_replay(calls).stop is None
    with pytest.raises(AssertionError, match="cannot be judged by .*terminal"):
        lastcall_replay(calls).assert_clean()
    silent = lastcall_replay(calls).runs[0].not_judged
    lastcall_replay(calls).assert_clean(unjudged=silent)
    lastcall_replay([{"status": "ok", **call} for call in calls]).assert_clean()
    for policy in (Policy(max_calls=2), "two.toml"):
        lastcall_replay(calls, policy).assert_stopped(reason="ceiling", by_call=3)
    lastcall_replay([{"name": "noop"}], "permissive")
""",
        )

    def test_a_folder_and_a_transcript(self, pytester, put, played):
        put(runs__a_jsonl=CLEAN, runs__b_jsonl=CLEAN, runs__c_txt="dear diary")
        self.passed(
            pytester,
            played,
            """
from pathlib import Path
from lastcall.transcripts import read

def test_x(lastcall_replay):
    assert len(lastcall_replay("runs").assert_clean().runs) == 2
    (run,) = read(Path("runs/a.jsonl"))
    assert lastcall_replay(run).assert_clean().runs[0].run == run.run
""",
        )

    def test_what_fails_says_why_and_shows_it(self, pytester, put, played):
        put(night_jsonl=LOOP)
        self.passed(
            pytester,
            played,
            """
from pathlib import Path

def test_x(lastcall_replay):
    with pytest.raises(AssertionError, match="expected clean, and call 4") as told:
        lastcall_replay("night.jsonl").assert_clean()
    assert "refused: same" in str(told.value)
    with pytest.raises(AssertionError, match="the reason is same, not ceiling"):
        lastcall_replay("night.jsonl").assert_stopped(reason="ceiling")
    with pytest.raises(AssertionError, match="no.jsonl: no such file"):
        lastcall_replay("no.jsonl")
    with pytest.raises(AssertionError, match="no run in"):
        lastcall_replay([])
    Path("empty").mkdir()
    with pytest.raises(AssertionError, match="no run in empty"):
        lastcall_replay("empty")
""",
        )
