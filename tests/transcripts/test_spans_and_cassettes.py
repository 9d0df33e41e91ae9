"""Runs as a tracer or an HTTP recorder saw them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastcall.transcripts import RecordedCall, Transcript, Unreadable, read

Told = Callable[[Any], list[Any]]
Calls = Callable[[Any], tuple[RecordedCall, ...]]
Sample = Callable[[str], tuple[RecordedCall, ...]]

DATA = Path(__file__).parent / "data"


def test_tool_spans_are_sorted_by_their_start_and_told_once(sample: Sample) -> None:
    look, pay = sample("otel-spans")
    assert (look.tool, look.args, look.result) == ("look", {"input": "plain words"}, "seen")
    assert (look.ts, look.failed, look.id) == (1e9, False, "1")
    assert (pay.tool, pay.args, pay.status, pay.failed) == ("pay", {"sum": 5}, 402, True)
    assert (look.reply, pay.reply) == (0, 1)


def test_spans_of_jaeger_and_plain_lists_of_spans(calls: Calls) -> None:
    tags = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}
    span = {"traceID": "t", "spanID": "s", "operationName": "x", "startTime": 1_700_000_000_000_000}
    jaeger = {
        "data": [{"spans": [{**span, "tags": [{"key": k, "value": v} for k, v in tags.items()]}]}]
    }
    plain = [{"trace_id": "t", "span_id": "s", "name": "x", "attributes": tags}]
    assert [call.tool for call in calls(jaeger)] == ["f"]
    assert calls(jaeger)[0].ts == 1_700_000_000.0
    assert [call.tool for call in calls(plain)] == ["f"]
    two = [{**plain[0], "span_id": name} for name in "ab"]
    assert [call.tool for call in calls("\n".join(map(json.dumps, two)))] == ["f", "f"]
    # What a collector sends again is written twice.
    assert [call.tool for call in calls("\n".join(map(json.dumps, two * 2)))] == ["f", "f"]


def test_monocle_puts_input_and_output_into_events(calls: Calls) -> None:
    span = {
        "name": "x",
        "context": {"trace_id": "t", "span_id": "s"},
        "attributes": {"span.type": "agentic.tool.invocation", "entity.1.name": "f"},
        "events": [
            {"name": "data.input", "attributes": {"input": ["a", "b"]}},
            {"name": "data.output", "attributes": {"response": "c"}},
        ],
    }
    (call,) = calls([span])
    assert (call.args, call.result) == ({"input": ["a", "b"]}, "c")


def test_a_cassette_counts_each_call_once_though_requests_repeat_them(sample: Sample) -> None:
    pytest.importorskip("yaml")
    calls = sample("vcr-cassette")
    assert [(call.id, call.args, call.result) for call in calls] == [
        ("v1", {"at": 1}, "seen"),
        ("v2", {"at": 2}, {"saw": "it"}),
        (None, {"at": 3}, None),
    ]
    assert [call.reply for call in calls] == [0, 1, 2]


def test_a_cassette_in_json_needs_no_yaml(calls: Calls) -> None:
    ask = {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    first = {
        "request": {"body": json.dumps({"messages": [{"role": "user", "content": "hi"}]})},
        "response": {
            "body": {"string": json.dumps({"choices": [{"message": {"role": "assistant", **ask}}]})}
        },
    }
    assert [call.tool for call in calls({"interactions": [first]})] == ["f"]


def test_a_streamed_response_is_told_of(told: Told) -> None:
    first = {
        "request": {"body": json.dumps({"messages": []})},
        "response": {"body": {"string": "data: {}\n\n"}},
    }
    bad, run = told({"interactions": [first]})
    assert bad.problem == "the response of interaction 1 is no JSON object"
    assert run.calls == ()


def test_without_a_yaml_reader_a_cassette_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (only,) = read(DATA / "vcr-cassette.yaml")
    assert isinstance(only, Unreadable)
    assert 'pip install "lastcall[yaml]"' in only.problem


def test_broken_yaml_is_told_of(told: Told) -> None:
    pytest.importorskip("yaml")
    (only,) = told("interactions:\n- request: {")
    assert isinstance(only, Unreadable)
    assert only.problem.startswith("broken YAML")


def test_every_sample_is_read_as_what_it_is() -> None:
    for path in sorted(DATA.iterdir()):
        if path.suffix == ".yaml":
            pytest.importorskip("yaml")
        runs = [run for run in read(path) if isinstance(run, Transcript)]
        assert {run.format for run in runs} == {path.stem}
        assert all(run.calls for run in runs)


def test_values_out_of_their_otlp_wrapping(calls: Calls) -> None:
    attributes = [
        {"key": "span.type", "value": {"stringValue": "agentic.tool.invocation"}},
        {"key": "input.value", "value": {"arrayValue": {"values": [{"intValue": "1"}]}}},
        {"key": "output.value", "value": {"kvlistValue": {}}},
        {"key": 7},
    ]
    span = {
        "spanId": "s",
        "name": "x",
        "attributes": attributes,
        "references": [{"refType": "CHILD_OF", "spanID": "p"}],
        "events": [{"name": "log"}],
    }
    (call,) = calls({"spans": [7, span]})
    assert (call.tool, call.args, call.result) == ("x", {"input": [1]}, {})


def body(value: object) -> dict[str, object]:
    return {"body": json.dumps(value)}


def test_talks_with_every_api_in_one_cassette(calls: Calls) -> None:
    user = {"role": "user", "parts": [{"text": "hi"}]}
    talk = [
        {"request": body({"other": 1}), "response": body({})},
        {"request": body({"input": [{"role": "user"}]}), "response": body({"output": []})},
        {
            "request": body({"input": [{"role": "user"}, {"type": "item_reference"}]}),
            "response": body({"output": [{"type": "reasoning"}]}),
        },
        {"request": body({"input": [{"type": "other_output"}]}), "response": body({"output": []})},
        {"request": body({"contents": [user]}), "response": body({"candidates": []})},
        {
            "request": body({"contents": [user]}),
            "response": body({"candidates": [{"content": {"parts": [{"text": "hello"}]}}]}),
        },
        {
            "request": {"body": b"x".decode()},
            "response": body({"error": "no"}),
        },
    ]
    assert calls({"interactions": talk}) == ()
