"""A stop that a tool raises is what the model reads, whatever is said of failures."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, function_tool
from pydantic import BaseModel

from lastcall import Guard, Policy, Stopped
from lastcall_openai_agents import RunStopped

from .scripted import call, play, script
from .test_tool_kinds import ASKS, outputs, tool_of


class Missing(Exception):
    status_code = 404


def plain(ctx: Any, error: Exception) -> str:
    return f"Failed: {error}. Please try again."


async def awaited(ctx: Any, error: Exception) -> str:
    return plain(ctx, error)


WORDS = {"default": {}, **{f.__name__: {"failure_error_function": f} for f in (plain, awaited)}}


class Order(BaseModel):
    paid: bool


def asking(guard: Guard, error: Exception, **settings: Any) -> Agent[Any]:
    """An agent with a tool that calls a guarded function deep inside."""

    @guard.wrap
    def fetch(q: int) -> str:
        raise error

    @function_tool(**settings)
    def order(q: int) -> str:
        """Order."""
        return f"Here it is: {fetch(q)}"

    return Agent("A", tools=[order], model=script(call("order", {"q": 1}), "done"))


@pytest.mark.parametrize("words", WORDS)
def test_a_stop_from_deep_inside_is_what_the_model_reads(words, mode):
    played = play(asking(Guard(), Missing("no such order"), **WORDS[words]), mode)
    assert played.outputs["c1"].startswith("Stopped: fetch")
    assert "try again" not in played.outputs["c1"].lower()
    assert played.result.final_output == "done"


@pytest.mark.parametrize("words", ["plain", "awaited"])
def test_of_other_failures_the_users_function_speaks(words, mode):
    agent = asking(Guard(), ValueError("no such order"), **WORDS[words])
    assert play(agent, mode).outputs["c1"] == "Failed: no such order. Please try again."


def test_a_stop_that_is_meant_for_the_caller_reaches_it(mode):
    agent = asking(Guard(), Missing("no such order"), failure_error_function=None)
    played = play(agent, mode)
    assert isinstance(played.error, RunStopped)
    assert played.stop.status == 404


def test_a_schema_of_the_output_does_not_stand_in_the_way(mode):
    guard = Guard(Policy(max_repeats=1))

    @function_tool(output_type=Order, failure_error_function=plain)
    @guard.wrap
    def order(q: int) -> Order:
        """Order."""
        return Order(paid=True)

    asks = [call("order", {"q": 1}, f"c{i}") for i in range(2)]
    played = play(Agent("A", tools=[order], model=script(*asks, "done")), mode)
    assert "true" in str(played.outputs["c0"]).lower()
    assert played.outputs["c1"].startswith("Stopped: order")


def test_a_stop_of_nobody_we_know_is_read_too(mode):
    """Raised by hand, as `guard.calling` does."""
    guard = Guard(Policy(max_repeats=1))

    @function_tool(failure_error_function=plain)
    def order(q: int) -> str:
        """Order."""
        try:
            with guard.calling("fetch", {"q": q}) as fetching:
                return str(fetching.result("found"))
        except Stopped as stopped:
            assert stopped.stop.tool == "fetch"
            raise

    asks = [call("order", {"q": 1}, f"c{i}") for i in range(2)]
    played = play(Agent("A", tools=[order], model=script(*asks, "done")), mode)
    assert played.outputs["c0"] == "found"
    assert played.outputs["c1"].startswith("Stopped: fetch")


@pytest.mark.parametrize("kind", ["custom", "shell", "apply_patch"])
def test_tools_of_other_kinds_tell_it_as_their_failure(kind, mode):
    guard = Guard()

    @guard.wrap
    def fetch() -> str:
        raise Missing("no such order; please try again")

    tool = tool_of(kind, [], fetch)
    agent = Agent("A", tools=[tool], model=script(ASKS[kind](1, "c1"), "done"))
    (told,) = outputs(play(agent, mode))
    assert "Stopped: fetch" in str(told)
    assert "try again" not in str(told).lower()
