"""What requests used is read under the names of every provider, and nothing else is taken for it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lastcall.call import Usage
from lastcall.transcripts import Transcript, find, read
from lastcall.transcripts.usage import amount, usage

CORPUS = Path(__file__).parents[2].parent / "shared" / "transcripts"


@pytest.mark.parametrize(
    ("told", "read_as"),
    [
        (
            {
                "prompt_tokens": 9, "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            Usage("m", 9, 4, 2, 1),
        ),
        (
            {
                "input_tokens": 9, "output_tokens": 4,
                "input_tokens_details": {"cached_tokens": 2},
                "output_tokens_details": {"reasoning_tokens": 1},
            },
            Usage("m", 9, 4, 2, 1),
        ),
        (
            {
                "input_tokens": 5, "output_tokens": 4,
                "cache_read_input_tokens": 3, "cache_creation_input_tokens": 1,
            },
            Usage("m", 9, 4, 3),
        ),
        (
            {
                "input_tokens": 9, "output_tokens": 4,
                "input_token_details": {"cache_read": 2}, "output_token_details": {"reasoning": 1},
            },
            Usage("m", 9, 4, 2, 1),
        ),
        (
            {
                "promptTokenCount": 9, "candidatesTokenCount": 4,
                "cachedContentTokenCount": 2, "thoughtsTokenCount": 1,
            },
            Usage("m", 9, 4, 2, 1),
        ),
        ({"input": 9, "output": 4}, Usage("m", 9, 4)),
        ({"input_tokens": "9"}, Usage("m", 9, 0)),
        ({"input_tokens": True, "output_tokens": -1}, None),
        ({"input_tokens": float("nan")}, None),
        ({"total_tokens": 3}, None),
        ([1], None),
        (None, None),
    ],
)  # fmt: skip
def test_usage(told: Any, read_as: Any) -> None:
    assert usage(told, "m") == read_as


@pytest.mark.parametrize(
    ("told", "read_as"),
    [
        (0.5, Decimal("0.5")), ("0.0001", Decimal("0.0001")), (0, Decimal(0)), (-1, None), ("x", None),
        (True, None), (None, None), (float("inf"), None), ("1e999999", None), ([], None),
    ],
)  # fmt: skip
def test_costs(told: Any, read_as: Any) -> None:
    assert amount(told) == read_as


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the transcript corpus is not there")
@pytest.mark.parametrize(
    "folder", ["atif", "claude-code", "mini-swe-agent", "openclaw", "otel", "tau2-bench"]
)
def test_real_runs_tell_what_they_used(folder: str) -> None:
    runs = [run for path in find([CORPUS / folder / "runs"]) for run in read(path)]
    told = [run for run in runs if isinstance(run, Transcript) and run.replies]
    assert told
    for run in told:
        numbers = [reply.reply for reply in run.replies]
        assert numbers == sorted(set(numbers))
        assert "usage" not in run.lacks
        assert any(reply.cost or (reply.usage and reply.usage.output) for reply in run.replies)
