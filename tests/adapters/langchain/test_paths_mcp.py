"""Tools of MCP servers, over stdio and over streamable HTTP.

langchain-mcp-adapters needs mcp 1, and the tests of the Agents SDK mcp 2, so this file has an environment
of its own: see `.ci/run`.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from lastcall import Guard

from .paths import (
    FOUR,
    Ended,
    Road,
    Socket,
    alike,
    everywhere,
    held,
    taken,
    unchanged,
)
from .scripted import scripted, stubborn, unanswered

adapters = pytest.importorskip(
    "langchain_mcp_adapters.tools",
    reason="langchain-mcp-adapters needs mcp<2, which the Agents SDK's tests cannot have",
)

from langchain_mcp_adapters.client import MultiServerMCPClient  # noqa: E402 - only where it is there

SERVER = str(Path(__file__).with_name("mcp_server.py"))
PORTS: dict[str, int] = {}
ENTRIES = ("tools", "handler", "instrument", "middleware", "all")


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


def connection(transport: str) -> Any:
    if transport == "stdio":
        return {"transport": "stdio", "command": sys.executable, "args": [SERVER]}
    return {"transport": "streamable_http", "url": f"http://127.0.0.1:{PORTS['http']}/mcp"}


class Connected:
    """An agent whose tools are a server's, for as long as one run takes."""

    def __init__(self, socket: Socket, transport: str, model: Any) -> None:
        self.socket, self.transport, self.model = socket, transport, model

    async def ainvoke(self, given: Any, config: Any) -> Any:
        socket = self.socket
        client = MultiServerMCPClient({"desk": connection(self.transport)})
        async with client.session("desk") as session:
            tools = [socket.guarded(tool) for tool in await adapters.load_mcp_tools(session)]
            agent = create_agent(
                self.model, tools, middleware=socket.middleware, checkpointer=InMemorySaver()
            )
            self.get_state = agent.get_state
            try:
                return await agent.ainvoke(given, config)
            finally:
                told = await session.call_tool("told", {})
                socket.ran += told.structuredContent["result"]


def over(transport: str, model: Any = None) -> Callable[[Socket], Any]:
    return lambda socket: Connected(socket, transport, model or scripted(*FOUR))


ROADS = [
    Road("stdio", over("stdio"), ENTRIES, modes=("ainvoke",)),
    Road("streamable http", over("http"), ENTRIES, modes=("ainvoke",)),
]


@everywhere(ROADS)
def test_a_permissive_guard_changes_nothing(road: Road, entry: str, mode: str) -> None:
    unchanged(road, entry, mode)


@everywhere(ROADS, "held")
def test_a_limit_holds_and_ends_the_run(road: Road, entry: str, mode: str) -> None:
    held(road, entry, mode)


@pytest.mark.parametrize(
    ("transport", "entry"), [("stdio", "tools"), *(("http", entry) for entry in ENTRIES)]
)
def test_a_final_status_in_a_result_that_is_an_error_is_a_stop(transport: str, entry: str) -> None:
    events: list[Any] = []
    orders = over(transport, stubborn(lambda i: {"q": 7}, "order"))
    ended = taken(Road("", orders), entry, "ainvoke", Guard(listeners=[events.append]))
    assert ended.ran == [7]
    assert [(e.outcome, e.status) for e in events if e.kind == "attempt"] == [("error", 422)]
    assert ended.stop is not None
    assert (ended.stop.reason, ended.stop.status) == ("refusals", 422)
    assert unanswered(ended.history) == []


class Refusing(BaseHTTPRequestHandler):
    """What stands where the server was: it answers everything with one status."""

    status = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


class Moved:
    """An agent whose server is replaced by a refusing one once its tools are known."""

    def __init__(self, socket: Socket, status: int) -> None:
        self.socket, self.status = socket, status

    async def ainvoke(self, given: Any, config: Any) -> Any:
        where = connection("http")
        client = MultiServerMCPClient({"desk": where})
        tools = [self.socket.guarded(tool) for tool in await client.get_tools()]
        agent = create_agent(
            stubborn(lambda i: {"q": 7}),
            tools,
            middleware=self.socket.middleware,
            checkpointer=InMemorySaver(),
        )
        self.get_state = agent.get_state
        handler = type("Handler", (Refusing,), {"status": self.status})
        with HTTPServer(("127.0.0.1", 0), handler) as refusing:
            threading.Thread(target=refusing.serve_forever, daemon=True).start()
            where["url"] = f"http://127.0.0.1:{refusing.server_port}/mcp"
            try:
                return await agent.ainvoke(given, config)
            finally:
                refusing.shutdown()


def moved(status: int, entry: str) -> tuple[Ended, list[tuple[str, int | None]]]:
    events: list[Any] = []
    guard = Guard(listeners=[events.append])
    ended = taken(Road("", lambda socket: Moved(socket, status)), entry, "ainvoke", guard)
    return ended, [(e.outcome, e.status) for e in events if e.kind == "attempt"]


@pytest.mark.parametrize("entry", ["tools", "instrument", "middleware", "all"])
def test_a_final_status_of_the_transport_is_a_stop_that_answers_the_call(entry: str) -> None:
    ended, attempts = moved(401, entry)
    assert attempts == [("error", 401)]
    assert ended.stop is not None
    assert (ended.stop.reason, ended.stop.status) == ("refusals", 401)
    assert unanswered(ended.history) == []


@pytest.mark.parametrize(
    ("entry", "status"), [("handler", 401), *((entry, 503) for entry in ENTRIES)]
)
def test_another_exception_of_the_transport_is_seen_and_ends_the_run_as_without_a_guard(
    entry: str, status: int
) -> None:
    ended, attempts = moved(status, entry)
    bare, _ = moved(status, "none")
    assert attempts == [("error", status)]
    assert ended.stop is None
    assert isinstance(ended.result, ExceptionGroup)
    assert alike(ended.result) == alike(bare.result)
    assert unanswered(ended.history) == unanswered(bare.history) == ["c0"]
