"""A run that was paused is resumed in another process, with its counts."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from lastcall import Guard, MemoryStore, Policy
from lastcall_langchain import stop_of
from lastcall_langchain.runs import RUNS

from .playing import agent_of, config_of, tools_of
from .scripted import USER, asking, reply, scripted

modes = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
entries = pytest.mark.parametrize("entry", ["middleware", "tools", "handler"])


def forget_everything() -> None:
    """What another process does not have."""
    RUNS._runs.clear()
    RUNS._roots.clear()
    RUNS._paused.clear()


class Booking:
    def __init__(self, *asked: int) -> None:
        self.ran: list[int] = []
        self.model = scripted(
            *(reply(asking("book", {"q": q}, f"c{at}")) for at, q in enumerate(asked))
        )
        self.saver = InMemorySaver()

    def book(self, q: int) -> str:
        """Book."""
        if q == 1:
            interrupt("sure?")
        self.ran.append(q)
        return f"booked {q}"

    def agent(self, guard: Guard, entry: str) -> Any:
        from lastcall_langchain import GuardMiddleware

        tools = tools_of([self.book], guard, entry)
        middleware = [GuardMiddleware(guard)] if entry == "middleware" else []
        made = agent_of("create_agent", self.model, tools, middleware=middleware)
        made.checkpointer = self.saver
        return made


def asked(agent: Any, given: Any, config: Any, mode: str) -> Any:
    try:
        if mode == "invoke":
            return agent.invoke(given, config)
        return asyncio.run(agent.ainvoke(given, config))
    except Exception as error:
        return error


@entries
@modes
def test_counts_go_on_where_the_snapshot_is_restored(entry: str, mode: str) -> None:
    policy = Policy(max_calls=2)
    booking = Booking(0, 1, 2)
    first = Guard(policy)
    asked(booking.agent(first, entry), USER, config_of(first, entry), mode)
    assert booking.ran == [0]
    saved = first.snapshot(thread="t")
    forget_everything()

    second = Guard(policy)
    second.restore(saved)
    result = asked(
        booking.agent(second, entry), Command(resume="yes"), config_of(second, entry), mode
    )
    # The paused call counts once though it began twice; the third is over the ceiling.
    assert booking.ran == [0, 1]
    stop = stop_of(result)
    if stop is None:
        told = [each.text for each in result["messages"] if each.type == "tool"]
        assert told[-1].startswith("Stopped: book: the budget of 2 calls")
    else:
        assert stop.reason == "ceiling"


@modes
def test_a_shared_store_needs_no_snapshot(mode: str) -> None:
    store, policy = MemoryStore(), Policy(max_calls=2)
    booking = Booking(0, 1, 2)
    first = Guard(policy, store=store)
    asked(booking.agent(first, "middleware"), USER, config_of(first, "middleware"), mode)
    forget_everything()
    second = Guard(policy, store=store)
    agent = booking.agent(second, "middleware")
    result = asked(agent, Command(resume="yes"), config_of(second, "middleware"), mode)
    assert booking.ran == [0, 1]
    assert stop_of(result) is not None
    assert len(store) == 0


@modes
def test_a_new_message_gives_up_what_waits_elsewhere(mode: str) -> None:
    store, policy = MemoryStore(), Policy(max_calls=2)
    booking = Booking(0, 1, 2)
    first = Guard(policy, store=store)
    config = config_of(first, "middleware")
    asked(booking.agent(first, "middleware"), USER, config, mode)
    forget_everything()
    other = Booking(5, 6)
    other.saver = booking.saver
    second = Guard(policy, store=store)
    result = asked(other.agent(second, "middleware"), USER, config_of(second, "middleware"), mode)
    assert other.ran == [5, 6]
    assert stop_of(result) is None


def test_a_snapshot_of_a_thread_in_which_nothing_waits_is_empty() -> None:
    guard = Guard()
    saved = guard.snapshot(thread="nobody")
    Guard().restore(saved)
    with pytest.raises(ValueError, match="not a snapshot"):
        guard.restore(pickle.dumps("x"))


SCRIPT = """
    import sys
    from pathlib import Path
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command, interrupt
    sys.path.insert(0, sys.argv[3])
    from scripted import asking, reply, scripted
    from lastcall import Guard, Policy
    from lastcall_langchain import GuardMiddleware, stop_of
    import pickle

    where, what = Path(sys.argv[1]), sys.argv[2]

    @tool
    def book(q: int) -> str:
        "Book."
        if q == 1:
            interrupt("sure?")
        with (where / "ran").open("a") as ran:
            ran.write(f"{q}\\n")
        return f"booked {q}"

    saver = InMemorySaver()
    guard = Guard(Policy(max_calls=2))
    if what == "resume":
        storage, writes, blobs = pickle.loads((where / "graph").read_bytes())
        saver.storage.update(storage), saver.writes.update(writes), saver.blobs.update(blobs)
        guard.restore((where / "guard").read_bytes())
    model = scripted(*(reply(asking("book", {"q": q}, f"c{q}")) for q in (0, 1, 2)))
    agent = create_agent(model, [book], middleware=[GuardMiddleware(guard)], checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    given = {"messages": [("user", "go")]} if what == "start" else Command(resume="yes")
    result = agent.invoke(given, config)
    if what == "start":
        plain = {k: {a: dict(b) for a, b in v.items()} for k, v in saver.storage.items()}
        writes = {k: dict(v) for k, v in saver.writes.items()}
        (where / "graph").write_bytes(pickle.dumps((plain, writes, dict(saver.blobs))))
        (where / "guard").write_bytes(guard.snapshot(thread="t"))
    print(stop_of(result) and stop_of(result).reason)
"""


def test_two_real_processes(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(textwrap.dedent(SCRIPT))
    here = str(Path(__file__).parent)
    said = [
        subprocess.run(
            [sys.executable, str(script), str(tmp_path), what, here],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for what in ("start", "resume")
    ]
    assert (tmp_path / "ran").read_text().split() == ["0", "1"]
    assert said == ["None", "ceiling"]
