"""Servers whose tools are made anew for every request."""

from __future__ import annotations

import pytest
from agents import Agent, ToolGuardrailFunctionOutput, tool_input_guardrail
from agents.mcp import MCPServer
from mcp.types import CallToolResult, TextContent, Tool

from lastcall import Guard, Policy
from lastcall_openai_agents import guard_agent

from .scripted import call, play, script, stubborn


class Server(MCPServer):
    def __init__(self, answer, **settings):
        super().__init__(**settings)
        self.answer = answer
        self.served = []
        self.entered = 0

    async def connect(self):
        self.entered += 1

    async def cleanup(self):
        self.entered -= 1

    async def __aenter__(self):
        await self.connect()
        return self

    async def __aexit__(self, *error):
        await self.cleanup()

    @property
    def name(self):
        return "shop"

    async def list_tools(self, run_context=None, agent=None):
        schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
        return [Tool(name="order", inputSchema=schema)]

    async def call_tool(self, tool_name, arguments, meta=None):
        self.served.append(arguments)
        return self.answer(len(self.served))

    async def list_prompts(self):
        raise NotImplementedError

    async def get_prompt(self, name, arguments=None):
        raise NotImplementedError


def text(said, *, error=False):
    content = [TextContent(type="text", text=said)]
    return CallToolResult.model_validate({"content": content, "isError": error})


def broken(_):
    raise ConnectionError("HTTP 503")


def agent_of(server, model, **settings):
    return Agent("A", mcp_servers=[server], model=model, **settings)


@pytest.mark.parametrize(
    ("answer", "served"),
    [
        (lambda n: text("the same"), 3),
        (lambda n: text("HTTP 422 unprocessable", error=True), 3),
        (lambda n: text("HTTP 503 unavailable", error=True), 5),
        (broken, 5),
    ],
    ids=["the same", "422", "503", "transport"],
)
@pytest.mark.parametrize("prefixed", [False, True])
def test_a_runaway_stops(answer, served, prefixed, mode):
    server = Server(answer)
    name = "mcp_shop__order" if prefixed else "order"
    varied = served == 5 or answer(1).model_dump(by_alias=True).get("isError")
    model = stubborn(name, lambda i: {"x": i if varied else 1})
    agent = agent_of(server, model, mcp_config={"include_server_in_tool_names": prefixed})
    played = play(guard_agent(agent, Guard()), mode)
    assert len(server.served) == served
    assert played.requests <= served + 3
    assert played.error is None
    assert played.stop is not None
    assert played.stop.server == "shop"
    assert not played.unanswered


def test_a_final_answer_reads_as_a_stop():
    server = Server(lambda n: text("HTTP 404: no such order", error=True))
    played = play(guard_agent(agent_of(server, script(call("order", {"x": 7}), "done")), Guard()))
    assert "HTTP 404" in played.outputs["c1"][0]["text"]
    assert "Stopped: order" in played.outputs["c1"][0]["text"]
    assert played.result.final_output == "done"


def test_other_answers_stay_as_they_are(mode):
    plain = play(
        agent_of(Server(lambda n: text("fine")), script(call("order", {"x": 7}), "done")), mode
    )
    server = Server(lambda n: text("fine"))
    played = play(
        guard_agent(agent_of(server, script(call("order", {"x": 7}), "done")), Guard()), mode
    )
    assert played.outputs == plain.outputs
    assert [event.type for event in played.result.new_items] == [
        event.type for event in plain.result.new_items
    ]


def test_malformed_arguments_never_reach_the_server():
    server = Server(lambda n: text("fine"))
    model = script(*[call("order", "{broken", f"c{i}") for i in range(9)], "done")
    played = play(guard_agent(agent_of(server, model), Guard()))
    assert played.stop.reason == "malformed"
    assert server.served == []
    assert played.requests == 3


def test_the_servers_own_guardrails_come_after_ours():
    order = []

    @tool_input_guardrail
    def own(data):
        order.append(data.context.tool_call_id)
        return ToolGuardrailFunctionOutput.allow()

    guard = Guard(Policy(max_calls=1))
    server = Server(lambda n: text("fine"), tool_input_guardrails=[own])
    model = script([call("order", {"x": 1}), call("order", {"x": 2}, "c2")], "done")
    play(guard_agent(agent_of(server, model), guard))
    assert order == ["c1"]
    assert server.tool_input_guardrails == [own]


async def lives(server):
    async with server as entered:
        assert entered is server
        assert server.entered == 1
    assert server.entered == 0


@pytest.mark.asyncio
async def test_the_guarded_server_is_the_server_in_everything_else():
    server = Server(lambda n: text("fine"))
    guard = Guard()
    guarded = guard_agent(agent_of(server, None), guard).mcp_servers[0]
    assert isinstance(guarded, Server)
    assert guarded.name == "shop"
    guarded.cache = "set"
    assert server.cache == "set"
    await lives(guarded)
    assert guard_agent(agent_of(guarded, None), guard).mcp_servers[0] is guarded


def test_two_guards_both_count():
    server = Server(lambda n: text("fine"))
    first, second = Guard(Policy(max_calls=2)), Guard(Policy(max_calls=1))
    model = script(*[call("order", {"x": i}, f"c{i}") for i in range(5)], "done")
    played = play(guard_agent(guard_agent(agent_of(server, model), first), second))
    assert len(server.served) == 1
    assert played.stop.limit == 1
