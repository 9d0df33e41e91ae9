"""Requests to a model that are told in log records alone, in the shapes that opentelemetry-instrumentation-openai-v2
(2.4b0) wrote: OTLP as collectors keep it, and what `ConsoleLogRecordExporter` prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastcall.call import Usage
from lastcall.replay import Replayer
from lastcall.transcripts import Transcript, read

WRITTEN = Path(__file__).parent.parent / "fuzz" / "seeds" / "log-records.jsonl"

Told = Callable[[Any], list[Any]]

DETAILS = "gen_ai.client.inference.operation.details"
START = 1_767_323_040
LOOP = 5


def wrapped(value: Any) -> dict[str, Any]:
    """A value as OTLP writes it."""
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [wrapped(one) for one in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def pairs(value: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": wrapped(one)} for key, one in value.items()]


def otlp(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {"resourceLogs": [{"resource": {}, "scopeLogs": [{"logRecords": records}]}]}


def record(event: str, place: int, body: Any = None, **attributes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "eventName": event, "traceId": "t", "spanId": f"s{place}",
        "observedTimeUnixNano": str((START + place) * 10**9), "attributes": pairs(attributes),
    }  # fmt: skip
    return told | {"body": wrapped(body)} if body else told


def printed(event: str, place: int, body: Any = None, **attributes: Any) -> dict[str, Any]:
    return {
        "event_name": event, "trace_id": "t", "span_id": f"s{place}", "timestamp": None,
        "observed_timestamp": f"2026-01-02T03:04:{place:02d}Z", "attributes": attributes, "body": body,
    }  # fmt: skip


def of_today(
    made: Any = record, *, content: bool = True, finished: str = "tool_calls"
) -> list[Any]:
    """Requests that ask for the same call over and over."""
    rows, talk = [], [{"role": "user", "parts": [{"type": "text", "content": "go"}]}]
    for place in range(LOOP):
        part = {"type": "tool_call", "id": f"c{place}", "name": "look", "arguments": {"at": 1}}
        asked = {"role": "assistant", "parts": [part], "finish_reason": finished}
        answer = {"type": "tool_call_response", "id": f"c{place}", "response": "seen"}
        about = {
            "gen_ai.operation.name": "chat", "gen_ai.response.model": "m", "gen_ai.usage.input_tokens": 3,
            "gen_ai.usage.output_tokens": 2, "gen_ai.response.id": f"r{place}",
            "gen_ai.response.finish_reasons": [finished],
        }  # fmt: skip
        if content:
            about |= {"gen_ai.input.messages": talk, "gen_ai.output.messages": [asked]}
        rows.append(made(DETAILS, place, **about))
        talk = [*talk, asked, {"role": "tool", "parts": [answer]}]
    return rows


def of_before(made: Any = record, *, content: bool = True, beside: bool = False) -> list[Any]:
    """The same in events of one message each."""
    rows: list[Any] = []
    talk: list[tuple[str, Any]] = [("gen_ai.user.message", {"content": "go"} if content else None)]
    for place in range(LOOP):
        given = {"arguments": '{"at": 1}'} if content else {}
        calls = [{"id": f"c{place}", "type": "function", "function": {"name": "look", **given}}]
        message = {"role": "assistant"} if beside else {"role": "assistant", "tool_calls": calls}
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        choice |= {"tool_calls": calls} if beside else {}
        rows += [made(event, place, body, **{"gen_ai.system": "openai"}) for event, body in talk]
        rows.append(made("gen_ai.choice", place, choice))
        answer = {"id": f"c{place}"} | ({"content": "seen"} if content else {})
        talk += [
            ("gen_ai.assistant.message", {"tool_calls": calls}),
            ("gen_ai.tool.message", answer),
        ]
    return rows


def spans() -> dict[str, Any]:
    """The spans of those requests, which have no messages."""
    about = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 2,
    }
    made = [
        {
            "traceId": "t", "spanId": f"s{place}", "name": "chat m", "attributes": pairs(about),
            "startTimeUnixNano": str((START + place) * 10**9),
        }
        for place in range(LOOP)
    ]  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"spans": made}]}]}


def lines(rows: list[Any]) -> str:
    return "\n".join(map(json.dumps, rows))


@pytest.mark.parametrize("made", [of_today, of_before], ids=["today", "before"])
def test_what_models_asked_for_is_read_from_log_records(told: Told, made: Any) -> None:
    files = [
        otlp(made()),
        lines([otlp([row]) for row in made()]),
        lines(made(printed)),
        "\n".join(json.dumps(row, indent=4) for row in made(printed)),
    ]
    for file in files:
        (run,) = told(file)
        assert (run.format, run.run) == ("otel-spans", "t")
        assert [(one.tool, one.args, one.reply) for one in run.calls] == [
            ("look", {"at": 1}, place) for place in range(LOOP)
        ]
        # The answer of the last call would be in a request that was not made.
        assert [one.result for one in run.calls] == ["seen"] * (LOOP - 1) + [None]
        assert Replayer().replay(run).stops[0].index == 3


def test_what_the_instrumentation_wrote() -> None:
    today, before = read(WRITTEN)
    for run in (today, before):
        assert isinstance(run, Transcript)
        first, second = run.calls
        assert (first.tool, first.args, first.id, first.result) == (
            "look",
            {"at": 1},
            "c1",
            "seen 1",
        )
        assert (second.reply, second.result) == (1, None)
    assert isinstance(today, Transcript)
    assert [one.usage for one in today.replies] == [Usage("gpt-x", 3, 2)] * 2


def test_details_tell_what_was_used(told: Told) -> None:
    (run,) = told(otlp(of_today()))
    assert [one.usage for one in run.replies] == [Usage("m", 3, 2)] * LOOP
    assert run.lacks == {"turns", "statuses", "errors"}


@pytest.mark.parametrize("made", [of_today, of_before], ids=["today", "before"])
def test_records_and_spans_of_the_same_requests_are_put_together(told: Told, made: Any) -> None:
    for rows in ([spans(), otlp(made())], [otlp(made()), spans()]):
        (run,) = told(lines(rows))
        assert [(one.args, one.reply) for one in run.calls] == [({"at": 1}, n) for n in range(LOOP)]
        assert [one.usage and one.usage.input for one in run.replies] == [3] * LOOP


def test_calls_beside_the_message_are_those_of_the_first_events(told: Told) -> None:
    rows = of_before(beside=True)
    for row in rows:
        # They had no field for the event's name.
        row["attributes"] += pairs({"event.name": row.pop("eventName")})
        row.setdefault("body", {})
    (run,) = told(otlp(rows))
    assert [one.args for one in run.calls] == [{"at": 1}] * LOOP


def test_requests_logged_in_one_span_around_them_are_told_apart(told: Told) -> None:
    for rows in (of_before(), of_today()):
        for row in rows:
            row["spanId"] = "around"
        (run,) = told(otlp(rows))
        assert [one.reply for one in run.calls] == list(range(LOOP))
        assert [one.result for one in run.calls][:-1] == ["seen"] * (LOOP - 1)


@pytest.mark.parametrize("made", [of_today, of_before], ids=["today", "before"])
def test_what_is_sent_again_counts_once(told: Told, made: Any) -> None:
    rows = made()
    for row in rows:
        # Not all services give their answers an id.
        row["attributes"] = [one for one in row["attributes"] if one["key"] != "gen_ai.response.id"]
    for twice in ([*rows, *rows], [row for row in rows for _ in range(2)]):
        (run,) = told(otlp(twice))
        assert [one.reply for one in run.calls] == list(range(LOOP))


def test_a_body_may_be_json_as_text(told: Told) -> None:
    for made in (record, printed):
        rows = of_before(printed)
        for row in rows:
            row["body"] = json.dumps(row["body"])
            if made is record:
                row["body"] = wrapped(row["body"])
        (run,) = told(lines(rows))
        assert [one.args for one in run.calls] == [{"at": 1}] * LOOP


def test_arguments_that_were_left_out_are_no_equal_ones(told: Told) -> None:
    (run,) = told(otlp(of_before(content=False)))
    assert len({str(one.args) for one in run.calls}) == LOOP
    assert {"arguments", "results"} <= run.lacks
    done = Replayer().replay(run)
    assert not done.stops
    assert "same" in done.not_judged


def test_without_messages_it_is_said_what_to_record(told: Told) -> None:
    run, problem = told(otlp(of_today(content=False)))
    assert not run.calls
    assert problem.problem.endswith("which is not told: record messages, or calls of tools")
    (run,) = told(otlp(of_today(content=False, finished="stop")))
    assert not run.calls


def test_other_logs_are_no_part_of_a_trace(told: Told) -> None:
    other = {
        "body": {"stringValue": "up"},
        "severityText": "INFO",
        "attributes": [],
        "traceId": "t",
    }
    (problem,) = told(otlp([other]))
    assert problem.foreign
    (run,) = told(lines([otlp([other]), otlp([other, *of_today()]), otlp([other])]))
    assert len(run.calls) == LOOP


def test_events_without_a_body_or_with_a_strange_one(told: Told) -> None:
    rows = [
        {"eventName": "gen_ai.tool.message", "traceId": "t", "body": {"stringValue": "x"}},
        {
            "eventName": "gen_ai.choice",
            "traceId": "t",
            "attributes": pairs({"gen_ai.input.messages": "x"}),
        },
        {
            "eventName": "gen_ai.choice",
            "traceId": "t",
            "body": wrapped({"message": {"tool_calls": ["x"]}}),
        },
        {"eventName": DETAILS, "traceId": "t"},
    ]
    (run,) = told(otlp(rows))
    assert not run.calls
