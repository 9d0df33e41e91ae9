"""Every kind of tool that runs here is asked about, seen raw, refused in its own form, and else untouched."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
import subprocess
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agents import (
    Agent,
    ApplyPatchTool,
    Computer,
    ComputerProvider,
    ComputerTool,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    ProgrammaticToolCallingTool,
    RunHooks,
    Runner,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
    WebSearchTool,
    function_tool,
)
from agents.editor import ApplyPatchResult
from openai.types.responses import (
    ResponseApplyPatchToolCall,
    ResponseComputerToolCall,
    ResponseFunctionShellToolCall,
    ResponseFunctionToolCall,
    ResponseFunctionWebSearch,
)
from openai.types.responses.response_output_item import LocalShellCall, Program
from pydantic import BaseModel

from lastcall import Guard, Policy
from lastcall.events import Event
from lastcall_openai_agents import guard_agent, guard_tool, guard_tools, instrument

from .scripted import aplay, call, custom_call, get, play, script

ROADS = ("guard_agent", "guard_tools", "instrument")


@pytest.fixture(params=ROADS)
def guarded(request) -> Iterator[Callable[[Agent[Any], Guard], Agent[Any]]]:
    undos: list[Callable[[], None]] = []

    def by(agent: Agent[Any], guard: Guard) -> Agent[Any]:
        if request.param == "guard_agent":
            return guard_agent(agent, guard)
        if request.param == "guard_tools":
            return agent.clone(tools=guard_tools(agent.tools, guard))
        undos.append(instrument(guard))
        return agent

    yield by
    for undo in undos:
        undo()


def listened(policy: Policy | None = None) -> tuple[Guard, list[Event]]:
    events: list[Event] = []
    return Guard(policy or Policy.permissive(), listeners=[events.append]), events


def attempts(events: list[Event]) -> list[Event]:
    return [each for each in events if each.kind == "attempt"]


def outputs(played: Any) -> list[Any]:
    return [each for each in played.items if str(get(each, "type")).endswith("_call_output")]


def whole(played: Any) -> bool:
    """Whether every call of every kind is answered, and nothing stands between."""
    asked = [get(each, "call_id") for each in played.items if get(each, "type") in ASKED]
    return asked == [get(each, "call_id") for each in outputs(played)]


ASKED = {
    "function_call",
    "custom_tool_call",
    "shell_call",
    "local_shell_call",
    "apply_patch_call",
    "computer_call",
}


# What the model asks for, one kind each.


def shell(command: str, id: str = "c1") -> Any:
    return ResponseFunctionShellToolCall.model_validate(
        {
            "id": id,
            "call_id": id,
            "type": "shell_call",
            "status": "completed",
            "action": {"commands": [command], "timeout_ms": None, "max_output_length": None},
            "environment": None,
        }
    )


def local_shell(command: str, id: str = "c1") -> Any:
    return LocalShellCall.model_validate(
        {
            "id": id,
            "call_id": id,
            "type": "local_shell_call",
            "status": "completed",
            "action": {"type": "exec", "command": ["sh", "-c", command], "env": {}},
        }
    )


def patch(diff: str, id: str = "c1", path: str = "a.txt") -> Any:
    return ResponseApplyPatchToolCall.model_validate(
        {
            "id": id,
            "call_id": id,
            "type": "apply_patch_call",
            "status": "completed",
            "operation": {"type": "update_file", "path": path, "diff": diff},
        }
    )


def click(x: int, id: str = "c1") -> Any:
    return ResponseComputerToolCall.model_validate(
        {
            "id": id,
            "call_id": id,
            "type": "computer_call",
            "status": "completed",
            "pending_safety_checks": [],
            "actions": [{"type": "click", "x": x, "y": 1, "button": "left"}],
        }
    )


# What does it, one kind each; each notes what it did.


class Screen(Computer):
    def __init__(self) -> None:
        self.done: list[Any] = []

    environment = "browser"
    dimensions = (100, 100)

    def screenshot(self) -> str:
        return f"picture-{len(self.done)}"

    def click(self, x: int, y: int, button: str) -> None:
        self.done.append(x)

    def double_click(self, x: int, y: int) -> None: ...
    def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None: ...
    def type(self, text: str) -> None: ...
    def wait(self) -> None: ...
    def move(self, x: int, y: int) -> None: ...
    def keypress(self, keys: list[str]) -> None: ...
    def drag(self, path: list[tuple[int, int]]) -> None: ...


class Editor:
    def __init__(self, done: list[Any], answer: Callable[[], Any]) -> None:
        self.done = done
        self.answer = answer

    def update_file(self, operation: Any) -> Any:
        self.done.append(operation.diff)
        return self.answer()

    create_file = delete_file = update_file


def ran(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def tool_of(kind: str, done: list[Any], answer: Callable[[], Any] | None = None) -> Any:
    def execute(request: Any) -> Any:
        action = request.data.action
        command = action.commands[0] if kind == "shell" else action.command[-1]
        done.append(command)
        return answer() if answer else ran(["sh", "-c", command])

    async def invoke(ctx: Any, text: str) -> Any:
        done.append(text)
        return answer() if answer else f"took {text}"

    if kind == "shell":
        return ShellTool(executor=execute)
    if kind == "local_shell":
        return LocalShellTool(executor=execute)
    if kind == "apply_patch":
        return ApplyPatchTool(editor=Editor(done, answer or (lambda: "patched")))
    if kind == "computer":
        screen = Screen()
        screen.done = done
        return ComputerTool(computer=screen)
    if kind == "custom":
        return CustomTool(name="custom", description="d", on_invoke_tool=invoke)
    return FunctionTool(
        name="function",
        description="d",
        params_json_schema={"type": "object", "properties": {}},
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


ASKS: dict[str, Callable[[int, str], Any]] = {
    "shell": lambda i, at: shell(f"echo {i}", at),
    "local_shell": lambda i, at: local_shell(f"echo {i}", at),
    "apply_patch": lambda i, at: patch(f"+{i}", at),
    "computer": click,
    "custom": lambda i, at: custom_call("custom", str(i), at),
    "function": lambda i, at: call("function", {"i": i}, at),
}


@pytest.mark.parametrize("kind", ASKS)
def test_a_runaway_is_refused_in_the_tools_own_form_and_ended(guarded, kind, mode):
    done: list[Any] = []
    asks = [ASKS[kind](i, f"c{i}") for i in range(10)]
    agent = Agent("A", tools=[tool_of(kind, done)], model=script(*asks, "done"))
    played = play(guarded(agent, Guard(Policy(max_calls=3))), mode)
    assert len(done) == 3
    assert played.stop.reason in ("ceiling", "refusals")
    assert played.requests <= 6
    assert whole(played)
    told = outputs(played)[3:]
    assert told
    for each in told:
        said = json.dumps(get(each, "output"))
        if kind == "computer":
            assert "picture-3" in said
        else:
            assert "Stopped: " in said
        if kind == "apply_patch":
            assert get(each, "status") == "failed"


@pytest.mark.parametrize("kind", ASKS)
def test_a_permissive_guard_changes_nothing(guarded, kind, mode):
    def played(by: Callable[..., Agent[Any]]) -> Any:
        asks = [[ASKS[kind](1, "c1"), ASKS[kind](2, "c2")], ASKS[kind](1, "c3"), "done"]
        seen = Noting()
        agent = Agent("A", tools=[tool_of(kind, [])], model=script(*asks))
        found = play(by(agent, Guard(Policy.permissive())), mode, hooks=seen)
        assert found.error is None
        return outputs(found), found.result.final_output, seen.events

    assert played(guarded) == played(lambda agent, _: agent)


class Noting(RunHooks[Any]):
    def __init__(self) -> None:
        self.events: list[Any] = []

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.events.append(("start", tool.name))

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.events.append(("end", tool.name, result))


@pytest.mark.parametrize("kind", ASKS)
def test_the_guard_sees_id_arguments_and_raw_result(guarded, kind):
    guard, events = listened()
    agent = Agent("A", tools=[tool_of(kind, [])], model=script(ASKS[kind](7, "c7"), "done"))
    play(guarded(agent, guard))
    (event,) = attempts(events)
    names = {"computer": "computer_use_preview"}
    assert event.tool == names.get(kind, kind)
    assert event.call_id == (None if kind == "apply_patch" else "c7")


@pytest.mark.parametrize("kind", ASKS)
def test_equal_calls_with_equal_results_are_seen_as_such(guarded, kind):
    done: list[Any] = []
    answer = None if kind in ("shell", "local_shell", "computer") else lambda: "the same"
    asks = [ASKS[kind](1, f"c{i}") for i in range(12)]
    agent = Agent("A", tools=[tool_of(kind, done, answer)], model=script(*asks, "done"))
    played = play(guarded(agent, Guard()))
    if kind == "computer":
        # Each picture is new, so nothing is repeated.
        assert (len(done), played.stop) == (12, None)
    else:
        assert len(done) == 3
        assert played.stop.reason in ("same", "refusals")


@pytest.mark.parametrize("kind", ASKS)
def test_hooks_are_shown_the_very_tool(kind, mode):
    shown: list[Any] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            shown.append(tool)

        on_tool_end = lambda self, context, agent, tool, result: self.on_tool_start(
            context, agent, tool
        )

    tool = tool_of(kind, [])
    agent = Agent("A", tools=[tool], model=script(ASKS[kind](1, "c1"), "done"))
    undo = instrument(Guard())
    try:
        play(agent, mode, hooks=Hooks())
    finally:
        undo()
    assert [each is tool for each in shown] == [True, True]


def test_a_class_that_does_its_own_is_guarded_too(guarded):
    done: list[Any] = []

    class Own(ShellTool):
        def executor(self, request: Any) -> str:  # type: ignore[override]
            done.append(request.data.call_id)
            return "mine"

    tool = Own(executor=print)
    del tool.executor
    asks = [shell("echo", f"c{i}") for i in range(9)]
    played = play(guarded(Agent("A", tools=[tool], model=script(*asks, "done")), Guard()))
    assert done == ["c0", "c1", "c2"]
    assert played.stop is not None


def test_fields_are_what_they_were(guarded):
    tool = tool_of("shell", [])
    body, hosted = tool.executor, ShellTool(environment={"type": "container_auto"})
    guarded(Agent("A", tools=[tool, hosted]), Guard())
    assert tool.executor is body
    assert (hosted.executor, ShellTool.executor) == (None, None)
    assert copy.copy(tool) == tool
    assert dataclasses.replace(tool, name="other").executor is body
    with pytest.raises(AttributeError, match="executor"):
        _ = LocalShellTool.executor
    tool.executor = print
    assert tool.executor is print


class Gone(Exception):
    status_code = 410


def gone() -> Any:
    raise Gone("Gone. Please try again.")


@pytest.mark.parametrize("kind", ["shell", "apply_patch", "custom"])
def test_a_final_failure_reads_as_a_stop(guarded, kind, mode):
    asks = [ASKS[kind](1, "c1"), "done"]
    agent = Agent("A", tools=[tool_of(kind, [], gone)], model=script(*asks))
    played = play(guarded(agent, Guard()), mode)
    assert played.result.final_output == "done"
    said = json.dumps(get(outputs(played)[0], "output"))
    assert "HTTP 410" in said
    assert "try again" not in said


def test_a_failure_that_ends_the_run_still_does(guarded, mode):
    guard, events = listened(Policy())
    agent = Agent(
        "A", tools=[tool_of("local_shell", [], gone)], model=script(local_shell("x"), "done")
    )
    played = play(guarded(agent, guard), mode)
    assert "Gone" in str(played.error)
    assert [each.status for each in attempts(events)] == [410]


def test_a_failed_patch_is_a_failure(guarded):
    guard, events = listened()
    tool = tool_of("apply_patch", [], lambda: ApplyPatchResult(status="failed", output="no match"))
    play(guarded(Agent("A", tools=[tool], model=script(patch("+1"), "done")), guard))
    assert [each.outcome for each in attempts(events)] == ["error"]


def test_what_a_shell_prints_is_no_status(guarded):
    guard, events = listened()
    printed = ShellResult(
        [ShellCommandOutput(stdout="HTTP 404", outcome=ShellCallOutcome("exit", 1))]
    )
    tool = tool_of("shell", [], lambda: printed)
    play(guarded(Agent("A", tools=[tool], model=script(shell("curl"), "done")), guard))
    assert [each.status for each in attempts(events)] == [None]


@pytest.mark.parametrize("kind", ["shell", "apply_patch", "custom", "function"])
@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.asyncio
async def test_a_person_is_asked_first(guarded, kind, approved):
    guard, events = listened()
    done: list[Any] = []
    tool = tool_of(kind, done)
    tool.needs_approval = True
    agent = guarded(Agent("A", tools=[tool], model=script(ASKS[kind](1, "c1"), "done")), guard)
    played = await aplay(agent)
    (item,) = played.result.interruptions
    assert (done, attempts(events)) == ([], [])
    state = played.result.to_state()
    (state.approve if approved else state.reject)(item)
    resumed = await Runner.run(agent, state)
    assert resumed.final_output == "done"
    assert len(done) == len(attempts(events)) == int(approved)


@pytest.mark.parametrize("kind", ASKS)
def test_guarding_every_way_counts_once(kind):
    guard, events = listened()
    agent = Agent("A", tools=[tool_of(kind, [])], model=script(ASKS[kind](1, "c1"), "done"))
    agent = guard_agent(
        agent.clone(tools=guard_tools(guard_tools(agent.tools, guard), guard)), guard
    )
    undo = instrument(guard)
    try:
        play(agent)
    finally:
        undo()
    assert len(attempts(events)) == 1


@pytest.mark.parametrize("kind", ASKS)
def test_two_guards_both_count(kind):
    (first, firsts), (second, _) = listened(), listened(Policy(max_calls=1))
    done: list[Any] = []
    tool = guard_tool(guard_tool(tool_of(kind, done), first), second)
    asks = [ASKS[kind](i, f"c{i}") for i in range(3)]
    play(Agent("A", tools=[tool], model=script(*asks, "done")))
    assert len(done) == 1
    assert len([each for each in attempts(firsts) if each.outcome == "ok"]) == 1


@pytest.mark.asyncio
async def test_a_computer_that_is_made_for_each_run_is_made_and_let_go_once(guarded):
    made: list[Screen] = []
    gone: list[Any] = []

    def create(*, run_context: Any) -> Screen:
        made.append(Screen())
        return made[-1]

    async def dispose(*, run_context: Any, computer: Any) -> None:
        gone.append(computer)

    tool = ComputerTool(computer=ComputerProvider(create=create, dispose=dispose))
    agent = Agent(
        "A", tools=[tool], model=script(click(1), click(2, "c2"), "done", click(3), "done")
    )
    agent = guarded(agent, Guard())
    for run in (1, 2):
        assert (await aplay(agent)).result.final_output == "done"
        assert (len(made), len(gone)) == (run, run)
    assert [screen.done for screen in made] == [[1, 2], [3]]


def test_a_computer_that_was_never_allowed_shows_a_blank_picture(guarded):
    screen = Screen()
    tools = [ComputerTool(computer=screen), tool_of("function", [])]
    agent = Agent("A", tools=tools, model=script(call("function"), click(1, "c2"), "done"))
    played = play(guarded(agent, Guard(Policy(max_calls=1))))
    assert screen.done == []
    shown = get(outputs(played)[-1], "output")["image_url"]
    assert b64decode(shown.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")


# Function tools of every make.


class Stock(BaseModel):
    sku: str
    units: int


def stock_of(*, fails: bool) -> FunctionTool:
    @function_tool(allowed_callers=["direct", "programmatic"])
    async def stock(sku: str) -> Stock:
        """Looks up what is there."""
        if fails:
            raise Gone("Gone. Please try again.")
        return Stock(sku=sku, units=1)

    return stock


def by_program(id: str) -> list[Any]:
    """What a program at the provider asks for."""
    caller = {"type": "program", "caller_id": "p1"}
    fields = {"type": "function_call", "name": "stock", "arguments": '{"sku": "a"}'}
    return [ResponseFunctionToolCall(id=id, call_id=id, caller=caller, **fields)]


PROGRAM = Program(id="p", call_id="p1", code="stock()", fingerprint="f", type="program")


def test_a_program_reads_the_stop_as_a_failure_of_its_tool(guarded, mode):
    guard = Guard(Policy(max_repeats=1))
    tools = [stock_of(fails=False), ProgrammaticToolCallingTool()]
    asks = [[PROGRAM, *by_program("c1")], by_program("c2"), "done"]
    played = play(guarded(Agent("A", tools=tools, model=script(*asks)), guard), mode)
    assert played.result.final_output == "done"
    first, second = (get(each, "output") for each in outputs(played))
    assert json.loads(first) == {"sku": "a", "units": 1}
    # A program awaits JSON, whatever it is of.
    assert "Stopped: stock: " in json.dumps(json.loads(second))


def test_a_failure_that_a_program_would_not_survive_still_ends_the_run(guarded, mode):
    guard, events = listened(Policy())
    tools = [stock_of(fails=True), ProgrammaticToolCallingTool()]
    asks = [[PROGRAM, *by_program("c1")], "done"]
    played = play(guarded(Agent("A", tools=tools, model=script(*asks)), guard), mode)
    assert isinstance(played.error.__cause__, Gone)
    assert [each.status for each in attempts(events)] == [410]


def test_a_tool_that_outstays_its_time_is_seen(guarded, mode):
    guard, events = listened()

    @function_tool(timeout=0.01)
    async def slow(x: int) -> str:
        await asyncio.Event().wait()
        return "never"

    asks = [call("slow", {"x": 1}), "done"]
    played = play(guarded(Agent("A", tools=[slow], model=script(*asks)), guard), mode)
    assert "timed out" in played.outputs["c1"]
    assert [each.outcome for each in attempts(events)] == ["error"]


@pytest.mark.parametrize("make", ["sync", "async", "own", "hand-made"])
def test_every_make_of_function_tool_is_refused(guarded, make, mode):
    done: list[Any] = []

    class Own(FunctionTool):
        def __init__(self, label: str) -> None:
            self.label = label
            schema = {"type": "object", "properties": {}}
            super().__init__("tool", "d", schema, self._invoke, strict_json_schema=False)

        async def _invoke(self, ctx: Any, text: str) -> str:
            done.append(self.label)
            return "done"

    async def invoke(ctx: Any, text: str) -> str:
        done.append(text)
        return "done"

    def plain(i: int) -> str:
        done.append(i)
        return "done"

    async def waiting(i: int) -> str:
        done.append(i)
        return "done"

    schema = {"type": "object", "properties": {}}
    tools = {
        "sync": lambda: function_tool(plain, name_override="tool"),
        "async": lambda: function_tool(waiting, name_override="tool"),
        "own": lambda: Own("o"),
        "hand-made": lambda: FunctionTool("tool", "d", schema, invoke, strict_json_schema=False),
    }
    asks = [call("tool", {"i": i}, f"c{i}") for i in range(9)]
    agent = Agent("A", tools=[tools[make]()], model=script(*asks, "done"))
    played = play(guarded(agent, Guard(Policy(max_calls=2))), mode)
    assert len(done) == 2
    assert played.stop.limit == 2
    assert whole(played)


@pytest.mark.parametrize("kind", ["shell", "apply_patch", "computer", "custom"])
def test_a_reply_of_which_something_ran_is_no_round_of_refusals(guarded, kind):
    done: list[Any] = []
    tools = [tool_of("function", []), tool_of(kind, done)]
    rounds = [[call("function", {}, f"f{i}"), ASKS[kind](i, f"n{i}")] for i in range(6)]
    agent = Agent("A", tools=tools, model=script(*rounds, "done"))
    policy = Policy(tools={"function": {"max_repeats": 1}}, max_refusals=1)
    played = play(guarded(agent, Guard(policy)))
    assert len(done) == 6
    assert played.result.final_output == "done"


@pytest.mark.parametrize("kind", ["shell", "local_shell", "apply_patch", "computer", "custom"])
@pytest.mark.parametrize("fits", [True, False])
def test_a_mixed_reply_is_as_large_as_all_its_calls(guarded, kind, fits, mode):
    done: list[Any] = []
    guard = Guard(Policy(max_calls=2 + fits, batch="all-or-none"))
    tools = [tool_of("function", done), tool_of(kind, done)]
    reply = [call("function", {"i": i}, f"f{i}") for i in range(2)]
    agent = Agent("A", tools=tools, model=script([*reply, ASKS[kind](1, "n")], "done"))
    played = play(guarded(agent, guard), mode)
    assert len(done) == (3 if fits else 0)
    assert (played.stop is None) == fits
    assert whole(played)


def test_what_the_provider_runs_is_no_part_of_a_reply(guarded, mode):
    done: list[Any] = []
    guard = Guard(Policy(max_calls=1, batch="all-or-none"))
    hosted = ShellTool(name="shell", environment={"type": "container_auto"})
    searched = ResponseFunctionWebSearch.model_validate(
        {
            "id": "w",
            "type": "web_search_call",
            "status": "completed",
            "action": {"type": "search", "query": "x"},
        }
    )
    reply = [searched, shell("echo 1", "s"), call("function", {"i": 1}, "f")]
    tools = [tool_of("function", done), hosted, WebSearchTool()]
    played = play(guarded(Agent("A", tools=tools, model=script(reply, "done")), guard), mode)
    assert len(done) == 1
    assert played.result.final_output == "done"
