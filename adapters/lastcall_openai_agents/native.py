"""Tools that the SDK executes by ways of their own: custom, shell, local shell and apply_patch."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from functools import partial
from typing import Any

from agents import (
    Agent,
    ApplyPatchOperation,
    ApplyPatchResult,
    ApplyPatchTool,
    CustomTool,
    LocalShellCommandRequest,
    LocalShellTool,
    RunContextWrapper,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
)
from agents.tool_context import ToolContext

from lastcall import Guard, Stop, ToolPolicy
from lastcall_openai_agents.around import at
from lastcall_openai_agents.calls import Passage

SHELL = ToolPolicy(shell=True)
"""What is known of a shell, as long as nobody says more."""


class Body:
    """What one of these tools does, behind *passage*. None has guardrails, so it is asked here, where
    approvals are over; *agent* is at work where the run does not tell."""

    def __init__(
        self, passage: Passage, inner: Any, name: str, agent: Agent[Any] | None = None
    ) -> None:
        self.passage = passage
        self.inner = inner
        self.name = name
        self.agent = agent

    async def passed(
        self,
        ctx: RunContextWrapper[Any],
        call: str | None,
        args: dict[str, Any],
        body: Callable[[], Any],
        **how: Any,
    ) -> Any:
        """The result of *body*, or what the guard has said instead."""
        frame = at(ctx)
        asked = ToolContext.from_agent_context(
            ctx,
            call or "",
            agent=frame.agent or self.agent,
            tool_name=self.name,
            tool_arguments=json.dumps(args, default=str),
        )
        return await self.passage.run(asked, partial(awaited, body), args=args, **how)


async def awaited(body: Callable[[], Any]) -> Any:
    """The result of *body*, which may be a coroutine."""
    found = body()
    return await found if inspect.isawaitable(found) else found


class Invoking(Body):
    """What a guarded custom tool does."""

    async def __call__(self, ctx: ToolContext[Any], text: str) -> Any:
        """The result, or the text of the stop."""
        body = partial(awaited, partial(self.inner, ctx, text))
        return await self.passage.run(ctx, body, args={"input": text})


class Executing(Body):
    """What a guarded shell does. It answers a refusal as a command that has failed."""

    async def __call__(self, request: ShellCommandRequest) -> Any:
        """The result, or the text of the stop on standard error."""
        asked = said(request.data.action)
        body = partial(self.inner, request)
        return await self.passed(
            request.ctx_wrapper,
            request.data.call_id,
            asked,
            body,
            shown=lambda result: (said(result) if is_dataclass(result) else result, None),
            answer=failing,
        )


class ExecutingLocally(Body):
    """What a guarded local shell does."""

    async def __call__(self, request: LocalShellCommandRequest) -> Any:
        """The result, or the text of the stop. What it raises ends the run, and still does."""
        asked = request.data.action.model_dump(exclude_none=True)
        body = partial(self.inner, request)
        return await self.passed(
            request.ctx_wrapper, request.data.call_id, asked, body, raises=lambda: True
        )


class Editing(Body):
    """A guarded editor. The SDK tells it no call, so each operation is one."""

    async def create_file(self, operation: ApplyPatchOperation) -> Any:
        """The result, or the text of the stop as a failure."""
        return await self._edited(operation, self.inner.create_file)

    async def update_file(self, operation: ApplyPatchOperation) -> Any:
        """The result, or the text of the stop as a failure."""
        return await self._edited(operation, self.inner.update_file)

    async def delete_file(self, operation: ApplyPatchOperation) -> Any:
        """The result, or the text of the stop as a failure."""
        return await self._edited(operation, self.inner.delete_file)

    async def _edited(
        self, operation: ApplyPatchOperation, edit: Callable[[ApplyPatchOperation], Any]
    ) -> Any:
        ctx = operation.ctx_wrapper
        if ctx is None:
            return await awaited(partial(edit, operation))
        names = ("type", "path", "diff", "move_to")
        asked = {name: getattr(operation, name, None) for name in names}
        return await self.passed(
            ctx,
            None,
            {name: value for name, value in asked.items() if value is not None},
            partial(edit, operation),
            shown=edited,
            answer=lambda stop, _: ApplyPatchResult(status="failed", output=stop.text),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def said(request: Any) -> dict[str, Any]:
    """The fields of *request* that say something."""
    return {name: value for name, value in asdict(request).items() if value is not None}


def failing(stop: Stop, result: Any) -> ShellResult:  # noqa: ARG001 - the passage's contract
    """A refusal as the SDK shows a command that a person rejected."""
    outcome = ShellCallOutcome(type="exit", exit_code=1)
    return ShellResult([ShellCommandOutput(stderr=stop.text, outcome=outcome)])


def edited(result: Any) -> tuple[Any, bool | None]:
    """What an editor's result is read from, and whether it says that it is a failure."""
    if isinstance(result, ApplyPatchResult):
        return result.output, result.status == "failed" or None
    return result, None


FIELDS: dict[type, tuple[str, type[Body]]] = {
    CustomTool: ("on_invoke_tool", Invoking),
    ShellTool: ("executor", Executing),
    LocalShellTool: ("executor", ExecutingLocally),
    ApplyPatchTool: ("editor", Editing),
}
"""Where each kind of tool keeps what it does, and what does it behind a guard."""


def body_of(
    tool: Any,
    inner: Any,
    guard: Guard,
    declared: ToolPolicy,
    agent: Agent[Any] | None = None,
) -> Body:
    """What *tool* does, which is *inner*, behind *guard*."""
    known = SHELL.under(declared) if isinstance(tool, ShellTool | LocalShellTool) else declared
    return kind_of(tool)[1](Passage(guard, known), inner, tool.name, agent)


def kind_of(tool: Any) -> tuple[str, type[Body]]:
    """Where *tool* keeps what it does, and what does it behind a guard."""
    return next(found for kind, found in FIELDS.items() if isinstance(tool, kind))
