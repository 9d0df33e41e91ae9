"""A streamed response is the same as a whole one, whichever provider streamed it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lastcall.call import Usage
from lastcall.transcripts.streamed import streamed

ASKED = {"role": "user", "content": "hi"}

CHAT = [
    {"model": "m", "choices": [{"delta": {"role": "assistant", "content": None}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}}]},
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
]  # fmt: skip
MESSAGES = [
    {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hm"}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": {}}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"x"'}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ": 1}"}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
]  # fmt: skip
RESPONSES = [
    {"type": "response.created", "response": {"output": []}},
    {"type": "response.completed", "response": {
        "model": "m", "usage": {"input_tokens": 3, "output_tokens": 2},
        "output": [{"type": "function_call", "name": "f", "arguments": '{"x": 1}', "call_id": "a"}],
    }},
]  # fmt: skip
GEMINI = [
    {"candidates": [{"content": {"parts": [{"text": "Hm"}]}}]},
    {
        "candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"x": 1}, "id": "a"}}]}}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}, "modelVersion": "m",
    },
]  # fmt: skip
TALKS = [
    ({"model": "m", "messages": [ASKED]}, CHAT),
    ({"model": "m", "messages": [ASKED]}, MESSAGES),
    ({"model": "m", "input": [ASKED]}, RESPONSES),
    ({"contents": [ASKED]}, GEMINI),
]


def sent(events: list[Any]) -> str:
    return "".join(f"event: x\ndata: {json.dumps(one)}\n\n" for one in events) + "data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("asked", "events"), TALKS, ids=["chat", "messages", "responses", "gemini"]
)
def test_streams_in_cassettes_and_har_files(told: Any, asked: Any, events: Any) -> None:
    cassette = {
        "request": {"body": json.dumps(asked)},
        "response": {"body": {"string": sent(events)}},
    }
    entry = {
        "request": {"method": "POST", "postData": {"text": json.dumps(asked)}},
        "response": {"status": 200, "content": {"text": sent(events)}},
    }
    for value in ({"interactions": [cassette]}, {"log": {"entries": [entry]}}):
        (run,) = told(value)
        assert [(call.tool, call.args, call.id) for call in run.calls] == [("f", {"x": 1}, "a")]
        assert [reply.usage for reply in run.replies] == [Usage("m", 3, 2)]


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r"])
def test_events_end_with_lines_and_nowhere_else(end: str) -> None:
    function = {"name": "f", "arguments": json.dumps({"x": "a\u2028b\x85c"}, ensure_ascii=False)}
    event = {
        "choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": function}]}}]
    }
    made = streamed(f"data: {json.dumps(event, ensure_ascii=False)}{end}data: [DONE]{end}")
    assert made["choices"][0]["message"]["tool_calls"] == [{"id": "a", "function": function}]


@pytest.mark.parametrize(
    "text", ["", "data: [DONE]", "data: {broken", "data: {}", "data: [1]", "x"]
)
def test_what_is_no_stream_of_a_model_is_nothing(text: str) -> None:
    assert streamed(text) == {}
