"""The page about rules: its table has a row for each policy that is measured, and its list each rule in its order."""

from __future__ import annotations

import re
import runpy

from lastcall.order import ORDER

from .documented import ROOT, Page

PAGE = Page("docs/rules.md")
MEASURED = runpy.run_path(str(ROOT / "tests/benchmarks/measure_defaults.py"))


def test_the_table_has_a_row_for_each_policy_that_is_measured():
    """The runs themselves are no part of the project, so the numbers are not looked at."""
    table = PAGE.text[PAGE.text.index("| rule | good runs") :].partition("\n\n")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert rows == [name for name, _ in MEASURED["policies"]()]


def test_rules_are_listed_in_the_order_in_which_they_are_asked():
    listed = PAGE.text[PAGE.text.index("## In which order they are asked") :].partition(":")[0]
    assert tuple(re.findall(r"`(\w+)`", listed)) == ORDER
