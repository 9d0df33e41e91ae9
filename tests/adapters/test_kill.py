"""K43 and R215: under a set kill switch nothing starts any more, anywhere in the tree, in both frameworks."""

from __future__ import annotations

import asyncio
import os

os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")

from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, function_tool
from agents.mcp import MCPServer
from langchain_core.tools import tool

from lastcall import Guard, Policy, Switch
from lastcall.testing import FakeClock, assert_stopped
from lastcall_langchain import GuardMiddleware, stop_of
from lastcall_openai_agents import GuardHooks, guard_agent, guard_tools

from .langchain import playing, scripted
from .openai_agents import scripted as sdk

EVERY = pytest.mark.parametrize(
    ("kill", "scope"),
    [
        ({"all": True}, "all"),
        ({"agent": "boss"}, "agent"),
        ({"user": "ann"}, "user"),
        ({"agent": "boss", "user": "ann"}, "user"),
        ({"run": None}, "run"),
    ],
    ids=["all", "agent", "user", "agent-user", "run"],
)
"""What an operator may set; the run of the moment is known inside it only."""


class Tree:
    """Boss delegates to worker, who looks three times. While it looks for the first time somebody else,
    in another process as it were, sets the switch."""

    def __init__(self, path: Any, kill: dict[str, Any], **policy: Any) -> None:
        self.clock = FakeClock()
        self.operator = Switch(path, clock=self.clock)
        self.guard = Guard(Policy(**policy), switch=path, clock=self.clock)
        self.kill = kill
        self.ran: list[int] = []

    def look(self, q: int) -> str:
        """Look."""
        self.ran.append(q)
        if len(self.ran) == 1:
            here = self.guard.here()
            kill = {"run": here.run} if "run" in self.kill and here else self.kill
            self.operator.kill(**kill, by="eve", why="books twice")
            # So long it may take until it is known.
            self.clock.tick(1)
        return f"found {q}"


class LangChainTree(Tree):
    def __init__(self, entry: str, mode: str, *about: Any, together: bool, **policy: Any) -> None:
        super().__init__(*about, **policy)
        self.entry, self.mode = entry, mode
        calls = [scripted.asking("look", {"q": n}, f"c{n}") for n in range(3)]
        replies = [scripted.reply(*calls)] if together else [scripted.reply(c) for c in calls]
        self.inner_model = scripted.scripted(*replies)
        self.outer_model = scripted.scripted(
            scripted.reply(scripted.asking("delegate", {}, "d")),
            scripted.reply(scripted.asking("note", {}, "n")),
        )
        self.noted: list[str] = []

    def agent(self, model: Any, *bodies: Any, **settings: Any) -> Any:
        middleware = [GuardMiddleware(self.guard)] if self.entry == "middleware" else []
        tools = playing.tools_of(bodies, self.guard, self.entry)
        return playing.create_agent(model, tools, middleware=middleware, **settings)

    def play(self, user: str = "ann", thread: str = "t") -> Any:
        worker = self.agent(self.inner_model, tool(self.look), name="worker")

        def delegate() -> str:
            """Let somebody else look."""
            return str(worker.invoke(scripted.USER)["messages"][-1].text)

        async def adelegate() -> str:
            """Let somebody else look."""
            return str((await worker.ainvoke(scripted.USER))["messages"][-1].text)

        def note() -> str:
            """Write it down."""
            self.noted.append(user)
            return "noted"

        adelegate.__name__ = "delegate"
        asked = delegate if self.mode == "invoke" else adelegate
        boss = self.agent(
            self.outer_model, asked, note, checkpointer=playing.InMemorySaver(), name="boss"
        )
        config = playing.config_of(self.guard, self.entry, thread)
        config["configurable"]["user_id"] = user
        # Calls of one reply one after the other, else all have begun when the switch is set.
        config["max_concurrency"] = 1
        return playing.play(boss, config, self.mode)


@pytest.mark.parametrize("together", [False, True], ids=["apart", "together"])
@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("entry", ["middleware", "tools", "handler", "decorated"])
@EVERY
def test_k43_in_langchain_nothing_starts_any_more(
    tmp_path: Any, entry: str, mode: str, kill: Any, scope: str, together: bool
) -> None:
    tree = LangChainTree(entry, mode, tmp_path / "switch.json", kill, together=together)
    played = tree.play()
    assert tree.ran == [0]
    assert len(tree.inner_model.asked) == 1
    assert len(tree.outer_model.asked) == 1
    assert tree.noted == []
    stop = assert_stopped(played.stop, reason="kill", scope=scope)
    assert "was set by eve at 2027-01-15T08:00:00Z. Why: books twice" in stop.detail
    assert [each.result for each in stop.gathered if each.tool == "look"] == ["found 0"]
    assert played.unanswered == []
    incident = tree.guard.report(stop.run)
    assert incident.stopped_by.reason == "kill"


@pytest.mark.parametrize("entry", ["middleware", "handler"])
@EVERY
def test_k43_in_langchain_others_go_on_and_a_new_run_of_the_same_is_refused(
    tmp_path: Any, entry: str, kill: Any, scope: str
) -> None:
    tree = LangChainTree(entry, "invoke", tmp_path / "switch.json", kill, together=False)
    tree.play()
    asked = len(tree.inner_model.asked), len(tree.outer_model.asked)
    again = tree.play("ann", "t2")
    others = tree.play("bob", "t3")
    if scope == "run":
        assert again.stop is None
    else:
        assert_stopped(again.stop, reason="kill", scope=scope)
    if scope in ("run", "user"):
        assert others.stop is None
        assert others.saved[-1].text == "done"
        assert "bob" in tree.noted
    else:
        assert_stopped(others.stop, reason="kill", scope=scope)
        assert asked == (len(tree.inner_model.asked), len(tree.outer_model.asked)) == (1, 1)
        assert tree.ran == [0]


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("entry", ["middleware", "tools", "handler", "decorated"])
def test_in_langchain_a_switch_for_the_nested_agent_leaves_the_outer_one_alone(
    tmp_path: Any, entry: str, mode: str
) -> None:
    about = tmp_path / "switch.json", {"agent": "worker"}
    tree = LangChainTree(entry, mode, *about, together=False)
    played = tree.play()
    assert tree.ran == [0]
    assert len(tree.inner_model.asked) == 1
    assert tree.noted == ["ann"]
    assert played.saved[-1].text == "done"


@pytest.mark.parametrize("settings", [{"last_answer": True}, {"withdraw": True}])
@EVERY
def test_in_langchain_a_last_answer_is_not_asked_for(
    tmp_path: Any, settings: Any, kill: Any, scope: str
) -> None:
    tree = LangChainTree("none", "invoke", tmp_path / "s", kill, together=False)
    model = tree.inner_model
    agent = playing.create_agent(
        model,
        [tool(tree.look)],
        middleware=[GuardMiddleware(tree.guard, **settings)],
        checkpointer=playing.InMemorySaver(),
        name="boss",
    )
    config = playing.config_of(tree.guard, "none")
    config["configurable"]["user_id"] = "ann"
    played = playing.play(agent, config)
    assert_stopped(played.stop, reason="kill", scope=scope)
    assert len(model.asked) == 1


@EVERY
def test_in_langchain_nobody_is_asked_about_a_kill(tmp_path: Any, kill: Any, scope: str) -> None:
    about = tmp_path / "switch.json", kill
    tree = LangChainTree("middleware", "invoke", *about, together=True, on_stop="ask")
    played = tree.play()
    assert tree.ran == [0]
    assert_stopped(played.stop, reason="kill", scope=scope)


@pytest.mark.parametrize("entry", ["middleware", "tools", "handler", "decorated"])
def test_r215_in_langchain_a_switch_set_before_lets_nothing_begin(
    tmp_path: Any, entry: str
) -> None:
    tree = LangChainTree(entry, "invoke", tmp_path / "switch.json", {}, together=False)
    tree.operator.kill(all=True, by="eve")
    if entry in ("tools", "decorated"):
        # A guard that has seen no call yet has no part in a run: its first call is refused.
        tree.play()
        assert tree.ran == tree.noted == []
        assert len(tree.inner_model.asked) == 0
        return
    played = tree.play()
    assert_stopped(played.stop, reason="kill", scope="all")
    assert tree.ran == tree.noted == []
    assert len(tree.outer_model.asked) == 0


class Context:
    """What a run is given along."""

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id


class SdkTree(Tree):
    def __init__(self, *about: Any, together: bool, **policy: Any) -> None:
        super().__init__(*about, **policy)
        self.noted: list[str] = []
        self.together = together
        self.models: list[Any] = []

    async def aplay(self, user: str = "ann", mode: str = "run") -> Any:
        calls = [sdk.call("look", {"q": n}, f"c{n}") for n in range(3)]
        inner = sdk.script(*([calls] if self.together else calls), "looked")
        outer = sdk.script(
            sdk.call("delegate", {"input": "x"}, "d"), sdk.call("note", {}, "n"), "done"
        )
        self.models = [inner, outer]

        def note() -> str:
            """Write it down."""
            self.noted.append(user)
            return "noted"

        worker = Agent("worker", tools=[function_tool(self.look)], model=inner)
        ask = worker.as_tool("delegate", "Let somebody else look.")
        boss = Agent("boss", tools=[ask, function_tool(note)], model=outer)
        return await sdk.aplay(guard_agent(boss, self.guard), mode, context=Context(user))

    def play(self, user: str = "ann", mode: str = "run") -> Any:
        return asyncio.run(self.aplay(user, mode))

    @property
    def requests(self) -> tuple[int, ...]:
        return tuple(len(each.calls) for each in self.models)


@pytest.mark.parametrize("mode", ["run", "streamed"])
@EVERY
def test_k43_in_the_sdk_nothing_starts_any_more(
    tmp_path: Any, mode: str, kill: Any, scope: str
) -> None:
    tree = SdkTree(tmp_path / "switch.json", kill, together=False)
    played = tree.play(mode=mode)
    assert tree.ran == [0]
    assert tree.requests == (1, 1)
    assert tree.noted == []
    stop = assert_stopped(played.stop, reason="kill", scope=scope)
    assert "was set by eve at 2027-01-15T08:00:00Z. Why: books twice" in stop.detail
    assert [each.result for each in stop.gathered if each.tool == "look"] == ["found 0"]
    assert played.unanswered == []


@EVERY
def test_k43_in_the_sdk_others_go_on_and_a_new_run_of_the_same_is_refused(
    tmp_path: Any, kill: Any, scope: str
) -> None:
    tree = SdkTree(tmp_path / "switch.json", kill, together=False)
    tree.play()
    again = tree.play("ann")
    if scope == "run":
        assert again.result.final_output == "done"
    else:
        assert_stopped(again.stop, reason="kill", scope=scope)
        assert tree.requests == (0, 0)
    others = tree.play("bob")
    if scope in ("run", "user"):
        assert others.result.final_output == "done"
        assert "bob" in tree.noted
    else:
        assert_stopped(others.stop, reason="kill", scope=scope)
        assert tree.requests == (0, 0)


def test_in_the_sdk_a_switch_for_the_nested_agent_leaves_the_outer_one_alone(
    tmp_path: Any,
) -> None:
    tree = SdkTree(tmp_path / "switch.json", {"agent": "worker"}, together=False)
    played = tree.play()
    assert tree.ran == [0]
    assert tree.requests == (1, 3)
    assert played.result.final_output == "done"


@pytest.mark.parametrize("mode", ["run", "streamed"])
@pytest.mark.parametrize("how", ["agent", "asking", "tools", "hooks"])
@EVERY
def test_k43_in_the_sdk_by_every_entry(
    tmp_path: Any, how: str, mode: str, kill: Any, scope: str
) -> None:
    asks: Any = {"on_stop": "ask"} if how == "asking" else {}
    tree = Tree(tmp_path / "switch.json", kill, **asks)
    model = sdk.script(*[sdk.call("look", {"q": n}, f"c{n}") for n in range(3)], "done")
    look = function_tool(tree.look)
    options: dict[str, Any] = {"context": Context("ann")}
    if how in ("agent", "asking"):
        agent = guard_agent(Agent("boss", tools=[look], model=model), tree.guard, last_answer=True)
    elif how == "tools":
        agent = Agent("boss", tools=guard_tools([look], tree.guard), model=model)
    else:
        agent = Agent("boss", tools=[look], model=model)
        options["hooks"] = GuardHooks(tree.guard)
    played = sdk.play(agent, mode, **options)
    assert tree.ran == [0]
    assert len(model.calls) == 1
    assert_stopped(played.stop, reason="kill", scope=scope)


@pytest.mark.parametrize("how", ["agent", "hooks"])
@pytest.mark.parametrize("on_stop", ["stop", "ask"])
def test_in_the_sdk_a_call_that_waited_for_a_person_does_not_start_either(
    tmp_path: Any, how: str, on_stop: Any
) -> None:
    path = tmp_path / "switch.json"
    operator = Switch(path)
    guard = Guard(Policy(on_stop=on_stop), switch=Switch(path, ttl=0))
    ran: list[int] = []

    @function_tool(needs_approval=True)
    def pay(q: int) -> str:
        """Pay."""
        ran.append(q)
        return "paid"

    model = sdk.script(sdk.call("pay", {"q": 1}), "done")
    agent = Agent("boss", tools=[pay], model=model)
    hooks: Any = GuardHooks(guard) if how == "hooks" else None
    if how == "agent":
        agent = guard_agent(agent, guard)

    async def play() -> Any:
        result = await Runner.run(agent, "go", hooks=hooks, run_config=RunConfig())
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        operator.kill(all=True, by="eve")
        try:
            return await Runner.run(agent, state, hooks=hooks)
        except Exception as error:
            return error

    ended = asyncio.run(play())
    assert ran == []
    assert len(model.calls) == 1
    from lastcall_openai_agents import stop_of as stop_of_run

    assert_stopped(stop_of_run(ended), reason="kill", scope="all")


@pytest.mark.parametrize("mode", ["run", "streamed"])
@pytest.mark.parametrize("how", ["agent", "hooks"])
def test_r215_in_the_sdk_a_switch_set_before_lets_nothing_begin(
    tmp_path: Any, how: str, mode: str
) -> None:
    guard = Guard(switch=tmp_path / "switch.json")
    guard.switch.kill(all=True, by="eve")
    began: list[str] = []

    @function_tool(is_enabled=lambda *_: began.append("set up") or True)
    def look() -> str:
        """Look."""
        began.append("ran")
        return "found"

    class Server(MCPServer):
        """Writes down that it is asked."""

        name = "server"

        async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
            began.append("listed")
            return []

        connect = cleanup = call_tool = list_prompts = get_prompt = None

    model = sdk.script(sdk.call("look"), "done")
    agent = Agent("boss", tools=[look], mcp_servers=[Server()], model=model)
    if how == "agent":
        played = sdk.play(guard_agent(agent, guard), mode)
        assert began == []
    else:
        # Hooks hear of nothing before the request.
        played = sdk.play(agent, mode, hooks=GuardHooks(guard))
        assert began == ["listed", "set up"]
    assert_stopped(played.stop, reason="kill", scope="all")
    assert model.calls == []


def test_one_guard_stops_one_user_in_both_frameworks(tmp_path: Any) -> None:
    path = tmp_path / "switch.json"
    here = LangChainTree("middleware", "invoke", path, {"user": "ann"}, together=False)
    there = SdkTree(path, {"user": "nobody"}, together=False)
    there.clock.tick(5)
    assert_stopped(here.play().stop, scope="user")
    assert_stopped(there.play("ann").stop, scope="user")
    assert there.ran == []
    assert there.play("bob").result.final_output == "done"
    assert stop_of(here.play("bob", "t2").result) is None
