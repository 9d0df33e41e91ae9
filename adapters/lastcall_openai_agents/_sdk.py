"""Every name of the SDK that is not its public face, and why it is needed. A missing one is said so."""

# ruff: noqa: SLF001 - private names are what this module is for

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

from agents import (
    Agent,
    ComputerTool,
    FunctionTool,
    Handoff,
    ItemHelpers,
    RunResult,
    RunResultStreaming,
    ToolCallOutputItem,
)
from agents import run as _run
from agents import tool as _tool
from agents.tool_context import ToolContext

try:
    from agents import agent_tool_state as _nested
    from agents.run_internal import agent_tool_configuration as _configuration
except ImportError:  # pragma: no cover - an older SDK; what is lost is said below
    _nested = None  # type: ignore[assignment]
    _configuration = None  # type: ignore[assignment]

Invoke = Callable[[ToolContext[Any], str], Awaitable[Any]]


def _module(name: str) -> Any:
    """A module of the SDK's inner works; None where another release has none of that name."""
    try:
        return importlib.import_module(name)
    except ImportError:  # pragma: no cover - what is lost is said where it is needed
        return None


_execution = _module("agents.run_internal.tool_execution")
_actions = _module("agents.run_internal.tool_actions")
_resolution = _module("agents.run_internal.turn_resolution")
_steps = _module("agents.run_internal.run_steps")


class Place(NamedTuple):
    """Where the SDK keeps a function, a module or a class, and its name there."""

    owner: Any
    name: str


_Result: Any = getattr(_tool, "_FunctionToolInvocationResult", None)

INVOKING = (
    Place(_tool if _Result else None, "_invoke_function_tool_with_metadata"),
    Place(_execution if _Result else None, "_invoke_function_tool_with_metadata"),
)
"""The function that every call of a function tool passes, under the two names it is looked up by: MCP
tools, agents as tools and calls in realtime sessions too."""

CHECKING = Place(_execution, "_execute_tool_input_guardrails")
"""What comes before the hooks of a function tool. Without it a refused call would still fire them."""

WORDING = Place(_tool, "maybe_invoke_function_tool_failure_error_function")
"""What asks the failure function of a tool, the user's own or the default one."""

HANDING_OVER = Place(_resolution if _steps else None, "execute_handoffs")
"""What carries a hand-over out. `Handoff.on_invoke_handoff` alone cannot say no."""

GOING_ON = Place(_resolution, "_maybe_finalize_from_tool_results")
"""What every turn passes that handed nothing over, also one without a function tool: of that the SDK asks no
`tool_use_behavior` how the run goes on."""

CAPTURE = "_execute_action_and_capture"
"""What a computer does between its hooks, from the first action to the picture."""


ENDS_WITH = (
    "public_agent", "original_input", "new_response", "pre_step_items", "new_step_items", "hooks",
    "context_wrapper", "tool_input_guardrail_results", "tool_output_guardrail_results",
)  # fmt: skip
"""What the SDK wants to know of the turn that ends a run."""


class Native(NamedTuple):
    """How the SDK executes one kind of tool that is no function tool."""

    place: Place
    given: str
    """The argument that holds the call."""
    field: str
    """The field of the call that holds the tool."""


_Computer: Any = getattr(_actions, "ComputerAction", None)
if not hasattr(_Computer, CAPTURE):  # pragma: no cover - another release
    _Computer = None

NATIVE = {
    kind: Native(Place(action, "execute"), given, field)
    for kind, action, given, field in (
        ("CustomTool", getattr(_actions, "CustomToolAction", None), "call", "custom_tool"),
        ("ShellTool", getattr(_actions, "ShellAction", None), "call", "shell_tool"),
        ("LocalShellTool", getattr(_actions, "LocalShellAction", None), "call", "local_shell_tool"),
        ("ApplyPatchTool", getattr(_actions, "ApplyPatchAction", None), "call", "apply_patch_tool"),
        ("ComputerTool", _Computer, "action", "computer_tool"),
    )
}
"""By the class of the tool."""


def refused(text: str) -> Any:
    """What a function tool came to that was answered with *text* instead."""
    return _Result(text, is_sdk_generated_error=True)


def stayed(given: dict[str, Any], text: str) -> Any:
    """What a turn came to whose hand-over was answered with *text* instead: the agent goes on. *given*
    are the arguments of the function that carries it out."""
    agent, items = given["public_agent"], given["new_step_items"]
    for lead in given["run_handoffs"]:
        told = ItemHelpers.tool_call_output_item(lead.tool_call, text)
        items.append(ToolCallOutputItem(agent=agent, raw_item=told, output=text))
    return _steps.SingleStepResult(
        original_input=given["original_input"],
        model_response=given["new_response"],
        pre_step_items=given["pre_step_items"],
        new_step_items=items,
        next_step=_steps.NextStepRunAgain(),
        tool_input_guardrail_results=list(given.get("tool_input_guardrail_results") or []),
        tool_output_guardrail_results=list(given.get("tool_output_guardrail_results") or []),
    )


async def ended(given: dict[str, Any], step: Any, said: Any) -> Any:
    """*step*, the turn of *given* so far, as one that ends the run with the output that is *said*. Without
    a *step* it is as *given*."""
    finish = getattr(_resolution, "execute_final_output", None)
    if finish is None:  # pragma: no cover - another release: it ends at the next request
        return step
    turn = {name: given.get(name) for name in ENDS_WITH}
    if step is not None:
        turn.update(
            original_input=step.original_input,
            new_response=step.model_response,
            pre_step_items=step.pre_step_items,
            new_step_items=step.new_step_items,
            tool_input_guardrail_results=step.tool_input_guardrail_results,
            tool_output_guardrail_results=step.tool_output_guardrail_results,
        )
    return await finish(**turn, final_output=said.final_output)


def answered_here(given: dict[str, Any]) -> bool:
    """Whether calls were answered in the turn of *given*, and not by the provider alone."""
    reply = given["new_response"].output
    brought = {_field(item, "call_id") for item in reply if _is_output(item)}
    return any(
        isinstance(item, ToolCallOutputItem) and _field(item.raw_item, "call_id") not in brought
        for item in given["new_step_items"]
    )


def _is_output(item: Any) -> bool:
    """Whether *item* of a reply is what a tool brought that runs at the provider."""
    return str(_field(item, "type")).endswith("_output")


def _field(item: Any, name: str) -> Any:
    """A field of what the model wrote, an object or a mapping."""
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)


def agent_of_step(step: Any) -> Agent[Any] | None:
    """The agent that a turn handed over to."""
    return getattr(getattr(step, "next_step", None), "new_agent", None)


def shadow(tool: FunctionTool) -> FunctionTool:
    """Another *tool* for one call. Unlike a copy it shares its schema, and what it is bound to."""
    made = object.__new__(type(tool))
    made.__dict__.update(vars(tool))
    return made


def bind_computer(tool: ComputerTool[Any]) -> None:
    """Let *tool*, a copy, make its computers as the original does."""
    ComputerTool.__post_init__(tool)


class Realtime(NamedTuple):
    """What is needed of realtime sessions."""

    agent: type
    place: Place
    """What every event of a session passes."""


def realtime() -> Realtime | None:
    """Realtime sessions, once somebody uses them: loading them takes a while."""
    agents, session = (sys.modules.get(f"agents.realtime.{name}") for name in ("agent", "session"))
    if agents is None or session is None:
        return None
    return Realtime(agents.RealtimeAgent, Place(session.RealtimeSession, "on_event"))


def usage_of(session: Any) -> object:
    """The usage object that all calls of a realtime session share."""
    return session._context_wrapper.usage


def items_of(session: Any) -> set[str]:
    """The ids of what was said in a realtime session until now."""
    return {item.item_id for item in session._history}


def server_of(tool: FunctionTool) -> str | None:
    """The name of the MCP server behind a tool."""
    origin = getattr(tool, "_tool_origin", None)
    name = getattr(origin, "mcp_server_name", None)
    return name if isinstance(name, str) else None


def approval_of(server: Any, tool: Any, agent: Any) -> Any:
    """Whether a call of *tool* of an MCP *server* waits for a person, or the function that says so."""
    return server._get_needs_approval_for_tool(tool, agent)


def needs_nobody(server: Any) -> bool:
    """Whether no tool of an MCP *server* waits for a person."""
    return getattr(server, "_needs_approval_policy", None) is False


AgentRunner = _run.AgentRunner
"""What `Runner` hands every run to. The SDK calls it experimental, and it is the only place that sees a
run begin and end; `set_default_agent_runner` is there so that it can be exchanged."""


def default_runner() -> AgentRunner:
    """The runner that is in use."""
    return _run.get_default_agent_runner()


def set_default_runner(runner: AgentRunner) -> None:
    """Make *runner* the one in use."""
    _run.set_default_agent_runner(runner)


def enclosing_run() -> object | None:
    """An object that lives as long as the innermost run around us, where our runner is not in use."""
    owner = getattr(_configuration, "_current_run", None)
    return None if owner is None else owner.get()


# The SDK's own invoker turns what a tool raises into a fixed sentence. Raw outcomes are seen only inside.
_Invoker: Any = getattr(_tool, "_FailureHandlingFunctionToolInvoker", None)
_KEPT = frozenset({"_invoke_tool_impl", "_on_handled_error", "_function_tool"})


def invoke_of(tool: FunctionTool, original: FunctionTool) -> Invoke:
    """What *tool*, a copy of *original*, does before its failures are put into words."""
    invoker = tool.on_invoke_tool
    if _Invoker is not None and isinstance(invoker, _Invoker):
        impl: Invoke = cast("Any", invoker)._invoke_tool_impl
        return impl

    async def narrowed(ctx: ToolContext[Any], text: str) -> Any:
        return await invoker(_narrow(original, ctx), text)

    return narrowed


def body_of(tool: FunctionTool) -> Any:
    """What *tool* does, as it is: within the SDK's handling of failures, where there is any."""
    invoker = vars(tool).get("on_invoke_tool")
    if _Invoker is not None and isinstance(invoker, _Invoker):
        return cast("Any", invoker)._invoke_tool_impl
    return invoker


def with_invoke(tool: FunctionTool, invoke: Invoke) -> None:
    """Exchange what *tool* does for *invoke*; how its failures are handled stays."""
    invoker = tool.on_invoke_tool
    if _Invoker is None or not isinstance(invoker, _Invoker):
        tool.on_invoke_tool = invoke
        return
    old: Any = invoker
    # Argument inspection for approvals and `__wrapped__` hang on the implementation.
    invoke.__dict__.update(getattr(old._invoke_tool_impl, "__dict__", {}))
    new = _Invoker(invoke, old._on_handled_error, function_tool=tool)
    for name, value in vars(old).items():
        if name not in _KEPT:
            setattr(new, name, value)
    tool.on_invoke_tool = new


def without_inspection(tool: FunctionTool) -> None:
    """Let the SDK ask for an approval of *tool*, a copy, without looking into its arguments first."""
    impl = getattr(tool.on_invoke_tool, "_invoke_tool_impl", None)
    getattr(impl, "__dict__", {}).pop("__agents_prepare_arguments__", None)


def _narrow(tool: FunctionTool, ctx: ToolContext[Any]) -> ToolContext[Any]:
    """The context as the signature of a hand-made invoker asks for it."""
    choose = getattr(_tool, "_get_function_tool_invoke_context", None)
    chosen: ToolContext[Any] = ctx if choose is None else choose(tool, ctx)
    return chosen


def raises(tool: FunctionTool, ctx: ToolContext[Any]) -> bool:
    """Whether a failure of *tool* is meant to reach the caller of the run, not the model."""
    resolve = getattr(_tool, "resolve_function_tool_failure_error_function", None)
    return resolve is not None and resolve(tool, ctx) is None


def bypass_schema(tool: FunctionTool, ctx: ToolContext[Any]) -> None:
    """Let a text of ours through where the tool's output has a schema."""
    if getattr(tool, "output_json_schema", None) is not None:
        name = getattr(_tool, "_DEFAULT_FAILURE_HANDLED_ATTR", None)
        if name is not None:
            setattr(ctx, name, True)


def function_of(tool: object) -> Any:
    """The Python function behind a tool made by `function_tool`; None for others."""
    return getattr(tool, "__wrapped__", None) if isinstance(tool, FunctionTool) else None


def agent_of(tool: FunctionTool) -> Agent[Any] | None:
    """The agent that an agent tool runs."""
    found = getattr(tool, "_agent_instance", None)
    return found if isinstance(found, Agent) else None


def set_agent_of(tool: FunctionTool, agent: Agent[Any]) -> None:
    """Let resumes find *agent* where they look for the agent of a tool."""
    tool._agent_instance = agent


def target_of(handoff: Handoff[Any, Any]) -> Agent[Any] | None:
    """The agent that a hand-over leads to, where it is known beforehand."""
    reference = getattr(handoff, "_agent_ref", None)
    found = reference() if callable(reference) else None
    return found if isinstance(found, Agent) else None


def set_target_of(handoff: Handoff[Any, Any], reference: Any) -> None:
    """Let resumes find the agent of *reference* where they look for the target of a hand-over."""
    handoff._agent_ref = reference


def is_paused(ctx: ToolContext[Any]) -> bool:
    """Whether the nested run of an agent tool waits for a person."""
    if _nested is None or ctx.tool_call is None:
        return False
    found = _nested.peek_agent_tool_run_result(
        ctx.tool_call, scope_id=_nested.get_agent_tool_state_scope(ctx)
    )
    return bool(getattr(found, "interruptions", None))


FIXED_SENTENCE = "An error occurred while running the tool. Please try again."
"""What the model reads of a failing tool by default."""


def is_failure_text(tool: object, result: object) -> bool:
    """Whether *result* is a sentence by which the SDK itself tells of a failure."""
    if result == FIXED_SENTENCE:
        return True
    seconds = getattr(tool, "timeout_seconds", None)
    say = getattr(_tool, "default_tool_timeout_error_message", None)
    if seconds is None or say is None:
        return False
    return bool(result == say(tool_name=getattr(tool, "name", ""), timeout_seconds=seconds))


def tells_of_missing(config: Any) -> bool:
    """Whether a call of a tool that there is not is answered under *config*, and does not end the run."""
    name = "tool_not_found_behavior"
    said = config.get(name) if isinstance(config, dict) else getattr(config, name, None)
    return bool(said == "return_error_to_model")


def streamed_error(result: RunResult | RunResultStreaming) -> BaseException | None:
    """What a streamed run ended with, once it has."""
    task = getattr(result, "run_loop_task", None)
    if task is None or not task.done() or task.cancelled():
        return None
    error: BaseException | None = task.exception()
    return error or getattr(result, "_stored_exception", None)
