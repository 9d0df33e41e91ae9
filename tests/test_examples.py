"""Every example prints what stands beside it, and the figures in it are the right ones."""

from __future__ import annotations

import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

TOLD = {path.stem: path for path in sorted(EXAMPLES.rglob("*.txt"))}
"""What the examples print, by their names."""

SHAPES = sorted(path for path in (EXAMPLES / "shapes").glob("*.py") if path.stem != "story")


def numbers(name, pattern):
    """The whole numbers that *pattern* finds in what an example prints."""
    found = re.findall(pattern, TOLD[name].read_text(), re.MULTILINE)
    return [int(number) for number in found]


@pytest.mark.parametrize("name", TOLD)
def test_prints_what_stands_beside_it(name, tmp_path):
    program = TOLD[name].with_suffix(".py")
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == TOLD[name].read_text()
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"


def test_every_example_has_its_text_and_its_line_in_the_index():
    index = (EXAMPLES / "README.md").read_text()
    assert [path.stem for path in SHAPES] == sorted(TOLD.keys() - {"broken_planner"})
    for path in SHAPES:
        assert f"(shapes/{path.name})" in index
        assert f"Run: python examples/shapes/{path.name}\n" in path.read_text()
        assert len(path.read_text().splitlines()) <= 120, "two minutes"
    for name in ("broken_planner.py", "night_live.py"):
        assert f"({name})" in index


def printed(name, *patterns):
    """What *patterns* find in what an example prints, each but once."""
    text = TOLD[name].read_text()
    found = [each for pattern in patterns for each in re.findall(pattern, text, re.MULTILINE)]
    return list(dict.fromkeys(found))


def bought(whose):
    """How many calls were paid for before the open breaker."""
    (price,), (spent,) = (
        printed("open_breaker", pattern)
        for pattern in (r"^\d+ calls at (\S+)", rf"^  {whose} +(\S+) spent")
    )
    return [f"{Decimal(spent) / Decimal(price):f}"]


UNGOVERNED, GOVERNED = r"^  ungoverned.* {2,}(\d+) ", r"^  governed.* {2,}(\d+) "

INDEX = {
    "[retry storm]": (
        [],
        printed(
            "retry_storm", r"ungoverned, 3 .* (\d+) requests", r"ungoverned, 4 .* (\d+) requests"
        ),
        printed("retry_storm", r"  governed, \d layers +(\d+) requests"),
        [],
    ),
    "the same:": (
        printed("retry_storm", r"^(\d+) questions"),
        printed("retry_storm", r"ungoverned +(\d+) requests"),
        printed("retry_storm", r"Share.* (\d+) requests"),
        printed("retry_storm", r"Share\((.*)\)"),
    ),
    "[429 for ever]": (
        [],
        printed("rate_limited", rf"{UNGOVERNED}requests +account disabled"),
        printed("rate_limited", rf"{GOVERNED}requests +account open"),
        [],
    ),
    # What it prints is tried with the README.
    "[422 at night]": ([], ["40"], ["3"], []),
    "[an outage]": (
        printed("outage", r"answers for (\d+) s", r"^(\d+) runs"),
        printed("outage", rf"{UNGOVERNED}requests +meanwhile"),
        printed("outage", rf"{GOVERNED}requests +meanwhile", r"trials at (\d+),"),
        [],
    ),
    "[an open breaker]": (
        [],
        bought("ungoverned"),
        bought("governed")
        + printed("open_breaker", r"(\d+) calls refused, \S+ reserved", r"refused, (\S+) reserved"),
        [],
    ),
    "[duplicate writes]": (
        [],
        printed("duplicate_writes", r"no key +(\d) charges", r"fresh key each time +(\d) charges"),
        printed("duplicate_writes", r"^  operation_key.* (\d) charge", rf"{GOVERNED}charge"),
        [],
    ),
    "[a broken planner]": (
        printed("broken_planner", r"ungoverned: .* (\d+) charges, 0 of them surplus"),
        printed("broken_planner", r"charges, (\d+) of them surplus\n    disabled by the provider"),
        printed("broken_planner", r"  governed: .* (\d+) charges.*\n    stopped by requests/run"),
        [],
    ),
    "[endless pagination]": (
        [],
        printed("endless_pagination", rf"{UNGOVERNED}pages .*woke up"),
        printed("endless_pagination", rf"{GOVERNED}pages .*stopped by"),
        [],
    ),
    "[a plan that never converges]": (
        [],
        printed("never_converging", rf"{UNGOVERNED}plans"),
        printed("never_converging", rf"{GOVERNED}plans .*stopped by"),
        [],
    ),
    "[two agents]": (
        [],
        printed("two_agents", rf"{UNGOVERNED}agents .*no answer"),
        printed("two_agents", rf"{GOVERNED}agents .*stopped by"),
        [],
    ),
    "[self-trigger]": (
        [],
        printed("self_trigger", rf"{UNGOVERNED}written"),
        printed("self_trigger", rf"{GOVERNED}written"),
        [],
    ),
}
"""The figures of each row of the index, by its beginning: of its shape, ungoverned, governed, and of what does it."""


def test_each_figure_of_the_index_is_printed():
    rows = re.findall(r"^\| (.+) \|$", (EXAMPLES / "README.md").read_text(), re.MULTILINE)[2:]
    for row, (begins, figures) in zip(rows, INDEX.items(), strict=True):
        assert row.startswith(begins)
        # The name of a shape may hold a status.
        cells = row.removeprefix(begins).split(" | ")
        told = [list(dict.fromkeys(re.findall(r"\d+(?:\.\d+)?", cell))) for cell in cells]
        assert told == list(figures), begins
    assert printed("outage", r"(\d) requests opened the breaker") == ["5"], "five that find out"
    (trials,) = printed("outage", r"trials at (.+) s$")
    assert trials == ", ".join(map(str, range(30, 200, 30))), "one each 30 s"


class TestFigures:
    """The numbers that the requirements name (C1, C5, D5, E1, E4, B5, K3), in what is printed."""

    def test_layers_multiply_and_one_layer_does_not(self):
        assert numbers("retry_storm", r"^  ungoverned, \d layers +(\d+) requests$") == [27, 81]
        assert numbers("retry_storm", r"^  governed, \d layers +(\d+) requests$") == [3, 3]

    def test_a_budget_of_retries_bounds_a_crowd(self):
        assert numbers("retry_storm", r"^  ungoverned +(\d+) requests$") == [3000]
        assert numbers("retry_storm", r"Share\(0\.1\) +(\d+) requests") == [1112]

    def test_429_for_ever_stays_within_the_retry_budget(self):
        assert "account disabled" in TOLD["rate_limited"].read_text()
        governed = numbers("rate_limited", r"^  governed +(\d+) requests +account open")
        # Three calls with five retries; then five calls that nobody retries.
        assert governed == [3 + 5, 5]
        endings = re.findall(
            r"the run ended by (.+)$", TOLD["rate_limited"].read_text(), re.MULTILINE
        )
        assert endings == ["retries/run", "refusals"]

    def test_an_outage_sees_one_trial_per_time_out(self):
        text = TOLD["outage"].read_text()
        (opened,) = numbers("outage", r"(\d+) requests opened the breaker")
        (listed,) = re.findall(r"trials at (.+) s$", text, re.MULTILINE)
        trials = [int(second) for second in listed.split(", ")]
        assert all(
            after - before >= 30 for before, after in zip([0, *trials], trials, strict=False)
        )
        assert numbers("outage", r"^  governed +(\d+) requests") == [opened + len(trials)]
        assert "it closed by itself: 60 of 60 calls" in text

    def test_an_open_breaker_reserves_nothing(self):
        assert "20 calls refused, 0.0000 reserved" in TOLD["open_breaker"].read_text()

    def test_charges_without_a_key_with_fresh_ones_and_with_the_operations(self):
        charges = numbers("duplicate_writes", r"(\d) charges?\b")
        assert charges == [2, 2, 1, 1, 2, 1]

    def test_the_broken_planner(self):
        text = TOLD["broken_planner"].read_text()
        well, broken = text.split("A planner that is well\n")[1].split("A broken planner\n")
        assert re.findall(r"(\d+) charges", well) == ["25", "25"]
        ungoverned, governed = re.findall(r"(\d+) charges, (\d+) of them surplus", broken)
        assert int(ungoverned[1]) > 100
        assert "disabled by the provider after 60 rejections" in broken
        assert governed == ("25", "0")
        assert "stopped by requests/run, 56 of them" in broken
        assert "alert at 28" in text, "a limit is twice the 99th percentile"
