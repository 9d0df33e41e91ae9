"""Every name of the SDK that is not its public face, and why it is needed. A missing one is said so."""

# ruff: noqa: SLF001 - private names are what this module is for

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from agents import Agent, FunctionTool, Handoff, RunResult, RunResultStreaming
from agents import run as _run
from agents import tool as _tool
from agents.run_config import ToolErrorFormatterArgs
from agents.tool_context import ToolContext

try:
    from agents import agent_tool_state as _nested
    from agents.run_internal import agent_tool_configuration as _configuration
except ImportError:  # pragma: no cover - an older SDK; what is lost is said below
    _nested = None  # type: ignore[assignment]
    _configuration = None  # type: ignore[assignment]

Invoke = Callable[[ToolContext[Any], str], Awaitable[Any]]

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


SHOWS_ERRORS = "tool_exception" in str(ToolErrorFormatterArgs.__annotations__.get("kind"))
"""Whether a formatter is shown what a tool raised (since 0.24). Without it a tool that is only decorated
tells the model the fixed sentence, and hooks cannot tell a 422 from any other failure."""


def streamed_error(result: RunResult | RunResultStreaming) -> BaseException | None:
    """What a streamed run ended with, once it has."""
    task = getattr(result, "run_loop_task", None)
    if task is None or not task.done() or task.cancelled():
        return None
    error: BaseException | None = task.exception()
    return error or getattr(result, "_stored_exception", None)
