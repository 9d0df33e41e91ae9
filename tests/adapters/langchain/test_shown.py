"""A stop is visible where people look: the stream's custom events, and the runs of tracers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from langchain_core.tracers import LangChainTracer
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langsmith import Client

from lastcall import Guard, Policy
from lastcall_langchain.shown import about

from .playing import build, config_of, play
from .scripted import USER, stubborn

ways = pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ("middleware", "create_agent"),
        ("tools", "create_agent"),
        ("tools", "graph"),
        ("handler", "create_agent"),
        ("handler", "react"),
    ],
)


def look(q: int) -> str:
    """Look."""
    return "x"


@ways
@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_a_stop_is_a_custom_event_of_the_stream(entry: str, kind: str, mode: str) -> None:
    guard = Guard(Policy(max_calls=2))
    agent = build(entry, kind, guard, stubborn(lambda i: {"q": i}), look)
    events: list[Any] = []

    async def astreamed() -> None:
        async for each in agent.astream(USER, config_of(guard, entry), stream_mode="custom"):
            events.append(each)

    try:
        if mode == "stream":
            for each in agent.stream(USER, config_of(guard, entry), stream_mode="custom"):
                events.append(each)
        else:
            asyncio.run(astreamed())
    except Exception as error:
        assert getattr(error, "stop", None) is not None
    assert events[0]["lastcall"]["reason"] == "ceiling"
    assert "gathered" not in events[0]["lastcall"]


@ways
@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_the_root_run_of_a_trace_says_why(entry: str, kind: str, mode: str) -> None:
    guard = Guard(Policy(max_calls=2))
    collector = RunCollectorCallbackHandler()
    agent = build(entry, kind, guard, stubborn(lambda i: {"q": i}), look)
    config = config_of(guard, entry)
    config["callbacks"] = [*config["callbacks"], collector]
    play(agent, config, mode)
    (root,) = collector.traced_runs
    assert "lastcall" in root.tags
    assert "lastcall:ceiling" in root.tags
    assert root.metadata["lastcall_limit"] == 2


def test_a_run_that_was_not_stopped_says_nothing() -> None:
    collector = RunCollectorCallbackHandler()
    guard = Guard(Policy.permissive())
    model = stubborn(lambda i: {"q": i})
    model.script = model.script[:2]
    agent = build("middleware", "create_agent", guard, model, look)
    config = config_of(guard, "middleware")
    config["callbacks"] = [collector]
    play(agent, config)
    (root,) = collector.traced_runs
    assert "lastcall" not in (root.tags or ())
    assert not [each for each in root.metadata if each.startswith("lastcall")]


@pytest.fixture
def langsmith() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server on loopback that takes what LangSmith's own client sends."""
    bodies: list[dict[str, Any]] = []

    class Taking(BaseHTTPRequestHandler):
        def answer(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(size)
            if self.path.startswith("/runs"):
                bodies.append(json.loads(body))
            said = b"{}"
            self.send_response(200)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_PATCH = answer  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", bodies
    server.shutdown()
    thread.join()
    server.server_close()


def test_langsmith_is_sent_the_tags_and_the_metadata(
    langsmith: tuple[str, list[dict[str, Any]]],
) -> None:
    url, bodies = langsmith
    client = Client(api_url=url, api_key="none", auto_batch_tracing=False)
    guard = Guard(Policy(max_calls=2))
    agent = build("middleware", "create_agent", guard, stubborn(lambda i: {"q": i}), look)
    config = config_of(guard, "middleware")
    config["callbacks"] = [LangChainTracer(client=client)]
    play(agent, config)
    ended = [each for each in bodies if each.get("end_time") and not each.get("parent_run_id")]
    (root,) = ended
    assert "lastcall:ceiling" in root["tags"]
    assert root["extra"]["metadata"]["lastcall_reason"] == "ceiling"


def test_a_tracer_that_fails_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(RunCollectorCallbackHandler):
        @property
        def run_map(self) -> Any:
            raise RuntimeError("broken")

        @run_map.setter
        def run_map(self, value: Any) -> None:
            pass

    guard = Guard(Policy(max_calls=2))
    built = build("middleware", "create_agent", guard, stubborn(lambda i: {"q": i}), look)
    config = config_of(guard, "middleware")
    config["callbacks"] = [Broken()]
    played = play(built, config)
    assert played.stop is not None
    assert "could not be shown" in caplog.text


def test_what_is_not_known_is_not_said() -> None:
    guard = Guard(Policy(max_calls=1))
    played = play(
        build("middleware", "create_agent", guard, stubborn(lambda i: {"q": i}), look),
        config_of(guard, "middleware"),
    )
    assert played.stop is not None
    assert "lastcall_status" not in about(played.stop)
