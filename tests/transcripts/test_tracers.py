"""Runs as tracers, loggers and sessions keep them, by a small sample made by hand of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from lastcall.call import Usage
from lastcall.transcripts import RecordedCall, Transcript, read

Told = Callable[[Any], list[Any]]
Calls = Callable[[Any], tuple[RecordedCall, ...]]
Sample = Callable[[str], tuple[RecordedCall, ...]]

DATA = Path(__file__).parent / "data"
START = 1767323040.0
"""2026-01-02T03:04:00Z, when every sample begins."""


def run(name: str) -> Transcript:
    (path,) = DATA.glob(f"{name}.*")
    (only,) = read(path)
    assert isinstance(only, Transcript)
    return only


def test_codex_sessions() -> None:
    told = run("codex-rollout-jsonl")
    shell, patch = told.calls
    assert told.run == "s-1"
    assert (shell.tool, shell.args, shell.shell) == ("shell", {"command": ["ls"]}, True)
    assert (shell.turn, shell.reply, shell.result, shell.ts) == (0, 0, "a.py", START + 3)
    assert (patch.args, patch.reply) == ({"input": "*** Begin"}, 1)
    assert (patch.result, patch.failed) == ("no such file", True)
    (reply,) = told.replies
    assert reply.usage == Usage("some-model", 50, 5, 20, 2)
    assert (reply.reply, reply.ts) == (0, START + 3)


def test_codex_sessions_from_before_lines_had_types(told: Told) -> None:
    rows = [
        {"id": "old", "timestamp": "2025-06-01T00:00:00Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "a"},
        {"type": "function_call_output", "call_id": "a", "output": "done"},
    ]
    (only,) = told("\n".join(map(json.dumps, rows)))
    assert (only.format, only.run) == ("codex-rollout-jsonl", "old")
    assert [(call.tool, call.result) for call in only.calls] == [("shell", "done")]


def test_a_run_state_has_its_input_its_items_and_what_they_used() -> None:
    told = run("openai-agents-run-state")
    look, pay = told.calls
    assert (look.args, look.result, look.agent, look.reply) == ({"at": 1}, "seen", "clerk", 0)
    assert (pay.result, pay.reply) == (None, 1)
    assert [reply.usage for reply in told.replies] == [Usage(None, 10, 3, 4, 1)]


def test_langsmith_runs_are_put_in_order_and_replies_begin_with_a_model() -> None:
    told = run("langsmith-runs")
    look, pay = told.calls
    assert told.run == "r1"
    assert (look.tool, look.args, look.result) == ("look", {"at": 1, "who": None}, "seen")
    assert (look.ts, look.reply, look.failed) == (START + 3, 0, False)
    assert (pay.args, pay.failed, pay.result) == ({"sum": 5}, True, "HTTPError('422 Client Error')")
    (reply,) = told.replies
    assert (reply.usage, reply.cost) == (Usage(None, 7, 3), Decimal("0.0001"))
    assert told.lacks == {"turns", "statuses"}


def test_langsmith_runs_nested_and_in_an_answer_of_the_api(told: Told) -> None:
    tool = {"id": "b", "run_type": "tool", "name": "f", "start_time": 2, "inputs": {"x": 1}}
    model = {
        "id": "c",
        "run_type": "llm",
        "start_time": 1,
        "outputs": {"choices": [{"message": {"content": "hm"}}], "usage": {"prompt_tokens": 2}},
    }
    root = {
        "id": "a",
        "run_type": "chain",
        "parent_run_id": None,
        "child_runs": [tool, {"run_type": "chain", "child_runs": [model]}],
    }
    (nested,) = told(root)
    (listed,) = told({"runs": [root]})
    for only in (nested, listed):
        assert (only.run, [call.args for call in only.calls]) == ("a", [{"x": 1}])
        assert only.calls[0].result is None
        assert only.replies[0].usage == Usage(None, 2, 0)


def test_langfuse_traces() -> None:
    told = run("langfuse-observations")
    look, pay = told.calls
    assert told.run == "t1"
    assert (look.tool, look.args, look.result, look.failed) == (
        "look",
        {"at": 1},
        {"seen": 1},
        False,
    )
    assert (pay.args, pay.result, pay.failed, pay.reply) == ({"sum": 5}, "HTTP 422", True, 0)
    (reply,) = told.replies
    assert (reply.usage, reply.cost) == (Usage("some-model", 30, 4), Decimal("0.002"))


def test_langfuse_generations_alone_tell_the_calls_they_asked_for(told: Told) -> None:
    asked = {"id": "a", "function": {"name": "f", "arguments": '{"x": 1}'}}
    first = {"role": "assistant", "tool_calls": [asked]}
    talk = [{"role": "user", "content": "hi"}]
    rows = [
        {
            "id": "1", "trace_id": "t", "type": "GENERATION", "start_time": "2026-01-01T00:00:01Z",
            "input": json.dumps(talk), "output": json.dumps(first),
        },
        {
            "id": "2", "trace_id": "t", "type": "GENERATION", "start_time": "2026-01-01T00:00:02Z",
            "input": {"messages": [*talk, first, {"role": "tool", "tool_call_id": "a", "content": "saw"}]},
            "output": {"choices": [{"message": {"content": "bye"}}]},
            "usage_details": {"input": 1, "output": 2}, "provided_model_name": "m",
        },
    ]  # fmt: skip
    (only,) = told("\n".join(map(json.dumps, rows)))
    (call,) = only.calls
    assert (call.tool, call.args, call.result, call.turn) == ("f", {"x": 1}, "saw", 0)
    assert only.replies[0].usage == Usage("m", 1, 2)


def test_mcp_answers_find_their_requests_by_id(sample: Sample) -> None:
    look, pay, nothing = sample("mcp-jsonrpc")
    assert (look.args, look.result, look.failed, look.ts) == ({"at": 1}, "seen", False, START + 1)
    assert (pay.result, pay.failed) == ("HTTP 422", True)
    assert (nothing.result, nothing.failed) == ({"code": -32602, "message": "unknown tool"}, True)
    assert [call.reply for call in (look, pay, nothing)] == [0, 1, 2]


def test_mcp_sessions_are_runs(told: Told) -> None:
    def rpc(id_: int, method: str, **params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}

    begin, call = rpc(0, "initialize"), rpc(1, "tools/call", name="f", arguments={})
    one, two = told("\n".join(map(json.dumps, [begin, call, begin, [call, call]])))
    assert [len(run.calls) for run in (one, two)] == [1, 2]
    rows = [{"session": name, "payload": call} for name in ("a", "b", "a")]
    a, b = told("\n".join(map(json.dumps, rows)))
    assert [(run.run, len(run.calls)) for run in (a, b)] == [("a", 2), ("b", 1)]


def test_requests_in_a_har_file_are_calls(sample: Sample) -> None:
    seen, order, lost = sample("har")
    assert (seen.tool, seen.args) == ("GET shop.example/items", {"query": {"q": "1"}})
    assert (seen.status, seen.result, seen.ts) == (200, {"seen": 1}, START + 1)
    assert (order.args, order.status) == ({"body": {"item": 7}}, 422)
    assert order.result == {"error": "no such item"}
    assert (lost.status, lost.failed, lost.result) == (None, True, "no answer")


def test_requests_to_a_model_in_a_har_file_tell_its_calls(told: Told) -> None:
    def entry(second: int, asked: Any, said: Any) -> dict[str, Any]:
        return {
            "startedDateTime": f"2026-01-01T00:00:{second:02}Z",
            "request": {
                "method": "POST",
                "url": "https://m/",
                "postData": {"text": json.dumps(asked)},
            },
            "response": {
                "status": 200,
                "content": {"text": said if isinstance(said, str) else json.dumps(said)},
            },
        }

    talk = [{"role": "user", "content": "hi"}]
    call = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
    first = {"role": "assistant", "tool_calls": [call]}
    answer = {"role": "tool", "tool_call_id": "a", "content": "saw"}
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    entries = [
        entry(
            1, {"model": "m", "messages": talk}, {"choices": [{"message": first}], "usage": usage}
        ),
        entry(2, {"model": "m", "messages": [*talk, first, answer]}, "<html>"),
        entry(0, {"other": 1}, {}),
    ]
    bad, only = told({"log": {"entries": entries}})
    assert bad.problem == "the answer of request 2 to a model is no JSON object"
    assert [(call.tool, call.result) for call in only.calls] == [("f", None)]
    assert only.replies[0].usage == Usage(None, 3, 1)
    assert "turns" not in only.lacks


def test_spans_of_requests_alone_tell_the_calls_they_asked_for(told: Told) -> None:
    def span(n: int, **attributes: Any) -> dict[str, Any]:
        pairs = [
            {"key": key, "value": {"stringValue": str(value)}} for key, value in attributes.items()
        ]
        return {
            "traceId": "t", "spanId": f"s{n}", "name": "x", "attributes": pairs,
            "startTimeUnixNano": str((1_700_000_000 + n) * 10**9),
        }  # fmt: skip

    flat = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "a",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "f",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"x": 1}',
        "llm.token_count.prompt": "9",
    }
    after = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.1.message.role": "assistant",
        "llm.input_messages.2.message.role": "tool",
        "llm.input_messages.2.message.tool_call_id": "a",
        "llm.input_messages.2.message.content": "saw",
    }
    parts = [{"type": "tool_call", "id": "a", "name": "f", "arguments": {"x": 1}}]
    answer = [{"type": "tool_call_response", "id": "a", "response": "saw"}]
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
        "gen_ai.usage.input_tokens": "9",
    }
    later = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(
            [
                {"role": "assistant", "parts": parts},
                {"role": "tool", "parts": answer},
            ]
        ),
    }
    for one, two in ((flat, after), (chat, later)):
        spans = [span(2, **two), span(1, **one)]
        (only,) = told({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
        (call,) = only.calls
        assert (call.tool, call.args, call.result) == ("f", {"x": 1}, "saw")
        assert only.replies[0].usage == Usage(None, 9, 0)
        assert (only.run, only.format) == ("t", "otel-spans")
