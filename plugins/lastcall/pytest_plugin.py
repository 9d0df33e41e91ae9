"""Fixtures for pytest: a guard with a clock that the test moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lastcall.testing import FakeClock


@pytest.fixture
def lastcall_clock() -> FakeClock:
    """A clock that stands still until `tick(seconds)`."""
    # Loaded for every pytest run on the machine, so it costs nothing until it is asked for.
    from lastcall.testing import FakeClock  # noqa: PLC0415

    return FakeClock()
