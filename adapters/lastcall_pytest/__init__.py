"""Lastcall for pytest: transcripts as tests of their own, a fixture that replays, a clock.

Every pytest run on a machine that has Lastcall loads this module, so it imports nothing of it until it is
asked for something: no transcript, no cost.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lastcall.testing import FakeClock
    from lastcall_pytest.played import Played

__all__ = ["lastcall_clock", "lastcall_replay"]

FILES = ["*.transcript.jsonl", "*.transcript.jsonl.gz", "*.transcript.jsonl.zst"]
"""The files that are tests wherever they are."""

MIDDLE, ENDING = ".transcript.", ".expect.toml"
"""As in `lastcall.expectation`, which is not loaded for a name alone."""

RECORDED = "lastcall-recorded"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's words."""
    group = parser.getgroup("lastcall", "saved runs of agents")
    group.addoption(
        "--lastcall-policy",
        metavar="POLICY",
        help="the policy that judges transcripts: a preset or a TOML file; wins over the setting "
        "lastcall_policy and over what is beside a transcript (default: default)",
    )
    group.addoption(
        "--lastcall-update",
        action="store_true",
        help="write what transcripts come to now beside those that are not as expected",
    )
    parser.addini("lastcall_policy", "the policy that judges transcripts", default="")
    parser.addini(
        "lastcall_files", "names of transcripts that are tests", type="args", default=FILES
    )


def pytest_configure(config: pytest.Config) -> None:
    """The mark by which `-m` chooses transcripts."""
    config.addinivalue_line("markers", "lastcall: a transcript, replayed through the guard")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A transcript is a test: by its name, by an expectation beside it, or because it was named."""
    name = file_path.name
    patterns: list[str] = parent.config.getini("lastcall_files")
    if not any(fnmatch(name, pattern) for pattern in patterns):
        stem, middle, _ = name.rpartition(MIDDLE)
        if not middle:
            return None
        named = parent.session.isinitpath(file_path)
        if not named and not file_path.with_name(stem + ENDING).is_file():
            return None
    from lastcall_pytest.items import TranscriptFile  # noqa: PLC0415 - see above

    return TranscriptFile.from_parent(parent, path=file_path)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name what `--lastcall-update` wrote."""
    for report in terminalreporter.getreports("passed"):
        for name, value in getattr(report, "user_properties", ()):
            if name == RECORDED:
                terminalreporter.write_line(f"lastcall: {value}")


@pytest.fixture
def lastcall_clock() -> FakeClock:
    """A clock that stands still until `tick(seconds)`."""
    from lastcall.testing import FakeClock  # noqa: PLC0415 - see above

    return FakeClock()


@pytest.fixture
def lastcall_replay(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Played]:
    """Replays a transcript: `lastcall_replay("night.jsonl").assert_stopped(reason="terminal")`.

    Called with a path (from the test's folder, else from the root; a folder stands for all in it), or with
    calls as a plain log has them (`{"name": ..., "args": ..., "result": ...}`). *policy*: a `Policy`, a
    preset or a TOML file; else what the command line or the setting says. Raises AssertionError where
    something cannot be read.
    """
    from lastcall_pytest.played import Player  # noqa: PLC0415 - see above

    return Player(request, tmp_path_factory)
