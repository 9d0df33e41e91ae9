"""The page on tuning: its commands do what it says, its policy is the one that is found."""

from __future__ import annotations

import re

from lastcall import Policy
from lastcall.lattice import DIALS

from .documented import Page, called, commands
from .test_tune import marked  # noqa: F401 - the fixture is used by its name

PAGE = Page("docs/tune.md")


def test_the_commands_print_what_the_page_says(marked, capsys):  # noqa: F811
    seen = []
    (policy,) = PAGE.blocks("toml")
    for block in PAGE.blocks("console"):
        for command, printed in commands(block):
            seen.append(command.split()[0])
            said = called(command, capsys)
            if seen[-1] == "cat":
                assert said == policy
            else:
                # The page shows the beginning.
                assert said.startswith(printed.removesuffix("...\n"))
    assert seen == ["lastcall", "lastcall", "cat"]


def test_the_policy_is_one():
    (policy,) = PAGE.blocks("toml")
    assert {rule.name for rule in Policy.from_toml(policy).rules} == {
        r.name for r in Policy().rules
    }


def test_the_rules_on_the_lattice_are_named():
    told = PAGE.text[PAGE.text.index("What is tried") : PAGE.text.index("from off to")]
    assert set(re.findall(r"`(\w+)`", told)) == {dial.rule for dial in DIALS}
