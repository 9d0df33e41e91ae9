from __future__ import annotations

import pytest

from lastcall_langchain.runs import RUNS


@pytest.fixture(autouse=True)
def an_empty_book_of_runs() -> None:
    """What one test left behind, an abandoned run perhaps, is no finding about the next one."""
    RUNS._runs.clear()
    RUNS._roots.clear()
    RUNS._paused.clear()
