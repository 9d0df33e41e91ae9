"""A write is made once, through every entry: in one reply, and in a later run."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agents import Agent, Runner, RunState, function_tool

from lastcall import Guard, MemoryStore, Policy
from lastcall.testing import FakeClock
from lastcall_openai_agents import GuardHooks, guard_agent
from lastcall_openai_agents.paused import PAUSED

from .playing import ENTRIES, MODES, agent_of, play
from .scripted import call, script

ONCE = {"writes": True, "identity": ("invoice",), "on_repeat": "replay"}


def twice() -> Any:
    """A model that makes one write twice in a reply, and once more in the next."""
    return script(
        [call("pay", {"invoice": 7}, "c1"), call("pay", {"invoice": 7}, "c2")],
        call("pay", {"invoice": 7}, "c3"),
        "done",
    )


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("result", ["ch_1", {"charge": 1, "ä": None}], ids=["text", "value"])
def test_r183_one_execution_and_every_call_is_answered_alike(
    entry: str, mode: str, result: Any
) -> None:
    guard, paid = Guard(Policy(tools={"pay": ONCE})), []

    async def pay(invoice: int) -> Any:
        """Pay."""
        paid.append(invoice)
        return result

    for _ in range(2):
        played = play(guard, entry, agent_of(guard, entry, twice(), pay), mode)
        assert played.error is None
        assert played.outputs == dict.fromkeys(("c1", "c2", "c3"), str(result))
        assert (played.stop, played.unanswered) == (None, [])
    assert paid == [7]


def test_a_write_of_unknown_outcome_is_not_made_again() -> None:
    guard, paid = Guard(Policy(tools={"pay": {"writes": True}})), []

    def pay(invoice: int) -> str:
        """Pay."""
        paid.append(invoice)
        raise ConnectionError("the answer was lost")

    model = script(call("pay", {"invoice": 7}, "c1"), call("pay", {"invoice": 7}, "c2"), "done")
    played = play(guard, "guard_agent", agent_of(guard, "guard_agent", model, pay))
    assert "nobody knows whether it was carried out" in played.outputs["c2"]
    assert paid == [7]


@pytest.mark.parametrize("entry", ["guard_agent", "GuardHooks", "instrument"])
def test_nor_one_that_timed_out(entry: str) -> None:
    guard, paid = Guard(Policy(tools={"pay": ONCE})), []

    async def pay(invoice: int) -> str:
        """Pay."""
        paid.append(invoice)
        await asyncio.Event().wait()
        return "never"

    model = script(call("pay", {"invoice": 7}, "c1"), call("pay", {"invoice": 7}, "c2"), "done")
    agent = agent_of(guard, entry, model, function_tool(pay, timeout=0.01))
    played = play(guard, entry, agent)
    assert "timed out" in played.outputs["c1"]
    assert "nobody knows whether it was carried out" in played.outputs["c2"]
    assert paid == [7]


@pytest.mark.parametrize("more", [{"on_repeat": "replay"}, {}], ids=["replay", "run"])
def test_nobody_is_asked_about_a_write_that_runs(more: dict[str, Any]) -> None:
    tools = {"pay": {"writes": True, "identity": ("invoice",), **more}}
    guard, paid = Guard(Policy(tools=tools, on_stop="ask")), []

    async def pay(invoice: int) -> str:
        """Pay."""
        paid.append(invoice)
        return "ch_1"

    both = [call("pay", {"invoice": 7}, "c1"), call("pay", {"invoice": 7}, "c2")]
    agent = agent_of(guard, "guard_agent", script(both, "done"), pay)
    played = play(guard, "guard_agent", agent)
    assert played.result.interruptions == []
    assert played.outputs["c1"] == "ch_1"
    assert ("being carried out" in played.outputs["c2"]) == (not more)
    assert paid == [7]


class Approved:
    """A write that waits for a person, of the runs of a store."""

    def __init__(self, entry: str) -> None:
        self.entry = entry
        self.paid: list[int] = []
        self.store = MemoryStore()
        self.clock = FakeClock()

    def agent(self, guard: Guard, *replies: Any) -> Agent[Any]:
        """The agent whose model gives *replies*."""

        async def pay(invoice: int) -> str:
            """Pay."""
            self.paid.append(invoice)
            return f"ch_{len(self.paid)}"

        agent = Agent("A", tools=[function_tool(pay, needs_approval=True)], model=script(*replies))
        return guard_agent(agent, guard) if self.entry == "guard_agent" else agent

    async def run(self, *, here: bool, late: float = 0.0, hooks: bool = True) -> str:
        """What the model reads of the write, which it asks for twice, in a run whose approval comes *late*, *here* or in another
        process."""

        def worker() -> tuple[Guard, dict[str, Any]]:
            guard = Guard(Policy(tools={"pay": ONCE}), store=self.store, clock=self.clock)
            return guard, {"hooks": GuardHooks(guard)} if self.entry == "GuardHooks" else {}

        guard, options = worker()
        both = [call("pay", {"invoice": 7}, "c1"), call("pay", {"invoice": 7}, "c2")]
        agent = self.agent(guard, both, "done")
        result = await Runner.run(agent, "hi", **options)
        state = result.to_state()
        self.clock.tick(late)
        if not here:
            PAUSED._waiting.clear()
            saved = json.dumps(state.to_json())
            guard, options = worker()
            agent = self.agent(guard, "done")
            state = await RunState.from_json(agent, json.loads(saved))
        for item in state.get_interruptions():
            state.approve(item)
        result = await Runner.run(agent, state, **(options if hooks else {}))
        said = {str(item.output) for item in result.new_items if hasattr(item, "output")}
        return ", ".join(said)


@pytest.mark.parametrize("entry", ["guard_agent", "GuardHooks"])
@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("late", [0.0, 400.0])
def test_what_waits_for_a_person_is_no_write_under_way(entry: str, here: bool, late: float) -> None:
    approved = Approved(entry)
    assert asyncio.run(approved.run(here=here, late=late)) == "ch_1"
    assert asyncio.run(approved.run(here=here, late=late)) == "ch_1"
    assert approved.paid == [7]


def test_a_resume_without_the_hooks_makes_nothing_again() -> None:
    approved = Approved("GuardHooks")
    for _ in range(2):
        assert asyncio.run(approved.run(here=True, hooks=False)) == "ch_1"
    assert approved.paid == [7]
