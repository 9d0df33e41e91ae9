"""Agents of both frameworks whose tools send requests: 429 for ever, and failures that they put into prose."""

from __future__ import annotations

import os

os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")
os.environ.setdefault("OPENAI_API_KEY", "none")

import asyncio
import logging
from contextlib import ExitStack
from typing import Annotated, Any

import pytest
from agents import Agent, function_tool
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.types import Command

import lastcall_langchain
import lastcall_openai_agents
from lastcall import Guard, Policy
from lastcall.rules import Budget, Terminal
from lastcall_http import async_client, client, session

from ..langchain import playing, scripted  # noqa: TID252 - a sibling folder
from ..openai_agents import scripted as sdk  # noqa: TID252
from .service import Answer

ASKS = 12
TRIES = 3
LIBRARIES = ("httpx2", "httpx", "requests", "async")
ROADS = (
    *(
        f"langchain {entry}"
        for entry in ("middleware", "tools", "decorated", "instrument", "handler")
    ),
    *(f"agents {entry}" for entry in ("guard_agent", "decorated", "instrument", "GuardHooks")),
)
LIMIT = {"quantity": "retries", "per": "run", "window": None, "most": 5}


@pytest.fixture(autouse=True)
def quiet() -> None:
    """The SDK prints every failing tool with its traceback."""
    logging.getLogger("openai.agents").setLevel(logging.CRITICAL)


def http_of(library: str, guard: Guard) -> Any:
    if library == "async":
        return async_client(guard, verify=False)
    if library == "requests":
        return session(guard)
    return client(guard, library=library, verify=False)


def body_of(library: str, guard: Guard, url: str, said: str) -> Any:
    """A tool that tries three times, and says *said* whatever comes of it: a stop, too."""

    def look(q: int) -> str:
        """Look."""
        with http_of(library, guard) as http:
            for _ in range(TRIES):
                try:
                    if http.get(f"{url}/{q}").status_code == 200:
                        return "found"
                except Exception:
                    break
        return f"{said} ({q})"

    async def alook(q: int) -> str:
        """Look."""
        async with http_of(library, guard) as http:
            for _ in range(TRIES):
                try:
                    if (await http.get(f"{url}/{q}")).status_code == 200:
                        return "found"
                except Exception:
                    break
        return f"{said} ({q})"

    alook.__name__ = "look"
    return alook if library == "async" else look


class Ended:
    """How a run ended."""

    def __init__(self, stop: Any, unanswered: list[str]) -> None:
        self.stop = stop
        self.unanswered = unanswered


def lived(road: str, guard: Guard, body: Any, *, guarded: bool = True) -> Ended:
    """A run of an agent whose model asks twelve times, whatever it is told."""
    framework, _, entry = road.partition(" ")
    if framework == "langchain":
        return in_langchain(entry, guard, body, guarded=guarded)
    return in_agents(entry, guard, body, guarded=guarded)


def in_langchain(entry: str, guard: Guard, body: Any, *, guarded: bool) -> Ended:
    calls = (scripted.asking("look", {"q": i}, f"c{i}") for i in range(ASKS))
    model = scripted.scripted(*map(scripted.reply, calls))
    at = entry if guarded else "none"
    agent = playing.build(at, "create_agent", guard, model, body)
    mode = "ainvoke" if asyncio.iscoroutinefunction(body) else "invoke"
    with ExitStack() as until:
        if at == "instrument":
            until.callback(lastcall_langchain.instrument(guard))
        played = playing.play(agent, playing.config_of(guard, at), mode)
    return Ended(played.stop, played.unanswered)


def in_agents(entry: str, guard: Guard, body: Any, *, guarded: bool) -> Ended:
    at = entry if guarded else "none"
    made = function_tool(guard.wrap(body) if at == "decorated" else body)
    model = sdk.script(*[sdk.call("look", {"q": i}, f"c{i}") for i in range(ASKS)], "done")
    agent = Agent("A", tools=[made], model=model)
    if at == "guard_agent":
        agent = lastcall_openai_agents.guard_agent(agent, guard)
    with ExitStack() as until:
        if at == "instrument":
            until.callback(lastcall_openai_agents.instrument(guard))
        hooks = lastcall_openai_agents.GuardHooks(guard) if at == "GuardHooks" else None
        played = sdk.play(agent, hooks=hooks)
    return Ended(played.stop, played.unanswered)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("road", ROADS)
def test_429_for_ever(road: str, library: str, serve: Any) -> None:
    """At most five retries in a run: three calls are begun, the third is refused its second retry."""
    service = serve(Answer(429, {"error": "slow down"}))
    alone = Guard()
    lived(road, alone, body_of(library, alone, service.url, "nothing yet"), guarded=False)
    assert service.requests == ASKS * TRIES == 36
    service.asked.clear()

    guard = Guard(Policy().replaced(Budget(limits=(LIMIT,))))
    ended = lived(road, guard, body_of(library, guard, service.url, "nothing yet"))
    assert service.requests == 3 + LIMIT["most"]
    assert ended.stop is not None
    assert (ended.stop.budget, ended.stop.ends_run) == ("retries/run", True)
    assert ended.unanswered == []


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("road", ROADS)
def test_prose_over_a_422(road: str, library: str, serve: Any) -> None:
    """The tool says that it is sorry, and the run is over at once all the same."""
    service = serve(Answer(422, {"error": "no such date"}))
    alone = Guard()
    lived(road, alone, body_of(library, alone, service.url, "sorry"), guarded=False)
    assert service.requests == ASKS * TRIES
    service.asked.clear()

    guard = Guard(Policy().replaced(Terminal(closes="turn")))
    ended = lived(road, guard, body_of(library, guard, service.url, "sorry"))
    assert ended.stop is not None
    assert (ended.stop.reason, ended.stop.status) == ("terminal", 422)
    assert service.requests <= TRIES
    assert ended.unanswered == []


@pytest.mark.parametrize("entry", ["middleware", "tools"])
def test_a_command_stands(entry: str, serve: Any) -> None:
    """Where the graph goes on is the tool's to say."""
    service, guard = serve(422), Guard()

    @tool
    def look(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Look."""
        with client(guard, verify=False) as http:
            http.get(service.url)
        said = ToolMessage("looked, in a way", tool_call_id=tool_call_id)
        return Command(update={"messages": [said]})

    model = scripted.scripted(scripted.reply(scripted.asking("look", {}, "c1")))
    agent = playing.build(entry, "create_agent", guard, model, look)
    played = playing.play(agent, playing.config_of(guard, entry))
    assert played.stop is None
    assert [each.content for each in played.saved if each.type == "tool"] == ["looked, in a way"]
