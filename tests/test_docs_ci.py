"""The page on saved runs as tests: its commands print what it says, its tests pass, its hook is ours."""

from __future__ import annotations

import json
import re

import pytest

from lastcall.cli import main
from lastcall.expectation import Expectation, Expectations

from .documented import Page, called, commands
from .test_ci_examples import project, shell  # noqa: F401 - the fixture is used by its name

PAGE = Page("docs/ci.md")


@pytest.fixture
def here(project, monkeypatch):  # noqa: F811
    """The page's folder, before anything is expected of the night."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("COLUMNS", "100")
    (project / "runs" / "night.expect.toml").unlink()
    return project


def test_the_commands_print_what_the_page_says(here, capsys):
    seen = []
    for block in PAGE.blocks("console"):
        for command, printed in commands(block):
            seen.append(command.split()[0])
            if seen[-1] == "pytest":
                _, out = shell(f"{command} -o console_output_style=classic", here)
                # Which characters stand for an address is another matter in every process.
                out = re.sub(r"redacted:email:\w+\.\.\. ", "redacted:email:...    ", out)
                assert printed in out
            else:
                assert called(command, capsys) == printed
    assert seen == ["pytest", "pytest", "cat", "lastcall", "lastcall"]


def test_the_tests_pass(here):
    (program,) = PAGE.blocks("python")
    (here / "test_page.py").write_text(program)
    code, out = shell("pytest test_page.py", here)
    assert code == 0, out
    assert "2 passed" in out


def test_the_hook_is_the_one_there_is(root):
    yaml = pytest.importorskip("yaml")
    ours = yaml.safe_load((root / ".pre-commit-hooks.yaml").read_text())
    (theirs,) = (repo["hooks"] for repo in yaml.safe_load(PAGE.blocks("yaml")[0])["repos"])
    assert [hook["id"] for hook in theirs] == [hook["id"] for hook in ours]


def test_every_key_is_in_the_table():
    table = PAGE.text[PAGE.text.index("| key |") : PAGE.text.index("What cannot be read")]
    firsts = " ".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| "))
    keys = {*Expectation.model_fields, *Expectations.model_fields} - {"every", "runs"}
    assert set(re.findall(r"`(\w+)`", firsts)) == keys


def test_the_json_of_the_example_is_one_object(here, capsys):
    assert main(["fingerprints", "runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["calls"] == 45
