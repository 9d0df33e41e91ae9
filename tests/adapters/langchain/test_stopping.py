"""A stubborn model asks forty times, whatever it is told; the default policy ends it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from langchain_core.tools import ToolException, tool

from lastcall import Guard, Stopped
from lastcall_langchain import RunStopped, stop_of

from .playing import MODES, WAYS, build, config_of, play
from .scripted import USER, stubborn, unanswered

SOFT = [way for way in WAYS if way[0] != "decorated"]
"""Entries whose refusal is always a message."""

FAILING = [
    (entry, kind, how)
    for entry, kind in SOFT
    for how in ("handled", "returned", "http")
    # Without `handle_tool_errors` an exception ends the run, guarded or not.
    if how != "http" or kind == "graph"
]

BODIES = 5
FURTHER = 3

REQUESTED = httpx.Request("GET", "http://desk.test/look")


def reshaped(i: int) -> dict[str, Any]:
    """One call in another form each time."""
    forms: list[Any] = [
        {"q": {"a": 1, "b": "two"}},
        {"q": {"b": "two", "a": 1}},
        {"q": {"a": 1, "b": "  two "}},
        {"q": {"a": 1, "B": "Two"}},
        {"q": {"a": 1, f"key{i}": "two"}},
    ]
    found: dict[str, Any] = forms[i % len(forms)]
    return found


def failing_with(status: int, how: str, ran: list[Any]) -> Any:
    """A tool that always fails with *status*, and says so in one of many ways."""

    def look(q: Any) -> Any:
        """Look."""
        ran.append(q)
        if how == "returned":
            return {"status_code": status, "error": f"no such order {q}"}
        if how == "http":
            httpx.Response(status, request=REQUESTED).raise_for_status()
        error = ToolException(f"HTTP {status}: no such order {q}")
        error.response = httpx.Response(status, request=REQUESTED)  # type: ignore[attr-defined]
        raise error

    made = tool(look)
    made.handle_tool_error = how == "handled"
    return made


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("entry", "kind"), SOFT)
def test_one_call_for_ever_is_ended(entry: str, kind: str, mode: str) -> None:
    ran: list[Any] = []

    def look(q: str) -> str:
        """Look."""
        ran.append(q)
        return "nothing new"

    guard, model = Guard(), stubborn(lambda i: {"q": "x"})
    played = play(build(entry, kind, guard, model, look), config_of(guard, entry), mode)
    assert len(ran) <= BODIES
    assert len(model.asked) <= len(ran) + FURTHER
    assert played.stop is not None
    assert played.stop.ends_run
    assert played.unanswered == []
    assert (played.raised is None) == (entry == "middleware")


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize(("entry", "kind"), SOFT)
def test_one_call_in_ever_new_forms_is_ended(entry: str, kind: str, mode: str) -> None:
    ran: list[Any] = []

    def look(q: dict[str, Any]) -> str:
        """Look."""
        ran.append(q)
        return "nothing new"

    guard, model = Guard(), stubborn(reshaped)
    played = play(build(entry, kind, guard, model, look), config_of(guard, entry), mode)
    assert len(ran) <= BODIES
    assert len(model.asked) <= len(ran) + FURTHER
    assert played.stop is not None
    assert played.unanswered == []


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("status", [422, 503])
@pytest.mark.parametrize(("entry", "kind", "how"), FAILING)
def test_one_status_for_ever_is_ended_whatever_the_arguments(
    entry: str, kind: str, how: str, status: int, mode: str
) -> None:
    ran: list[Any] = []
    look = failing_with(status, how, ran)
    guard, model = Guard(), stubborn(lambda i: {"q": f"order {i * 37}"})
    agent = build(entry, kind, guard, model, look, handle_tool_errors=True)
    played = play(agent, config_of(guard, entry), mode)
    assert len(ran) <= BODIES
    assert len(model.asked) <= len(ran) + FURTHER
    assert played.stop is not None
    assert played.stop.ends_run
    assert played.unanswered == []
    incident = guard.report(played.stop.run or "")
    assert incident is not None
    assert status in {stop.status for stop in incident.stops}


@pytest.mark.parametrize(("entry", "kind"), [way for way in SOFT if way[0] != "handler"])
def test_an_unhandled_exception_with_a_final_status_is_told_as_a_stop(
    entry: str, kind: str
) -> None:
    ran: list[Any] = []
    guard, model = Guard(), stubborn(lambda i: {"q": f"order {i * 37}"})
    agent = build(entry, kind, guard, model, failing_with(422, "http", ran))
    played = play(agent, config_of(guard, entry))
    assert len(ran) <= BODIES
    assert played.stop is not None
    assert played.unanswered == []
    first = next(message for message in played.saved if message.type == "tool")
    assert "HTTP 422" in first.text
    assert "retry" not in first.text.lower()
    assert first.response_metadata["lastcall"]["status"] == 422


def test_an_unhandled_exception_without_a_final_status_goes_on_unchanged() -> None:
    guard, model = Guard(), stubborn(lambda i: {"q": f"order {i}"})
    for entry in ("tools", "middleware", "handler"):
        agent = build(entry, "create_agent", guard, model, failing_with(503, "http", []))
        played = play(agent, config_of(guard, entry))
        assert isinstance(played.raised, httpx.HTTPStatusError)
        assert played.stop is None


def test_the_middleware_hears_the_exception_that_handle_tool_error_hides() -> None:
    ran: list[Any] = []

    def look(q: str) -> str:
        """Look."""
        ran.append(q)
        error = ToolException("no such order")
        error.status_code = 422  # type: ignore[attr-defined]
        raise error

    made = tool(look)
    made.handle_tool_error = "Something went wrong."
    guard, model = Guard(), stubborn(lambda i: {"q": f"order {i * 37}"})
    played = play(build("middleware", "create_agent", guard, model, made), config_of(guard, "m"))
    assert len(ran) <= BODIES
    assert played.stop is not None
    assert played.unanswered == []


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("kind", ["create_agent", "react", "graph"])
def test_a_decorated_function_ends_the_run_too(kind: str, mode: str) -> None:
    ran: list[Any] = []
    guard, model = Guard(), stubborn(lambda i: {"q": "x"})

    def look(q: str) -> str:
        """Look."""
        ran.append(q)
        return "nothing new"

    agent = build("decorated", kind, guard, model, look, handle_tool_errors=True)
    played = play(agent, config_of(guard, "decorated"), mode)
    assert len(ran) <= BODIES
    assert len(model.asked) <= len(ran) + FURTHER
    assert isinstance(played.raised, Stopped)
    assert played.stop is not None


def test_the_reason_is_data_in_the_saved_history() -> None:
    guard, model = Guard(), stubborn(lambda i: {"q": "x"})

    def look(q: str) -> str:
        """Look."""
        return "nothing new"

    played = play(build("middleware", "create_agent", guard, model, look), config_of(guard, "m"))
    kept = played.saved[-1].response_metadata["lastcall"]
    assert json.loads(json.dumps(kept)) == kept
    assert kept["reason"] == "refusals"
    assert kept["run"]


@pytest.mark.parametrize("entry", ["middleware", "tools", "handler"])
def test_a_stream_of_events_is_ended_like_any_run(entry: str) -> None:
    ran: list[Any] = []

    def look(q: str) -> str:
        """Look."""
        ran.append(q)
        return "nothing new"

    guard, model = Guard(), stubborn(lambda i: {"q": "x"})
    agent, config = build(entry, "create_agent", guard, model, look), config_of(guard, entry)

    async def events() -> list[Any]:
        return [event async for event in agent.astream_events(USER, config, version="v2")]

    try:
        assert stop_of(asyncio.run(events())[-1]["data"]["output"]) is not None
    except RunStopped:
        assert entry != "middleware"
    assert len(ran) <= BODIES
    assert unanswered(agent.get_state(config).values["messages"]) == []
