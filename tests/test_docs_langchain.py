"""The pages about LangChain are run as they stand, and what they say beside their code is tried.

What they say of last answers, withdrawal, and a person's answers is tried in `adapters/langchain`."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from uuid import uuid4

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents import middleware as theirs
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from lastcall import Guard, Policy, Stop, Stopped, Where
from lastcall.rules import Ceiling
from lastcall_langchain import (
    GuardCallbackHandler,
    GuardMiddleware,
    RunStopped,
    attach,
    instrument,
    stop_of,
)

from .documented import Page, execute

CONFIG, MIDDLEWARE, SERVER = (
    Page(f"docs/langchain-{name}.md") for name in ("config", "middleware", "langgraph-json")
)

PARTS = '''
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.types import interrupt


@tool
def look_up(invoice: int) -> str:
    """Look an invoice up."""
    return f"invoice {invoice} is open"


@tool
def pay(invoice: int) -> str:
    """Pay an invoice."""
    if invoice == 1:
        interrupt(f"Pay invoice {invoice}?")
    return f"invoice {invoice} is paid"


class Clerk(BaseChatModel):
    """Asks for one invoice after the other, to pay it where the user says so."""

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        at = max(i for i, each in enumerate(messages) if each.type == "human")
        turn = sum(each.type == "ai" for each in messages[at:])
        name = "pay" if messages[at].text.startswith("Pay") else "look_up"
        call = {"name": name, "args": {"invoice": turn}, "id": f"c{turn}", "type": "tool_call"}
        said = AIMessage("" if turn < 40 else "done", tool_calls=[call] if turn < 40 else [])
        return ChatResult(generations=[ChatGeneration(message=said)])


model = Clerk()
tools = [look_up, pay]
'''

ASK: Any = {"messages": [("user", "Which invoices are open?")]}
PAY: Any = {"messages": [("user", "Pay the open invoices.")]}


@pytest.fixture
def parts() -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "parts"}
    execute(PARTS, space)
    return space


class Saying(BaseChatModel):
    """A model whose replies are *calls* of tools, one list of (tool, args) a reply; then `done`."""

    replies: list[list[tuple[str, dict[str, Any]]]]
    asked: list[tuple[str, ...]] = []
    """The tools that each request offered."""
    instructed: list[str] = []
    offered: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Saying:
        return self.model_copy(update={"offered": tuple(each.name for each in tools)})

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        turn = sum(len(offered) > 0 for offered in self.asked)
        self.asked.append(self.offered)
        self.instructed.extend(each.text for each in messages if each.type == "system")
        calls = self.replies[turn] if turn < len(self.replies) and self.offered else []
        said = AIMessage(
            "" if calls else "done",
            id=uuid4().hex,
            tool_calls=[
                {"name": name, "args": args, "id": f"c{turn}.{i}", "type": "tool_call"}
                for i, (name, args) in enumerate(calls)
            ],
        )
        return ChatResult(generations=[ChatGeneration(message=said)])


def saying(*replies: Any) -> Saying:
    return Saying(replies=list(replies), asked=[], instructed=[])


def looking(times: int = 20, name: str = "look") -> Saying:
    return saying(*([(name, {"q": i})] for i in range(times)))


class Failed(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status_code = status


class Tools:
    """Tools of the kinds that the pages tell apart, and the arguments they were run with."""

    def __init__(self) -> None:
        self.ran: list[int] = []

        @tool
        def look(q: int) -> str:
            """Look."""
            self.ran.append(q)
            return f"found {q}"

        @tool
        def answers(q: int) -> dict[str, Any]:
            """Answer 422."""
            self.ran.append(q)
            return {"status": 422, "error": "no such date"}

        @tool
        def raises(q: int) -> str:
            """Raise a 422."""
            self.ran.append(q)
            raise Failed(422)

        @tool
        def fails(q: int) -> str:
            """Raise a 503."""
            self.ran.append(q)
            raise Failed(503)

        self.all = [look, answers, raises, fails]


@pytest.fixture
def made() -> Tools:
    return Tools()


def by_hand(model: Any, tools: Any, **node: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node(
        "model", lambda state: {"messages": [model.bind_tools(tools).invoke(state["messages"])]}
    )
    graph.add_node("tools", ToolNode(tools, **node))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=InMemorySaver())


def thread(name: str = "t", **config: Any) -> Any:
    return {"configurable": {"thread_id": name}, "recursion_limit": 200, **config}


def unanswered(messages: Any) -> set[str]:
    asked = {call["id"] for each in messages for call in getattr(each, "tool_calls", ())}
    return asked - {each.tool_call_id for each in messages if each.type == "tool"}


def told(messages: Any) -> list[str]:
    return [each.text for each in messages if each.type == "tool"]


@pytest.mark.parametrize("page", [CONFIG, MIDDLEWARE], ids=["config", "middleware"])
def test_a_page_prints_what_it_says(page: Page, parts: Any, capsys: Any) -> None:
    small = saying()
    manager = saying([("delegate", {"topic": "invoices"})])
    manager.__class__ = Lenient
    page.run({**parts, "small_model": small, "manager": manager}, capsys)
    assert not small.asked


class Lenient(Saying):
    """Takes tools of the provider as well."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Saying:
        return super().bind_tools([each for each in tools if not isinstance(each, dict)])


def test_every_block_of_the_pages_is_run() -> None:
    for page in (CONFIG, MIDDLEWARE):
        assert {(each.name, each.kind) for each in page.all} == {("", "python"), ("", "text")}
    names = [each.name for each in SERVER.all if each.name]
    assert names == ["langgraph.json", "agent.py", "client.py", "auth.py"]
    assert len(SERVER.programs()) == 2


# langchain-config.md


@pytest.mark.parametrize("kind", ["create_agent", "by_hand"])
def test_after_a_stop_the_thread_goes_on_with_counts_at_zero(kind: str, made: Tools) -> None:
    model = looking()
    agent = (
        create_agent(model, made.all, checkpointer=InMemorySaver())
        if kind == "create_agent"
        else by_hand(model, made.all)
    )
    attached = attach(agent, Guard(Policy(max_calls=3)))
    for turn in (1, 2):
        with pytest.raises(RunStopped) as raised:
            attached.invoke(ASK, thread())
        assert not unanswered(raised.value.messages)
        assert not unanswered(agent.get_state(thread()).values["messages"])
        assert len(made.ran) == 3 * turn


@pytest.mark.parametrize("way", ["handler", "instrument"])
@pytest.mark.parametrize("name", ["answers", "raises", "fails"])
def test_what_becomes_of_a_tool_that_fails(way: str, name: str, made: Tools) -> None:
    guard = Guard()
    agent = create_agent(looking(1, name), made.all)
    undo = instrument(guard) if way == "instrument" else lambda: None
    if way == "handler":
        agent = attach(agent, guard)
    try:
        if name == "fails" or (name, way) == ("raises", "handler"):
            with pytest.raises(Failed):
                agent.invoke(ASK)
            return
        (answer,) = told(agent.invoke(ASK)["messages"])
        assert answer.startswith("Stopped: " if way == "instrument" else '{"status": 422')
    finally:
        undo()


def test_the_call_that_was_answered_with_a_422_is_refused_from_then_on(made: Tools) -> None:
    model = saying(*[[("answers", {"q": 1})]] * 2, [("look", {"q": 2})])
    agent = attach(create_agent(model, made.all), Guard())
    first, second, third = told(agent.invoke(ASK)["messages"])
    assert not first.startswith("Stopped")
    assert second.startswith("Stopped")
    assert third == "found 2"
    assert made.ran == [1, 2]


def test_ignoring_refusals_twice_in_a_row_ends_the_run(made: Tools) -> None:
    model = saying(*[[("answers", {"q": 1})]] * 9)
    with pytest.raises(RunStopped) as raised:
        attach(create_agent(model, made.all), Guard()).invoke(ASK)
    assert raised.value.stop.reason == "refusals"
    assert len(model.asked) == 3


@pytest.mark.parametrize("way", ["handler", "instrument"])
def test_a_tool_node_that_handles_no_errors(way: str, made: Tools) -> None:
    guard = Guard(Policy(max_calls=2))
    agent = by_hand(looking(), made.all, handle_tool_errors=False)
    undo = instrument(guard) if way == "instrument" else lambda: None
    handlers = [GuardCallbackHandler(guard)] if way == "handler" else []
    try:
        with pytest.raises(Stopped) as raised:
            agent.invoke(ASK, thread(callbacks=handlers))
    finally:
        undo()
    assert isinstance(raised.value, RunStopped) is (way == "instrument")
    left = unanswered(agent.get_state(thread()).values["messages"])
    assert bool(left) is (way == "handler")


@pytest.mark.parametrize("way", ["handler", "instrument", "middleware"])
def test_agents_inside_tools(way: str, made: Tools) -> None:
    guard = Guard(Policy(max_calls=3))
    inner = create_agent(looking(9), made.all)

    @tool
    def delegate(q: int) -> str:
        """Let another agent look."""
        return str(inner.invoke(ASK, {"recursion_limit": 99})["messages"][-1].text)

    ours = [GuardMiddleware(guard)] if way == "middleware" else []
    agent = create_agent(looking(1, "delegate"), [delegate], middleware=ours)
    undo = instrument(guard) if way == "instrument" else lambda: None
    with suppress(RunStopped):
        (attach(agent, guard) if way == "handler" else agent).invoke(ASK)
    undo()
    # The outer call is one of the three; middleware sees no further than its own agent.
    assert len(made.ran) == (9 if way == "middleware" else 2)


def test_a_graph_without_a_langchain_model_drains(made: Tools) -> None:
    graph = StateGraph(MessagesState)
    model = looking()
    graph.add_node(
        "model",
        lambda state: {
            "messages": [model.bind_tools(made.all)._generate([]).generations[0].message]
        },
    )
    graph.add_node("tools", ToolNode(made.all))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    with pytest.raises(GraphDrained) as raised:
        attach(graph.compile(), Guard(Policy(max_calls=2))).invoke(ASK)
    stop = stop_of(raised.value)
    assert stop is not None
    assert stop.reason == "ceiling"


def test_what_goes_past_a_tool_goes_past_the_guard(made: Tools) -> None:
    undo = instrument(Guard(Policy(max_calls=1, on_unscoped="error")))
    look: Any = made.all[0]
    assert look.func(1) == "found 1"
    assert look._run(2, config={}) == "found 2"
    with pytest.raises(LookupError):
        look.invoke({"q": 3})
    undo()


def test_what_retries_models_is_told_that_a_stop_is_no_failure(made: Tools) -> None:
    retry = theirs.ModelRetryMiddleware(retry_on=lambda error: stop_of(error) is None)
    model = looking()
    agent = create_agent(model, made.all, middleware=[retry])
    with pytest.raises(RunStopped):
        attach(agent, Guard(Policy(max_calls=2))).invoke(ASK)
    assert len(model.asked) == 3


class Answer(BaseModel):
    """The answer."""

    text: str


def test_a_structured_answer_is_no_call(made: Tools) -> None:
    guard = Guard(Policy(max_calls=1))
    model = saying([("look", {"q": 1})], [("Answer", {"text": "found"})])
    agent = create_agent(model, made.all, response_format=ToolStrategy(Answer))
    undo = instrument(guard)
    result = attach(agent, guard).invoke(ASK)
    undo()
    assert result["structured_response"] == Answer(text="found")


class Context:
    user_id = "of the context"
    tenant_id = "of the context, too"


@pytest.mark.parametrize(
    ("config", "context", "user", "tenant"),
    [
        (
            {
                "configurable": {"user_id": "a", "tenant_id": 1},
                "metadata": {"user_id": "m", "tenant_id": "m"},
            },
            Context(),
            "a",
            "1",
        ),
        (
            {"metadata": {"user_id": "m", "tenant_id": "m"}},
            Context(),
            Context.user_id,
            Context.tenant_id,
        ),
        ({}, {"user_id": "in a mapping"}, "in a mapping", None),
        (
            {
                "metadata": {"user_id": "m", "tenant_id": "n"},
                "configurable": {"user_id": "a", "langgraph_auth_user_id": "x"},
            },
            None,
            "x",
            "n",
        ),
        ({"configurable": {"langgraph_auth_user_id": "x"}}, None, "x", None),
        ({}, None, None, None),
    ],
)
def test_who_calls_is_the_first_that_is_named(
    config: Any, context: Any, user: Any, tenant: Any, made: Tools
) -> None:
    agent = attach(create_agent(looking(), made.all, name="clerk"), Guard(Policy(max_calls=1)))
    with pytest.raises(RunStopped) as raised:
        agent.invoke(ASK, config, context=context)
    stop = raised.value.stop
    assert (stop.user, stop.tenant, stop.agent) == (user, tenant, "clerk")


@pytest.mark.parametrize("on_fault", ["closed", "open"])
def test_a_scope_function_that_raises_is_a_fault(on_fault: Any, made: Tools) -> None:
    def who() -> Where:
        raise KeyError("session")

    guard = Guard(Policy(on_fault=on_fault), scope=who)
    agent = attach(create_agent(looking(1), made.all), guard)
    if on_fault == "closed":
        with pytest.raises(RunStopped) as raised:
            agent.invoke(ASK)
        assert raised.value.stop.reason == "fault"
    else:
        assert told(agent.invoke(ASK)["messages"]) == ["found 0"]


# langchain-langgraph-json.md


def loaded(project: Path) -> dict[str, Any]:
    """Every graph of a langgraph.json, imported as LangGraph's server does it."""
    given = json.loads((project / "langgraph.json").read_text())
    for folder in given["dependencies"]:
        sys.path.insert(0, str(project / folder))
    graphs = {}
    for name, where in given["graphs"].items():
        path, _, variable = where.partition(":")
        # Each file once.
        module = path.replace("/", "__").replace(".py", "").lstrip(".")
        if module not in sys.modules:
            spec = importlib.util.spec_from_file_location(module, project / path)
            assert spec is not None
            assert spec.loader is not None
            sys.modules[module] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[module])
        graphs[name] = getattr(sys.modules[module], variable)
    return graphs


def served(graph: Any, name: str, saver: Any) -> Any:
    """*graph* as the server runs it: under its name, with a checkpointer of the server's."""
    return graph.copy(update={"checkpointer": saver, "store": None, "name": name})


@pytest.fixture
def project(tmp_path: Path) -> Any:
    for name, _, text, _ in SERVER.all:
        if name:
            (tmp_path / name).write_text(text)
    (tmp_path / "parts.py").write_text(PARTS)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for each in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[each], "__file__", "")):
            del sys.modules[each]


@pytest.mark.parametrize("name", ["clerk", "graph"])
def test_both_graphs_end_with_a_message_in_the_servers_words(name: str, project: Path) -> None:
    graph = served(loaded(project)[name], name, InMemorySaver())
    config = thread()
    config["configurable"] |= {"langgraph_auth_user_id": "ann", "user_id": "eve"}
    config["run_id"] = uuid4()
    events = []

    async def run_it() -> None:
        async for mode, chunk in graph.astream(ASK, config, stream_mode=["custom", "values"]):
            events.append((mode, chunk))

    asyncio.run(run_it())
    state = events[-1][1]
    stop = stop_of(state)
    assert stop is not None
    assert (stop.reason, stop.limit, stop.user) == ("ceiling", 3, "ann")
    assert state["messages"][-1].response_metadata["lastcall"]["user"] == "ann"
    stops = [each["lastcall"] for mode, each in events if mode == "custom"]
    assert [each["call_id"] for each in stops] == ["c3", None]
    assert Stop.model_fields.keys() - stops[0].keys() == {"gathered"}
    report = sys.modules["__agent"].guard.report(str(config["run_id"]))
    assert report.totals.executed == 3


def test_a_guard_that_is_made_with_each_run_forgets_at_each_pause(parts: Any) -> None:
    guard, saver = Guard(Policy(max_calls=3)), InMemorySaver()

    def make(guard: Guard) -> Any:
        ours = [GuardMiddleware(guard)]
        return served(create_agent(parts["model"], parts["tools"], middleware=ours), "x", saver)

    paid = {}
    for way in ("above", "inside"):
        make_one = lambda: make(guard if way == "above" else Guard(Policy(max_calls=3)))
        first = uuid4()
        make_one().invoke(PAY, thread(way, run_id=first))
        result = make_one().invoke(Command(resume="yes"), thread(way, run_id=uuid4()))
        stop = stop_of(result)
        assert stop is not None
        assert stop.run == str(first)
        paid[way] = [each.status for each in result["messages"] if each.type == "tool"]
    assert paid["above"].count("success") == 3
    assert paid["inside"].count("success") == 4


def elsewhere(project: Path) -> None:
    """What one process does: take up what is saved, run the block, save what there is now."""
    saver, kept = InMemorySaver(), project / "kept"
    space = {"clerk": served(loaded(project)["clerk"], "clerk", saver)}
    space["guard"] = sys.modules["__agent"].guard
    if kept.exists():
        space["saved"], *saved = pickle.loads(kept.read_bytes())
        for mine, theirs in zip((saver.storage, saver.writes, saver.blobs), saved, strict=True):
            mine.update(theirs)
    execute((project / "block").read_text(), space)
    storage = {
        name: {ns: dict(at) for ns, at in each.items()} for name, each in saver.storage.items()
    }
    writes = {name: dict(each) for name, each in saver.writes.items()}
    kept.write_bytes(pickle.dumps((space["saved"], storage, writes, dict(saver.blobs))))


def test_a_resume_in_another_process(project: Path) -> None:
    # There may be other packages of that name.
    script = "import sys, pathlib, types; tests = sys.modules['tests'] = types.ModuleType('tests')"
    script += "; tests.__path__ = [sys.argv[1]]; from tests import test_docs_langchain as here"
    script += "; here.elsewhere(pathlib.Path(sys.argv[2]))"

    def printed(code: str) -> str:
        (project / "block").write_text(code)
        done = subprocess.run(
            [sys.executable, "-c", script, Path(__file__).parent, project],
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.returncode, done.stderr
        return done.stdout

    first, second = SERVER.programs()
    assert printed(first.text) == first.printed
    kept = (project / "kept").read_bytes()
    assert printed(second.text) == second.printed
    (project / "kept").write_bytes(kept)
    # Three more than the one before the pause.
    assert printed(second.text.replace("guard.restore(saved)", "")).count("success") == 4


def test_the_handler_of_the_page_names_the_user(project: Path) -> None:
    from langgraph_sdk import Auth

    sys.path.insert(0, str(project))
    spec = importlib.util.spec_from_file_location("auth", project / "auth.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    authenticate = module.auth._authenticate_handler
    assert asyncio.run(authenticate("Bearer ann")) == {"identity": "ann"}
    with pytest.raises(Auth.exceptions.HTTPException):
        asyncio.run(authenticate(None))


BARE = """
from langchain.agents import create_agent
from lastcall import Guard, Policy
from lastcall_langchain import attach
from parts import model, tools

graph = attach(create_agent(model, tools), Guard(Policy(max_calls=3)))
"""


@pytest.fixture
def server(project: Path) -> Any:
    """A real `langgraph dev` with the page's files, and a graph that lets RunStopped through."""
    if importlib.util.find_spec("langgraph_api") is None:
        pytest.skip("needs langgraph-cli[inmem], which .ci/langgraph-dev installs")
    (project / "bare.py").write_text(BARE)
    given = json.loads((project / "langgraph.json").read_text())
    given["graphs"]["bare"] = "./bare.py:graph"
    (project / "langgraph.json").write_text(json.dumps(given))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [Path(sys.executable).with_name("langgraph"), "dev", "--no-browser", "--no-reload"]
    process = subprocess.Popen(
        [*command, "--port", port],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LANGSMITH_TRACING": "false"},
    )
    assert process.stdout is not None
    url, log = f"http://127.0.0.1:{port}", b""
    for line in process.stdout:
        log += line
        if up(url):
            break
    else:
        pytest.fail(log.decode())
    rest = threading.Thread(target=process.stdout.read)
    rest.start()
    yield url
    process.terminate()
    process.wait()
    rest.join()
    process.stdout.close()


def up(url: str) -> bool:
    """Whether the server answers."""
    with suppress(OSError), urllib.request.urlopen(f"{url}/ok", timeout=5) as answer:  # noqa: S310
        return bool(answer.status == 200)
    return False


def test_the_client_of_the_page_meets_a_real_server(server: str, project: Path) -> None:
    (client,) = (each for each in SERVER.all if each.name == "client.py")
    assert client.printed
    done = subprocess.run(
        [sys.executable, project / "client.py"],
        env={**os.environ, "SERVER": server},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == client.printed, done.stderr


def test_what_a_real_server_says_of_stops_and_users(server: str) -> None:
    from langgraph_sdk import get_sync_client

    with get_sync_client(url=server, headers={"authorization": "Bearer ann"}) as client:
        talk(client)


def talk(client: Any) -> None:
    user = {"messages": [{"role": "user", "content": "Which invoices are open?"}]}

    # RunStopped, which nobody catches.
    thread = client.threads.create()["thread_id"]
    said = client.runs.wait(thread, "bare", input=user, raise_error=False)
    assert said == {"__error__": {"error": "RunStopped", "message": "An internal error occurred"}}
    assert client.threads.get(thread)["status"] == "error"

    # Events, as the stops happen; the guard's run has the id of the server's.
    thread = client.threads.create()["thread_id"]
    parts = list(client.runs.stream(thread, "graph", input=user, stream_mode="custom"))
    run_id = next(each.data["run_id"] for each in parts if each.event == "metadata")
    stops = [each.data["lastcall"] for each in parts if each.event == "custom"]
    assert [(each["reason"], each["call_id"], each["run"]) for each in stops] == [
        ("ceiling", "c3", run_id),
        ("ceiling", None, run_id),
    ]

    # Whom the server knows, whatever the client says.
    for name, given, expected in (("bare", {"user_id": "eve"}, "ann"), ("bare", {}, "ann")):
        thread = client.threads.create()["thread_id"]
        config = {"configurable": given}
        parts = list(
            client.runs.stream(thread, name, input=user, config=config, stream_mode="custom")
        )
        assert parts[1].data["lastcall"]["user"] == expected
    thread = client.threads.create()["thread_id"]
    config = {"configurable": {"langgraph_auth_user_id": "eve"}}
    ended = client.runs.wait(thread, "clerk", input=user, config=config)
    assert ended["messages"][-1]["response_metadata"]["lastcall"]["user"] == "ann"

    # A pause, and its resume.
    thread = client.threads.create()["thread_id"]
    pay = {"messages": [{"role": "user", "content": "Pay the open invoices."}]}
    paused = client.runs.wait(thread, "clerk", input=pay)
    assert paused["__interrupt__"][0]["value"] == "Pay invoice 1?"
    ended = client.runs.wait(thread, "clerk", command={"resume": "yes"})
    statuses = [each["status"] for each in ended["messages"] if each["type"] == "tool"]
    assert statuses == ["success", "success", "success", "error"]


# langchain-middleware.md


def played(guard: Guard, other: Any, name: str, model: Saying, tools: Tools, *, first: bool) -> Any:
    """One run with *other* before the guard, or behind it."""
    ours = GuardMiddleware(guard)
    agent = create_agent(
        model,
        tools.all,
        middleware=[other, ours] if first else [ours, other],
        checkpointer=InMemorySaver(),
    )
    try:
        result = agent.invoke(ASK, thread())
        for _ in range(6):
            if "__interrupt__" in result:
                edit = {"name": name, "args": {"q": 7}}
                decision = {"type": "edit", "edited_action": edit}
                result = agent.invoke(Command(resume={"decisions": [decision]}), thread())
    except RunStopped as stopped:
        return stopped
    return result


orders = pytest.mark.parametrize("first", [True, False])


@orders
def test_a_person_who_edits_calls(first: bool, made: Tools) -> None:
    other = theirs.HumanInTheLoopMiddleware(interrupt_on={"look": True})
    played(Guard(Policy(max_repeats=2)), other, "look", looking(), made, first=first)
    assert made.ran == [7] * (2 if first else 6)


@orders
@pytest.mark.parametrize(("name", "before", "behind"), [("raises", 1, 6), ("fails", 3, 6)])
def test_retries(first: bool, name: str, before: int, behind: int, made: Tools) -> None:
    other = theirs.ToolRetryMiddleware(max_retries=5, initial_delay=0, jitter=False)
    played(Guard(), other, name, looking(1, name), made, first=first)
    assert len(made.ran) == (before if first else behind)


@orders
def test_summaries(first: bool, made: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    # LangChain tries the request for a summary three times, with pauses.
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=lambda seconds: None))
    small = saying()
    other = theirs.SummarizationMiddleware(small, trigger=("messages", 6), keep=("messages", 2))
    result = played(Guard(Policy(max_calls=2)), other, "look", looking(), made, first=first)
    assert isinstance(result, RunStopped) is first
    assert stop_of(result) is not None
    assert not small.asked


class Cache(theirs.AgentMiddleware):
    """Answers every call but the first by itself."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        call = request.tool_call
        if call["args"]["q"] == 0:
            return handler(request)
        return ToolMessage("cached", tool_call_id=call["id"], name=call["name"])


@orders
@pytest.mark.parametrize("other", [Cache(), None])
def test_what_answers_in_a_tools_place(first: bool, other: Any, made: Tools) -> None:
    other = theirs.LLMToolEmulator(model=saying()) if other is None else other
    result = played(Guard(Policy(max_calls=3)), other, "look", looking(), made, first=first)
    assert (stop_of(result) is None) is first


class Selecting(Saying):
    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        return self | (lambda message: {"tools": ["look"]})


@orders
@pytest.mark.parametrize(
    "other",
    [
        theirs.ToolErrorMiddleware(lambda error, request: f"failed: {error}"),
        theirs.ToolCallLimitMiddleware(run_limit=9),
        theirs.ModelCallLimitMiddleware(run_limit=4),
        theirs.ModelRetryMiddleware(),
        theirs.LLMToolSelectorMiddleware(model=Selecting(replies=[])),
    ],
    ids=lambda other: other.name,
)
def test_the_rest_may_stand_on_either_side(first: bool, other: Any, made: Tools) -> None:
    result = played(Guard(Policy(max_calls=3)), other, "look", looking(), made, first=first)
    stop = stop_of(result)
    assert stop is not None
    assert stop.reason == "ceiling"
    assert made.ran == [0, 1, 2]


def test_after_the_stop_the_model_is_not_asked_again(made: Tools) -> None:
    model = looking()
    ours = GuardMiddleware(Guard(Policy(max_calls=3)))
    result = create_agent(model, made.all, middleware=[ours]).invoke(ASK)
    # The request whose answer was the fourth call was the last.
    assert len(model.asked) == 4
    assert not unanswered(result["messages"])


def test_the_order_of_the_page_under_a_person_a_retry_and_a_stop(parts: Any, made: Tools) -> None:
    code = next(each.text for each in MIDDLEWARE.programs() if "ToolRetry" in each.text)
    code = code.replace('"pay"', '"raises"').partition("print(")[0]
    space = {**parts, "small_model": saying(), "guard": Guard(), "GuardMiddleware": GuardMiddleware}
    execute(code, space)
    agent = create_agent(
        looking(9, "raises"),
        made.all,
        middleware=space["middleware"],
        checkpointer=InMemorySaver(),
    )
    result = agent.invoke(ASK, thread())
    while "__interrupt__" in result:
        result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread())
    assert stop_of(result) is not None
    # Three final answers in a row close the tool; none of them was tried again.
    assert made.ran == [0, 1, 2]


@pytest.mark.parametrize("name", ["answers", "raises"])
def test_a_final_answer_reaches_the_model_as_a_stop(name: str, made: Tools) -> None:
    agent = create_agent(looking(1, name), made.all, middleware=[GuardMiddleware(Guard())])
    result = agent.invoke(ASK)
    (answer,) = told(result["messages"])
    assert answer.startswith("Stopped: ")
    assert stop_of(result) is None


def test_stop_of_takes_what_version_2_of_invoke_returns(made: Tools) -> None:
    ours = GuardMiddleware(Guard(Policy(max_calls=2)))
    result = create_agent(looking(), made.all, middleware=[ours]).invoke(ASK, version="v2")
    assert stop_of(result) is not None


def test_two_guards_need_two_names(made: Tools) -> None:
    twice = [GuardMiddleware(Guard()), GuardMiddleware(Guard())]
    with pytest.raises(AssertionError, match="duplicate"):
        create_agent(looking(), made.all, middleware=twice)
    twice = [
        GuardMiddleware(Guard(Policy(max_calls=9))),
        GuardMiddleware(Guard(Policy(max_calls=2)), name="budget"),
    ]
    stop = stop_of(create_agent(looking(), made.all, middleware=twice).invoke(ASK))
    assert stop is not None
    assert stop.limit == 2


def test_nobody_is_asked_about_attempts_or_without_a_checkpointer(made: Tools) -> None:
    ours = GuardMiddleware(Guard(Policy(max_calls=2, on_stop="ask")))
    stop = stop_of(create_agent(looking(), made.all, middleware=[ours]).invoke(ASK))
    assert stop is not None
    assert not stop.asked
    made.ran.clear()
    again = theirs.ToolRetryMiddleware(max_retries=5, initial_delay=0, jitter=False)
    agent = create_agent(
        looking(1, "fails"), made.all, middleware=[again, ours], checkpointer=InMemorySaver()
    )
    result = agent.invoke(ASK, thread())
    assert "__interrupt__" not in result
    assert len(made.ran) == 3


class Allowance(Ceiling, frozen=True):
    """A limit that is a user's, not this agent's."""

    name: ClassVar = "allowance"

    def stop(self, call: Any, claim: Any, observed: int, now: float) -> Stop:
        return super().stop(call, claim, observed, now).model_copy(update={"scope": "user"})


def test_nobody_is_asked_about_what_concerns_others(made: Tools) -> None:
    ours = GuardMiddleware(Guard(Policy(rules=[Allowance(calls=1)], on_stop="ask")))
    agent = create_agent(looking(), made.all, middleware=[ours], checkpointer=InMemorySaver())
    stop = stop_of(agent.invoke(ASK, thread()))
    assert stop is not None
    assert (stop.scope, stop.asked) == ("user", False)


@pytest.mark.parametrize(("batch", "ran"), [("first", 2), ("all-or-none", 0)])
def test_a_reply_that_asks_for_more_than_is_left(batch: Any, ran: int, made: Tools) -> None:
    ours = GuardMiddleware(Guard(Policy(max_calls=2, batch=batch)))
    model = saying([("look", {"q": i}) for i in range(4)])
    result = create_agent(model, made.all, middleware=[ours]).invoke(ASK)
    assert len(made.ran) == ran
    assert not unanswered(result["messages"])
    assert sum(each.startswith("found") for each in told(result["messages"])) == ran


def test_a_call_that_already_runs_keeps_its_result() -> None:
    running, refused = threading.Event(), threading.Event()

    @tool
    def slow(q: int) -> str:
        """Take until the other call is refused."""
        running.set()
        assert refused.wait(30)
        return "done at last"

    class Second(theirs.AgentMiddleware):
        """Lets the second call in once the first one runs."""

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            if request.tool_call["args"]["q"] == 0:
                return handler(request)
            assert running.wait(30)
            answer = handler(request)
            refused.set()
            return answer

    ours = GuardMiddleware(Guard(Policy(max_calls=1)))
    model = saying([("slow", {"q": i}) for i in range(2)])
    result = create_agent(model, [slow], middleware=[Second(), ours]).invoke(ASK)
    first, second = told(result["messages"])
    assert first == "done at last"
    assert second.startswith("Stopped")


def test_a_turn_that_ends_in_the_inner_agent_ends_the_outer_one(made: Tools) -> None:
    guard = Guard(Policy(max_calls=3))
    inner = create_agent(looking(), made.all, middleware=[GuardMiddleware(guard)])

    @tool
    def delegate(q: int) -> str:
        """Let another agent look."""
        return str(inner.invoke(ASK)["messages"][-1].text)

    outer_model = looking(9, "delegate")
    outer = create_agent(outer_model, [delegate], middleware=[GuardMiddleware(guard)])
    assert stop_of(outer.invoke(ASK)) is not None
    assert len(outer_model.asked) == 1
    assert len(made.ran) == 2


def test_tags_and_metadata_are_on_the_root_and_on_the_run_of_the_stop(made: Tools) -> None:
    guard, tracer = Guard(Policy(max_calls=2)), RunCollectorCallbackHandler()
    agent = create_agent(looking(), made.all, middleware=[GuardMiddleware(guard)])
    result = agent.invoke(ASK, {"callbacks": [tracer]})
    (root,) = tracer.traced_runs
    where = [each for each in root.child_runs if "lastcall" in (each.tags or ())]
    assert [each.name for each in where] == ["tools", "GuardMiddleware.before_model"]
    for each in (root, *where):
        assert each.metadata["lastcall_scope"] == "turn"
        assert each.metadata["lastcall_tool"] == "look"
    stop = stop_of(result)
    assert stop is not None
    report = guard.report(str(stop.run))
    assert report is not None
    assert report.totals.executed == 2


# What the pages rely on.


def test_calls_that_wait_for_a_person_outlive_a_sibling_over_the_ceiling() -> None:
    paid = []

    @tool
    def pay(q: int) -> str:
        """Pay."""
        interrupt(f"pay {q}?")
        paid.append(q)
        return "paid"

    ours = GuardMiddleware(Guard(Policy(max_calls=2)))
    model = saying([("pay", {"q": i}) for i in range(3)])
    agent = create_agent(model, [pay], middleware=[ours], checkpointer=InMemorySaver())
    waiting = agent.invoke(ASK, thread())["__interrupt__"]
    agent.invoke(Command(resume={each.id: "yes" for each in waiting}), thread())
    assert len(paid) == len(waiting) == 2


def test_stop_of_takes_what_a_server_returns(made: Tools) -> None:
    ours = GuardMiddleware(Guard(Policy(max_calls=2)))
    result = create_agent(looking(), made.all, middleware=[ours]).invoke(ASK)
    said = {"messages": [each.model_dump(mode="json") for each in result["messages"]]}
    assert stop_of(said) is not None


def test_a_retry_of_the_model_that_was_told_nothing(made: Tools) -> None:
    retry = theirs.ModelRetryMiddleware(initial_delay=0, jitter=False)
    agent = create_agent(looking(), made.all, middleware=[retry])
    with pytest.raises(RunStopped):
        attach(agent, Guard(Policy(max_calls=2))).invoke(ASK)


def test_a_tag_is_added_once(made: Tools) -> None:
    tracer = RunCollectorCallbackHandler()
    ours = GuardMiddleware(Guard(Policy(max_calls=2)))
    create_agent(looking(), made.all, middleware=[ours]).invoke(ASK, {"callbacks": [tracer]})
    assert sorted(tracer.traced_runs[0].tags) == ["lastcall", "lastcall:ceiling"]
