"""A stop is a span in the SDK's tracing."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, function_tool, set_trace_processors, set_tracing_disabled
from agents.tracing import TracingProcessor

from lastcall import Event, Guard, Policy
from lastcall_openai_agents import GuardHooks, guard_agent

from .scripted import play, stubborn


class Collected(TracingProcessor):
    def __init__(self) -> None:
        self.spans: list[Any] = []

    def on_span_end(self, span: Any) -> None:
        self.spans.append(span)

    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def on_span_start(self, span: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


@pytest.fixture
def spans():
    collected = Collected()
    set_trace_processors([collected])
    set_tracing_disabled(False)
    yield collected.spans
    set_tracing_disabled(True)
    set_trace_processors([])


@function_tool
def look(q: int) -> str:
    return "x"


@pytest.mark.parametrize("entry", ["agent", "hooks"])
def test_a_stop_is_a_span_inside_the_run(entry, mode, spans):
    guard = Guard(Policy(max_calls=2))
    agent = Agent("A", tools=[look], model=stubborn("look", lambda i: {"q": i}))
    if entry == "agent":
        play(guard_agent(agent, guard), mode)
    else:
        play(agent, mode, hooks=GuardHooks(guard))
    ours = [each for each in spans if each.span_data.export().get("name") == "lastcall"]
    assert ours
    said = ours[0].span_data.data
    assert (said["reason"], said["tool"], said["limit"]) == ("ceiling", "look", 2)
    assert not {"gathered", "detail", "text"} & said.keys()
    assert ours[0].parent_id is not None


@pytest.mark.parametrize("entry", ["agent", "hooks"])
def test_a_trace_tells_fingerprints_as_events_do(entry, mode, spans):
    events: list[Event] = []
    guard = Guard(Policy(max_calls=2), listeners=[events.append], fingerprint_key=b"k" * 16)
    agent = Agent("A", tools=[look], model=stubborn("look", lambda i: {"q": i}))
    if entry == "agent":
        play(guard_agent(agent, guard), mode)
    else:
        play(agent, mode, hooks=GuardHooks(guard))
    ours = [each for each in spans if each.span_data.export().get("name") == "lastcall"]
    told = {event.fingerprint for event in events if event.stop}
    assert {each.span_data.data["fingerprint"] for each in ours} <= told


def test_without_a_trace_nothing_is_said(mode):
    guard = Guard(Policy(max_calls=2))
    agent = Agent("A", tools=[look], model=stubborn("look", lambda i: {"q": i}))
    assert play(guard_agent(agent, guard), mode).stop is not None
