"""The page for users of the OpenAI Agents SDK: its blocks run, and print what it says."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("agents", reason="the page is about the OpenAI Agents SDK")

from agents import (
    Agent,
    Model,
    ModelResponse,
    OpenAIResponsesModel,
    Usage,
    function_tool,
)
from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionToolCall

from .adapters.endpoint import Endpoint, asks, says
from .documented import Page

PAGE = Page("docs/openai-agents.md")


class Asking(Model):
    """Asks for one invoice after the other, by how many answers it has read."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
        read = sum(
            isinstance(each, dict) and each.get("type") == "function_call_output" for each in input
        )
        call = ResponseFunctionToolCall(
            call_id=f"c{read}",
            type="function_call",
            name="look_up",
            arguments=json.dumps({"invoice": read}),
        )
        return ModelResponse(output=[call], usage=Usage(requests=1), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


@function_tool
def look_up(invoice: int) -> str:
    return f"invoice {invoice} is open"


@pytest.fixture
def default_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The loop that `Runner.run_sync` looks for; it would make one itself and leave it open."""
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    logging.getLogger("openai.agents").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def provider() -> Iterator[Endpoint]:
    """Keeps histories, and is strict about them."""
    with Endpoint(keeps=True, after=says("You are welcome.")) as endpoint:
        endpoint.on(
            "Which invoices are open?", *(asks(("look_up", {"invoice": i})) for i in range(9))
        )
        yield endpoint


# `Runner.run_sync` shuts the generators of its loop down each time, and uses the loop again.
@pytest.mark.filterwarnings("ignore:asynchronous generator:ResourceWarning")
@pytest.mark.usefixtures("default_loop")
def test_every_block_prints_what_the_page_says(
    provider: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    model = OpenAIResponsesModel("m", AsyncOpenAI(base_url=provider.url, api_key="none"))
    given: dict[str, Any] = {
        "agent": Agent("clerk", tools=[look_up], model=Asking()),
        "remote": Agent("clerk", tools=[look_up], model=model),
    }
    assert all(each.printed for each in PAGE.programs())
    PAGE.run(given, capsys)
    assert provider.refused == []


def test_every_name_of_the_page_exists() -> None:
    import lastcall_openai_agents as adapter

    named = {"guard_agent", "GuardHooks", "instrument", "snapshot_of", "stops_in", "coverage"}
    assert named <= set(adapter.__all__)
    assert all(name in PAGE.text for name in named)
