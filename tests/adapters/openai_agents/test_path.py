"""The path of agents: as tools of each other they nest, by hand-overs they take each other's place
(requirement G2)."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, Runner, function_tool

from lastcall import Guard, Policy
from lastcall.rules import Path

from .playing import play
from .scripted import call, script

ROADS = ("guard_agent", "GuardHooks", "instrument")


@pytest.fixture(params=ROADS)
def entry(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=("run", "streamed"))
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Seen:
    """A guard, and a tool that tells where it is called."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.guard = Guard(policy)
        self.paths: dict[int, tuple[str, ...]] = {}

        @function_tool
        async def where(x: int) -> str:
            found = self.guard.here()
            assert found is not None
            assert found.agent == found.path[-1]
            self.paths[x] = found.path
            return f"here {x}"

        self.tool = where

    def at(self, x: int) -> Any:
        """A call of it."""
        return call("where", {"x": x}, f"w{x}")


def to(name: str, id: str) -> Any:
    return call(f"transfer_to_{name}", {}, id)


def asks(name: str, id: str = "k") -> Any:
    return call(f"ask_{name}", {"input": "?"}, id)


def test_agents_as_tools_nest(entry: str, mode: str) -> None:
    seen = Seen()
    c = Agent("c", tools=[seen.tool], model=script(seen.at(3), "c"))
    b = Agent(
        "b",
        tools=[seen.tool, c.as_tool("ask_c", "c")],
        model=script(seen.at(2), asks("c"), seen.at(22), "b"),
    )
    a = Agent(
        "a",
        tools=[seen.tool, b.as_tool("ask_b", "b")],
        model=script(seen.at(1), asks("b"), seen.at(11), "a"),
    )
    assert play(seen.guard, entry, a, mode).error is None
    assert seen.paths == {
        1: ("a",),
        2: ("a", "b"),
        3: ("a", "b", "c"),
        22: ("a", "b"),
        11: ("a",),
    }


def test_so_does_one_that_a_tool_runs_by_itself(entry: str, mode: str) -> None:
    seen = Seen()
    inner = Agent("inner", tools=[seen.tool], model=script(seen.at(2), "in"))

    @function_tool
    async def delegate() -> str:
        return str((await Runner.run(inner, "x")).final_output)

    outer = Agent(
        "outer", tools=[seen.tool, delegate], model=script(call("delegate"), seen.at(1), "out")
    )
    assert play(seen.guard, entry, outer, mode).error is None
    assert seen.paths == {1: ("outer",), 2: ("outer", "inner")}


def test_hand_overs_take_each_others_place_and_make_no_circle(entry: str, mode: str) -> None:
    seen = Seen(Policy().replaced(Path()))
    model = script(
        seen.at(1), to("billing", "h1"), seen.at(2), to("triage", "h2"), seen.at(3), "done"
    )
    triage: Agent[Any] = Agent("triage", model=model, tools=[seen.tool])
    billing: Agent[Any] = Agent("billing", model=model, tools=[seen.tool], handoffs=[triage])
    triage.handoffs.append(billing)
    played = play(seen.guard, entry, triage, mode)
    assert (played.error, played.stop) == (None, None)
    assert seen.paths == {1: ("triage",), 2: ("billing",), 3: ("triage",)}


def test_within_an_agent_that_is_a_tool_they_do_too(entry: str, mode: str) -> None:
    seen = Seen(Policy().replaced(Path()))
    model = script(seen.at(1), to("billing", "h"), seen.at(2), "inner")
    billing = Agent("billing", model=model, tools=[seen.tool])
    triage = Agent("triage", model=model, tools=[seen.tool], handoffs=[billing])
    outer = Agent(
        "outer",
        tools=[seen.tool, triage.as_tool("ask_triage", "t")],
        model=script(asks("triage"), seen.at(9), "out"),
    )
    assert play(seen.guard, entry, outer, mode).stop is None
    assert seen.paths == {1: ("outer", "triage"), 2: ("outer", "billing"), 9: ("outer",)}


@pytest.mark.parametrize("entry", ["guard_agent", "instrument"])
def test_a_circle_stops_at_the_third_agent(entry: str, mode: str) -> None:
    """Its model is not asked: whoever called it reads why, and the run goes on."""
    events: list[Any] = []
    guard = Guard(Policy().replaced(Path()), listeners=[events.append])
    a: Agent[Any] = Agent("a", model=script(asks("b", "1"), "done"))
    b: Agent[Any] = Agent(
        "b", model=script(asks("a", "2"), "b says so"), tools=[a.as_tool("ask_a", "a")]
    )
    a.tools.append(b.as_tool("ask_b", "b"))
    played = play(guard, entry, a, mode)
    assert (played.error, played.stop) == (None, None)
    assert played.result.final_output == "done"
    refused = [each.stop for each in events if each.kind == "refused"]
    assert [(each.reason, each.path) for each in refused] == [("path", ("a", "b"))]
    asked = [(each.tool, each.outcome) for each in events if each.kind == "attempt"]
    assert asked == [("ask_b", "ok")]
