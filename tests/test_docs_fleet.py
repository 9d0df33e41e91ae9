"""The page for operators: each command is run and prints what the page says; the units and the probe are
tried."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from lastcall import Call, Guard, Outcome, Policy, ToolPolicy, Where
from lastcall.cli import main
from lastcall.rules import Cooling, Quarantine
from lastcall.stores import open_store

from .documented import ROOT, Page, commands, execute

DOCS = ROOT / "docs"
PAGE = Page("docs/fleet.md")
BIN = Path(sys.executable).parent
LASTCALL = BIN / "lastcall"


@pytest.fixture
def at(tmp_path):
    """The page's paths as those of this test, and back."""
    moved = {
        "/var/lib/lastcall": str(tmp_path / "lib"),
        "/etc/lastcall": str(tmp_path / "etc"),
    }
    for folder in moved.values():
        Path(folder).mkdir()

    def move(text, *, back=False):
        for there, here in moved.items():
            text = text.replace(here, there) if back else text.replace(there, here)
        return text

    return move


@pytest.fixture
def url(at):
    return at("sqlite:////var/lib/lastcall/lastcall.db")


def played(url, clock):
    """What happened before the operator looked: two calls that failed for good, one run over its ceiling."""
    policy = Policy(
        rules=(*Policy().rules, Cooling(), Quarantine()),
        max_calls=3,
        tools={"search": ToolPolicy(max_calls=2)},
    )
    guard = Guard(policy, store=open_store(url), clock=clock)
    for tool, status in (("pay", 422), ("refund", 403)):
        where = Where("run-16", "run-16", agent="payer")
        ticket = guard.decide(Call(tool, {"invoice": 7}, where)).ticket
        guard.observe(ticket, Outcome("error", status=status, grade="final", error="no"))
    for tool in ("search", "search", "look", "look"):
        where = Where("run-17", "run-17", agent="clerk")
        ticket = guard.decide(Call(tool, {"n": guard.clock()}, where)).ticket
        if ticket is not None:
            guard.observe(ticket, Outcome())
    guard.close()


def test_every_block_does_what_the_page_says(at, url, clock, capsys, monkeypatch):
    monkeypatch.setenv("LASTCALL_STORE", url)
    monkeypatch.setenv("LOGNAME", "eve")
    monkeypatch.delenv("LASTCALL_SWITCH", raising=False)
    played(url, clock)
    for block in PAGE.all:
        if block.kind == "python":
            given = {}
            execute(at(block.text), given)
            given["guard"].close()
            assert capsys.readouterr().out == block.printed
        elif block.kind == "console":
            for command, printed in commands(block.text):
                assert at(called(at(command), clock, capsys), back=True) == printed


def called(line, clock, capsys):
    """What a line of a shell prints, standard error included."""
    line, asks, _ = line.partition("; echo $?")
    program, *words = shlex.split(line)
    if program == "cat":
        return Path(words[0]).read_text()
    if program == "sqlite3":
        file, query = words
        with closing(sqlite3.connect(file)) as database:
            return "".join("|".join(map(str, row)) + "\n" for row in database.execute(query))
    assert program == "lastcall"
    code = main(words, clock=clock)
    printed = capsys.readouterr()
    return f"{printed.out}{printed.err}" + (f"{code}\n" if asks else "")


def test_the_page_names_every_command():
    with pytest.raises(SystemExit):
        main(["--help"])
    for word in ("kill", "revive", "status", "ready", "quarantine", "raise"):
        assert f"$ lastcall {word}" in PAGE.text


def settings(text, section):
    """The settings of one section of a unit."""
    found = {}
    inside = False
    for line in text.splitlines():
        if line.startswith("["):
            inside = line == f"[{section}]"
        elif inside and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found[name] = value
    return found


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not on this machine")
    for name in ("clerk.service", "clerk.timer"):
        # Whether programs are there is looked at, too.
        text = (DOCS / "systemd" / name).read_text()
        (tmp_path / name).write_text(text.replace("/opt/clerk/.venv/bin", str(BIN)))
    done = subprocess.run(
        [
            analyze,
            "verify",
            "--man=no",
            str(tmp_path / "clerk.service"),
            str(tmp_path / "clerk.timer"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    # It complains of what else the machine has, too.
    assert [line for line in done.stderr.splitlines() if "clerk" in line] == []
    assert done.returncode == 0, done.stderr


def run(command, url):
    """The exit code of a supervisor's command."""
    env = {**os.environ, "LASTCALL_STORE": url, "PATH": f"{BIN}:{os.environ['PATH']}"}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False).returncode


def test_the_condition_of_the_unit_skips_by_75(url, at):
    service = settings((DOCS / "systemd" / "clerk.service").read_text(), "Service")
    condition = shlex.split(service["ExecCondition"].replace("/opt/clerk/.venv/bin", str(BIN)))
    name, _, value = service["Environment"].partition("=")
    assert (name, at(value)) == ("LASTCALL_STORE", url)
    assert run(condition, url) == 0
    assert run([LASTCALL, "kill", "--agent", "clerk", "--why", "x"], url) == 0
    code = run(condition, url)
    # By these systemd skips the start; what the unit says of the agent's own exit is about the same.
    assert code == 75
    assert 1 <= code <= 254
    assert str(code) == service["RestartPreventExitStatus"] == service["SuccessExitStatus"]


def test_the_probe_of_the_pod_says_whether_it_may_run(url):
    pod = yaml.safe_load((DOCS / "kubernetes" / "clerk.yaml").read_text())["spec"]["template"][
        "spec"
    ]
    probe = pod["containers"][0]["readinessProbe"]["exec"]["command"]
    waiting = pod["initContainers"][0]["command"]
    assert pod["containers"][0]["env"][0]["name"] == "LASTCALL_STORE"
    assert f"until {shlex.join(probe)};" in waiting[-1]
    assert run(probe, url) == 0
    # Nothing is waited for where it may start.
    assert run(waiting, url) == 0
    assert run([LASTCALL, "kill", "--all", "--why", "x"], url) == 0
    assert run(probe, url) == 75
