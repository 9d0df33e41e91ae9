"""Tools that are retried, in unchanged agents and in guarded ones: a call counts once, a retry is one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import BaseTool, tool

from lastcall import Guard, Policy
from lastcall_langchain import GuardCallbackHandler, GuardMiddleware, guard_tools

from .scripted import USER, asked_alone, scripted

TWO = asked_alone("look", ({"q": i} for i in range(2)))


class Busy(Exception):
    status_code = 503


def sleep(seconds: float) -> None:
    """Nobody waits here."""


async def asleep(seconds: float) -> None:
    """Nobody waits here."""


def plain(answer: Any) -> Any:
    """The tool's function."""

    def look(q: int) -> str:
        """Look."""
        return str(answer(q))

    return look


def made(guard: Guard, colour: str, asked: list[int], healed: int) -> BaseTool:
    """A tool behind a busy service that answers every *healed*-th request."""

    def answer(q: int) -> str:
        asked.append(q)
        if len(asked) % healed:
            raise Busy("busy")
        return f"found {q}"

    retrying = guard.retrying(sleep=sleep, asleep=asleep)
    if colour == "sync":
        return tool(retrying(plain(answer)))

    @retrying
    async def look(q: int) -> str:
        """Look."""
        return answer(q)

    return tool(look)


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("entry", ["decorated", "middleware", "tools", "handler"])
def test_a_call_counts_once(entry: str, mode: str) -> None:
    asked: list[int] = []
    events: list[Any] = []
    guard = Guard(Policy(), listeners=[events.append])
    colour = "sync" if mode == "invoke" else "async"
    tools = [made(guard, colour, asked, 3)]
    tools = guard_tools(tools, guard) if entry == "tools" else tools
    middleware = [GuardMiddleware(guard)] if entry == "middleware" else []
    callbacks: list[Any] = [GuardCallbackHandler(guard)] if entry == "handler" else []
    agent = create_agent(scripted(*TWO), tools, middleware=middleware)
    config: Any = {"callbacks": callbacks}
    if mode == "invoke":
        said = agent.invoke(USER, config)
    else:
        said = asyncio.run(agent.ainvoke(USER, config))
    assert asked == [0, 0, 0, 1, 1, 1]
    told = [message.content for message in said["messages"] if message.type == "tool"]
    assert told == ["found 0", "found 1"]
    (run,) = {event.run for event in events if event.run}
    assert [event.kind for event in events].count("retry") == 4
    incident = guard.report(run)
    assert incident is not None
    assert (incident.totals.executed, incident.totals.attempts) == (2, 6)
