"""What real frameworks save, made by them with scripted models, is read as what happened."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lastcall import Policy
from lastcall.call import Usage
from lastcall.replay import Replayer
from lastcall.rules.budget import Budget, Limit
from lastcall.transcripts import Transcript, Unreadable, read

SPENT = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
LOOP = 6
"""How often the scripted model asks for the same call."""


def only(path: Path) -> Transcript:
    (run,) = read(path)
    assert isinstance(run, Transcript), run
    return run


def shape(run: Transcript) -> list[tuple[Any, ...]]:
    return [(call.tool, call.args, call.result, call.turn, call.failed) for call in run.calls]


LOOKED = [("look", {"at": 1}, "seen 1", 0, False)] * LOOP
PAID = ("pay", {"sum": 5}, "HTTP 422", 1, True)


def langchain_agent(**settings: Any) -> Any:
    """An agent that looks in a circle, and in its second turn pays in vain."""
    agents = pytest.importorskip("langchain.agents")
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import ToolException, tool

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

    @tool
    def look(at: int) -> str:
        """Look."""
        return f"seen {at}"

    @tool
    def pay(sum: int) -> str:
        """Pay."""
        raise ToolException("HTTP 422")

    pay.handle_tool_error = True

    def script() -> Iterator[AIMessage]:
        for n in range(LOOP):
            call = {"name": "look", "args": {"at": 1}, "id": f"c{n}", "type": "tool_call"}
            yield AIMessage("", tool_calls=[call], usage_metadata=SPENT)
        yield AIMessage("done")
        call = {"name": "pay", "args": {"sum": 5}, "id": "p", "type": "tool_call"}
        yield AIMessage("", tool_calls=[call])
        yield AIMessage("sorry")

    return agents.create_agent(Scripted(messages=script()), [look, pay], **settings)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    saver = pytest.importorskip("langgraph.checkpoint.sqlite")
    path = tmp_path / "some file?.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as database:
        agent = langchain_agent(checkpointer=saver.SqliteSaver(database))
        config = {"configurable": {"thread_id": "t-1"}}
        agent.invoke({"messages": [("user", "look")]}, config)
        agent.invoke({"messages": [("user", "pay")]}, config)
    return path


def test_langgraph_checkpoints(checkpoints: Path) -> None:
    before = sorted(checkpoints.parent.iterdir())
    run = only(checkpoints)
    assert (run.format, run.run) == ("langgraph-checkpoints", "t-1")
    assert shape(run) == [*LOOKED, PAID]
    assert [reply.usage for reply in run.replies] == [Usage(None, 3, 2)] * LOOP
    assert run.lacks == {"statuses", "time"}
    assert sorted(checkpoints.parent.iterdir()) == before


def test_a_loop_in_checkpoints_is_stopped_by_replay(checkpoints: Path) -> None:
    done = Replayer().replay(only(checkpoints))
    assert (done.stops[0].index, done.stops[0].reason) == (3, "same")


def forgetful(path: Path, way: str) -> Path:
    """Checkpoints of an agent that forgets most messages before it goes on."""
    saver = pytest.importorskip("langgraph.checkpoint.sqlite")
    middleware = pytest.importorskip("langchain.agents.middleware")
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, RemoveMessage
    from langgraph.graph.message import REMOVE_ALL_MESSAGES

    def trimmed(state: Any, runtime: Any) -> dict[str, Any]:
        kept = state["messages"][-3:]
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *kept]}

    told = GenericFakeChatModel(messages=iter([AIMessage("a summary")] * 9))
    ways = {
        "trimmed": lambda: middleware.before_model(trimmed),
        "summed up": lambda: middleware.SummarizationMiddleware(
            told, trigger=("messages", 5), keep=("messages", 2)
        ),
    }
    with closing(sqlite3.connect(path, check_same_thread=False)) as database:
        agent = langchain_agent(checkpointer=saver.SqliteSaver(database), middleware=[ways[way]()])
        config = {"configurable": {"thread_id": "t-1"}, "recursion_limit": 99}
        agent.invoke({"messages": [("user", "look")]}, config)
        agent.invoke({"messages": [("user", "pay")]}, config)
    return path


@pytest.mark.parametrize("way", ["trimmed", "summed up"])
def test_what_was_forgotten_is_in_earlier_checkpoints(tmp_path: Path, way: str) -> None:
    path = forgetful(tmp_path / "x", way)
    assert shape(only(path)) == [*LOOKED, PAID]
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "update checkpoints set checkpoint = x'c1'"
            " where checkpoint_id = (select min(checkpoint_id) from checkpoints)"
        )
        database.commit()
    problem, run = read(path)
    assert isinstance(problem, Unreadable)
    assert problem.problem.startswith("thread t-1, before its end: its checkpoint is damaged")
    assert isinstance(run, Transcript)
    assert shape(run) == [*LOOKED, PAID]


def test_a_call_that_was_taken_back_was_not_made(tmp_path: Path) -> None:
    saver = pytest.importorskip("langgraph.checkpoint.sqlite")
    from langchain_core.messages import RemoveMessage

    path = tmp_path / "x"
    with closing(sqlite3.connect(path, check_same_thread=False)) as database:
        agent = langchain_agent(
            checkpointer=saver.SqliteSaver(database), interrupt_before=["tools"]
        )
        config = {"configurable": {"thread_id": "t"}}
        agent.invoke({"messages": [("user", "look")]}, config)
        (last,) = agent.get_state(config).values["messages"][-1:]
        agent.update_state(config, {"messages": [RemoveMessage(id=last.id)]})
    assert only(path).calls == ()


def test_tokens_in_checkpoints_are_a_budget(checkpoints: Path) -> None:
    limit = Limit(quantity="tokens", per="run", window=None, most=10)
    policy = Policy(rules=[Budget(limits=(limit,))])
    done = Replayer(policy).replay(only(checkpoints))
    assert (done.stops[0].index, done.stops[0].reason) == (2, "budget")
    assert "budget" not in done.not_judged


def test_messages_kept_as_differences_are_put_together(tmp_path: Path) -> None:
    channels = pytest.importorskip("langgraph.channels.delta")
    saver = pytest.importorskip("langgraph.checkpoint.sqlite")
    from typing import Annotated, TypedDict

    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langgraph.graph import StateGraph
    from langgraph.graph.message import add_messages

    def fold(messages: Any, writes: Any) -> Any:
        for write in writes:
            messages = add_messages(messages, write)
        return messages

    kept = Annotated[list[Any], channels.DeltaChannel(fold)]
    # A class would hold the annotation as text, which names what is known here alone.
    state = TypedDict("state", {"messages": kept})  # noqa: UP013
    call = {"name": "look", "args": {"at": 1}, "id": "c", "type": "tool_call"}
    graph = StateGraph(state)
    graph.add_node("ask", lambda _: {"messages": [AIMessage("", tool_calls=[call])]})
    graph.add_node("look", lambda _: {"messages": [ToolMessage("seen 1", tool_call_id="c")]})
    graph.set_entry_point("ask")
    graph.add_edge("ask", "look")
    path = tmp_path / "x"
    with closing(sqlite3.connect(path, check_same_thread=False)) as database:
        agent = graph.compile(checkpointer=saver.SqliteSaver(database))
        for _ in range(2):
            agent.invoke({"messages": [HumanMessage("look")]}, {"configurable": {"thread_id": "t"}})
    assert shape(only(path)) == [
        ("look", {"at": 1}, "seen 1", 0, False),
        ("look", {"at": 1}, "seen 1", 1, False),
    ]


def test_a_run_killed_before_its_last_checkpoint(checkpoints: Path) -> None:
    with closing(sqlite3.connect(checkpoints)) as database:
        newest = "select checkpoint_id from checkpoints order by checkpoint_id desc limit 2"
        database.execute(f"delete from checkpoints where checkpoint_id in ({newest})")  # noqa: S608
        database.commit()
    # What the tool answered was written, if not yet taken over.
    assert shape(only(checkpoints)) == [*LOOKED, PAID]


def test_a_damaged_checkpoint_is_told_of_and_others_are_read(checkpoints: Path) -> None:
    with closing(sqlite3.connect(checkpoints)) as database:
        row = "select checkpoint_ns, 'zzz', null, {}, {}, metadata from checkpoints limit 1"
        fields = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
        for thread, kind, blob in (
            ("cut", "msgpack", "x'81a1'"),
            ("odd", "pickle", "x'80'"),
            ("deep", "msgpack", "x'" + "91" * 5000 + "'"),
            ("json", "json", '\'{"channel_values": {"m": [{"type": "ai", "content": ""}]}}\''),
            ("none", "json", "null"),
        ):
            select = row.format(f"'{kind}'", blob)
            database.execute(
                f"insert into checkpoints ({fields}) {select.replace('select', f'select {thread!r},', 1)}"
            )
        database.commit()
    told = list(read(checkpoints))
    problems = {one.problem.split(":")[0] for one in told if isinstance(one, Unreadable)}
    assert problems == {f"thread {name}" for name in ("cut", "odd", "deep", "none")}
    assert [run.run for run in told if isinstance(run, Transcript)] == ["t-1", "json"]


def test_langsmith_runs(tmp_path: Path) -> None:
    tracers = pytest.importorskip("langchain_core.tracers.base")

    class Kept(tracers.BaseTracer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.runs: list[Any] = []

        def _persist_run(self, run: Any) -> None: ...

        def _end_trace(self, run: Any) -> None:
            self.runs.append(run)
            super()._end_trace(run)

    agent, kept = langchain_agent(), Kept()
    for said in ("look", "pay"):
        agent.invoke({"messages": [("user", said)]}, {"callbacks": [kept]})
    path = tmp_path / "runs.jsonl"
    dumped = [run.model_dump_json(exclude={"child_runs"}) for run in kept.runs]
    path.write_text("\n".join(dumped))
    looked, paid = read(path)
    assert isinstance(looked, Transcript)
    assert isinstance(paid, Transcript)
    assert looked.format == "langsmith-runs"
    assert shape(looked) == LOOKED
    assert shape(paid) == [(*PAID[:3], 0, True)]
    assert [call.reply for call in looked.calls] == list(range(LOOP))
    assert [reply.usage for reply in looked.replies] == [Usage(None, 3, 2)] * LOOP
    assert all(call.ts for call in looked.calls)
    assert Replayer().replay(looked).stops[0].index == 3


def sdk_agent() -> Any:
    """An agent that looks in a circle, and in its second turn waits for leave to pay."""
    agents = pytest.importorskip("agents")
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    class Scripted(agents.Model):  # type: ignore[misc, name-defined]
        def __init__(self, replies: list[Any]) -> None:
            self.replies = replies

        async def get_response(self, *_: Any, **__: Any) -> Any:
            usage = agents.Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5)
            return agents.ModelResponse(output=[self.replies.pop(0)], usage=usage, response_id="r")

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("nobody streams")

    def call(name: str, id_: str, **args: Any) -> Any:
        given = json.dumps(args)
        return ResponseFunctionToolCall(
            arguments=given, call_id=id_, name=name, type="function_call"
        )

    text = ResponseOutputText(text="done", annotations=[], type="output_text")
    done = ResponseOutputMessage(
        id="m", content=[text], role="assistant", status="completed", type="message"
    )

    @agents.function_tool
    def look(at: int) -> str:
        return f"seen {at}"

    @agents.function_tool(needs_approval=True)
    def pay(sum: int) -> str:
        raise AssertionError("nobody gave leave")

    replies = [call("look", f"c{n}", at=1) for n in range(LOOP)]
    model = Scripted([*replies, done, call("pay", "p", sum=5)])
    return agents.Agent("clerk", tools=[look, pay], model=model)


SEEN = [("look", {"at": 1}, "seen 1", 0, None)] * LOOP
WAITING = ("pay", {"sum": 5}, None, 1, None)


@pytest.mark.asyncio
async def test_agents_sdk_sessions_run_states_and_input_lists(tmp_path: Path) -> None:
    agents = pytest.importorskip("agents")
    agent, path = sdk_agent(), tmp_path / "sessions"
    for name in ("u-1", "u-2"):
        if name == "u-2":
            agent = sdk_agent()
        session = agents.SQLiteSession(name, path)
        first = await agents.Runner.run(agent, "look", session=session, run_config=quiet())
        second = await agents.Runner.run(agent, "pay", session=session, run_config=quiet())
        session.close()
    one, two = read(path)
    for run, name in ((one, "u-1"), (two, "u-2")):
        assert isinstance(run, Transcript)
        assert (run.format, run.run) == ("openai-agents-session", name)
        assert shape(run) == [*SEEN, WAITING]
        assert all(call.ts for call in run.calls)
        assert Replayer().replay(run).stops[0].index == 3
    state = second.to_state()
    for number, dump in enumerate((json.dumps(state.to_json()), state.to_string())):
        saved = tmp_path / f"state{number}.json"
        saved.write_text(dump)
        run = only(saved)
        assert run.format == "openai-agents-run-state"
        assert shape(run) == [*SEEN, WAITING]
        assert [reply.usage for reply in run.replies] == [Usage(None, 3, 2)]
    saved = tmp_path / "list.json"
    saved.write_text(json.dumps(first.to_input_list()))
    run = only(saved)
    assert (run.format, shape(run)) == ("openai-responses", SEEN)


def quiet() -> Any:
    return pytest.importorskip("agents").RunConfig(tracing_disabled=True)


def test_a_damaged_session_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "create table agent_messages (id integer primary key, session_id, message_data, created_at)"
        )
        row = "insert into agent_messages (session_id, message_data, created_at) values (?, ?, ?)"
        item = json.dumps({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "a"})
        sealed = json.dumps({"__enc__": 1, "v": 1, "payload": "x"})
        database.executemany(
            row, [("s", "{broken", None), ("s", item, "x"), ("s", 7, None), ("s", sealed, None)]
        )
        database.commit()
    *problems, run = read(path)
    assert isinstance(run, Transcript)
    assert [one.problem.split(":")[0] for one in problems if isinstance(one, Unreadable)] == [
        "item 1 is no JSON",
        "item 3 is no JSON",
        "item 4 is encrypted",
    ]
    assert len(run.calls) == 1
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert all(isinstance(one, Unreadable) for one in read(path))


def test_another_database_is_no_transcript(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table t (x)")
    (told,) = read(path)
    assert isinstance(told, Unreadable)
    assert told.foreign


SERVER = """
try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server
server = Server("shop")

@server.tool()
def look(at: int) -> str:
    return f"seen {at}"

@server.tool()
def pay(sum: int) -> str:
    raise ValueError("HTTP 422")

server.run("stdio")
"""


def test_a_log_of_a_real_mcp_server(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    about = {"name": "test", "version": "1"}
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
    asked: list[tuple[str, dict[str, Any]]] = [("initialize", start), ("tools/list", {})]
    asked += [("tools/call", {"name": "look", "arguments": {"at": 1}})] * LOOP
    asked += [("tools/call", {"name": "pay", "arguments": {"sum": 5}})]
    log: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin
        assert server.stdout
        for id_, (method, params) in enumerate(asked):
            request = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
            sent = [json.dumps(request)]
            if method == "tools/list":
                told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                sent.insert(0, json.dumps(told))
            server.stdin.write("".join(f"{line}\n" for line in sent))
            server.stdin.flush()
            log += [*sent, server.stdout.readline().strip()]
        server.stdin.close()
    path = tmp_path / "mcp.log"
    path.write_text("\n".join(log))
    run = only(path)
    assert run.format == "mcp-jsonrpc"
    *looked, (tool, args, result, _, failed) = shape(run)
    assert looked == LOOKED
    assert (tool, args, failed) == ("pay", {"sum": 5}, True)
    assert result.startswith("Error executing tool pay")
    assert Replayer().replay(run).stops[0].index == 3
