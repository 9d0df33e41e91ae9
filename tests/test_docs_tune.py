"""The page on tuning: its commands do what it says, its policy is the one that is found."""

from __future__ import annotations

import re
from pathlib import Path

from lastcall import Policy
from lastcall.cli import main
from lastcall.lattice import DIALS

from .test_tune import marked  # noqa: F401 - the fixture is used by its name

PAGE = (Path(__file__).parents[1] / "docs" / "tune.md").read_text()


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_commands_print_what_the_page_says(marked, capsys):  # noqa: F811
    seen = []
    (policy,) = blocks("toml")
    for block in blocks("console"):
        _, *rest = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
        for command, printed in zip(rest[::2], rest[1::2], strict=True):
            program, *words = command.split()
            seen.append(program)
            if program == "cat":
                assert Path(*words).read_text() == policy
                continue
            assert main(words) == 0
            # The page shows the beginning.
            assert capsys.readouterr().out.startswith(printed.removesuffix("...\n"))
    assert seen == ["lastcall", "lastcall", "cat"]


def test_the_policy_is_one():
    (policy,) = blocks("toml")
    assert {rule.name for rule in Policy.from_toml(policy).rules} == {
        r.name for r in Policy().rules
    }


def test_the_rules_on_the_lattice_are_named():
    told = PAGE[PAGE.index("What is tried") : PAGE.index("from off to")]
    assert set(re.findall(r"`(\w+)`", told)) == {dial.rule for dial in DIALS}
