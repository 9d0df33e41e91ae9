"""Real MCP servers, in another process over stdio and over streamable HTTP; their tools are made anew every
turn, and a failure is a result like any other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp, MCPUtil

from lastcall import Guard, Policy
from lastcall.events import Event
from lastcall_openai_agents import guard_agent, guard_tools, instrument

from .scripted import Played, aplay, call, script, stubborn

SERVER = str(Path(__file__).with_name("mcp_server.py"))
PORTS: dict[str, int] = {}

pytestmark = pytest.mark.asyncio


@pytest.fixture(scope="module", autouse=True)
def _a_server_that_listens() -> Iterator[None]:
    started = subprocess.Popen(
        [sys.executable, SERVER, "http"],
        stdout=subprocess.PIPE,
        # It complains of every session that its client ends.
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert started.stdout is not None
    with started:
        PORTS["http"] = int(started.stdout.readline())
        yield
        started.terminate()


@pytest.fixture(params=["stdio", "http"])
def transport(request) -> str:
    return request.param


@pytest.fixture
def mode(transport) -> str:
    """Each once: how a model answers is no business of a server."""
    return "run" if transport == "stdio" else "streamed"


def server_over(transport: str, **settings: Any) -> MCPServer:
    settings = {"name": "desk", "client_session_timeout_seconds": 60, **settings}
    if transport == "stdio":
        return MCPServerStdio({"command": sys.executable, "args": [SERVER]}, **settings)
    return MCPServerStreamableHttp({"url": f"http://127.0.0.1:{PORTS['http']}/mcp"}, **settings)


ROADS = ["guard_agent", "instrument"]


@pytest.fixture(params=ROADS)
def guarded(request) -> Iterator[Callable[[Agent[Any], Guard], Agent[Any]]]:
    undos: list[Callable[[], None]] = []

    def by(agent: Agent[Any], guard: Guard) -> Agent[Any]:
        if "instrument" in request.param:
            undos.append(instrument(guard))
        return guard_agent(agent, guard) if "guard_agent" in request.param else agent

    yield by
    for undo in undos:
        undo()


async def served(server: MCPServer) -> list[str]:
    """What the server was asked, by tool; as it tells itself."""
    told = await server.call_tool("told", {})
    return told.structured_content["result"]


async def played_on(
    transport: str, model: Any, by: Callable[[Agent[Any]], Agent[Any]], mode: str = "run"
) -> tuple[Played, list[str]]:
    async with server_over(transport) as server:
        return await played_with(server, model, by, mode)


async def played_with(
    server: MCPServer, model: Any, by: Callable[[Agent[Any]], Agent[Any]], mode: str = "run"
) -> tuple[Played, list[str]]:
    await served(server)
    played = await aplay(by(Agent("A", mcp_servers=[server], model=model)), mode)
    return played, await served(server)


async def test_a_runaway_is_stopped(guarded, transport, mode):
    # One server, which takes a second to start, for a tool that answers and two that fail.
    async with server_over(transport) as server:
        for tool, reason, status, times in (
            ("look", "same", None, 3),
            ("order", "terminal", 422, 3),
            ("busy", "streak", 503, 5),
        ):
            guard = Guard()
            # Only equal calls are repeated ones; a status speaks for calls that vary as well.
            model = stubborn(tool, (lambda i: {"q": 1}) if tool == "look" else (lambda i: {"q": i}))
            played, asked = await played_with(
                server, model, lambda agent, guard=guard: guarded(agent, guard), mode
            )
            assert asked == [tool] * times
            assert played.stop.reason in (reason, "refusals", "streak")
            assert (played.stop.server, played.stop.status) == ("desk", status)
            assert played.requests <= times + 3
            assert not played.unanswered


async def test_a_final_failure_reads_as_a_stop(guarded, transport, mode):
    guard = Guard()
    model = script(call("order", {"q": 7}), "done")
    played, _ = await played_on(transport, model, lambda agent: guarded(agent, guard), mode)
    said = json.dumps(played.outputs["c1"])
    assert "Stopped: order" in said
    assert "HTTP 422" in said
    assert "there is no order 7" in said
    assert "try again" not in said
    assert played.result.final_output == "done"


async def test_a_permissive_guard_changes_nothing(guarded, transport, mode):
    def model() -> Any:
        calls = [call(tool, {"q": 1}, tool) for tool in ("look", "order", "busy", "nothing")]
        return script(calls[:2], calls[2], call("look", "{broken", "c4"), "done")

    def shown(played: Played) -> Any:
        return played.outputs, played.result.final_output, [e.type for e in played.result.new_items]

    guard = Guard(Policy.permissive())
    async with server_over(transport) as server:
        plain, asked = await played_with(server, model(), lambda agent: agent, mode)
        played, again = await played_with(
            server, model(), lambda agent: guarded(agent, guard), mode
        )
    assert shown(played) == shown(plain)
    # The two calls of the first reply run side by side.
    assert (set(again[:2]), again[2:]) == (set(asked[:2]), asked[2:])
    assert asked[2:] == ["busy"]


@pytest.mark.parametrize("guarded", [*ROADS, "guard_agent, instrument"], indirect=True)
async def test_each_call_counts_once(guarded, transport):
    events: list[Event] = []
    guard = Guard(Policy.permissive(), listeners=[events.append])
    model = script([call("look", {"q": 1}), call("busy", {"q": 1}, "c2")], "done")
    await played_on(transport, model, lambda agent: guarded(agent, guard))
    seen = [each for each in events if each.kind == "attempt"]
    assert sorted((each.tool, each.call_id, each.status) for each in seen) == [
        ("desk/busy", "c2", 503),
        ("desk/look", "c1", None),
    ]


async def test_a_status_that_the_client_loses_is_a_failure_all_the_same(guarded):
    # The client of mcp 2 says of a bare 403 only that it was an error.
    guard = Guard()
    model = stubborn("forbidden", lambda i: {"q": 1})
    played, asked = await played_on("http", model, lambda agent: guarded(agent, guard))
    assert asked == ["forbidden"] * 3
    assert played.stop.reason in ("failing", "refusals")


async def test_approvals_of_a_server_stay(guarded, transport):
    events: list[Event] = []
    guard = Guard(Policy.permissive(), listeners=[events.append])
    async with server_over(transport, require_approval="always") as server:
        await served(server)
        model = script(call("look", {"q": 1}), "done")
        agent = guarded(Agent("A", mcp_servers=[server], model=model), guard)
        played = await aplay(agent)
        (item,) = played.result.interruptions
        assert await served(server) == []
        state = played.result.to_state()
        state.approve(item)
        assert (await Runner.run(agent, state)).final_output == "done"
        assert await served(server) == ["look"]
    assert [each.tool for each in events if each.kind == "attempt"] == ["desk/look"]


async def test_a_tool_that_was_listed_beforehand_shows_its_failures(transport):
    guard = Guard()
    async with server_over(transport) as server:
        await served(server)
        listed = await MCPUtil.get_function_tools(server, False, None, None)
        model = stubborn("order", lambda i: {"q": i})
        played = await aplay(Agent("A", tools=guard_tools(listed, guard), model=model))
        assert await served(server) == ["order"] * 3
    assert played.stop.status == 422
