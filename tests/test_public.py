"""The public face: what is there, what it costs to import, and what it does not load."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

import lastcall

PACKAGES = (
    "lastcall",
    "lastcall_http",
    "lastcall_langchain",
    "lastcall_openai_agents",
    "lastcall_pytest",
)
FRAMEWORKS = (
    "langchain",
    "langchain_core",
    "langgraph",
    "agents",
    "openai",
    "mcp",
    "rich",
    "tenacity",
)


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_sorted_and_true(name):
    module = importlib.import_module(name)
    assert module.__all__ == sorted(module.__all__)
    assert all(hasattr(module, public) for public in module.__all__)


def test_importing_the_core_and_its_command_loads_no_framework():
    code = (
        "import sys, lastcall, lastcall.cli, lastcall.replay;"
        f"print([name for name in {FRAMEWORKS!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_langchain_adapter_needs_no_langgraph_until_it_is_used():
    code = "import sys, lastcall_langchain; print('langgraph' in sys.modules, 'langchain' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


@pytest.mark.parametrize(
    "group", ["lastcall.rules", "lastcall.stores", "lastcall.transcripts", "lastcall.scopes"]
)
def test_every_entry_point_loads(group):
    points = entry_points(group=group)
    assert points
    for point in points:
        assert point.load()


def test_rules_are_registered_under_their_names():
    for point in entry_points(group="lastcall.rules"):
        assert point.load().name == point.name


def test_the_stop_has_a_json_schema_with_its_version():
    schema = lastcall.Stop.model_json_schema()
    assert schema["properties"]["version"]["const"] == 1
    assert {"reason", "scope", "fingerprint", "status", "remaining", "gathered"} <= set(
        schema["properties"]
    )


def test_the_pytest_plugin_gives_a_clock(lastcall_clock):
    before = lastcall_clock()
    lastcall_clock.tick(30)
    assert lastcall_clock() == before + 30
    with pytest.raises(ValueError, match="back"):
        lastcall_clock.tick(-1)
