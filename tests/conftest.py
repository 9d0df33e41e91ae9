from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from lastcall import Guard
from lastcall.testing import FakeClock

# What it asserts is told as in a test.
pytest.register_assert_rewrite("tests.documented")

# One machine is slow and the next one slower; what takes long is no failure. `.ci/matrix` searches longer.
settings.register_profile("default", deadline=None)
settings.register_profile("long", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Fourteen thousand tests and the frameworks are not garbage, and stay to the end. The collector need not go
# through them while they are made (a quarter of that time), nor at each of its rounds afterwards.
gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.collect()
    gc.freeze()


ROOT = Path(__file__).parents[1]


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def make_guard(clock):
    """Makes guards whose clock only the test moves."""

    def make(policy=None, **settings):
        return Guard(policy, clock=clock, **settings)

    return make


@pytest.fixture
def root():
    """The repository's root."""
    return ROOT


@pytest.fixture
def corpus():
    """The folder of real transcripts, where there is one."""
    folder = ROOT.parent / "shared" / "transcripts"
    if not (folder / "index.jsonl").exists():
        pytest.skip("the corpus of real runs is not on this machine")
    return folder
