"""A guarded tool cannot be told from the tool itself, but for what the guard refuses."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.tools import InjectedState, InjectedToolCallId, ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, Tool, ToolException, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import Command
from pydantic import BaseModel, Field, ValidationError

from lastcall import Guard, Policy, Stopped, ToolPolicy
from lastcall_langchain import GuardCallbackHandler, GuardMiddleware, guard_tool, guard_tools
from lastcall_langchain.tools import guards_of

from .playing import build, config_of, play
from .scripted import USER, asked_alone, asking, reply, scripted, unanswered


@tool
def plain(x: int, y: str = "a") -> str:
    """Plain."""
    return f"{x}{y}"


@tool(response_format="content_and_artifact")
def artifact(x: int) -> tuple[str, dict[str, int]]:
    """Artifact."""
    return "c", {"x": x}


@tool
def injected(
    x: int, state: Annotated[Any, InjectedState], call_id: Annotated[str, InjectedToolCallId]
) -> str:
    """Injected."""
    return f"{x}|{len(state['messages'])}|{call_id}"


@tool
def runtime_tool(x: int, runtime: ToolRuntime) -> str:
    """Runtime."""
    return f"{x}|{runtime.tool_call_id}"


@tool
def cfg_tool(x: int, config: RunnableConfig) -> str:
    """Cfg."""
    return f"{x}|{config['configurable'].get('k')}"


@tool
async def async_tool(x: int) -> str:
    """Async."""
    return f"{x}"


@tool
def command_tool(x: int, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Command."""
    return Command(update={"messages": [ToolMessage(f"cmd{x}", tool_call_id=call_id)]})


@tool
def message_tool(x: int, call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
    """Message."""
    return ToolMessage(f"msg{x}", tool_call_id=call_id, artifact=[x])


@tool(return_direct=True)
def failing(x: int) -> str:
    """Failing."""
    raise ToolException("bad")


failing.handle_tool_error = True


@tool
def strict_tool(x: Annotated[int, Field(gt=100)]) -> str:
    """Validates."""
    return f"{x}"


strict_tool.handle_validation_error = True
single = Tool(name="single", description="single input", func=lambda s: s.upper())


class Args(BaseModel):
    x: int = Field(description="an x")


class Sub(BaseTool):
    name: str = "sub"
    description: str = "subclass"
    args_schema: Any = Args
    extra_field: int = 3

    def _run(self, x: int, run_manager: Any = None) -> str:
        return f"{x}{self.extra_field}{run_manager is not None}"


class Both(BaseTool):
    name: str = "both"
    description: str = "sync and async of its own, no schema"

    def _run(self, x: int, config: RunnableConfig, run_manager: Any = None) -> str:
        return f"sync{x}{run_manager is not None}{config['configurable'].get('k')}"

    async def _arun(self, x: int, config: RunnableConfig, run_manager: Any = None) -> str:
        return f"async{x}{run_manager is not None}{config['configurable'].get('k')}"


from_schema = StructuredTool.from_function(
    func=lambda **kwargs: sorted(kwargs.items()),
    name="from_schema",
    description="JSON schema",
    args_schema={"type": "object", "properties": {"x": {"type": "integer"}}},
)

TOOLS = [
    plain, artifact, injected, runtime_tool, cfg_tool, async_tool, command_tool, message_tool,
    failing, strict_tool, single, Sub(), Both(), from_schema,
]  # fmt: skip

FIELDS = (
    "name", "description", "response_format", "return_direct", "tags", "metadata",
    "handle_tool_error", "handle_validation_error", "args", "is_single_input",
)  # fmt: skip

PERMISSIVE = Guard(Policy.permissive())


def answered(each: BaseTool, mode: str, middleware: tuple[Any, ...] = (), **config: Any) -> Any:
    args = {"__arg1": "q"} if each.name == "single" else {"x": 1}
    script = scripted(reply(asking(each.name, args, "c1")))
    agent = create_agent(script, [each], middleware=middleware)
    given: Any = {"configurable": {"k": "v"}, **config}
    if mode == "invoke":
        messages = agent.invoke(USER, given)["messages"]
    else:
        messages = asyncio.run(agent.ainvoke(USER, given))["messages"]
    found = next(message for message in messages if isinstance(message, ToolMessage))
    return (*found.model_dump(exclude={"id"}).items(), len(messages))


@pytest.mark.parametrize("each", TOOLS, ids=lambda each: each.name)
def test_a_guarded_tool_looks_the_same(each: BaseTool) -> None:
    copy = guard_tool(each, PERMISSIVE)
    assert convert_to_openai_tool(copy) == convert_to_openai_tool(each)
    assert all(getattr(copy, name) == getattr(each, name) for name in FIELDS)
    assert copy.args_schema is each.args_schema
    assert repr(copy) == repr(each)
    assert isinstance(copy, type(each))
    assert (type(copy).__name__, type(copy).__module__) == (
        type(each).__name__,
        type(each).__module__,
    )
    assert copy is not each
    assert copy.model_dump(exclude={"func", "coroutine"}) == each.model_dump(
        exclude={"func", "coroutine"}
    )


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("each", TOOLS, ids=lambda each: each.name)
def test_a_permissive_guard_changes_no_answer(each: BaseTool, mode: str) -> None:
    if each is async_tool and mode == "invoke":
        with pytest.raises(NotImplementedError):
            answered(each, mode)
        with pytest.raises(NotImplementedError):
            answered(guard_tool(each, PERMISSIVE), mode)
        return
    bare = answered(each, mode)
    assert answered(guard_tool(each, PERMISSIVE), mode) == bare
    assert answered(each, mode, (GuardMiddleware(PERMISSIVE),)) == bare
    assert answered(each, mode, callbacks=[GuardCallbackHandler(PERMISSIVE)]) == bare


@pytest.mark.parametrize("each", TOOLS, ids=lambda each: each.name)
def test_the_guard_sees_each_call_once_with_the_models_own_arguments(each: BaseTool) -> None:
    for entry in ("tools", "middleware", "handler"):
        heard: list[Any] = []
        guard = Guard(listeners=[lambda event, heard=heard: heard.append(event)])
        config: dict[str, Any] = {}
        tools: list[BaseTool] = [each]
        middleware: tuple[Any, ...] = ()
        if entry == "tools":
            tools = guard_tools(tools, guard)
        elif entry == "middleware":
            middleware = (GuardMiddleware(guard),)
        else:
            config["callbacks"] = [GuardCallbackHandler(guard)]
        asyncio_answer = answered(tools[0], "ainvoke", middleware, **config)
        assert asyncio_answer
        attempts = [event for event in heard if event.kind == "attempt"]
        assert [event.call_id for event in attempts] == ["c1"], entry
        assert len({event.fingerprint for event in attempts}) == 1


def test_injected_state_is_no_argument_and_arrives_untouched() -> None:
    class Unprintable(dict[str, Any]):
        def __repr__(self) -> str:
            raise RuntimeError("never printed")

        __str__ = __reduce__ = __repr__  # type: ignore[assignment]

    seen: list[Any] = []
    state = Unprintable(n=0)

    @tool
    def look(q: int, state: Annotated[Any, InjectedState("extra")]) -> str:
        """Look."""
        seen.append(state)
        return f"found {len(seen)}"

    events: list[Any] = []
    guard = Guard(Policy(max_repeats=2), listeners=[events.append])
    guarded = guard_tool(look, guard)
    with guard.within(run="r"):
        answers = [
            guarded.invoke(
                {
                    "name": "look",
                    "args": {"q": 1, "state": state},
                    "id": f"c{i}",
                    "type": "tool_call",
                }
            )
            for i in range(3)
        ]
    assert [answer.status for answer in answers] == ["success", "success", "error"]
    assert all(each is state for each in seen)
    assert answers[2].response_metadata["lastcall"]["reason"] == "repeat"
    assert len({event.fingerprint for event in events if event.fingerprint}) == 1


def test_a_refusal_without_a_call_id_is_raised() -> None:
    guard = Guard(Policy(max_calls=1))
    guarded = guard_tool(plain, guard)
    with guard.within(run="r"):
        assert guarded.invoke({"x": 1}) == "1a"
        with pytest.raises(Stopped) as raised:
            guarded.invoke({"x": 2})
    assert raised.value.stop.reason == "ceiling"
    with guard.within(run="s"):
        guarded.invoke({"x": 1})
        with pytest.raises(Stopped):
            asyncio.run(guarded.ainvoke({"x": 2}))


def test_a_function_becomes_a_tool() -> None:
    def look(q: int) -> str:
        """Look about."""
        return f"found {q}"

    made = guard_tool(look, PERMISSIVE)
    assert (made.name, made.description, made.args) == (
        tool(look).name, tool(look).description, tool(look).args,
    )  # fmt: skip
    assert made.invoke({"q": 3}) == "found 3"


def test_what_a_tool_says_of_itself_counts_and_what_is_said_here_wins() -> None:
    ran: list[int] = []

    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {len(ran)}"

    told = tool(look)
    told.metadata = {"lastcall": {"max_calls": 2}, "other": 1}
    for entry in ("tools", "middleware", "handler"):
        ran.clear()
        guard = Guard()
        agent = build(
            entry,
            "create_agent",
            guard,
            scripted(*asked_alone("look", ({"q": i} for i in range(4)))),
            told,
        )
        play(agent, config_of(guard, entry))
        assert ran == [0, 1], entry
    assert told.metadata == {"lastcall": {"max_calls": 2}, "other": 1}
    ran.clear()
    guard = Guard()
    wider = guard_tool(told, guard, max_calls=3)
    play(
        build(
            "other",
            "create_agent",
            guard,
            scripted(*asked_alone("look", ({"q": i} for i in range(4)))),
            wider,
        ),
        config_of(guard, "other"),
    )
    assert ran == [0, 1, 2]
    told.metadata = {"lastcall": ToolPolicy(max_calls=1)}
    assert guard_tool(told, guard).metadata == told.metadata


@pytest.mark.parametrize("entry", ["tools", "middleware"])
@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_what_a_decorator_says_counts_where_the_metadata_says_nothing(
    entry: str, mode: str
) -> None:
    ran: list[int] = []

    def look(q: int) -> str:
        """Look."""
        ran.append(q)
        return f"found {q}"

    async def alook(q: int) -> str:
        """Look."""
        return look(q)

    for body in (look, alook):
        # As `@guard.wrap(max_calls=2)` leaves it; the decorator itself would count as well.
        setattr(body, "__lastcall_tool__", ToolPolicy(max_calls=2))  # noqa: B010 - as it is read
    made = tool("look")(look if mode == "invoke" else alook)
    for said, runs in (({}, 2), ({"alert_calls": 1}, 2), ({"max_calls": 3}, 3)):
        ran.clear()
        made.metadata = {"lastcall": said}
        guard, model = Guard(), scripted(*asked_alone("look", ({"q": i} for i in range(4))))
        play(build(entry, "create_agent", guard, model, made), config_of(guard, entry), mode)
        assert ran == list(range(runs)), said


def test_what_is_said_of_a_guarded_tool_wins_over_its_decorator() -> None:
    def look(q: int) -> str:
        """Look."""
        return f"found {q}"

    guard = Guard()
    made = tool(guard.wrap(max_calls=2, reads=True)(look))
    made.metadata = {"lastcall": {"max_calls": 3}}
    ((_, policy),) = guards_of(guard_tool(made, guard, max_repeats=4))
    assert (policy.reads, policy.max_calls, policy.max_repeats) == (True, 3, 4)
    assert policy.model_fields_set == {"reads", "max_calls", "max_repeats"}


def test_a_wrong_tool_policy_is_named() -> None:
    with pytest.raises(ValidationError, match="max_cals"):
        guard_tool(plain, Guard(), max_cals=3)


def test_what_a_stopped_tool_gave_for_programs_stays() -> None:
    @tool(response_format="content_and_artifact")
    def look(q: int) -> tuple[dict[str, Any], list[int]]:
        """Look."""
        return {"status_code": 422, "error": "no such order"}, [q]

    guarded = guard_tool(look, Guard())
    answer = guarded.invoke(asking("look", {"q": 7}, "c"))
    assert (answer.status, answer.artifact, answer.tool_call_id) == ("error", [7], "c")
    assert "HTTP 422" in answer.text


def test_results_are_gathered_in_order() -> None:
    for entry in ("tools", "middleware", "handler"):
        guard = Guard(Policy(max_calls=3))

        def look(q: int) -> str:
            """Look."""
            return f"found {q}"

        agent = build(
            entry,
            "create_agent",
            guard,
            scripted(*asked_alone("look", ({"q": i} for i in range(5)))),
            look,
        )
        played = play(agent, config_of(guard, entry))
        assert played.stop is not None
        assert (played.stop.reason, played.stop.limit) == ("ceiling", 3)
        gathered = [(each.call_id, each.tool, each.result) for each in played.stop.gathered]
        assert gathered == [(f"c{i}", "look", f"found {i}") for i in range(3)], entry


@pytest.mark.parametrize("entry", ["middleware", "tools", "handler"])
def test_equal_commands_are_equal_results(entry: str) -> None:
    ran: list[int] = []

    @tool
    def plan(x: int, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write the plan."""
        ran.append(x)
        return Command(update={"messages": [ToolMessage("planned", tool_call_id=call_id)]})

    guard = Guard()
    script = asked_alone("plan", ({"x": 1} for _ in range(40)))
    played = play(
        build(entry, "create_agent", guard, scripted(*script), plan), config_of(guard, entry)
    )
    assert len(ran) <= 5
    assert played.stop is not None
    assert played.unanswered == []


def test_a_tool_in_a_batch_and_in_a_pipe_is_guarded() -> None:
    guard = Guard(Policy(max_calls=2))
    guarded = guard_tool(plain, guard)
    calls = [asking("plain", {"x": i}, f"c{i}") for i in range(3)]
    with guard.within(run="r"):
        answers = guarded.batch(calls, {"max_concurrency": 1})
    assert [answer.status for answer in answers] == ["success", "success", "error"]
    assert unanswered([reply(*calls), *answers]) == []
