"""Chats as OpenAI, Anthropic, LangChain and the Responses API keep them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lastcall.transcripts import RecordedCall, Transcript, Unreadable

Told = Callable[[Any], list[Any]]
Calls = Callable[[Any], tuple[RecordedCall, ...]]
Sample = Callable[[str], tuple[RecordedCall, ...]]


def shape(calls: tuple[RecordedCall, ...]) -> list[Any]:
    return [(call.tool, call.id, call.turn, call.reply, call.result) for call in calls]


USER = {"role": "user", "content": "hi"}
ASK = {
    "role": "assistant",
    "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
}


def test_chat_messages_with_parallel_malformed_and_legacy_calls(sample: Sample) -> None:
    calls = sample("openai-chat-messages")
    assert shape(calls) == [
        ("track", "a", 0, 0, "in\ntransit"),
        ("track", "b", 0, 0, "bad arguments"),
        ("track", None, 1, 2, "delivered"),
    ]
    assert [call.malformed for call in calls] == [False, True, False]
    assert [call.failed for call in calls] == [None] * 3


@pytest.mark.parametrize(
    "value",
    [
        [USER, ASK],
        {"messages": [USER, ASK]},
        [{"messages": [USER, ASK]}],
        "\n".join(map(json.dumps, [USER, ASK])),
        json.dumps([USER, ASK]) + "\n",
    ],
)
def test_chat_messages_are_found_however_they_are_wrapped(told: Told, value: Any) -> None:
    (run,) = told(value)
    assert isinstance(run, Transcript)
    assert (run.format, len(run.calls)) == ("openai-chat-messages", 1)


def test_lists_of_messages_line_by_line_are_runs_with_names_of_their_own(told: Told) -> None:
    one = {"messages": [USER, ASK], "id": "same"}
    runs = told("\n".join(map(json.dumps, [one, [USER, ASK], one, {"no": "messages"}])))
    assert [getattr(run, "run", None) for run in runs] == ["same", "some", "same#2", None]
    assert isinstance(runs[-1], Unreadable)
    assert runs[-1].line == 4


def test_messages_that_are_no_objects_are_told_of(told: Told) -> None:
    bad, run = told({"messages": [USER, "what", ASK]})
    assert bad.problem == "1 messages are no objects"
    assert len(run.calls) == 1


def test_a_custom_tool_takes_free_text(calls: Calls) -> None:
    custom = {"id": "a", "type": "custom", "custom": {"name": "f", "input": "not {json"}}
    (call,) = calls([USER, {"role": "assistant", "tool_calls": [custom]}])
    assert (call.tool, call.args, call.malformed) == ("f", {"input": "not {json"}, False)


def test_anthropic_answers_come_in_user_messages_and_start_no_turn(sample: Sample) -> None:
    calls = sample("anthropic-messages")
    assert shape(calls) == [
        ("weather", "t1", 0, 0, "no such city"),
        ("bash", "t2", 0, 0, "exit code 1"),
        ("weather", "t3", 1, 2, None),
    ]
    assert [call.failed for call in calls] == [True, None, None]


def test_langchain_dumps_keep_errors_and_invalid_calls(sample: Sample) -> None:
    calls = sample("langchain-messages")
    assert shape(calls) == [
        ("book", "x", 0, 0, "seat taken"),
        ("book", "y", 0, 0, None),
        ("book", "z", 1, 1, "booked"),
    ]
    assert [call.failed for call in calls] == [True, None, False]
    assert [call.malformed for call in calls] == [False, True, False]
    assert calls[0].agent == "clerk"


CALL = {"name": "f", "args": {"a": 1}, "id": "x"}


@pytest.mark.parametrize(
    "message",
    [
        {"type": "ai", "content": "", "tool_calls": [CALL]},
        {"type": "ai", "data": {"content": "", "tool_calls": [CALL]}},
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", "AIMessage"],
            "kwargs": {"content": "", "tool_calls": [CALL]},
        },
        {"type": "chat", "role": "assistant", "content": "", "tool_calls": [CALL]},
        {
            "type": "ai",
            "content": "",
            "additional_kwargs": {"function_call": {"name": "f", "arguments": '{"a": 1}'}},
        },
    ],
)
def test_langchain_messages_are_read_from_every_dump(told: Told, message: Any) -> None:
    (run,) = told([message])
    assert run.format == "langchain-messages"
    (call,) = run.calls
    assert (call.tool, call.args) == ("f", {"a": 1})


def test_items_of_one_response_are_one_reply(sample: Sample) -> None:
    calls = sample("openai-responses")
    assert shape(calls) == [
        ("read", "f1", 0, 0, "first"),
        ("read", "f2", 0, 0, "second"),
        ("note", "f3", 0, 1, "kept"),
        ("local_shell", "f4", 1, 3, "a.txt"),
    ]
    assert calls[2].args == {"input": "not {JSON"}
    assert [call.shell for call in calls] == [False, False, False, True]


ITEM = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}


@pytest.mark.parametrize(
    "value",
    [
        [ITEM],
        {"input": "hi", "output": [ITEM]},
        {"input": [USER], "output": [ITEM]},
        {"items": [ITEM]},
        [{"output": [ITEM]}],
        json.dumps(USER) + "\n" + json.dumps(ITEM),
    ],
)
def test_items_are_found_however_they_are_wrapped(told: Told, value: Any) -> None:
    (run,) = told(value)
    assert isinstance(run, Transcript)
    assert (run.format, len(run.calls), run.calls[0].turn) == ("openai-responses", 1, 0)


def test_hosted_tools_and_a_failed_patch(calls: Calls) -> None:
    patch = {"type": "apply_patch_call", "call_id": "p", "operation": {"type": "delete_file"}}
    hosted = {"type": "web_search_call", "id": "w", "status": "completed"}
    out = {"type": "apply_patch_call_output", "call_id": "p", "status": "failed", "output": "no"}
    (call,) = calls([USER, hosted, patch, out])
    assert (call.tool, call.failed, call.result) == ("apply_patch", True, "no")


@pytest.mark.parametrize("name", ["openai-responses", "openai-chat-messages"])
def test_a_broken_entry_of_a_bare_list_is_told_of(told: Told, name: str) -> None:
    bare = {"openai-responses": [ITEM, 7], "openai-chat-messages": [USER, ASK, 7]}[name]
    bad, run = told("\n".join(map(json.dumps, bare)))
    assert bad.line == len(bare)
    assert (run.format, len(run.calls)) == (name, 1)


def test_messages_of_other_roles_say_nothing(calls: Calls) -> None:
    system = {"type": "system", "content": "be brief"}
    assert calls([system, {"type": "human", "content": "hi"}]) == ()
    assert calls([{**USER, "type": "message"}, {"type": "reasoning"}, {"role": "system"}]) == ()
