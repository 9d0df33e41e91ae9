"""What the README and the docs show is run as it stands."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import subprocess
import sys

import pytest

from lastcall import Call, Guard, Outcome, Policy, Where
from lastcall.cli import main

from .documented import Page, execute

PAGE = Page("README.md")


@pytest.fixture
def night(root):
    """The example that plays the night live."""
    pytest.importorskip("langchain")
    pytest.importorskip("agents")
    spec = importlib.util.spec_from_file_location("night_live", root / "examples/night_live.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_handler_stops_the_agent_one_has(night, capsys):
    from langchain_core.tools import tool

    @tool
    def create_reminder(invoice: str, due: str) -> dict:
        """Remind a customer of an invoice."""
        return night.rejected(due)

    model = night.Sleepless()
    execute(PAGE.blocks("python")[0], {"model": model, "tools": [create_reminder]})
    assert capsys.readouterr().out.split() == ["refusals", "422"]
    assert model.asked <= 6


@pytest.fixture
def default_loop():
    """The loop that `Runner.run_sync` looks for; it would make one itself and leave it open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.usefixtures("default_loop")
def test_the_guarded_agent_ends_with_a_stop(capsys):
    from agents import Agent, function_tool
    from agents.testing import ScriptedModel, function_call

    @function_tool
    def create_reminder(due: str) -> dict:
        """Remind a customer."""
        return {"status": 422, "error": "no such date"}

    steps = [
        [function_call("create_reminder", {"due": f"{n}"}, call_id=f"c{n}")] for n in range(40)
    ]
    agent = Agent("clerk", tools=[create_reminder], model=ScriptedModel(steps))
    execute(PAGE.blocks("python")[1], {"agent": agent})
    assert "reason='refusals'" in capsys.readouterr().out


def test_a_wrapped_function_stops_at_its_third_equal_call(capsys):
    execute(PAGE.blocks("python")[2], {})
    out = capsys.readouterr().out
    assert "already made 2 times" in out
    assert "executed=2 attempts=2 refused=1" in out


def test_the_replay_commands_of_the_readme_do_what_it_says(root, capsys, monkeypatch):
    monkeypatch.chdir(root)
    assert main(["replay", "examples/night-422.jsonl", "--expect", "stop", "--json"]) == 0
    assert main(["replay", "examples/night-422.jsonl"]) == 0
    assert "35 calls saved (88 %)" in capsys.readouterr().out


def test_the_night_live_shows_both_frameworks_stopped(root):
    done = subprocess.run(
        [sys.executable, root / "examples/night_live.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    governed = [line for line in done.stdout.splitlines() if line.startswith("  governed")]
    assert [line.split()[1] for line in governed] == ["5", "5"]
    assert [int(line.split()[4]) for line in governed] == [3, 3]
    assert done.stdout.count("40 calls executed") == 2
    assert (
        "(night_live.py): live in LangChain and the OpenAI Agents SDK | 40 calls | 3 calls |"
        in ((root / "examples" / "README.md").read_text())
    )


def test_the_policy_file_of_the_docs_is_one():
    (text,) = Page("docs/policy.md").blocks("toml")
    policy = Policy.from_toml(text)
    assert policy.tool("search_web").reads
    assert Policy.from_toml(policy.to_toml()) == policy


def test_the_programs_of_the_policy_page_run():
    guard, before = Guard(Policy()), signal.getsignal(signal.SIGHUP)
    try:
        for program in Page("docs/policy.md").programs():
            given = {"guard": guard, "Guard": Guard, "Policy": Policy}
            execute(program.text, given)
    finally:
        signal.signal(signal.SIGHUP, before)
    where = Where(run="r", turn="t", user="ann")
    most = 500
    for n in range(most):
        assert made(given["guard"], n, where)
    assert not made(given["guard"], most, where)


def made(guard, n, where):
    """Whether the *n*-th call may be made."""
    ticket = guard.decide(Call("look", {"n": n}, where)).ticket
    if ticket is not None:
        guard.observe(ticket, Outcome(content=n))
    return ticket is not None


def test_the_guard_of_many_processes_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (program,) = [each for each in PAGE.programs() if "sqlite:///" in each.text]
    given = {}
    execute(program.text, given)
    where = Where(run="r", turn="t", user="ann", agent="clerk")
    other = Guard(given["policy"], store="sqlite:///lastcall.db")
    for n in range(100):
        assert made((given["guard"], other)[n % 2], n, where)
    assert not made(other, 100, where)
    given["guard"].close()
    other.close()


def test_the_readme_counts_the_formats_right():
    from lastcall.transcripts import readers

    assert f"{len(readers())} formats" in PAGE.text


def test_the_table_of_the_docs_names_every_rule():
    for rule in Policy().rules:
        assert f"| `{rule.name}` |" in PAGE.text
