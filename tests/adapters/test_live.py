"""A saved run lived again by an agent of either framework: a real agent, a scripted model, recorded tools."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import textwrap
from itertools import count
from typing import Any

import pytest

from lastcall import Guard
from lastcall.cli import main
from lastcall.recording import Recorder

os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")

LANGCHAIN = '''
import asyncio
from typing_extensions import TypedDict
from uuid import uuid4
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

BODIES, SEEN, ASKED = [], [], []


class Model(BaseChatModel):
    script: list

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        SEEN[:] = messages
        ASKED.append([each.text for each in messages if each.type == "human"])
        turn = sum(isinstance(each, AIMessage) for each in messages)
        calls = [
            {"name": name, "args": args, "id": f"c{turn}-{n}", "type": "tool_call"}
            for n, (name, args) in enumerate(self.script[turn] if turn < len(self.script) else ())
        ]
        said = AIMessage("" if calls else "done", tool_calls=calls, id=uuid4().hex)
        return ChatResult(generations=[ChatGeneration(message=said)])


def body(name):
    def ran(**args):
        BODIES.append(name)
        return "for real"
    return ran


@tool
def look(q: str) -> str:
    """Look."""
    BODIES.append("look")
    return "for real"


@tool
async def alook(q: str) -> str:
    """Look, later."""
    BODIES.append("alook")
    return "for real"


@tool(response_format="content_and_artifact")
def fetch(q: str):
    """Fetch."""
    BODIES.append("fetch")
    return "for real", 1


class Own(BaseTool):
    name: str = "own"
    description: str = "Of a class of its own."

    def _run(self, q: str) -> str:
        BODIES.append("own")
        return "for real"


TOOLS = [look, alook, fetch, Own()]
MODEL = Model(script=SCRIPT)


def made():
    return create_agent(MODEL, TOOLS)


async def later():
    await asyncio.sleep(0)
    return made()


agent = made()


def saved():
    from langgraph.checkpoint.memory import InMemorySaver

    return create_agent(MODEL, TOOLS, checkpointer=InMemorySaver())


remembering = saved()


def graph(checkpointer=None):
    def ask(state):
        return {"messages": [MODEL.invoke(state["messages"])]}

    async def aask(state):
        return {"messages": [await MODEL.ainvoke(state["messages"])]}

    for model in (ask, aask):
        graph = StateGraph(MessagesState)
        graph.add_node("model", model)
        graph.add_node("tools", ToolNode(TOOLS))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        yield graph.compile(checkpointer=checkpointer)


by_hand, by_hand_awaited = graph()


def awaited_saved():
    from langgraph.checkpoint.memory import InMemorySaver

    return list(graph(InMemorySaver()))[1]


def noded():
    def work(state):
        return {"messages": [AIMessage(look.invoke({"q": "a"}))]}

    graph = StateGraph(MessagesState)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    return graph.compile()


def chain():
    from langchain_core.runnables import RunnableLambda

    return RunnableLambda(lambda words: look.invoke({"q": words})) | (lambda found: f"{found}!")


def fields():
    from langchain_core.runnables import RunnableLambda

    return RunnableLambda(lambda given: {"output": look.invoke({"q": given["input"]})}).with_types(
        input_type=TypedDict("Given", {"input": str})
    )


def replying(*after):
    """A runnable that takes messages, and gives back no state."""
    from langchain_core.runnables import RunnableLambda

    given = TypedDict("Given", {"messages": list})
    made = RunnableLambda(lambda given: MODEL.invoke(given["messages"]))
    for each in after:
        made = made | each
    return made.with_types(input_type=given)


def replying_in_text():
    from langchain_core.output_parsers import StrOutputParser

    return replying(StrOutputParser())


def replying_otherwise():
    return replying(lambda said: [said.text])


def instructed():
    return create_agent(MODEL, TOOLS, system_prompt="Be kind.")


def inside():
    """An agent whose tools are a graph: it has messages of its own."""

    def work(state):
        given = [("user", f"look {len(state['messages'])}")]
        return {"messages": made().invoke({"messages": given})["messages"][-1:]}

    graph = StateGraph(MessagesState)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    return graph.compile()


def asking():
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import interrupt

    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda state: interrupt("may I?"))
    graph.add_edge(START, "ask")
    return graph.compile(checkpointer=InMemorySaver())


def stopping():
    from lastcall import Guard, Policy
    from lastcall_langchain import GuardMiddleware

    own = Guard(Policy(max_calls=2, max_refusals=1))
    return create_agent(MODEL, TOOLS, middleware=[GuardMiddleware(own)])


async def waits(state):
    return {"messages": [await MODEL.ainvoke(state["messages"])]}


STOPS = []


def guarded():
    from lastcall import Guard, Policy
    from lastcall_langchain import guard_tools

    own = Guard(Policy(max_calls=2), listeners=[lambda event: event.stop and STOPS.append(event.stop)])
    return create_agent(MODEL, guard_tools(TOOLS, own))
'''

AGENTS = '''
import asyncio, json
from agents import (
    Agent, ApplyPatchTool, Computer, ComputerTool, CustomTool, FunctionTool, Model, ModelResponse, ShellTool, Usage,
    WebSearchTool, function_tool,
)
from agents.mcp import MCPServer
from mcp.types import Tool as McpTool
from openai.types.responses import (
    ResponseApplyPatchToolCall, ResponseCustomToolCall, ResponseFunctionShellToolCall,
    ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText,
)

BODIES, SEEN, ASKED = [], [], []


class Scripted(Model):
    def __init__(self, script):
        self.script = script

    async def get_response(self, system_instructions, input, *rest, **more):
        given = input if isinstance(input, list) else [{"role": "user", "content": input}]
        SEEN[:] = given
        ASKED.append([item["content"] for item in given if item.get("role") == "user"])
        turn = self.turns(given)
        self.next = turn + 1
        if turn < len(self.script) and self.script[turn]:
            output = [
                ResponseFunctionToolCall(
                    id=f"f{turn}-{n}", call_id=f"c{turn}-{n}", type="function_call", name=name,
                    arguments=json.dumps(args),
                )
                for n, (name, args) in enumerate(self.script[turn])
            ]
        else:
            text = ResponseOutputText(text="done", type="output_text", annotations=[], logprobs=[])
            output = [ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )]
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    def turns(self, given):
        turns, before = 0, None
        for item in given:
            kind = item.get("type")
            turns += kind == "function_call" and before != kind
            turns += item.get("role") == "assistant"
            before = kind
        return turns

    async def stream_response(self, *args, **more):
        raise NotImplementedError
        yield


@function_tool
def look(q: str) -> str:
    """Look."""
    BODIES.append("look")
    return "for real"


@function_tool
async def alook(q: str) -> str:
    """Look, later."""
    BODIES.append("alook")
    return "for real"


@function_tool(failure_error_function=None)
def fetch(q: str) -> str:
    """Fetch."""
    BODIES.append("fetch")
    return "for real"


class Own:
    pass


@function_tool(name_override="own")
def own(q: str) -> str:
    """Own."""
    BODIES.append("own")
    return "for real"


TOOLS = [look, alook, fetch, own]


def made():
    return Agent("A", model=Scripted(SCRIPT), tools=TOOLS)


async def later():
    await asyncio.sleep(0)
    return made()


agent = made()
expert = Agent("expert", model=Scripted([[("look", {"q": "a"})]]), tools=[look])
nested = Agent(
    "B",
    model=Scripted([[("ask", {"input": "whatever the model says"})]]),
    tools=[expert.as_tool("ask", "Ask.")],
)


async def execute(request):
    BODIES.append("shell")
    return "for real"


async def custom(ctx, text):
    BODIES.append("raw")
    return "for real"


class Editor:
    def create_file(self, operation):
        BODIES.append("editor")

    update_file = delete_file = create_file


class Natives(Scripted):
    """Asks for a tool of each kind."""

    async def get_response(self, system_instructions, input, *rest, **more):
        SEEN[:] = given = input if isinstance(input, list) else []
        turn = sum(str(item.get("type")).endswith("_output") for item in given)
        asked = [
            ResponseFunctionShellToolCall(
                id="s", call_id="s", type="shell_call", status="completed",
                action={"commands": ["rm -rf build"]},
            ),
            ResponseCustomToolCall(type="custom_tool_call", name="raw", call_id="r", input="text"),
            ResponseApplyPatchToolCall(
                id="p", call_id="p", type="apply_patch_call", status="completed",
                operation={"type": "create_file", "path": "a.txt", "diff": "+a"},
            ),
        ]
        if turn < len(asked):
            return ModelResponse(output=[asked[turn]], usage=Usage(requests=1), response_id=None)
        said = await super().get_response(system_instructions, [], *rest, **more)
        SEEN[:] = given
        return said


clerk = Agent("clerk", model=Scripted([[], [], [("look", {"q": "a"})]]), tools=[TOOLS[0]])
triage = Agent("triage", model=Scripted([[("transfer_to_clerk", {})]]), handoffs=[clerk])

natives = Agent(
    "natives",
    model=Natives([]),
    tools=[
        ShellTool(executor=execute),
        CustomTool(name="raw", description="Raw.", on_invoke_tool=custom),
        ApplyPatchTool(editor=Editor()),
    ],
)


class Wrapping(Scripted):
    """Ends with an error of its own, as clients of models do, where a guard of its own refuses a request."""

    async def get_response(self, *args, **more):
        try:
            with OWN.calling("request", {"n": len(ASKED)}):
                return await super().get_response(*args, **more)
        except Stopped as stopped:
            raise RuntimeError("no answer") from stopped


from lastcall import Guard, Policy, Stopped

OWN = Guard(Policy(max_calls=2))
wrapping = Agent("wrapping", model=Wrapping(SCRIPT), tools=[TOOLS[0]])


class Station(MCPServer):
    name = "station"

    async def connect(self): ...
    async def cleanup(self): ...
    async def list_prompts(self): ...
    async def get_prompt(self, name, arguments=None): ...

    async def list_tools(self, run_context=None, agent=None):
        BODIES[:] = ["listed"]
        schema = {"type": "object", "properties": {"city": {"type": "string"}}}
        return [McpTool(name="weather", inputSchema=schema)]

    async def call_tool(self, tool_name, arguments, meta=None):
        BODIES.append("called")
        raise AssertionError


served = Agent(
    "served", model=Scripted([[("weather", {"city": "Oslo"})]]), mcp_servers=[Station()]
)
hosted = Agent("hosted", model=Scripted([]), tools=[WebSearchTool()])


def looking():
    class Screen(Computer):
        environment, dimensions = "browser", (1, 1)

        def screenshot(self):
            BODIES.append("screenshot")

        click = double_click = scroll = type = wait = move = keypress = drag = screenshot

    return Agent("looking", model=Scripted([]), tools=[ComputerTool(Screen())])


@function_tool(needs_approval=True)
def approved(q: str) -> str:
    """Needs a person."""
    BODIES.append("approved")


asking = Agent("asking", model=Scripted([[("approved", {"q": "a"})]]), tools=[approved])


class Alike(FunctionTool):
    """Only looks like a function tool."""

    def __init__(self):
        schema = {"type": "object", "properties": {}}
        super().__init__("alike", "Alike.", schema, self.on_invoke_tool, strict_json_schema=False)
        del self.on_invoke_tool

    @staticmethod
    async def on_invoke_tool(ctx, text):
        BODIES.append("alike")
        return "for real"


def alike():
    return Agent("alike", model=Scripted([[("alike", {})]]), tools=[Alike()])


def stopping():
    from lastcall import Guard, Policy
    from lastcall_openai_agents import guard_agent

    return guard_agent(made(), Guard(Policy(max_calls=2, max_refusals=1)))


STOPS = []


def guarded():
    from lastcall import Guard, Policy
    from lastcall_openai_agents import guard_agent

    own = Guard(Policy(max_calls=2), listeners=[lambda event: event.stop and STOPS.append(event.stop)])
    return guard_agent(made(), own)
'''

FRAMEWORKS = {
    "langchain": (LANGCHAIN, ("agent", "made", "later", "by_hand", "by_hand_awaited")),
    "agents": (AGENTS, ("agent", "made", "later")),
}
EACH = [(kind, name) for kind, (_, names) in FRAMEWORKS.items() for name in names]
each = pytest.mark.parametrize(("kind", "name"), EACH)
both = pytest.mark.parametrize("kind", FRAMEWORKS)
NUMBERS = count()

ALL = [[("look", {"q": "a"}), ("alook", {"q": "a"})], [("fetch", {"q": "a"}), ("own", {"q": "a"})]]


@pytest.fixture
def live(tmp_path, monkeypatch, capsys):
    """Lives a log again with an agent whose model follows *script*."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def play(kind: str, name: str, script: Any, calls: Any, *words: str) -> Any:
        module = f"lived_{kind}_{next(NUMBERS)}"
        source = FRAMEWORKS[kind][0]
        (tmp_path / f"{module}.py").write_text(f"SCRIPT = {script!r}\n{textwrap.dedent(source)}")
        if not isinstance(calls, list):
            log = calls
        elif "role" in calls[0]:
            log = tmp_path / "chat.json"
            log.write_text(json.dumps(calls))
        else:
            log = tmp_path / "run.jsonl"
            log.write_text("\n".join(map(json.dumps, calls)))
        prompt = () if log.name == "chat.json" else ("--prompt", "go")
        code = main(["replay", "--live", f"{module}:{name}", "--json", *prompt, *words, str(log)])
        out, err = capsys.readouterr()
        told = [json.loads(line) for line in out.splitlines()]
        return code, told, err, sys.modules.get(module)

    return play


def call(name: str, result: Any = "found", q: str = "a", **more: Any) -> dict[str, Any]:
    return {"name": name, "args": {"q": q}, "result": result, **more}


def read_by(module: Any) -> str:
    """All that the model read."""
    return "\n".join(str(each) for each in module.SEEN)


@each
def test_the_recorded_tools_answer_and_no_body_runs(live, kind, name):
    calls = [
        call("look", "seen 1", reply=1), call("alook", "seen 2", reply=1),
        call("fetch", "seen 3", reply=2), call("own", "seen 4", reply=2),
    ]  # fmt: skip
    code, (done,), err, module = live(kind, name, ALL, calls)
    assert (code, err, module.BODIES) == (0, "", [])
    assert [f"seen {n}" in read_by(module) for n in range(1, 5)] == [True] * 4
    told = {key: done[key] for key in ("calls", "requests", "diverged", "unrecorded", "output")}
    assert told == {
        "calls": 4, "requests": 3, "diverged": None, "unrecorded": 0, "output": "done",
    }  # fmt: skip
    assert (done["stops"], done["error"], done["ended"]) == ([], None, None)


@both
def test_equal_calls_get_their_results_in_order_and_the_last_again(live, kind):
    script = [[("look", {"q": "a"})]] * 3
    calls = [call("look", "1st"), call("look", "2nd")]
    _, (done,), _, module = live(kind, "agent", script, calls)
    said = read_by(module)
    assert (said.count("1st"), said.count("2nd"), module.BODIES) == (1, 2, [])
    assert done["diverged"] == {"index": 2, "tool": "look", "recorded": None}


@both
def test_a_call_that_was_not_recorded_is_answered_so(live, kind):
    script = [[("look", {"q": "a"})], [("own", {"q": "other"})]]
    calls = [call("look"), call("own")]
    code, (done,), _, module = live(kind, "agent", script, calls)
    assert "There is no recording of this call of own" in read_by(module)
    assert (code, module.BODIES, done["unrecorded"]) == (0, [], 1)
    assert done["diverged"] == {"index": 1, "tool": "own", "recorded": "own"}


@both
def test_a_run_that_ends_early_has_diverged(live, kind):
    _, (done,), _, _ = live(kind, "agent", [[("look", {"q": "a"})]], [call("look"), call("own")])
    assert done["diverged"] == {"index": 1, "tool": None, "recorded": "own"}


@both
def test_the_policy_judges(live, kind):
    script = [[("look", {"q": "a"})]] * 30
    calls = [call("look", {"error": "no date"}, status=422)] * 30
    code, (done,), _, module = live(kind, "agent", script, calls, "--expect", "stop")
    assert (code, module.BODIES) == (0, [])
    assert done["calls"] < 10
    first = done["stops"][0]
    assert (first["reason"], first["status"], first["refused"]) == ("terminal", 422, False)
    assert any(stop["refused"] for stop in done["stops"])
    assert done["diverged"] is None
    code, (done,), _, module = live(
        kind, "agent", script[:5], calls, "--expect", "stop", "--policy", "permissive"
    )
    assert (code, done["stops"], done["calls"]) == (1, [], 5)


@both
def test_failures_are_failures_again(live, kind):
    script = [[("look", {"q": "a"})], [("look", {"q": "b"})]]
    calls = [call("look", "busy", ok=False), call("look", "not there", "b", status=404)]
    _, (done,), _, module = live(kind, "agent", script, calls)
    assert "busy" in read_by(module)
    assert [(each["index"], each["status"]) for each in done["stops"]] == [(1, 404)]


@both
def test_an_agent_that_never_ends_is_ended_by_its_framework(live, kind):
    script = [[("look", {"q": str(n)})] for n in range(500)]
    code, (done,), _, module = live(kind, "agent", script, [call("look")], "--policy", "permissive")
    assert (code, module.BODIES, done["error"]) == (0, [], None)
    assert done["ended"]
    assert done["requests"] < 100


@both
def test_an_agent_that_fails_is_named_with_why(live, kind):
    code, (done,), _, _ = live(kind, "agent", [[5]], [call("look")])
    assert code == 2
    assert done["error"].startswith("TypeError: ")


@both
def test_a_recording_of_the_agent_itself(live, kind, tmp_path, monkeypatch):
    """Recorded by our recorder, lived again by the same agent: nothing differs, and nothing runs."""
    calls = [call("look"), call("own")]
    _, _, _, module = live(kind, "agent", ALL, calls)
    recorder = Recorder(tmp_path / "runs")
    guard = Guard(listeners=[recorder])
    if kind == "langchain":
        from lastcall_langchain import attach

        asyncio.run(attach(module.agent, guard).ainvoke({"messages": [("user", "go")]}))
    else:
        from agents import Runner

        from lastcall_openai_agents import guard_agent

        asyncio.run(Runner.run(guard_agent(module.agent, guard), "go"))
    recorder.close()
    assert sorted(module.BODIES) == ["alook", "fetch", "look", "own"]
    code, (done,), err, module = live(kind, "agent", ALL, tmp_path / "runs")
    assert (code, err, module.BODIES) == (0, "", [])
    assert (done["calls"], done["diverged"], done["unrecorded"]) == (4, None, 0)
    assert read_by(module).count("for real") == 4


def test_an_agent_as_a_tool_is_lived_with_too(live):
    calls = [
        {"name": "ask", "args": {"input": "as it was put then"}, "result": "the expert's words"},
        call("look", "seen by the expert"),
    ]
    code, (done,), _, module = live("agents", "nested", [], calls)
    assert (code, module.BODIES) == (0, [])
    assert (done["calls"], done["unrecorded"]) == (2, 0)
    assert done["diverged"] == {"index": 0, "tool": "ask", "recorded": "ask"}


def test_tools_of_other_kinds_answer_too(live):
    """A shell, a custom tool and an editor: none runs, none writes."""
    calls = [
        {"name": "shell", "args": {"commands": ["rm -rf build"]}, "result": "gone", "reply": 1},
        {"name": "raw", "args": {"input": "text"}, "result": "raw answer", "reply": 2},
        {
            "name": "apply_patch",
            "args": {"type": "create_file", "path": "a.txt", "diff": "+a"},
            "result": "patched",
            "reply": 3,
        },
    ]
    code, (done,), err, module = live("agents", "natives", [], calls)
    assert (code, err, module.BODIES) == (0, "", [])
    assert (done["calls"], done["diverged"], done["unrecorded"]) == (3, None, 0)
    said = read_by(module)
    assert [text in said for text in ("gone", "raw answer", "patched")] == [True] * 3


def test_servers_list_their_tools_and_are_asked_for_nothing_else(live):
    calls = [{"name": "weather", "args": {"city": "Oslo"}, "result": "rain, as recorded"}]
    code, (done,), err, module = live("agents", "served", [], calls)
    assert code == 0
    assert "station runs for real: it is asked which tools it has, and for nothing else" in err
    assert module.BODIES == ["listed"]
    assert "rain, as recorded" in read_by(module)
    assert (done["diverged"], done["unrecorded"]) == (None, 0)


def test_hosted_tools_are_named(live):
    code, _, err, _ = live("agents", "hosted", [], [call("look")])
    assert code == 0
    assert "web_search runs for real: run by the model's provider" in err


def test_a_computer_cannot_be_lived_again(live):
    code, (done,), _, module = live("agents", "looking", [], [call("look")])
    assert (code, module.BODIES) == (2, [])
    assert done["error"] == "ValueError: looking has a computer, which cannot be lived again"


@both
def test_a_guard_that_the_agent_has_itself_stays(live, kind):
    script = [[("look", {"q": "a"})]] * 8
    calls = [call("look")] * 8
    code, (done,), _, module = live(kind, "guarded", script, calls, "--policy", "permissive")
    assert (code, module.BODIES) == (0, [])
    assert 2 <= done["calls"] <= 6
    assert "look" in str(module.STOPS)


def test_a_tool_called_by_a_node_of_a_graph(live):
    code, (done,), _, module = live("langchain", "noded", [], [call("look", "as recorded")])
    assert (code, module.BODIES) == (0, [])
    assert (done["output"], done["diverged"]) == ("as recorded", None)


@both
def test_a_stop_by_a_guard_of_its_own_is_told(live, kind):
    script = [[("look", {"q": str(n)})] for n in range(9)]
    calls = [call("look", q=str(n)) for n in range(9)]
    code, (done,), _, module = live(kind, "stopping", script, calls, "--policy", "permissive")
    assert (code, module.BODIES, done["stops"]) == (0, [], [])
    assert done["ended"].startswith("a guard of its own: ")
    assert done["diverged"] is None


@both
def test_a_pause_for_a_person_is_told(live, kind):
    code, (done,), _, module = live(kind, "asking", [], [call("look")])
    assert (code, module.BODIES, done["error"]) == (0, [], None)
    assert done["ended"].startswith("a pause: a person has to ")


@pytest.mark.parametrize(("name", "said"), [("chain", "found!"), ("fields", "found")])
def test_other_runnables(live, name, said):
    code, (done,), _, module = live("langchain", name, [], [call("look", q="go")])
    assert (code, module.BODIES, done["output"]) == (0, [], said)


def test_a_function_tool_that_only_looks_like_one(live):
    calls = [{"name": "alike", "args": {}, "result": {"as": "recorded"}}]
    code, (done,), _, module = live("agents", "alike", [], calls)
    assert (code, module.BODIES, done["error"]) == (0, [], None)
    assert "as" in read_by(module)
    assert (done["diverged"], done["unrecorded"]) == (None, 0)


@both
def test_afterwards_bodies_run_again(live, kind):
    *_, module = live(kind, "agent", [[("look", {"q": "a"})]], [call("look")])
    assert module.BODIES == []
    if kind == "langchain":
        assert module.look.invoke({"q": "a"}) == "for real"
    else:
        from agents import Runner

        asyncio.run(Runner.run(module.agent, "go"))
    assert module.BODIES == ["look"]


def chat(*turns: Any) -> list[dict[str, Any]]:
    """A conversation: of each turn the user's words, then the calls with their results."""
    told: list[dict[str, Any]] = []
    for at, (words, *calls) in enumerate(turns):
        told.append({"role": "user", "content": words})
        for n, (name, q, result) in enumerate(calls):
            asked = {"name": name, "arguments": json.dumps({"q": q})}
            id_ = f"t{at}-{n}"
            told += [
                {"role": "assistant", "tool_calls": [{"id": id_, "function": asked}]},
                {"role": "tool", "tool_call_id": id_, "content": result},
            ]
        told.append({"role": "assistant", "content": "done"})
    return told


CHAT = chat(
    ("one", ("look", "a", "1st")),
    ("two", ("look", "b", "2nd"), ("look", "c", "3rd"), ("look", "d", "4th")),
    ("three", ("look", "a", "5th")),
)
CONVERSATIONS = [
    ("langchain", ("agent", "made", "remembering", "saved", "by_hand_awaited", "awaited_saved")),
    ("agents", ("agent", "later")),
]
conversing = pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in CONVERSATIONS for name in names]
)


def look_(q: str) -> list[Any]:
    return [("look", {"q": q})]


THREE = [look_("a"), [], look_("b"), look_("c"), look_("d"), [], look_("a"), []]


@conversing
def test_every_turn_is_lived_with_what_was_said_before(live, kind, name):
    code, (done,), err, module = live(kind, name, THREE, CHAT)
    assert (code, err, module.BODIES, done["error"], done["ended"]) == (0, "", [], None, None)
    assert [module.ASKED[n] for n in (0, 2, -1)] == [
        ["one"],
        ["one", "two"],
        ["one", "two", "three"],
    ]
    told = {key: done[key] for key in ("calls", "recorded", "requests", "diverged", "not_lived")}
    assert told == {
        "calls": 5, "recorded": 5, "requests": 8, "diverged": None, "not_lived": None,
    }  # fmt: skip
    assert [(turn["turn"], turn["calls"], turn["recorded"], turn["requests"], turn["output"])
            for turn in done["turns"]] == [(0, 1, 1, 2, "done"), (1, 3, 3, 4, "done"), (2, 1, 1, 2, "done")]  # fmt: skip
    # The same call is answered as it was in its turn.
    assert [f"{n}" in read_by(module) for n in ("1st", "2nd", "3rd", "4th", "5th")] == [True] * 5


TWO_CALLS = "max_calls = 2\n"


@conversing
def test_a_stop_of_a_turn_leaves_the_next_one(live, tmp_path, kind, name):
    (tmp_path / "two.toml").write_text(TWO_CALLS)
    script = [look_("a"), [], look_("b"), look_("c"), look_("d"), look_("a"), []]
    code, (done,), err, module = live(kind, name, script, CHAT, "--policy", "two.toml")
    assert (code, err, module.BODIES, done["error"], done["ended"]) == (0, "", [], None, None)
    first = done["stops"][0]
    assert (first["index"], first["reason"], first["scope"]) == (3, "ceiling", "turn")
    assert [turn["stopped"] for turn in done["turns"]] == [False, True, False]
    assert [turn["diverged"] for turn in done["turns"]] == [None] * 3
    assert (done["not_lived"], done["output"]) == (None, "done")
    assert module.ASKED[-1] == ["one", "two", "three"]
    said = read_by(module)
    assert [text in said for text in ("1st", "2nd", "3rd", "4th", "5th")] == [
        True, True, True, False, True,
    ]  # fmt: skip
    assert done["calls"] == 5


@conversing
def test_a_stop_of_the_run_leaves_the_next_turn_which_is_another(live, kind, name):
    calls = ("look", "b", '{"error": "no date", "status": 422}')
    lines = chat(("one", ("look", "a", "1st")), ("two", *[calls] * 3), ("three", calls))
    script = [look_("a"), [], *[look_("b")] * 19]
    code, (done,), _, module = live(kind, name, script, lines)
    assert (code, module.BODIES, done["error"]) == (0, [], None)
    assert "run" in [stop["scope"] for stop in done["stops"]]
    assert [turn["stopped"] for turn in done["turns"]] == [False, True, True]
    assert done["not_lived"] is None
    assert module.ASKED[-1] == ["one", "two", "three"]


@conversing
def test_all_turns_are_one_thread_of_the_guard(live, tmp_path, kind, name):
    (tmp_path / "thread.toml").write_text(
        '[[rules.budget.limits]]\nquantity = "calls"\nper = "thread"\nwindow = "hour"\nmost = 4\n'
    )
    lines = chat(
        *((words, ("look", "a", words), ("look", "b", words)) for words in ("1", "2", "3", "4"))
    )
    script = [look_("a"), look_("b"), [], look_("a"), look_("b"), [], *[look_("a")] * 9]
    code, (done,), _, module = live(kind, name, script, lines, "--policy", "thread.toml")
    assert (code, module.BODIES, done["error"]) == (0, [], None)
    first = done["stops"][0]
    assert (first["index"], first["reason"], first["scope"]) == (4, "budget", "thread")
    assert len(done["turns"]) == 3
    assert done["not_lived"] == {"turns": 1, "why": "a stop of scope thread ended it in turn 3"}


@both
def test_after_a_failure_no_turn_comes(live, kind):
    code, (done,), _, module = live(kind, "agent", [look_("a"), [], [5]], CHAT)
    assert (code, module.BODIES, done["turns"][0]["error"]) == (2, [], None)
    assert done["error"].startswith("TypeError: ")
    assert done["not_lived"] == {"turns": 1, "why": "the agent failed in turn 2"}


def test_the_agent_that_took_over_goes_on(live):
    lines = chat(("one", ("transfer_to_clerk", "", "")), ("two", ("look", "a", "found")))
    code, (done,), _, module = live("agents", "triage", [], lines)
    assert (code, module.BODIES, done["error"]) == (0, [], None)
    assert [turn["calls"] for turn in done["turns"]] == [1, 1]
    assert "found" in read_by(module)


def test_other_runnables_are_given_the_words_of_each_turn(live):
    lines = chat(("go", ("look", "go", "1st")), ("on", ("look", "on", "2nd")))
    _, (done,), _, _ = live("langchain", "chain", [], lines)
    assert [turn["output"] for turn in done["turns"]] == ["1st!", "2nd!"]


def test_what_an_agent_says_to_its_model_each_time_is_said_once(live, tmp_path):
    (tmp_path / "two.toml").write_text(TWO_CALLS)
    script = [look_("a"), [], look_("b"), look_("c"), look_("d"), look_("a"), []]
    _, (done,), _, module = live("langchain", "instructed", script, CHAT, "--policy", "two.toml")
    assert [turn["stopped"] for turn in done["turns"]] == [False, True, False]
    assert [each.type for each in module.SEEN].count("system") == 1
    assert module.ASKED[-1] == ["one", "two", "three"]


@pytest.mark.parametrize("name", ["replying", "replying_in_text", "replying_otherwise"])
def test_runnables_that_give_back_no_state_are_given_what_was_said(live, name):
    _, (done,), _, module = live("langchain", name, [], CHAT)
    assert (done["error"], module.ASKED) == (
        None,
        [["one"], ["one", "two"], ["one", "two", "three"]],
    )
    answers = [each.text for each in module.SEEN if each.type == "ai"]
    assert answers == ([] if name == "replying_otherwise" else ["done", "done"])


def test_messages_of_an_agent_inside_are_not_those_of_the_conversation(live, tmp_path):
    (tmp_path / "two.toml").write_text(TWO_CALLS)
    script = [look_("b"), look_("c"), look_("d"), []]
    _, (done,), _, module = live("langchain", "inside", script, CHAT, "--policy", "two.toml")
    assert [turn["stopped"] for turn in done["turns"]] == [True, True, True]
    assert list(map(list, dict.fromkeys(map(tuple, module.ASKED)))) == [
        ["look 1"], ["look 2"], ["look 3"],
    ]  # fmt: skip


def test_a_turn_of_which_nothing_is_told_has_the_users_words(live):
    """An error of a model's client with a stop behind it brings no items."""
    script = [[], look_("b"), look_("c"), look_("d"), []]
    _, (done,), _, module = live("agents", "wrapping", script, CHAT)
    assert [turn["stopped"] for turn in done["turns"]] == [False, True, True]
    assert done["turns"][1]["ended"].startswith("a guard of its own: ")
    assert module.ASKED[-1] == ["one", "two", "three"]
