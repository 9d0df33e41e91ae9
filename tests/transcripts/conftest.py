"""Fixtures that turn a value, or a file of `data/`, into what the readers make of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastcall.transcripts import RecordedCall, Transcript, Unreadable, read

DATA = Path(__file__).parent / "data"


@pytest.fixture
def told(tmp_path: Path) -> Callable[[Any], list[Transcript | Unreadable]]:
    """What is read from a file that holds a text, bytes, or a value as JSON."""

    def tell(value: Any) -> list[Transcript | Unreadable]:
        path = tmp_path / "some.log"
        content = value if isinstance(value, str | bytes) else json.dumps(value)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(read(path))

    return tell


@pytest.fixture
def calls(
    told: Callable[[Any], list[Transcript | Unreadable]],
) -> Callable[[Any], tuple[RecordedCall, ...]]:
    """The calls of the one run in a value."""

    def only(value: Any) -> tuple[RecordedCall, ...]:
        (run,) = told(value)
        assert isinstance(run, Transcript), run
        return run.calls

    return only


@pytest.fixture
def sample() -> Callable[[str], tuple[RecordedCall, ...]]:
    """The calls of the one run in the sample of a format."""

    def only(name: str) -> tuple[RecordedCall, ...]:
        (path,) = DATA.glob(f"{name}.*")
        runs = [run for run in read(path) if isinstance(run, Transcript)]
        assert len(runs) == 1
        return runs[0].calls

    return only
