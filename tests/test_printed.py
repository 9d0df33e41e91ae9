"""What commands print of what others named: text to a terminal, JSON of ASCII, and no secrets."""

from __future__ import annotations

import json
import sys
from itertools import count

import pytest

from lastcall import Call, Guard, Outcome, Policy, ToolPolicy, Where
from lastcall.cli import main
from lastcall.rules import Breaker, Cooling, Quarantine
from lastcall.stores import open_store
from lastcall.visible import visible

HOSTILE = "t\x1b[31m\x9b1m\x7f\u202eü\n"
"""Colours, as a terminal is told in two ways; a control that is ASCII; a line turned round; and a new one."""

SECRET = "sk-proj-4f9aB7cD1eF2gH3iJ4kL5mN6"
MAIL = "ann@example.com"

NUMBERS = count()

FINAL = Outcome("error", status=422, grade="final", error="no")
FAULT = Outcome("error", status=503, error="no")


def run(capsys, *argv, **settings):
    code = main([str(word) for word in argv], **settings)
    said = capsys.readouterr()
    return code, said.out, said.err


def written(path, *rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def failing(tool, run):
    """A run that would be stopped."""
    row = {"run": run, "name": tool, "args": {tool: 1}, "status": 422}
    return [{"ts": n, **row} for n in range(6)]


def healthy(**more):
    """A run that would not."""
    return [{"ts": n, "name": "look", "args": {"q": n}, "result": str(n), **more} for n in range(3)]


@pytest.fixture
def good(tmp_path):
    """A folder with a healthy run."""
    return written(tmp_path / "good" / "a.jsonl", *healthy()).parent


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """Makes the name of an agent that calls the tool of that name, and then says it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def make(tool, *, fails=False):
        module = f"printed_{next(NUMBERS)}"
        source = f"def agent(prompt, tools):\n    tools[{tool!r}](x=1)\n    "
        source += f"raise ConnectionError({tool!r})\n" if fails else f"return {tool!r}\n"
        (tmp_path / f"{module}.py").write_text(source)
        return f"{module}:agent"

    return make


@pytest.fixture
def url(tmp_path, clock, monkeypatch):
    """A store after a night in which everything went wrong, with hostile names."""
    for name in ("LASTCALL_STORE", "LASTCALL_SWITCH"):
        monkeypatch.delenv(name, raising=False)
    made = f"sqlite:///{tmp_path}/lastcall.db"
    policy = Policy(
        rules=(*Policy().rules, Cooling(), Quarantine(), Breaker(failures=1)),
        max_calls=3,
        tools={
            f"pay{HOSTILE}": ToolPolicy(writes=True, timeout=0.001),
            HOSTILE: ToolPolicy(dependency=HOSTILE),
        },
    )
    guard = Guard(policy, store=open_store(made), clock=clock)
    where = Where(HOSTILE, HOSTILE, agent=HOSTILE, tenant=HOSTILE)
    guard.decide(Call(f"pay{HOSTILE}", {"n": 1}, where))
    clock.tick(3600)
    for n, outcome in enumerate((FINAL, FAULT, FAULT, FAULT)):
        ticket = guard.decide(Call(HOSTILE, {"n": n}, where)).ticket
        if ticket is not None:
            guard.observe(ticket, outcome)
    guard.close()
    return made


class TestNames:
    def test_of_saved_runs_are_text_to_a_terminal(self, capsys, good, tmp_path, agent):
        file = written(tmp_path / "bad" / f"a{HOSTILE}.jsonl", *failing(HOSTILE, f"r{HOSTILE}"))
        file.write_text(file.read_text() + '{"name": "\n')
        bad = file.parent
        for argv in (
            ("report", bad, "--format", "svg"),
            ("report", bad, "--format", "md"),
            ("report", bad, "--format", "json"),
            ("report", bad),
            ("replay", bad),
            ("replay", bad, "--expect", "recorded"),
            ("replay", "--what-if", "strict", "--good", file),
            ("replay", "--live", agent(HOSTILE), "--prompt", "go", bad),
            ("replay", "--live", agent(HOSTILE), bad),
            ("fingerprints", bad),
            ("baseline", bad),
            ("tune", good, file),
            ("report", f"none{HOSTILE}"),
            ("replay", f"none{HOSTILE}"),
        ):
            _, out, err = run(capsys, *argv)
            assert visible(out + err) == out + err, argv
            assert "u001b[31m" in out + err, argv

    def test_of_a_fleet_are_text_to_a_terminal(self, capsys, url, clock):
        store = ("--store", url)
        (key,) = self.objects(capsys, clock, "writes", "list", *store, "--json")
        for argv, code in (
            (("status", *store), 0),
            (("ready", *store, "--agent", HOSTILE), 75),
            (("ready", *store, "--dependency", HOSTILE), 75),
            (("quarantine", "list", *store), 0),
            (("quarantine", "release", *store, "--all"), 0),
            (("writes", "list", *store), 0),
            (("writes", "settle", key["key"], *store, "--tenant", HOSTILE, "--happened"), 0),
            (("writes", "settle", HOSTILE, *store, "--happened"), 1),
            (("raise", *store, "--run", HOSTILE, "--calls", "+5"), 0),
            (("raise", *store, "--run", f"no{HOSTILE}", "--calls", "+5"), 1),
            (("kill", *store, "--agent", HOSTILE, "--why", HOSTILE), 0),
            (("status", *store), 0),
            (("revive", *store, "--agent", f"no{HOSTILE}"), 1),
            (("revive", *store, "--agent", HOSTILE), 0),
            (("explain", "default", "--tool", HOSTILE), 0),
        ):
            got, out, err = run(capsys, *argv, clock=clock)
            assert got == code, (argv, out, err)
            assert visible(out + err) == out + err, argv
            assert "\\n" in out + err or "settle" in argv, argv

    @staticmethod
    def objects(capsys, clock, *argv):
        _, out, _ = run(capsys, *argv, clock=clock)
        assert out.isascii()
        assert out.replace("\n", "").isprintable(), argv
        return list(map(json.loads, out.splitlines()))

    def test_in_json_are_what_they_were(self, capsys, url, clock, tmp_path, agent):
        file = written(tmp_path / "runs" / f"a{HOSTILE}.jsonl", *failing(HOSTILE, f"r{HOSTILE}"))
        store = ("--store", url, "--json")

        def plain(*argv):
            (found,) = self.objects(capsys, clock, *argv)
            return found

        done = plain("replay", file, "--json")
        assert (done["file"], done["run"]) == (str(file), f"r{HOSTILE}")
        assert done["stops"][0]["tool"] == HOSTILE
        assert plain("replay", file, "--what-if", "strict", "--bad", file, "--json")["policies"]
        lived = plain("replay", file, "--live", agent(HOSTILE), "--prompt", "go", "--json")
        assert lived["output"] == HOSTILE
        assert HOSTILE in plain("fingerprints", file, "--json")["exact"][0]["call"]
        assert plain("explain", "default", "--tool", HOSTILE, "--json")["tool"] == HOSTILE
        assert plain("quarantine", "list", *store)["tool"] == HOSTILE
        assert plain("writes", "list", *store)["tenant"] == HOSTILE
        said = plain("status", *store)
        assert said["breakers"][0]["dependency"] == HOSTILE
        assert said["cooling"][0]["agent"] == HOSTILE


class TestSecrets:
    """Requirement H6."""

    @pytest.fixture(autouse=True)
    def key(self, monkeypatch):
        monkeypatch.setenv("LASTCALL_REDACTION_KEY", "of these tests")

    @pytest.fixture
    def bad(self, tmp_path):
        """A folder with a run whose names are secrets, and a file that cannot be read and is called by one."""
        folder = tmp_path / "bad"
        written(folder / "a.jsonl", *failing(f"call {SECRET}", MAIL))
        (folder / f"{SECRET}.jsonl").write_text('{"name": "look", "args": {}}\n{"name": "\n')
        return folder

    def test_are_in_nothing_that_is_printed(self, capsys, good, bad, agent, tmp_path):
        tool = f"call {SECRET}"
        for argv in (
            ("replay", bad),
            ("replay", bad, "--json"),
            ("replay", bad, "--expect", "clean"),
            ("replay", "--what-if", "strict", "--good", bad),
            ("replay", "--what-if", "strict", "--good", bad, "--json"),
            ("replay", bad, "--live", agent(tool), "--prompt", "go"),
            ("replay", bad, "--live", agent(tool), "--prompt", "go", "--json"),
            ("replay", bad, "--live", agent(tool, fails=True), "--prompt", "go"),
            ("replay", bad, "--live", agent("other"), "--prompt", "go", "--json"),
            ("fingerprints", bad),
            ("fingerprints", bad, "--json"),
            ("tune", good, bad),
            ("report", bad, "--format", "json"),
        ):
            _, out, err = run(capsys, *argv)
            assert SECRET not in out + err, argv
            assert MAIL not in out + err, argv
            assert "[redacted:api-key:" in out, argv
            # The file that cannot be read.
            assert "[redacted:api-key:" in err, argv
        _, out, err = run(capsys, "baseline", bad)
        assert SECRET not in out + err
        assert "[redacted:api-key:" in err
        _, out, err = run(capsys, "replay", bad, "--live", agent("other"))
        assert out == ""
        assert SECRET not in err
        assert "[redacted:email:" in err, "the run whose words are not found"

    def test_in_what_was_expected(self, capsys, tmp_path):
        folder = tmp_path / "runs"
        written(folder / "a.transcript.jsonl", *failing(f"call {SECRET}", "r"))
        (folder / "a.expect.toml").write_text('expect = "stop"\ntool = "another"\n')
        code, out, _ = run(capsys, "replay", folder, "--expect", "recorded")
        assert code == 1
        assert "but the tool is call [redacted:api-key:" in out

    def test_in_the_policy_that_is_written(self, capsys, good, bad, tmp_path):
        policy = tmp_path / "p.toml"
        written(bad / "calm.jsonl", *healthy(run=MAIL))
        _, out, _ = run(capsys, "tune", good, bad, "-o", policy)
        assert MAIL not in out + policy.read_text()
        assert "[redacted:email:" in out
        assert "[redacted:email:" in policy.read_text()

    def test_equal_ones_stay_equal(self, capsys, bad):
        _, out, _ = run(capsys, "replay", bad / "a.jsonl", "--json")
        done = json.loads(out)
        assert len({stop["tool"] for stop in done["stops"]}) == 1
        again = written(bad / "b.jsonl", *failing(f"call {SECRET}", MAIL))
        other = json.loads(run(capsys, "replay", again, "--json")[1])
        assert (other["run"], other["stops"]) == (done["run"], done["stops"])

    def test_files_and_lines_that_are_none_can_be_found(self, capsys, tmp_path):
        for name in ("token", "some-model@20260102.jsonl"):
            file = written(tmp_path / "odd" / name, *healthy())
            file.write_text(f"{file.read_text()}{{\n")
            for command in ("replay", "fingerprints", "report"):
                _, _, err = run(capsys, command, file)
                assert f"{file}:4: broken line" in err

    def test_can_be_left_in_a_count_and_in_a_policy(self, capsys, good, bad):
        written(bad / "calm.jsonl", *healthy(run=MAIL))
        for command in (("fingerprints", bad, "--json"), ("tune", good, bad)):
            _, out, err = run(capsys, *command, "--no-redact")
            assert (SECRET if command[0] == "fingerprints" else MAIL) in out
            assert "[redacted" not in out + err

    def test_can_be_left_in(self, capsys, bad, agent):
        for more in (
            (),
            ("--json",),
            ("--what-if", "strict", "--good", bad),
            ("--live", agent(f"call {SECRET}"), "--prompt", "go"),
        ):
            _, out, _ = run(capsys, "replay", bad, "--no-redact", *more)
            assert SECRET in out, more
            assert "[redacted" not in out, more
