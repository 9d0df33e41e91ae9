"""The corpus of public runs: every one is read, with as many calls as its index counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lastcall.transcripts import Transcript, find, read

CORPUS = Path(__file__).parents[2].parent / "shared" / "transcripts"
INDEX = CORPUS / "index.jsonl"

pytestmark = pytest.mark.skipif(
    not INDEX.is_file(), reason="the transcript corpus (../shared/transcripts) is not there"
)

COUNTED_TWICE = {"otel/monocle-trace2": 5}
"""The index counts an MCP request inside a tool span as a call of its own."""

BRANCHES = {"toolbench-answer-tree"}
"""The index sees one turn where each branch of a search is one here."""

TALKS = {"vcr-cassette"}
"""The index sees one turn a cassette where each user message starts one here."""


def rows() -> list[dict[str, object]]:
    return [json.loads(line) for line in INDEX.read_text().splitlines()] if INDEX.is_file() else []


@pytest.mark.parametrize("format", sorted({str(row["format"]) for row in rows()}))
def test_every_run_has_the_calls_its_index_counts(format: str) -> None:
    if format == "vcr-cassette":
        pytest.importorskip("yaml")
    differing = []
    for row in rows():
        if row["format"] != format:
            continue
        told = list(read(CORPUS / str(row["file"])))
        (run,) = told
        assert isinstance(run, Transcript), run
        assert run.format == format
        calls = COUNTED_TWICE.get(str(row["run_id"]), row["n_tool_calls"])
        turns = len({call.turn for call in run.calls})
        same_turns = format in BRANCHES | TALKS or turns == row["n_turns_with_calls"]
        if len(run.calls) != calls or not same_turns:
            differing.append((row["run_id"], len(run.calls), turns))
    assert differing == []


def test_the_call_that_the_index_counts_twice_is_a_request_inside_a_call() -> None:
    spans = json.loads((CORPUS / "otel/runs/monocle-trace2.json").read_text())
    asked = [s for s in spans if s["attributes"].get("span.type") == "agentic.mcp.invocation"]
    calls = {
        span["context"]["span_id"]: span["attributes"]["entity.1.name"]
        for span in spans
        if span["attributes"].get("span.type") == "agentic.tool.invocation"
    }
    assert (len(asked), len(calls)) == (1, 5)
    assert calls[asked[0]["parent_id"]] == asked[0]["attributes"]["entity.1.name"]


def test_find_sees_every_file_of_the_index() -> None:
    assert {CORPUS / str(row["file"]) for row in rows()} <= set(find([CORPUS]))
