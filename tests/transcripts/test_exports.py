"""What exports of today have that the samples do not show."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastcall import Policy
from lastcall.replay import Replayer
from lastcall.transcripts import Document, RecordedCall, Transcript, Unreadable, values
from lastcall.transcripts.opening import opened

Told = Callable[[Any], list[Any]]
Calls = Callable[[Any], tuple[RecordedCall, ...]]


def lines(rows: list[Any]) -> str:
    return "\n".join(map(json.dumps, rows))


def seen(calls: tuple[RecordedCall, ...]) -> list[tuple[str, Any, Any]]:
    return [(call.tool, call.args, call.result) for call in calls]


LOOKED = [("look", {"q": 1}, "no")] * 2

TOOL_MESSAGE = {
    "type": "tool",
    "content": "no",
    "tool_call_id": "c0",
    "status": "success",
    "id": None,
}


# LangSmith


def smith(kind: str, place: int, inputs: Any, outputs: Any) -> dict[str, Any]:
    return {
        "id": f"r{place}",
        "trace_id": "t",
        "run_type": kind,
        "name": "look" if kind == "tool" else "model",
        "start_time": f"2026-01-02T03:04:{place:02d}",
        "end_time": f"2026-01-02T03:04:{place:02d}",
        "inputs": inputs,
        "outputs": outputs,
        "extra": {},
    }


def test_langsmith_tables_keep_what_went_in_and_out_as_text(calls: Calls) -> None:
    runs = [
        smith(
            "tool", place, {"input": "{'q': 1}"}, {"output": {**TOOL_MESSAGE, "tool_call_id": id_}}
        )
        for place, id_ in enumerate(("c0", "c1"))
    ]
    texts = {"inputs", "outputs", "extra"}
    table = [{k: json.dumps(v) if k in texts else v for k, v in run.items()} for run in runs]
    assert seen(calls(lines(runs))) == seen(calls(lines(table))) == LOOKED


OPENAI = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}
LANGCHAIN = {"name": "look", "args": {"q": 1}, "id": "c", "type": "tool_call"}
ITEM = {"type": "function_call", "name": "look", "arguments": '{"q": 1}', "call_id": "c"}
BLOCK = {"type": "tool_use", "name": "look", "input": {"q": 1}, "id": "c"}
GENERATED = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "schema", "messages", "AIMessage"],
    "kwargs": {"type": "ai", "content": "", "tool_calls": [LANGCHAIN]},
}
ANSWERED: list[tuple[Any, Any, Any]] = [
    (
        {"choices": [{"message": {"role": "assistant", "tool_calls": [OPENAI]}}]},
        {"role": "assistant", "tool_calls": [OPENAI]},
        {"role": "tool", "tool_call_id": "c", "content": "no"},
    ),
    (
        {"role": "assistant", "content": [BLOCK]},
        {"role": "assistant", "content": [BLOCK]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "no"}]},
    ),
    ({"output": [ITEM]}, ITEM, {"type": "function_call_output", "call_id": "c", "output": "no"}),
    ({"generations": [[{"message": GENERATED}]]}, GENERATED, {**TOOL_MESSAGE, "tool_call_id": "c"}),
]


@pytest.mark.parametrize(("outputs", "asked", "answer"), ANSWERED)
def test_a_langsmith_trace_of_models_alone_tells_what_they_asked_for(
    told: Told, outputs: Any, asked: Any, answer: Any
) -> None:
    user = {"role": "user", "content": "go on"}
    key = "input" if "call_id" in asked else "messages"
    runs = [
        smith("llm", 0, {key: [user]}, outputs),
        smith("llm", 1, {key: [user, asked, answer, user]}, outputs),
        smith("llm", 2, {key: [user, asked, answer, asked, answer]}, {}),
    ]
    (run,) = told(lines(runs))
    assert seen(run.calls) == LOOKED
    # A trace is one turn, whatever is said again in the user's name.
    assert [(call.turn, call.reply) for call in run.calls] == [(0, 0), (0, 1)]


# Langfuse


def fuse(kind: str, given: Any, made: Any, place: int = 0) -> dict[str, Any]:
    return {
        "id": f"o{place}",
        "traceId": "t",
        "type": kind,
        "name": "look",
        "startTime": f"2026-01-02T03:04:{place:02d}Z",
        "level": "DEFAULT",
        "input": given,
        "output": made,
    }


@pytest.mark.parametrize(
    "given", [{"q": 1}, '{"q": 1}', "{'q': 1}", {"args": [], "kwargs": {"q": 1}}]
)
@pytest.mark.parametrize("made", ["no", TOOL_MESSAGE, json.dumps(TOOL_MESSAGE)])
def test_langfuse_tools_by_whoever_saw_them(calls: Calls, given: Any, made: Any) -> None:
    (call,) = calls([fuse("TOOL", given, made)])
    assert (call.args, call.result, call.failed) == ({"q": 1}, "no", False)


@pytest.mark.parametrize(
    ("printed", "result", "failed"),
    [
        ("content='no' name='look' tool_call_id='c0'", "no", False),
        ("content='it\\'s\\nno' id='7' tool_call_id='c0' status='error'", "it's\nno", True),
        ("""content="it's" name='look' tool_call_id='c0'""", "it's", False),
        ("content=[{'type': 'text', 'text': 'n]o', 'id': 'lc_1'}] tool_call_id='c0'", "n]o", False),
        (f"content=[{'(' * 999}{')' * 999}] tool_call_id='c0'", f"[{'(' * 999}{')' * 999}]", False),
        ("content=no name='look'", "content=no name='look'", False),
    ],
)
def test_messages_of_tools_as_python_prints_them(
    calls: Calls, printed: str, result: str, failed: bool
) -> None:
    (call,) = calls([fuse("TOOL", {"q": 1}, printed)])
    assert (call.result, call.failed) == (result, failed)
    (call,) = calls(lines([smith("tool", 0, {}, {"output": printed})]))
    assert (call.result, call.failed) == (result, failed)


def test_arguments_without_names_stay(calls: Calls) -> None:
    (call,) = calls([fuse("TOOL", {"args": [1], "kwargs": {}}, "no")])
    assert call.args == {"args": [1], "kwargs": {}}


def test_generations_of_langchain_in_langfuse(calls: Calls) -> None:
    said = {"role": "assistant", "content": "", "tool_calls": [LANGCHAIN]}
    (call,) = calls([fuse("GENERATION", [{"role": "user", "content": "hi"}], said)])
    assert (call.tool, call.args, call.malformed) == ("look", {"q": 1}, False)


# OpenTelemetry


def span(place: int, attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "traceId": "t",
        "spanId": f"s{place}",
        "name": "execute_tool look",
        "startTimeUnixNano": str(1767323040_000_000_000 + place),
        "attributes": [{"key": key, "value": value} for key, value in attributes.items()],
        **more,
    }


def said(text: str) -> dict[str, str]:
    return {"stringValue": text}


TOOL = {"gen_ai.operation.name": said("execute_tool"), "gen_ai.tool.name": said("look")}


def request(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def test_a_collectors_file_has_a_request_a_line_and_other_signals(told: Told) -> None:
    arguments = {"gen_ai.tool.call.arguments": said('{"q": 1}')}
    result = {"gen_ai.tool.call.result": said("no")}
    rows = [request(span(n, TOOL | arguments | result)) for n in range(2)]
    (run,) = told(lines([*rows, {"resourceLogs": []}, {"resourceMetrics": []}]))
    assert seen(run.calls) == LOOKED


def test_a_span_that_names_a_tool_and_no_operation_is_a_call(calls: Calls) -> None:
    named = {"gen_ai.tool.name": said("bash"), "gen_ai.tool.call.arguments": said("make deploy")}
    asked = {**named, "gen_ai.operation.name": said("chat")}
    (call,) = calls(request(span(0, asked), span(1, named)))
    assert (call.tool, call.args, call.shell) == ("bash", {"input": "make deploy"}, True)


def test_objects_in_attributes(calls: Calls) -> None:
    inner = {"kvlistValue": {"values": [{"key": "q", "value": {"intValue": "1"}}]}}
    (call,) = calls(request(span(0, {**TOOL, "gen_ai.tool.call.arguments": inner})))
    assert call.args == {"q": 1}
    for _ in range(60):
        inner = {"kvlistValue": {"values": [{"key": "q", "value": inner}]}}
    assert calls(request(span(0, {**TOOL, "gen_ai.tool.call.arguments": inner})))


def test_a_failed_span_says_why(calls: Calls) -> None:
    event = {
        "name": "exception",
        "attributes": [{"key": "exception.message", "value": said("HTTP 422: bad date")}],
    }
    broken = {"code": 2, "message": "HTTPError"}
    told = span(0, {**TOOL, "error.type": said("500")}, status=broken, events=[event])
    (call,) = calls(request(told))
    assert (call.result, call.failed, call.status) == ("HTTP 422: bad date", True, 500)
    (call,) = calls(request(span(0, TOOL, status=broken)))
    assert (call.result, call.failed) == ("HTTPError", True)


def test_a_failed_observation_of_langfuse_says_so_in_its_level(calls: Calls) -> None:
    level = {
        "langfuse.observation.type": said("tool"),
        "langfuse.observation.level": said("ERROR"),
        "langfuse.observation.status_message": said("bad date"),
    }
    (call,) = calls(request(span(0, level)))
    assert (call.result, call.failed) == ("bad date", True)


def test_a_call_that_its_server_drew_too_is_one(calls: Calls) -> None:
    post = {"http.request.method": said("POST")}
    spans = [
        span(0, TOOL),
        span(1, post, parentSpanId="s0"),
        span(2, post, parentSpanId="s1"),
        span(3, TOOL, parentSpanId="s2"),
    ]
    assert len(calls(request(*spans))) == 1
    # An agent between them is another's call, and a span may name itself.
    agent = {"gen_ai.operation.name": said("invoke_agent")}
    inner = [span(0, TOOL), span(1, agent, parentSpanId="s0"), span(3, TOOL, parentSpanId="s1")]
    assert len(calls(request(*inner))) == 2
    assert (
        len(calls(request(span(1, post, parentSpanId="s1"), span(2, TOOL, parentSpanId="s1")))) == 1
    )


def test_traces_of_tempo(calls: Calls) -> None:
    assert len(calls({"trace": request(span(0, TOOL))})) == 1


CALLBACK = {
    "input_str": "{'q': 1}",
    "inputs": {"q": 1},
    "tags": ["seq:step:1"],
    "metadata": {"langgraph_step": 2, "checkpoint_ns": "tools:766ae43d"},
    "kwargs": {"tool_call_id": "c0"},
}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        # OpenInference, OpenLLMetry, Langfuse's SDK, each of a tool of LangChain; the AI SDK of Vercel; older
        # Pydantic AI.
        (
            {"openinference.span.kind": "TOOL", "input.value": '{"q": 1}'},
            {"output.value": json.dumps({"type": "tool", "data": TOOL_MESSAGE})},
        ),
        (
            {"traceloop.span.kind": "tool", "traceloop.entity.input": json.dumps(CALLBACK)},
            {
                "traceloop.entity.output": json.dumps(
                    {
                        "output": {"lc": 1, "id": ["ToolMessage"], "kwargs": TOOL_MESSAGE}
                        | {"type": "constructor"},
                        "kwargs": {"tool_call_id": "c0"},
                    }
                )
            },
        ),
        (
            {"langfuse.observation.type": "tool", "langfuse.observation.input": '{"q": 1}'},
            {"langfuse.observation.output": json.dumps(TOOL_MESSAGE)},
        ),
        (
            {
                "ai.operationId": "ai.toolCall",
                "ai.toolCall.name": "look",
                "ai.toolCall.args": '{"q":1}',
            },
            {"ai.toolCall.result": "no"},
        ),
        (
            {
                "gen_ai.tool.name": "look",
                "gen_ai.tool.call.id": "c0",
                "tool_arguments": '{"q":1}',
            },
            {"tool_response": "no"},
        ),
    ],
)
def test_what_a_tracer_wraps_round_arguments_and_results_is_taken_off(
    calls: Calls, given: dict[str, str], made: dict[str, str]
) -> None:
    told = {key: said(value) for key, value in (given | made).items()}
    assert seen(calls(request(span(0, told)))) == [("look", {"q": 1}, "no")]


def test_phoenix_tables_answers_and_objects_in_objects(calls: Calls) -> None:
    def row(place: int) -> dict[str, Any]:
        return {
            "name": "look",
            "span_kind": "TOOL",
            "status_code": "OK",
            "start_time": 1767323040000 + place,
        }

    flat = {"input.value": '{"q": 1}', "output.value": "no", "tool.name": "look"}
    nested = {
        "openinference": {"span": {"kind": "TOOL"}},
        "tool": {"name": "look"},
        "input": {"value": '{"q": 1}'},
        "output": {"value": "no"},
    }
    columns = {f"attributes.{key}": value for key, value in flat.items()}
    table = [
        {
            **row(n),
            "context.span_id": str(n),
            "context.trace_id": "t",
            **columns,
            "attributes.x": None,
        }
        for n in range(2)
    ]
    answer = [
        {**row(n), "context": {"trace_id": "t", "span_id": str(n)}, "attributes": given}
        for n, given in enumerate((flat, nested))
    ]
    assert seen(calls(lines(table))) == seen(calls({"data": answer})) == LOOKED
    assert [call.failed for call in calls({"data": answer})] == [False, False]


def test_a_table_by_its_columns_is_not_a_trace_without_calls(told: Told) -> None:
    (problem,) = told(
        {"name": {"0": "look"}, "context.span_id": {"0": "s"}, "span_kind": {"0": "TOOL"}}
    )
    assert problem.foreign


def test_messages_in_columns(calls: Calls) -> None:
    call = {"tool_call.function.name": "look", "tool_call.function.arguments": '{"q": 1}'}
    message = {"message.role": "assistant", "message.tool_calls": [call]}
    row = {
        "name": "model",
        "span_kind": "LLM",
        "context.span_id": "s",
        "context.trace_id": "t",
        "attributes.llm.output_messages": [message],
    }
    assert seen(calls(lines([row, row]))) == [("look", {"q": 1}, None)]


def test_objects_printed_over_many_lines_one_behind_the_other(told: Told) -> None:
    spans = [
        {
            "name": "look",
            "context": {"trace_id": "0xa", "span_id": f"0x{n}"},
            "attributes": {"openinference.span.kind": "TOOL", "input.value": '{"q": 1}'}
            | {"output.value": "no"},
        }
        for n in range(2)
    ]
    text = "\n".join(json.dumps(one, indent=4) for one in spans)
    (run,) = told(text)
    assert seen(run.calls) == LOOKED
    problem, run = told(text[:-20])
    assert isinstance(problem, Unreadable)
    assert isinstance(run, Transcript)
    assert problem.line is not None
    assert problem.line >= text[:-20].count("\n")
    assert len(run.calls) == 1


def test_one_value_and_something_behind_it(told: Told) -> None:
    messages = [{"role": "assistant", "tool_calls": [OPENAI]}]
    text = json.dumps({"messages": messages}, indent=1)
    problem, run = told(f"{text}\nDone.\n")
    assert (problem.line, len(run.calls)) == (text.count("\n") + 2, 1)
    (problem,) = told("[10:01] it began\n[10:02] it ended\n")
    assert "not a transcript" in problem.problem or "broken JSON" in problem.problem


def test_contents_that_were_left_out_are_not_taken_to_be_equal(told: Told) -> None:
    hidden: list[Any] = [
        lines([request(span(n, TOOL)) for n in range(6)]),
        lines([smith("tool", n, {}, {}) for n in range(6)]),
        [fuse("TOOL", None, None, n) for n in range(6)],
        lines([request(span(n, TOOL | {"input.value": said("__REDACTED__")})) for n in range(6)]),
    ]
    for value in hidden:
        (run,) = told(value)
        assert "arguments" in run.lacks
        done = Replayer().replay(run)
        assert (done.calls, done.stops) == (6, ())
        assert {"same", "near", "cycle", "stale", "failing"} <= set(done.not_judged)
        assert "repeat" not in done.not_judged
        assert "repeat" in Replayer(Policy.strict()).replay(run).not_judged


def test_a_parameter_named_as_a_tracers_is_the_tools(calls: Calls) -> None:
    given = {"input_str": "x", "n": 1}
    shown = {"traceloop.span.kind": said("tool"), "traceloop.entity.input": said(json.dumps(given))}
    (call,) = calls(request(span(0, shown)))
    assert call.args == given


def test_results_alone_do_not_make_hidden_arguments_equal(told: Told) -> None:
    masked = {"input.value": said("__REDACTED__"), "output.value": said("ok")}
    hidden: list[Any] = [
        lines([request(span(n, TOOL | masked)) for n in range(6)]),
        lines([smith("tool", n, {}, {"output": "ok"}) for n in range(6)]),
        [fuse("TOOL", None, "ok", n) for n in range(6)],
    ]
    for value in hidden:
        (run,) = told(value)
        assert "arguments" in run.lacks
        assert [call.result for call in run.calls] == ["ok"] * 6
        assert not Replayer().replay(run).stops
    # One library of two left them out.
    other = {"input.value": said("{}"), "output.value": said("__REDACTED__")}
    spans = [span(n, TOOL | (other if n % 2 else masked)) for n in range(4)]
    (run,) = told(lines([request(one) for one in spans]))
    assert "arguments" not in run.lacks
    assert [call.args for call in run.calls] == [{"[not told]": 0}, {}, {"[not told]": 2}, {}]
    assert [call.result for call in run.calls] == ["ok", None, "ok", None]


def test_of_tools_without_parameters_models_tell_that_nothing_was_left_out(told: Told) -> None:
    asked = {"messages": [{"role": "user", "content": "hi"}]}
    whole: list[Any] = [
        lines(
            [smith("llm", 0, asked, {}), *(smith("tool", n, {}, {"output": "ok"}) for n in (1, 2))]
        ),
        [fuse("GENERATION", asked, None, 0), *(fuse("TOOL", None, "ok", n) for n in (1, 2))],
    ]
    for value in whole:
        (run,) = told(value)
        assert "arguments" not in run.lacks
        assert [call.args for call in run.calls] == [{}, {}]


def test_a_tool_without_parameters_is_told(told: Told) -> None:
    made = {"gen_ai.tool.call.result": said("no")}
    (run,) = told(lines([request(span(n, TOOL | made)) for n in range(4)]))
    assert run.calls[0].args == {}
    assert "arguments" not in run.lacks


def test_calls_that_a_trace_does_not_tell_are_not_none(told: Told) -> None:
    reasons = {"arrayValue": {"values": [said("tool_calls")]}}
    asked = {"gen_ai.operation.name": said("chat"), "gen_ai.response.finish_reasons": reasons}
    run, problem = told(request(span(0, asked)))
    assert "which is not told" in problem.problem
    assert not run.calls
    # The calls may be in traces of their own.
    *runs, run = told(request(span(0, asked), span(1, TOOL, traceId="u")))
    assert [len(one.calls) for one in (*runs, run)] == [0, 1]


def test_values_too_deep_and_too_many(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"messages": [{"role": "assistant", "tool_calls": [OPENAI]}]}, indent=1)
    problem, run = told(text + "\n" + "[" * 100_000)
    assert "nested too deep" in problem.problem
    assert len(run.calls) == 1
    document = opened(Path(run.file))
    assert isinstance(document, Document)
    assert [line for line, _, _ in document.sized()] == [1]
    monkeypatch.setattr(values, "VAST", 10)
    monkeypatch.setattr(values, "MANY", 3)
    (problem,) = told(text + "\nDone.\n")
    assert problem.problem.startswith("broken JSON")


# Claude Code


def event(place: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"u{place}",
        "parentUuid": f"u{place - 1}",
        "sessionId": "s",
        "message": {"role": kind, "content": content},
        **more,
    }


ASKED = [{"type": "tool_use", "id": "c", "name": "look", "input": {"q": 1}}]
TOLD = [{"type": "tool_result", "tool_use_id": "c", "content": "no"}]


def test_a_turn_goes_on_after_it_was_summed_up(calls: Calls) -> None:
    rows = [
        event(0, "user", "hi"),
        event(1, "assistant", ASKED),
        event(2, "user", TOLD),
        {"type": "system", "subtype": "compact_boundary", "uuid": "u3"},
        event(4, "user", "This session is being continued ...", isCompactSummary=True),
        event(5, "assistant", ASKED),
        event(6, "user", TOLD),
    ]
    made = calls(lines(rows))
    assert seen(made) == LOOKED
    assert {call.turn for call in made} == {0}


@pytest.mark.parametrize(
    "first",
    [
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": "s"},
        {"type": "progress", "parentUuid": None, "uuid": "p", "sessionId": "s", "data": {}},
    ],
)
def test_sessions_may_begin_with_other_events(calls: Calls, first: Any) -> None:
    rows = [*[first] * 30, event(1, "assistant", ASKED), event(2, "user", TOLD)]
    assert seen(calls(lines(rows))) == LOOKED[:1]


def test_what_claude_code_prints_of_a_session(told: Told) -> None:
    def row(kind: str, content: Any, task: str | None = None) -> dict[str, Any]:
        message = {"role": kind, "content": content}
        return {"type": kind, "message": message, "session_id": "s", "parent_tool_use_id": task}

    rows = [
        {"type": "system", "subtype": "init", "session_id": "s"},
        row("assistant", ASKED),
        row("user", TOLD),
        row("user", "look", "task"),
        row("assistant", ASKED, "task"),
        row("user", TOLD, "task"),
        {"type": "result", "subtype": "success", "session_id": "s"},
    ]
    for value in (rows, lines(rows)):
        (run,) = told(value)
        assert (run.run, run.format) == ("s", "claude-code-jsonl")
        assert seen(run.calls) == LOOKED
        assert [call.agent for call in run.calls] == [None, "sidechain task"]


def test_turns_of_a_printed_session_end_with_its_results(calls: Calls) -> None:
    rows: list[Any] = [{"type": "system", "subtype": "init", "session_id": "s"}]
    for _ in range(2):
        rows += [
            {"type": kind, "message": {"role": kind, "content": content}, "session_id": "s"}
            for kind, content in (("assistant", ASKED), ("user", TOLD))
        ]
        rows.append({"type": "result", "subtype": "success", "session_id": "s"})
    assert [call.turn for call in calls(lines(rows))] == [0, 1]


def test_what_cursor_prints_is_not_a_session_without_calls(told: Told) -> None:
    rows = [
        {"type": "system", "subtype": "init", "session_id": "s"},
        {"type": "tool_call", "subtype": "started", "tool_call": {}, "session_id": "s"},
        {"type": "tool_call", "subtype": "completed", "tool_call": {}, "session_id": "s"},
    ]
    (problem,) = told(lines(rows))
    assert isinstance(problem, Unreadable)
    assert (problem.line, problem.foreign) == (2, False)


def test_a_queue_of_something_else_is_no_session(told: Told) -> None:
    (problem,) = told(lines([{"type": "queue-operation", "operation": "push", "n": 1}] * 2))
    assert problem.foreign


# Codex


@pytest.mark.parametrize(
    ("printed", "result"),
    [
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nx\n", "Exit code: 0\nx\n"),
        (
            "Chunk ID: 5b951a\nWall time: 0.0 seconds\nProcess exited with code 1\nOutput:\nx",
            "Process exited with code 1\nx",
        ),
        ("Wall time: 0.2 seconds\nOutput:\n[]", "[]"),
        ("Exit code: 0\nand more\nOutput:\nx", "Exit code: 0\nand more\nOutput:\nx"),
        ("Exit code: 0", "Exit code: 0"),
    ],
)
def test_of_an_output_of_codex_what_is_always_new_is_taken_off(
    calls: Calls, printed: str, result: str
) -> None:
    asked = {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c"}
    told = {"type": "function_call_output", "call_id": "c", "output": printed}
    rows = [{"type": "response_item", "payload": payload} for payload in (asked, told)]
    assert calls(lines(rows))[0].result == result


def test_the_first_sessions_of_codex_were_one_object(told: Told) -> None:
    def item(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "call_id": "c", **fields}

    printed = [{"output": "x", "metadata": {"duration_seconds": n}} for n in (0.1, 0.2)]
    items: list[Any] = [{"type": "message", "role": "user", "content": []}]
    for output in map(json.dumps, printed):
        items.append(item("function_call", name="shell", arguments='{"command": ["ls"]}'))
        items.append(item("function_call_output", output=output))
    session = {"id": "s", "timestamp": "2025-05-01T00:00:00Z", "instructions": ""}
    (run,) = told({"session": session, "items": items})
    assert (run.run, run.format) == ("s", "codex-rollout-jsonl")
    assert seen(run.calls) == [("shell", {"command": ["ls"]}, "x")] * 2


# Messages and items


def test_a_format_is_told_though_its_marks_come_late(calls: Calls) -> None:
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}] * 15
    messages = [*talk, {"role": "assistant", "content": ASKED}, {"role": "user", "content": TOLD}]
    for value in (messages, lines(messages), {"messages": messages}):
        assert seen(calls(value)) == LOOKED[:1]


def test_answers_of_local_shells_have_their_calls_in_their_ids(calls: Calls) -> None:
    items = [
        {"type": "custom_tool_call", "call_id": "a", "name": "code", "input": "1"},
        {"type": "local_shell_call", "id": "x", "call_id": "b", "action": {"command": ["ls"]}},
        {"type": "local_shell_call_output", "id": "b", "output": "of the shell"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "of the code"},
    ]
    assert [call.result for call in calls(items)] == ["of the code", "of the shell"]
    # The API tells the last one first.
    page = {"object": "list", "data": items[::-1]}
    assert [call.result for call in calls(page)] == ["of the code", "of the shell"]
    assert calls({"object": "list", "data": items}) == calls(items)


# MCP and HAR


def call(id_: Any) -> dict[str, Any]:
    params = {"name": "look", "arguments": {"q": 1}}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def answer(id_: Any, text: str = "no") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": {"content": [{"type": "text", "text": text}]}}


def test_what_a_server_asks_has_ids_of_its_own(calls: Calls) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    rows = [call(1), progress, asked, answer(1, "sampled"), answer(1), call(2), cancelled]
    assert [call.result for call in calls(lines(rows))] == ["no", None]


@pytest.mark.parametrize(
    ("before", "behind", "ts"),
    [
        (
            "2026-01-02T03:04:00.000Z [s] [info] Message from client: ",
            " { metadata: undefined }",
            True,
        ),
        ("2026-01-02 03:04:00.000 [trace] [editor -> server] ", "", True),
        ("[2026-01-02T03:04:00Z] recv: ", "", True),
        ("[server] ", "", False),
        ("--> ", "", False),
    ],
)
def test_logs_of_mcp_clients_are_text(calls: Calls, before: str, behind: str, ts: bool) -> None:
    rows = [call(1), answer(1), call(2), answer(2)]
    text = "".join(f"{before}{json.dumps(row)}{behind}\n" for row in rows)
    made = calls(f"{text}it was closed\nTraceback (most recent call last):\n")
    assert seen(made) == LOOKED
    assert seen(calls(f"it was opened\n{text}")) == LOOKED
    assert made[0].ts == (1767323040.0 if ts else None)


@pytest.mark.parametrize("mark", ["[info] [{}]", "[{}] [info]"])
def test_servers_in_one_log_each_count_their_requests(told: Told, mark: str) -> None:
    def line(server: str, side: str, message: Any) -> str:
        before = f"2026-01-02T03:04:00.000Z {mark.format(server)} Message from {side}: "
        return f"{before}{json.dumps(message)}\n"

    asked = [line(name, "client", call(1)) for name in ("shop", "my maps")]
    answers = [line(name, "server", answer(1, name)) for name in ("shop", "my maps")]
    again = [line("shop", "client", call(2)), line("shop", "server", answer(2, "shut"))]
    shop, maps = told("".join([*asked, *answers[::-1], *again]))
    assert (shop.run, [one.result for one in shop.calls]) == ("shop", ["shop", "shut"])
    assert (maps.run, [one.result for one in maps.calls]) == ("my maps", ["my maps"])


def test_what_changes_from_line_to_line_is_no_server(calls: Calls) -> None:
    rows = [call(1), answer(1), call(2), answer(2)]
    text = "".join(f"[info] [{n}] recv: {json.dumps(row)}\n" for n, row in enumerate(rows))
    assert seen(calls(text)) == LOOKED


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_end_where_logs_end_them(calls: Calls, end: str) -> None:
    asked, told = call(1), answer(1)
    asked["params"]["arguments"] = {"q": "a\u2028b"}
    told["result"]["content"] = [{"type": "text", "text": "a\x85b\x0cc"}]
    rows = [json.dumps(row, ensure_ascii=False) for row in (asked, told)]
    made = calls("".join(f"[server] {row}{end}" for row in rows))
    assert seen(made) == [("look", {"q": "a\u2028b"}, "a\x85b\x0cc")]


def test_what_both_sides_logged_is_one_call(calls: Calls) -> None:
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
    rows = [hello, hello, *[{"jsonrpc": "2.0", "id": 0, "result": {}}] * 2]
    for _ in range(2):
        # Some clients count nothing.
        rows += [call(1), call(1), answer(1), answer(1)]
    assert seen(calls(lines(rows))) == LOOKED
    assert len(calls(lines([call(1), call(1)]))) == 2


def test_a_message_cut_off_in_a_text_is_told_of(told: Told) -> None:
    whole = "".join(f"--> {json.dumps(row)}\n" for row in (call(1), answer(1)))
    problem, run = told(whole + '--> {"jsonrpc": "2.0", "id": 2, "met')
    assert (problem.line, len(run.calls)) == (3, 1)


def test_prose_about_mcp_is_no_log(told: Told) -> None:
    (problem,) = told("Send this:\n\n    " + json.dumps(call(1)) + "\n\nIt answers. " * 9)
    assert isinstance(problem, Unreadable)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("initialize", {"processId": 1, "rootUri": None, "capabilities": {}}),
        ("textDocument/hover", {}),
        ("message/send", {}),
        ("eth_call", []),
    ],
)
def test_others_speak_json_rpc_too(told: Told, method: str, params: Any) -> None:
    row = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    for value in (lines([row, row]), f"[trace] {json.dumps(row)}\n" * 2):
        (problem,) = told(value)
        assert problem.foreign


@pytest.mark.parametrize("before", ["curl -d '", "send(", "asked = ", "asked = [", "b'"])
def test_programs_that_speak_mcp_are_no_log(told: Told, before: str) -> None:
    (problem,) = told(f"# a test\n{before}{json.dumps(call(1))}\n" * 2)
    assert problem.foreign


def entry(asked: Any, said: Any, status: int = 200, *, packed: bool = False) -> dict[str, Any]:
    text = said if isinstance(said, str) or said is None else json.dumps(said)
    content = {"text": text}
    if packed:
        content = {"text": base64.b64encode(text.encode()).decode(), "encoding": "base64"}
    return {
        "startedDateTime": "2026-01-02T03:04:00Z",
        "request": {
            "method": "POST",
            "url": "https://x/y",
            "postData": {"text": json.dumps(asked)},
        },
        "response": {"status": status, "content": content},
    }


def test_mcp_over_http_in_a_har_file(calls: Calls) -> None:
    stream = f"event: message\ndata: {json.dumps(answer(2))}\n\n"
    entries = [
        entry({"jsonrpc": "2.0", "id": 0, "method": "initialize"}, {}),
        entry(call(1), answer(1), packed=True),
        entry(call(2), stream),
        entry(call(3), "unavailable", 503),
    ]
    made = calls({"log": {"entries": entries}})
    assert seen(made) == [*LOOKED, ("look", {"q": 1}, "unavailable")]
    assert (made[2].status, made[2].ts) == (503, 1767323040.0)


def test_requests_to_a_model_that_failed_are_nothing_unreadable(told: Told) -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    made = {"choices": [{"message": {"role": "assistant", "tool_calls": [OPENAI]}}]}
    failed = [entry(asked, "<html>Bad Gateway</html>", 502), entry(asked, None, 0)]
    (run,) = told({"log": {"entries": [*failed, entry(asked, made)]}})
    assert len(run.calls) == 1
    problem, _ = told({"log": {"entries": [entry(asked, made), entry(asked, None)]}})
    assert problem.problem == "the answer of request 2 to a model was saved without its body"
