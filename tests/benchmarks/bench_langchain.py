"""What a guard costs in LangChain, beside the same work in a process that has no part of ours in it.

Both alternate in short blocks, since the machine changes its speed. What is measured is the time that this
process has of the processors, all its threads together: the tracker's part is in threads of an event loop.
Ratios tell more than microseconds.
Run: python tests/benchmarks/bench_langchain.py
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from time import process_time
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool

from lastcall import Guard, Policy
from lastcall.rules import Ceiling
from lastcall_langchain import (
    GuardCallbackHandler,
    GuardMiddleware,
    guard_tool,
    guard_tools,
    instrument,
)
from lastcall_langchain.tracker import _EVERYWHERE

BLOCKS = 15
ALONE = 100
"""Calls of a tool by itself in one block."""
CALLS = 20
"""Calls of an agent in one run."""
TOKENS = 1000

Work = Callable[[], object]


class Looking(BaseChatModel):
    """Asks for the tool so many times, one call a reply, and is done."""

    @property
    def _llm_type(self) -> str:
        return "looking"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Looking:
        return self

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        turn = sum(isinstance(each, AIMessage) for each in messages)
        call = {"name": "look", "args": {"q": turn}, "id": f"c{turn}", "type": "tool_call"}
        said = AIMessage("", tool_calls=[call]) if turn < CALLS else AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=said)])


class Telling(Looking):
    """Streams tokens that cost nothing."""

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for _ in range(TOKENS):
            yield ChatGenerationChunk(message=AIMessageChunk("x"))

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for _ in range(TOKENS):
            yield ChatGenerationChunk(message=AIMessageChunk("x"))


@tool
def look(q: int) -> str:
    """Look."""
    return f"found {q}"


@tool
async def alook(q: int) -> str:
    """Look."""
    return f"found {q}"


def fresh() -> Guard:
    """A guard of the default policy, but for its ceiling."""
    return Guard(Policy().replaced(Ceiling(calls=None)))


def untracked(work: Work) -> Work:
    """*work* without the handler that is in every callback manager."""

    def without() -> None:
        _EVERYWHERE.set(None)
        work()

    return lambda: copy_context().run(without)


def everywhere(work: Callable[[Guard], Work]) -> Work:
    """The work while every tool of the process is guarded."""
    guard = fresh()
    inner = work(guard)

    def guarded() -> None:
        undo = instrument(guard)
        try:
            inner()
        finally:
            undo()

    return guarded


def alone(given: Any, guard: Guard | None = None) -> Work:
    """A tool, called by itself."""

    def calls() -> None:
        with guard.within() if guard else nullcontext():
            for n in range(ALONE):
                given.invoke({"q": n})

    return calls


def aalone(given: Any, guard: Guard | None = None) -> Work:
    """The same in an event loop."""

    async def calls() -> None:
        with guard.within() if guard else nullcontext():
            for n in range(ALONE):
                await given.ainvoke({"q": n})

    return lambda: asyncio.run(calls())


def agent(
    tools: Any, *, middleware: Any = (), in_loop: bool = False, handler: bool = False
) -> Work:
    """One run of an agent."""
    made = create_agent(Looking(), tools, middleware=middleware)
    given: Any = {"messages": [("user", "go")]}

    def one() -> None:
        callbacks = [GuardCallbackHandler(fresh())] if handler else []
        config: Any = {"callbacks": callbacks, "recursion_limit": 10 * CALLS}
        if in_loop:
            asyncio.run(made.ainvoke(given, config))
        else:
            made.invoke(given, config)

    return one


def streamed() -> None:
    """Tokens of a model, read by a synchronous program."""
    for _ in Telling().stream("go"):
        pass


async def astreamed() -> None:
    """The same in an event loop."""
    async for _ in Telling().astream("go"):
        pass


async def streamed_in_loop() -> None:
    """A synchronous stream where an event loop runs, as in every notebook."""
    streamed()


def seconds(work: Work) -> float:
    """One block."""
    begun = process_time()
    work()
    return process_time() - begun


def compare(name: str, ours: Work, bare: Work, size: int) -> None:
    """Print the best time of one of *size*, the median of the ratios, and what is added."""
    ours(), bare()
    pairs = [(seconds(ours), seconds(bare)) for _ in range(BLOCKS)]
    best = min(one for one, _ in pairs) / size * 1e6
    ratio = statistics.median(one / other for one, other in pairs)
    more = statistics.median(one - other for one, other in pairs) / size * 1e6
    print(f"{name:<36} {best:8.1f} us   {ratio:5.2f} x bare   {more:+8.1f} us")


def main() -> None:
    """Print the table."""
    for in_loop, calls, given in ((False, alone, look), (True, aalone, alook)):
        print(f"one call of a tool by itself, of {ALONE}{', async' if in_loop else ''}")
        guard, bare = fresh(), untracked(calls(given))
        compare("  tracked", calls(given), bare, ALONE)
        compare("  guard_tool", calls(guard_tool(given, guard), guard), bare, ALONE)
        compare("  instrument", everywhere(partial(calls, given)), bare, ALONE)
    for in_loop in (False, True):
        print(f"one call of create_agent, of {CALLS}{', async' if in_loop else ''}")
        plain = agent([look], in_loop=in_loop)
        bare = untracked(plain)
        middleware = agent([look], middleware=[GuardMiddleware(fresh())], in_loop=in_loop)
        compare("  tracked", plain, bare, CALLS)
        compare("  middleware", middleware, bare, CALLS)
        compare("  guard_tools", agent(guard_tools([look], fresh()), in_loop=in_loop), bare, CALLS)
        compare("  handler", agent([look], handler=True, in_loop=in_loop), bare, CALLS)
        compare("  instrument", everywhere(lambda _, plain=plain: plain), bare, CALLS)
    print(f"one token, of {TOKENS}")
    compare("  tracked", streamed, untracked(streamed), TOKENS)
    for name, work in (("async", astreamed), ("sync in an event loop", streamed_in_loop)):
        compare(
            f"  tracked, {name}",
            lambda work=work: asyncio.run(work()),
            untracked(lambda work=work: asyncio.run(work())),
            TOKENS,
        )


if __name__ == "__main__":
    main()
