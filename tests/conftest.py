from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from lastcall import Guard
from lastcall.testing import FakeClock

# One machine is slow and the next one slower; what takes long is no failure. `.ci/matrix` searches longer.
settings.register_profile("default", deadline=None)
settings.register_profile("long", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

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
