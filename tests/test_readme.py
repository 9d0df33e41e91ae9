"""What the README and the docs show is run as it stands."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import subprocess
import sys

import pytest

from lastcall import Policy
from lastcall.cli import main


@pytest.fixture
def night(root):
    """The example that plays the night live."""
    pytest.importorskip("langchain")
    pytest.importorskip("agents")
    spec = importlib.util.spec_from_file_location("night_live", root / "examples/night_live.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(path, language):
    """The fenced blocks of *language* in a Markdown file."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def test_the_handler_stops_the_agent_one_has(root, night, capsys):
    from langchain_core.tools import tool

    @tool
    def create_reminder(invoice: str, due: str) -> dict:
        """Remind a customer of an invoice."""
        return night.rejected(due)

    model = night.Sleepless()
    exec(blocks(root / "README.md", "python")[0], {"model": model, "tools": [create_reminder]})
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
def test_the_guarded_agent_ends_with_a_stop(root, capsys):
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
    exec(blocks(root / "README.md", "python")[1], {"agent": agent})
    assert "reason='refusals'" in capsys.readouterr().out


def test_a_wrapped_function_stops_at_its_third_equal_call(root, capsys):
    exec(blocks(root / "README.md", "python")[2], {})
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


def test_the_policy_file_of_the_docs_is_one(root):
    (text,) = blocks(root / "docs/policy.md", "toml")
    policy = Policy.from_toml(text)
    assert policy.tool("search_web").reads
    assert Policy.from_toml(policy.to_toml()) == policy


def test_the_readme_counts_the_formats_right(root):
    from lastcall.transcripts import readers

    assert f"{len(readers())} formats" in (root / "README.md").read_text()


def test_the_table_of_the_docs_names_every_rule(root):
    readme = (root / "README.md").read_text()
    for rule in Policy().rules:
        assert f"| `{rule.name}` |" in readme
