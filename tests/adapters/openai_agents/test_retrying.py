"""Tools that are retried, in unchanged agents and in guarded ones: a call counts once, a retry is one."""

from __future__ import annotations

import pytest
from agents import Agent, function_tool

from lastcall import Guard
from lastcall.retrying import Rolling
from lastcall_openai_agents import guard_agent

from .scripted import call, play, script


class Busy(Exception):
    status_code = 429


def sleep(seconds):
    """Nobody waits here."""


async def asleep(seconds):
    """Nobody waits here."""


def made(guard, asked, colour, **settings):
    retrying = guard.retrying(sleep=sleep, asleep=asleep, name="look", **settings)

    def answer(q):
        asked.append(q)
        if len(asked) % 3:
            raise Busy("busy")
        return f"found {q}"

    def look(q: int = 0) -> str:
        return answer(q)

    async def alook(q: int = 0) -> str:
        return answer(q)

    body = look if colour == "sync" else alook
    return function_tool(name_override="look", failure_error_function=None)(retrying(body))


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("guarded", [False, True])
def test_a_call_counts_once(colour, guarded, mode):
    asked, events = [], []
    guard = Guard(listeners=[events.append])
    replies = script(call("look", {"q": 0}, "a"), call("look", {"q": 1}, "b"), "done")
    agent = Agent("A", tools=[made(guard, asked, colour)], model=replies)
    played = play(guard_agent(agent, guard) if guarded else agent, mode)
    assert played.error is None
    assert asked == [0, 0, 0, 1, 1, 1]
    assert list(played.outputs.values()) == ["found 0", "found 1"]
    (run,) = {event.run for event in events if event.run}
    assert [event.kind for event in events].count("retry") == 4
    totals = guard.report(run).totals
    assert (totals.executed, totals.attempts) == (2, 6)


def test_429_for_ever_stays_within_the_budget(mode):
    asked, guard = [], Guard()
    tool = made(guard, asked, "async", attempts=3, budget=Rolling(1, None))
    model = script(*[call("look", {"q": n}, f"c{n}") for n in range(2)], "done")
    play(Agent("A", tools=[tool], model=model), mode)
    assert asked == [0, 0]
