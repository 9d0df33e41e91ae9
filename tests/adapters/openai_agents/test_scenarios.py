"""A model that asks forty times, whatever it is told; and healthy runs that nobody touches."""

from __future__ import annotations

import httpx
import pytest
from agents import Agent, function_tool

from lastcall import Guard
from lastcall_openai_agents import GuardHooks, RunStopped, StopText, guard_agent, guard_tools

from .scripted import aplay, call, play, script, stubborn


class Unwell(Exception):
    def __init__(self, status):
        super().__init__(f"the service answered {status}")
        self.status_code = status


def refusal(status):
    request = httpx.Request("GET", "https://api.example/x")
    return httpx.HTTPStatusError(
        f"answered {status}", request=request, response=httpx.Response(status, request=request)
    )


def tool(ran, body, **settings):
    """A tool `look(q, page)` that notes what it was called with."""

    @function_tool(name_override="look", **settings)
    async def look(q: str = "", page: int = 0) -> str:
        ran.append((q, page))
        return body(len(ran))

    return look


def fails(status, how):
    def body(_):
        if how == "httpx":
            raise refusal(status)
        if how == "exception":
            raise Unwell(status)
        return f'{{"status_code": {status}, "error": "no"}}'

    return body


def one(_):
    return "the same"


SHAPES = [
    {"q": "x", "page": 1},
    '{"page": 1, "q": "x"}',
    '{ "q" : "x" , "page" : 1 }',
    {"q": "x ", "page": 1},
    {"q": "X", "page": 1},
]

RUNAWAYS = {
    "one call with one result": (one, lambda i: {"q": "x"}),
    "one call in other forms": (one, lambda i: SHAPES[i % len(SHAPES)]),
    "422 raised": (fails(422, "exception"), lambda i: {"q": f"x{i}"}),
    "422 raised by httpx": (fails(422, "httpx"), lambda i: {"q": f"x{i}"}),
    "422 returned": (fails(422, "value"), lambda i: {"q": f"x{i}"}),
    "503 raised": (fails(503, "exception"), lambda i: {"q": f"x{i}"}),
    "503 returned": (fails(503, "value"), lambda i: {"q": f"x{i}"}),
}
runaways = pytest.mark.parametrize(("body", "args"), RUNAWAYS.values(), ids=RUNAWAYS)


def check(played, ran):
    assert len(ran) <= 5
    assert played.requests <= len(ran) + 3
    assert played.stop is not None
    assert played.stop.tool == "look"
    assert not played.unanswered
    assert not any("try again" in str(text).lower() for text in list(played.outputs.values())[-3:])


@runaways
def test_a_guarded_agent_stops_as_a_normal_result(body, args, mode):
    ran = []
    agent = guard_agent(Agent("A", tools=[tool(ran, body)], model=stubborn("look", args)), Guard())
    played = play(agent, mode)
    check(played, ran)
    assert played.error is None
    assert isinstance(played.result.final_output, StopText)


@runaways
def test_guarded_tools_alone_end_an_unchanged_agent_with_an_exception(body, args, mode):
    ran = []
    tools = guard_tools([tool(ran, body)], Guard())
    played = play(Agent("A", tools=tools, model=stubborn("look", args)), mode)
    check(played, ran)
    assert isinstance(played.error, RunStopped)


@runaways
def test_a_function_that_is_only_decorated_ends_an_unchanged_agent(body, args, mode):
    ran = []

    @function_tool
    @Guard().wrap
    def look(q: str = "", page: int = 0) -> str:
        ran.append(q)
        return body(len(ran))

    played = play(Agent("A", tools=[look], model=stubborn("look", args)), mode)
    check(played, ran)
    assert isinstance(played.error, RunStopped)


@runaways
def test_hooks_alone_end_an_unchanged_agent(body, args, mode):
    ran = []
    agent = Agent("A", tools=[tool(ran, body)], model=stubborn("look", args))
    played = play(agent, mode, hooks=GuardHooks(Guard()))
    check(played, ran)
    assert isinstance(played.error, RunStopped)


def test_a_renamed_key_is_the_same_call():
    ran = []

    @function_tool(strict_mode=False)
    async def look(**query: str) -> str:
        ran.append(query)
        return "the same"

    model = stubborn("look", lambda i: {"query": {f"name{i}": "x"}})
    played = play(guard_agent(Agent("A", tools=[look], model=model), Guard()))
    assert len(ran) <= 5
    assert played.stop is not None


def healthy():
    def reads(i):
        return f"page {i}"

    yield "12 distinct reads", reads, [("look", {"q": f"r{i}"}) for i in range(12)]
    yield "12 writes that answer ok", lambda i: "ok", [("look", {"q": f"w{i}"}) for i in range(12)]
    yield "6 polls that change", lambda i: f"{i * 10} %", [("look", {"q": "job"})] * 6
    yield (
        "6 rounds of edit and test",
        lambda i: "edited" if i % 2 else f"{i} failures",
        [("look", {"q": f"edit {i}" if i % 2 == 0 else "test"}) for i in range(12)],
    )
    yield "12 pages", reads, [("look", {"q": "all", "page": i}) for i in range(12)]
    yield (
        "6 restores with empty output between edits",
        lambda i: "edited" if i % 2 else "",
        [("look", {"q": f"edit {i}" if i % 2 == 0 else "restore"}) for i in range(12)],
    )


HEALTHY = {name: (body, calls) for name, body, calls in healthy()}


@pytest.mark.parametrize("way", ["agent", "tools", "decorated", "hooks"])
@pytest.mark.parametrize(("body", "calls"), HEALTHY.values(), ids=HEALTHY)
def test_healthy_runs_are_not_touched(body, calls, way, mode):
    ran = []
    guard = Guard()
    look = tool(ran, body)
    model = script(*[call(name, args, f"c{i}") for i, (name, args) in enumerate(calls)], "done")
    options = {}
    if way == "decorated":

        @function_tool
        @guard.wrap
        async def look(q: str = "", page: int = 0) -> str:
            ran.append(q)
            return body(len(ran))

    agent = Agent("A", tools=[look], model=model)
    if way == "agent":
        agent = guard_agent(agent, guard)
    elif way == "tools":
        agent = agent.clone(tools=guard_tools(agent.tools, guard))
    elif way == "hooks":
        options["hooks"] = GuardHooks(guard)
    played = play(agent, mode, **options)
    assert played.error is None
    assert played.result.final_output == "done"
    assert len(ran) == len(calls)
    assert played.stop is None


@pytest.mark.asyncio
async def test_nothing_is_left_of_a_run(mode):
    guard = Guard()
    ran = []
    agent = guard_agent(
        Agent("A", tools=[tool(ran, one)], model=stubborn("look", lambda i: {"q": "x"})), guard
    )
    played = await aplay(agent, mode)
    assert played.stop is not None
    assert len(guard.store) == 0
