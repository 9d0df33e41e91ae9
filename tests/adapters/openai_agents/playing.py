"""Plays one turn of an agent, guarded through one of the entries, in one of the ways a run is started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from agents import Agent, FunctionTool, Runner, function_tool
from agents.memory import SessionABC

from lastcall import Guard
from lastcall_openai_agents import GuardHooks, guard_agent, guard_tools, instrument

from .scripted import Played

ENTRIES = ("guard_agent", "guard_tools", "GuardHooks", "decorated", "instrument")
MODES = ("run", "streamed", "sync")


class Kept(SessionABC):
    """A session in a list: others wait for threads."""

    def __init__(self, session_id: str = "s") -> None:
        self.session_id = session_id
        self.items: list[Any] = []

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return list(self.items)

    async def add_items(self, items: list[Any]) -> None:
        self.items += items

    async def pop_item(self) -> Any:
        return self.items.pop()

    async def clear_session(self) -> None:
        self.items.clear()


def tools_of(
    bodies: Iterable[Callable[..., Any] | FunctionTool], guard: Guard, entry: str, **settings: Any
) -> list[Any]:
    """Tools of *bodies*, guarded where the entry is about tools."""
    tools = [
        body
        if isinstance(body, FunctionTool)
        else function_tool(guard.wrap(body) if entry == "decorated" else body, **settings)
        for body in bodies
    ]
    return guard_tools(tools, guard) if entry == "guard_tools" else tools


def agent_of(
    guard: Guard, entry: str, model: Any, *bodies: Any, name: str = "A", **fields: Any
) -> Agent[Any]:
    """An agent whose tools are guarded, where the entry is about tools."""
    return Agent(name, tools=tools_of(bodies, guard, entry), model=model, **fields)


@contextmanager
def guarding(
    entry: str, guard: Guard, agent: Agent[Any], options: dict[str, Any]
) -> Iterator[tuple[Agent[Any], dict[str, Any]]]:
    """*agent* and the *options* of its run, guarded where the entry is not about tools."""
    with ExitStack() as after:
        if entry == "guard_agent":
            agent = guard_agent(agent, guard)
        elif entry == "GuardHooks":
            options = {**options, "hooks": GuardHooks(guard, options.get("hooks"))}
        elif entry == "instrument":
            after.callback(instrument(guard))
        yield agent, options


def play(
    guard: Guard,
    entry: str,
    agent: Agent[Any],
    mode: str = "run",
    given: Any = "hi",
    **options: Any,
) -> Played:
    """One turn of *agent*, in a session of its own unless one is given, or None."""
    options.setdefault("session", Kept())
    options.setdefault("max_turns", 100)
    with guarding(entry, guard, agent, options) as (guarded, more):
        return (
            asyncio.run(aplay(guarded, mode, given, **more))
            if mode != "sync"
            else synced(guarded, given, **more)
        )


async def aplay(agent: Agent[Any], mode: str, given: Any, **options: Any) -> Played:
    """A turn in the loop that is running."""
    played = Played(agent.model)  # type: ignore[arg-type]
    try:
        if mode == "run":
            played.result = await Runner.run(agent, given, **options)
        else:
            played.result = Runner.run_streamed(agent, given, **options)
            async for _ in played.result.stream_events():
                pass
    except Exception as error:
        played.error = error
    played.session = await items_of(options.get("session"))
    return played


def synced(agent: Agent[Any], given: Any, **options: Any) -> Played:
    """A turn by `Runner.run_sync`, which wants the loop of a thread that has none running."""
    played = Played(agent.model)  # type: ignore[arg-type]
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        played.result = Runner.run_sync(agent, given, **options)
    except Exception as error:
        played.error = error
    finally:
        played.session = loop.run_until_complete(items_of(options.get("session")))
        asyncio.set_event_loop(None)
        loop.close()
    return played


async def items_of(session: Any) -> list[Any]:
    return [] if session is None else list(await session.get_items())
