"""The page on budgets: its policy is read, its program prints what it says, its command too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lastcall import Policy
from lastcall.rules import Budget
from lastcall.rules.budget import Quantity

from .documented import Page, called, commands
from .test_baseline import logs

PAGE = Page("docs/budgets.md")


@pytest.fixture(autouse=True)
def beside(tmp_path, monkeypatch):
    """The page's files are those of a folder of its own."""
    monkeypatch.chdir(tmp_path)


def test_the_program_prints_what_the_page_says(capsys, monkeypatch):
    # Not over midnight.
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
    (policy,) = PAGE.blocks("toml")
    Path("policy.toml").write_text(policy)
    given = {}
    PAGE.run(given, capsys)
    given["guard"].close()
    assert len(PAGE.blocks("text")) == 1


def test_the_policy_survives_being_written():
    (policy,) = PAGE.blocks("toml")
    made = Policy.from_toml(policy)
    assert Policy.from_toml(made.to_toml()) == made
    (budget,) = (rule for rule in made.rules if isinstance(rule, Budget))
    assert [limit.name for limit in budget.limits] == [
        "money/day/user",
        "tokens/run",
        "seconds/run",
    ]


def test_the_command_does_what_the_page_says(capsys):
    Path("runs").mkdir()
    logs(Path("runs"), *[5] * 198, 12, 40)
    (console,) = PAGE.blocks("console")
    for command, printed in commands(console):
        assert called(command, capsys) == printed


def test_every_quantity_is_in_the_table():
    table = PAGE.text.split("\n\n")[2]
    named = set(
        re.findall(r"`([a-z:]+)`", "".join(row.split("|")[1] for row in table.splitlines()))
    )
    assert named == set(Quantity.__args__)
