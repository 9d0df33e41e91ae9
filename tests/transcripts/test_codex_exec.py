"""What `codex exec --json` printed (0.171.0, with a scripted model), and events by the types that the Agents SDK has of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from lastcall.call import Usage
from lastcall.replay import Replayer
from lastcall.transcripts import RecordedCall, Transcript, read

Told = Callable[[Any], list[Any]]
Calls = Callable[[Any], tuple[RecordedCall, ...]]

PRINTED = Path(__file__).parent / "data" / "codex-exec-jsonl.jsonl"
HIDDEN = "[not told]"


def begun(thread: str = "t1") -> dict[str, Any]:
    return {"type": "thread.started", "thread_id": thread}


TURN = {"type": "turn.started"}


def item(id_: str, kind: str, *, ends: bool = True, **fields: Any) -> dict[str, Any]:
    event = "item.completed" if ends else "item.started"
    return {"type": event, "item": {"id": id_, "type": kind, **fields}}


def shell(id_: str, *, ends: bool = True, **fields: Any) -> dict[str, Any]:
    status = "completed" if ends else "in_progress"
    fields = {
        "command": "ls",
        "aggregated_output": "",
        "exit_code": None,
        "status": status,
        **fields,
    }
    return item(id_, "command_execution", ends=ends, **fields)


def used(given: int, made: int) -> dict[str, Any]:
    usage = {"input_tokens": given, "cached_input_tokens": 0, "output_tokens": made}
    return {"type": "turn.completed", "usage": usage}


def lines(rows: list[Any]) -> str:
    return "\n".join(map(json.dumps, rows))


def test_a_session_that_the_program_printed_and_resumed() -> None:
    (run,) = read(PRINTED)
    assert isinstance(run, Transcript)
    assert (run.format, run.run) == ("codex-exec-jsonl", "01a22d47-2d14-7682-8c2b-7591c2a222c6")
    false, hi, lost, paid, patch, shown = run.calls
    assert (false.tool, false.args) == ("command_execution", {"command": "/bin/bash -lc false"})
    assert (false.result, false.failed, false.shell) == ("Exit code: 1\n", None, True)
    assert (hi.result, hi.failed) == ("hi\n", False)
    assert (lost.tool, lost.args) == ("shop/pay", {"sum": 5})
    assert (lost.result, lost.failed) == ("Error executing tool pay", True)
    assert (paid.args, paid.result, paid.failed) == ({"sum": 3}, "paid", False)
    assert (patch.tool, list(patch.args)) == ("file_change", [HIDDEN])
    assert (shown.result, shown.turn) == ("hello\n", 1)
    assert [reply.usage for reply in run.replies] == [
        Usage(None, 2800, 49, 70, 14),
        Usage(None, 300, 14, 20, 4),
    ]
    assert run.lacks == {"replies", "statuses", "time"}


def test_a_loop_is_stopped_and_patches_of_one_file_are_none(told: Told) -> None:
    patch = {"changes": [{"path": "a.py", "kind": "update"}], "status": "completed"}
    rows = [begun(), TURN, *(item(f"item_{n}", "file_change", **patch) for n in range(9))]
    (patched,) = told(lines(rows))
    loop = [shell(f"item_{n}", aggregated_output="a.py", exit_code=0) for n in range(9)]
    (looped,) = told(lines([begun(), TURN, *loop]))
    clean, stopped = Replayer().replay(patched), Replayer().replay(looped)
    assert (patched.lacks & {"arguments"}, clean.stops) == ({"arguments"}, ())
    assert stopped.stops


def test_events_by_the_types_of_the_agents_sdk(calls: Calls) -> None:
    events = pytest.importorskip("agents.extensions.experimental.codex.events")
    items = pytest.importorskip("agents.extensions.experimental.codex.items")
    call = {"server": "shop", "tool": "pay", "arguments": {"sum": 5}}
    made = [
        events.ThreadStartedEvent("t1"),
        events.TurnStartedEvent(),
        events.ItemCompletedEvent(items.ReasoningItem("item_0", "hm")),
        events.ItemStartedEvent(items.McpToolCallItem("item_1", status="in_progress", **call)),
        events.ItemCompletedEvent(
            items.McpToolCallItem(
                "item_1", status="failed", error=items.McpToolCallError("HTTP 422"), **call
            )
        ),
        events.ItemStartedEvent(items.TodoListItem("item_2", [items.TodoItem("pay", False)])),
        events.ItemUpdatedEvent(items.TodoListItem("item_2", [items.TodoItem("pay", True)])),
        events.ItemCompletedEvent(items.WebSearchItem("item_3", "prices")),
        events.ItemCompletedEvent(items.CommandExecutionItem("item_4", "ls", "failed", "no", 2)),
        events.ItemStartedEvent(items.CommandExecutionItem("item_5", "sleep 9", "in_progress")),
        events.ItemCompletedEvent(items.AgentMessageItem("item_6", "bye")),
        events.TurnFailedEvent(events.ThreadError("no more")),
        events.ThreadErrorEvent("no more"),
    ]
    pay, ls, cut = calls(lines([asdict(event) for event in made]))
    assert (pay.tool, pay.args, pay.result, pay.failed) == (
        "shop/pay",
        {"sum": 5},
        "HTTP 422",
        True,
    )
    assert (ls.result, ls.failed) == ("Exit code: 2\nno", None)
    assert (cut.args, cut.result) == ({"command": "sleep 9"}, None)


def test_threads_are_runs_and_what_they_used_is_counted_once(told: Told) -> None:
    first = [begun("a"), TURN, shell("item_0"), used(10, 1), TURN, shell("item_1"), used(30, 4)]
    again = [begun("a"), TURN, shell("item_0", command="pwd"), used(5, 5)]
    rows = [*first, *again, begun("b"), TURN, used(7, 1)]
    a, b = told(lines(rows))
    assert (a.run, b.run, len(b.calls)) == ("a", "b", 0)
    assert [(call.args["command"], call.turn) for call in a.calls] == [
        ("ls", 0),
        ("ls", 1),
        ("pwd", 2),
    ]
    # What is less than before is no sum of the whole thread.
    assert [one.usage for one in a.replies] == [
        Usage(None, 10, 1),
        Usage(None, 20, 3),
        Usage(None, 5, 5),
    ]
    assert [one.usage for one in b.replies] == [Usage(None, 7, 1)]


def test_calls_side_by_side_each_have_their_own_end(calls: Calls) -> None:
    rows = [
        begun(),
        shell("item_0", ends=False),
        shell("item_1", ends=False, command="pwd"),
        shell("item_1", command="pwd", aggregated_output="/"),
        shell("item_0", aggregated_output="a.py"),
        shell("item_2", command="rm a.py", status="declined"),
    ]
    ls, pwd, rm = calls(lines(rows))
    assert (ls.result, pwd.result, rm.result) == ("a.py", "/", "declined")


def test_what_agents_ask_of_each_other_is_a_call(calls: Calls) -> None:
    asked = {
        "tool": "spawn_agent",
        "sender_thread_id": "t1",
        "prompt": "look",
        "receiver_thread_ids": [],
    }
    states = {"t2": {"status": "pending_init", "message": None}}
    rows = [
        begun(),
        item(
            "item_0",
            "collab_tool_call",
            ends=False,
            status="in_progress",
            agents_states={},
            **asked,
        ),
        item("item_0", "collab_tool_call", status="completed", agents_states=states, **asked),
    ]
    (spawn,) = calls(lines(rows))
    assert (spawn.tool, spawn.result) == ("spawn_agent", states)
    assert spawn.args == {"prompt": "look", "receiver_thread_ids": []}


def test_first_versions_told_no_arguments_of_servers(told: Told) -> None:
    call = {"server": "shop", "tool": "pay", "status": "completed"}
    (run,) = told(lines([begun(), item("item_0", "mcp_tool_call", **call), TURN]))
    assert (list(run.calls[0].args), run.calls[0].failed) == ([HIDDEN], False)
    assert "arguments" in run.lacks
