"""Traces of the OpenAI Agents SDK, exported by the SDK itself of agents with a scripted model, and by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lastcall.call import Usage
from lastcall.replay import Replayer
from lastcall.transcripts import Transcript

agents = pytest.importorskip("agents")

Told = Callable[[Any], list[Any]]
LOOP = 6
HIDDEN = "[not told]"


class Exported(agents.tracing.TracingProcessor):  # type: ignore[misc]
    """Everything that the SDK traced, as its exporter would send it."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def on_trace_start(self, trace: Any) -> None:
        self.rows.append(trace.export())

    def on_trace_end(self, trace: Any) -> None: ...

    def on_span_start(self, span: Any) -> None: ...

    def on_span_end(self, span: Any) -> None:
        self.rows.append(span.export())

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


@pytest.fixture
def exported() -> Iterator[Exported]:
    one = Exported()
    agents.set_trace_processors([one])
    agents.set_tracing_disabled(False)
    yield one
    agents.set_tracing_disabled(True)
    agents.set_trace_processors([])


class Scripted(agents.Model):  # type: ignore[misc]
    """Says what it was given, and traces it as the SDK's own models do where *traces*."""

    def __init__(self, replies: list[Any], *, traces: bool = True) -> None:
        self.replies = replies
        self.traces = traces

    async def get_response(self, *_: Any, input: Any, tracing: Any, **__: Any) -> Any:
        made, spent = self.replies.pop(0), {"input_tokens": 3, "output_tokens": 2}
        if self.traces:
            with agents.generation_span(model="m", usage=spent) as span:
                if tracing.include_data():
                    span.span_data.input = input
                    span.span_data.output = [one.model_dump() for one in made]
        usage = agents.Usage(requests=1, total_tokens=5, **spent)
        return agents.ModelResponse(output=made, usage=usage, response_id="r")

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nobody streams")


def asks(name: str, id_: str, **args: Any) -> Any:
    from openai.types.responses import ResponseFunctionToolCall

    return ResponseFunctionToolCall(
        arguments=json.dumps(args), call_id=id_, name=name, type="function_call"
    )


def says(words: str) -> Any:
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    text = ResponseOutputText(text=words, annotations=[], type="output_text")
    return ResponseOutputMessage(
        id="m", content=[text], role="assistant", status="completed", type="message"
    )


@agents.function_tool
def look(at: int) -> str:
    return f"seen {at}"


@agents.function_tool
def pay(sum: int) -> str:
    raise ValueError("HTTP 422")


def clerk(*, traces: bool = True) -> Any:
    """An agent that looks in a circle, pays in vain, asks another one, and hands over."""
    helper = agents.Agent(
        "helper", tools=[look], model=Scripted([[asks("look", "h", at=2)], [says("so")]])
    )
    boss = agents.Agent("boss", model=Scripted([[says("bye")]], traces=traces))
    replies = [[asks("look", f"c{n}", at=1)] for n in range(LOOP)]
    replies += [
        [asks("pay", "p", sum=5), asks("help", "q", input="hm")],
        [asks("transfer_to_boss", "t")],
    ]
    return agents.Agent(
        "clerk",
        tools=[look, pay, helper.as_tool("help", "helps")],
        handoffs=[boss],
        model=Scripted(replies, traces=traces),
    )


def lines(rows: list[Any]) -> str:
    return "\n".join(map(json.dumps, rows))


@pytest.mark.asyncio
async def test_a_trace_of_the_sdk(exported: Exported, told: Told) -> None:
    await agents.Runner.run(clerk(), "go")
    runs = [
        told(shape)[0] for shape in (lines(exported.rows), exported.rows, {"data": exported.rows})
    ]
    run = runs[0]
    assert isinstance(run, Transcript)
    assert all(other.calls == run.calls for other in runs)
    assert (run.format, run.run) == ("openai-agents-traces", exported.rows[0]["id"])
    *looked, paid, helped, inner = run.calls
    assert {(one.tool, str(one.args), one.result, one.failed, one.agent) for one in looked} == {
        ("look", "{'at': 1}", "seen 1", False, "clerk")
    }
    assert [one.reply for one in looked] == list(range(LOOP))
    assert (paid.args, paid.failed, paid.reply) == ({"sum": 5}, True, LOOP)
    assert paid.result.startswith("An error occurred while running the tool")
    assert (helped.tool, helped.args, helped.result) == ("help", {"input": "hm"}, "so")
    assert (inner.args, inner.result, inner.agent) == ({"at": 2}, "seen 2", "helper")
    assert [one.usage for one in run.replies] == [Usage("m", 3, 2)] * (LOOP + 5)
    assert all(one.ts for one in run.calls)
    assert run.lacks == {"turns", "statuses"}
    assert Replayer().replay(run).stops[0].index == 3


@pytest.mark.asyncio
async def test_a_trace_without_what_went_in_and_out(exported: Exported, told: Told) -> None:
    quiet = agents.RunConfig(trace_include_sensitive_data=False)
    await agents.Runner.run(clerk(), "go", run_config=quiet)
    (run,) = told(lines(exported.rows))
    assert [one.tool for one in run.calls] == ["look"] * LOOP + ["pay", "help", "look"]
    assert [one.args for one in run.calls] == [{HIDDEN: n} for n in range(len(run.calls))]
    assert [one.failed for one in run.calls] == [False] * LOOP + [True, False, False]
    assert "arguments" in run.lacks
    done = Replayer().replay(run)
    assert not done.stops
    assert {"same", "near", "cycle"} <= set(done.not_judged)


@pytest.mark.asyncio
async def test_where_a_model_is_not_traced_turns_are_replies(
    exported: Exported, told: Told
) -> None:
    await agents.Runner.run(clerk(traces=False), "go")
    rows = [row for row in exported.rows if row.get("span_data", {}).get("type") != "generation"]
    if not any(row.get("span_data", {}).get("name") == "turn" for row in rows):
        pytest.skip("this SDK does not trace turns")
    (run,) = told(lines(rows))
    # What the agents used that were called as tools is a part of what their callers did.
    assert sum(one.usage.input for one in run.replies) == 3 * (LOOP + 5)
    assert [one.reply for one in run.calls][:LOOP] == list(range(LOOP))


def span(id_: str, begins: int, data: dict[str, Any], **fields: Any) -> dict[str, Any]:
    at = f"2026-01-02T03:04:{begins:02d}+00:00"
    return {
        "object": "trace.span", "id": id_, "trace_id": "t", "parent_id": None, "started_at": at,
        "ended_at": at, "span_data": data, "error": None, **fields,
    }  # fmt: skip


def function(id_: str, begins: int, **fields: Any) -> dict[str, Any]:
    data = {
        "type": "function",
        "name": "look",
        "input": '{"at": 1}',
        "output": "x",
        "mcp_data": None,
    }
    outer = {key: fields.pop(key) for key in ("error", "ended_at", "parent_id") if key in fields}
    return span(id_, begins, {**data, **fields}, **outer)


def test_answers_of_servers_are_printed_blocks_and_may_be_errors(told: Told) -> None:
    server = {"server": "shop"}
    block = str({"type": "text", "text": "HTTP 422"})
    two = str([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    rows = [
        function("b", 2, output=two, mcp_data=server),
        function("a", 1, output=block, mcp_data=server),
        function("c", 3, output=None, error={"message": "lost", "data": {"error": "HTTP 500"}}),
        function("d", 4, output=None, error={"message": "lost", "data": None}),
        function("e", 5, output=None, ended_at=None),
    ]
    (run,) = told(lines(rows))
    assert [(one.tool, one.result, one.failed) for one in run.calls] == [
        ("shop/look", "HTTP 422", None),
        ("shop/look", "a\nb", None),
        ("look", "HTTP 500", True),
        ("look", "lost", True),
        ("look", None, None),
    ]


def test_a_trace_of_models_alone_tells_what_they_asked_for(told: Told) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    asked, answer = (
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "no"},
    )
    first = {"type": "generation", "input": [{"role": "user", "content": "go"}], "output": [asked]}
    second = {"type": "generation", "input": [*first["input"], asked, answer], "output": None}
    (run,) = told(lines([span("a", 1, first), span("b", 2, second)]))
    assert [(one.tool, one.args, one.result) for one in run.calls] == [("look", {"at": 1}, "no")]


def test_spans_that_lie_in_each_other_and_traces_without_any(told: Told) -> None:
    agent = {"type": "agent", "name": "clerk"}
    rows = [
        {"object": "trace", "id": "u", "workflow_name": "w"},
        span("a", 1, agent, parent_id="b"),
        span("b", 1, {"type": "custom", "name": "x", "data": {}}, parent_id="a"),
        function("c", 2, parent_id="a"),
        {"object": "file"},
    ]
    bad, empty, run = told(lines(rows))
    assert (bad.line, bad.problem) == (5, "no traces and no spans")
    assert (empty.run, empty.calls) == ("u", ())
    assert run.calls[0].agent == "clerk"
