"""The formats of published benchmark runs, each by a small sample made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastcall.transcripts import RecordedCall, Transcript, Unreadable, read

Told = Callable[[Any], list[Any]]
Calls = Callable[[Any], tuple[RecordedCall, ...]]
Sample = Callable[[str], tuple[RecordedCall, ...]]

DATA = Path(__file__).parent / "data"


def test_tau_bench_tells_errors_by_their_first_word(sample: Sample) -> None:
    calls = sample("tau-bench-traj")
    assert [(call.id, call.turn, call.failed) for call in calls] == [
        ("k1", 0, True),
        ("k2", 1, False),
    ]


def test_tau_bench_runs_are_named_by_task_and_trial() -> None:
    (run,) = read(DATA / "tau-bench-traj.json")
    assert isinstance(run, Transcript)
    assert run.run == "task3-trial1"


def test_tau2_leaves_the_calls_of_the_user_out(sample: Sample) -> None:
    calls = sample("tau2-results")
    assert [(call.id, call.turn, call.result, call.failed) for call in calls] == [
        ("a1", 1, "line is locked", True),
        ("a2", 2, "done", False),
    ]
    assert calls[0].ts == 10.0


def test_swe_agent_commands_are_tools_and_programs_run_in_a_shell(sample: Sample) -> None:
    calls = sample("swe-agent-traj")
    assert [(call.tool, call.shell) for call in calls] == [
        ("open", False),
        ("edit", True),
        ("bash", True),
        ("?", False),
    ]
    assert calls[2].args == {"command": "pytest -q"}
    assert [call.reply for call in calls] == [0, 1, 2, 3]
    assert calls[3].malformed


def test_a_completion_log_ends_with_a_call_that_has_no_answer_yet(sample: Sample) -> None:
    first, last = sample("litellm-completion-log")
    assert (first.tool, first.shell, first.result) == ("execute_bash", True, "a.py")
    assert (last.tool, last.reply, last.result) == ("finish", 1, None)


def test_openhands_arguments_are_those_of_the_model(sample: Sample) -> None:
    run, think = sample("openhands-output-jsonl")
    assert (run.args, run.shell, run.ts) == ({"command": "ls", "why": 1}, True, 2.0)
    assert (run.result, run.failed) == ("a.py", False)
    assert (think.args, think.reply, think.failed) == ({"depth": 1}, 0, True)


def test_openhands_pairs_of_events_are_events(calls: Calls) -> None:
    action = {
        "source": "agent",
        "action": "browse",
        "args": {},
        "tool_call_metadata": {"function_name": "browse", "tool_call_id": "a"},
    }
    seen = {"source": "agent", "observation": "browse", "content": "page"}
    (call,) = calls({"history": [[action, {**seen, "tool_call_metadata": {"tool_call_id": "a"}}]]})
    assert call.result == "page"


def test_an_exit_code_is_no_failure(sample: Sample) -> None:
    (call,) = sample("mini-swe-agent-traj")
    assert (call.tool, call.shell, call.failed, call.ts) == ("bash", True, None, 7.5)


def test_moatless_thoughts_are_no_arguments_and_branches_are_turns(sample: Sample) -> None:
    calls = sample("moatless-trajectory")
    assert [(call.tool, call.turn, call.failed) for call in calls] == [
        ("FindClassArgs", 0, False),
        ("FindClassArgs", 0, True),
        ("FinishArgs", 1, None),
    ]
    assert calls[0].args == calls[1].args == {"class_name": "A"}


def test_a_new_branch_of_a_tree_is_a_new_turn(sample: Sample) -> None:
    calls = sample("toolbench-answer-tree")
    assert [(call.tool, call.turn, call.failed, call.malformed) for call in calls] == [
        ("songs", 0, True, False),
        ("nothing_like_it", 0, True, True),
        ("songs", 1, False, False),
    ]


def test_a_tree_as_deep_as_it_likes_is_walked(calls: Calls) -> None:
    node: dict[str, Any] = {"node_type": "Thought", "children": []}
    for _ in range(150):
        deep = {"node_type": "Action Input", "description": "{}", "children": [node]}
        node = {"node_type": "Action", "description": "f", "children": [deep]}
    assert len(calls({"tree": {"tree": node}})) == 150


def test_smolagents_calls_are_python_literals() -> None:
    unreadable, run = read(DATA / "smolagents-jsonl.jsonl")
    assert isinstance(unreadable, Unreadable)
    assert unreadable.problem == "step 8: its calls are no Python literal"
    assert isinstance(run, Transcript)
    cell, first, second = run.calls
    assert (cell.args, cell.shell, cell.failed) == ({"code": "print(2+2)"}, True, None)
    assert first.reply == second.reply == 1
    assert first.result == second.result == "Error:\nno web"
    assert first.failed


def test_react_text_has_a_run_a_question() -> None:
    one, two = read(DATA / "react-text.txt")
    assert isinstance(one, Transcript)
    assert isinstance(two, Transcript)
    assert (one.run, two.run) == ("react-text", "react-text#2")
    search, guess = one.calls
    assert (search.tool, search.args) == ("Search", {"input": "the book"})
    assert search.result == "A book.\nIt has two lines."
    assert (guess.malformed, guess.reply) == (True, 1)
    assert [call.tool for call in two.calls] == ["Lookup"]


def test_an_order_to_an_agent_is_a_call_of_it(sample: Sample) -> None:
    first, second = sample("multi-agent-chat")
    assert (first.tool, first.args) == ("WebSurfer", {"instruction": "Search for it."})
    assert (first.result, second.result) == ("A page.", None)


def test_code_in_a_group_chat_is_a_call_of_the_terminal(calls: Calls) -> None:
    chat = [
        {"name": "Coder", "role": "assistant", "content": "```python\nx\n```\n```sh\ny\n```"},
        {"name": "Computer_terminal", "role": "user", "content": "exitcode: 1 (failed)"},
        {"name": "Critic", "role": "assistant", "content": "Hm."},
        {"name": "Computer_terminal", "role": "user", "content": "There is no code."},
    ]
    (call,) = calls({"history": chat, "question_ID": "q"})
    assert (call.tool, call.args, call.shell) == ("Computer_terminal", {"code": "x\n\ny\n"}, True)
    assert (call.result, call.agent, call.failed) == ("exitcode: 1 (failed)", "Coder", None)


def test_sub_agents_have_turns_of_their_own(sample: Sample) -> None:
    calls = sample("claude-code-jsonl")
    assert [(call.id, call.turn, call.reply) for call in calls] == [
        ("t1", 0, 0),
        ("t2", 0, 0),
        ("t3", 1, 1),
        ("t4", 0, 2),
    ]
    assert [call.agent for call in calls] == [None, None, "sidechain s1", None]
    assert [call.failed for call in calls] == [False, True, None, None]
    assert calls[0].ts == 5.0


def test_openclaw_sessions(sample: Sample) -> None:
    (call,) = sample("openclaw-session-jsonl")
    assert (call.tool, call.ts, call.result, call.failed) == ("fetch", 2.0, "off", True)


def test_atif_steps_hold_calls_and_observations(sample: Sample) -> None:
    calls = sample("atif")
    assert [(call.id, call.reply, call.result) for call in calls] == [
        ("q1", 0, "one"),
        ("q2", 0, "two"),
    ]


def test_inspect_samples_are_runs() -> None:
    (run,) = read(DATA / "inspect-eval-log.json")
    assert isinstance(run, Transcript)
    assert run.run == "4-e2"
    good, bad = run.calls
    assert (good.result, good.failed, good.malformed) == ("page", False, False)
    assert (bad.result, bad.failed, bad.malformed) == ("no JSON", True, True)


ONE_VALUE = [
    "anthropic-messages",
    "atif",
    "inspect-eval-log",
    "langchain-messages",
    "litellm-completion-log",
    "mini-swe-agent-traj",
    "moatless-trajectory",
    "openai-chat-messages",
    "openai-responses",
    "openhands-output-jsonl",
    "otel-spans",
    "smolagents-jsonl",
    "swe-agent-traj",
    "tau-bench-traj",
    "tau2-results",
    "toolbench-answer-tree",
]


@pytest.mark.parametrize("name", ONE_VALUE)
def test_a_file_of_several_runs_tells_of_each_that_is_none(told: Told, name: str) -> None:
    (path,) = DATA.glob(f"{name}.*")
    value = json.loads(path.read_text())
    one = value[0] if name == "tau-bench-traj" else value
    found = told([one, {"other": 1}, one])
    assert any(isinstance(part, Unreadable) for part in found)
    runs = [part for part in found if isinstance(part, Transcript)]
    assert {run.format for run in runs} == {name}
    assert len({run.run for run in runs}) == len(runs)


@pytest.mark.parametrize("name", ["claude-code-jsonl", "openclaw-session-jsonl"])
def test_a_line_that_is_no_event_is_told_of(told: Told, name: str) -> None:
    text = (DATA / f"{name}.jsonl").read_text()
    plain = '{"type": "message", "message": {"role": "system"}}'
    bad, run = told(f"{text}[7]\n{plain}\n")
    assert (bad.line, bad.problem) == (text.count("\n") + 1, "no event")
    assert run.calls


def test_group_chats_line_by_line(told: Told) -> None:
    chat = json.loads((DATA / "multi-agent-chat.json").read_text())
    run, bad = told("\n".join(map(json.dumps, [{"history": chat}, {"other": 1}])))
    assert (len(run.calls), bad.line) == (2, 2)


def test_openhands_messages_of_the_agent_are_replies(calls: Calls) -> None:
    said = {"source": "agent", "action": "message", "args": {}}
    metadata = {
        "function_name": "f",
        "tool_call_id": "a",
        "model_response": {"choices": [{"message": {"tool_calls": [{"id": "b"}]}}]},
    }
    asked = {"source": "agent", "action": "f", "args": {"x": 1}, "tool_call_metadata": metadata}
    seen = {"source": "environment", "observation": "null", "content": ""}
    recalled = {"source": "user", "action": "recall"}
    (call,) = calls({"history": [said, seen, recalled, asked]})
    assert (call.reply, call.args) == (1, {"x": 1})


def test_smolagents_steps_that_are_no_calls(told: Told) -> None:
    steps = [{"role": "system"}, {"role": "tool-call", "content": "none"}]
    bad, run = told({"intermediate_steps": steps})
    assert bad.problem == "step 2: its calls are no Python literal"
    assert run.calls == ()
