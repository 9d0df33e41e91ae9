"""No reader raises, whatever the JSON: neither on made-up values nor on samples that were bent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.transcripts import Document, Transcript, Unreadable, read, readers
from lastcall.transcripts.opening import opened

DATA = Path(__file__).parent / "data"
SAMPLES = sorted(DATA.iterdir())

WORDS = st.sampled_from([
    "role", "user", "assistant", "tool", "type", "message", "messages", "content", "tool_calls",
    "function", "name", "args", "arguments", "id", "history", "traj", "trajectory", "nodes",
    "action", "observation", "tree", "children", "node_type", "simulations", "samples", "eval",
    "intermediate_steps", "spans", "attributes", "spanId", "steps", "input", "output", "items",
    "jsonrpc", "2.0", "method", "tools/call", "params", "result", "run_type", "trace_id", "child_runs",
    "llm", "observations", "TOOL", "GENERATION", "startTime", "traceId", "log", "entries", "request",
    "response", "payload", "response_item", "$schemaVersion", "original_input", "session_items", "raw_item",
    "function_call", "parentUuid", "ts", "status", "turn", "reply", "run", "interactions",
    "session_id", "parent_tool_use_id", "isCompactSummary", "tool_use", "tool_result", "context.span_id",
    "context", "span_id", "span_kind", "attributes.input.value", "openinference.span.kind", "input.value",
    "output.value", "kvlistValue", "arrayValue", "values", "key", "value", "input_str", "inputs", "kwargs",
    "list", "object", "data", "postData", "text", "events", "exception", "output_messages", "call_id",
])  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=25,
)


def judge(document: Document) -> None:
    """Every reader that knows the document reads it to its end."""
    for reader in readers():
        if reader.sniff(document):
            told = list(reader.read(document))
            assert all(isinstance(one, Transcript | Unreadable) for one in told)
            names = [one.run for one in told if isinstance(one, Transcript)]
            assert len(names) == len(set(names))


def force(document: Document) -> None:
    """Every reader reads it, even those that do not know it."""
    for reader in readers():
        list(reader.read(document))


@given(VALUES)
def test_any_value(value: Any) -> None:
    document = Document(Path("x.json"), json.dumps(value), value=value)
    judge(document)
    force(document)


@given(st.lists(VALUES, max_size=5))
def test_any_lines(values: list[Any]) -> None:
    rows = tuple(enumerate(values, 1))
    document = Document(Path("x.jsonl"), "\n".join(map(json.dumps, values)), rows=rows)
    judge(document)
    force(document)


@given(st.text() | st.text(st.sampled_from('Thought 1:Action[]\n{}"interactions jsonrpc')))
def test_any_text(text: str) -> None:
    document = Document(Path("x.txt"), text)
    judge(document)
    force(document)


@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    assert all(isinstance(one, Transcript | Unreadable) for one in read(path))


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every part of a value."""
    found = [here]
    inside = value.items() if isinstance(value, dict) else ()
    for key, part in enumerate(value) if isinstance(value, list) else inside:
        found += places(part, (*here, key))
    return found


def bent(value: Any, place: tuple[Any, ...], put: Any) -> Any:
    """The value with *put* at a place."""
    if not place:
        return put
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = bent(value[place[0]], place[1:], put)
    return copy


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@given(data=st.data())
def test_samples_with_one_part_replaced(path: Path, data: st.DataObject) -> None:
    document = opened(path)
    assert isinstance(document, Document)
    whole = [value for _, value in document.rows] or document.value
    if whole is None:
        yaml = pytest.importorskip("yaml")
        whole = document.text if path.suffix == ".txt" else yaml.safe_load(document.text)
    if isinstance(whole, str):
        place = data.draw(st.integers(0, len(whole)))
        cut = whole[:place] + data.draw(st.text(max_size=9)) + whole[place + 3 :]
        judge(Document(path, cut))
        return
    value = bent(whole, data.draw(st.sampled_from(places(whole))), data.draw(VALUES))
    if document.rows and isinstance(value, list):
        judge(Document(path, "", rows=tuple(enumerate(value, 1))))
    else:
        judge(Document(path, "", value=value))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples_cut_short_anywhere(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    short = tmp_path / path.name
    for end in range(0, len(content), 37):
        short.write_bytes(content[:end])
        told = list(read(short))
        assert told
        assert not any("stumbled" in getattr(one, "problem", "") for one in told)
