"""Run hooks that pass on to others, and the guards among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agents import (
    Agent,
    AgentHookContext,
    ModelResponse,
    RunContextWrapper,
    RunHooks,
    Tool,
)
from agents.items import TResponseInputItem

from lastcall import Guard


class Passing(RunHooks[Any]):
    """Hooks that pass every event on to *hooks*."""

    def __init__(self, hooks: RunHooks[Any] | None = None) -> None:
        self.hooks: RunHooks[Any] = RunHooks[Any]() if hooks is None else hooks

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """Pass it on."""
        await self.hooks.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Pass it on."""
        await self.hooks.on_llm_end(context, agent, response)

    async def on_agent_start(self, context: AgentHookContext[Any], agent: Agent[Any]) -> None:
        """Pass it on."""
        await self.hooks.on_agent_start(context, agent)

    async def on_agent_end(
        self, context: AgentHookContext[Any], agent: Agent[Any], output: Any
    ) -> None:
        """Pass it on."""
        await self.hooks.on_agent_end(context, agent, output)

    async def on_handoff(
        self, context: RunContextWrapper[Any], from_agent: Agent[Any], to_agent: Agent[Any]
    ) -> None:
        """Pass it on."""
        await self.hooks.on_handoff(context, from_agent, to_agent)

    async def on_tool_start(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool
    ) -> None:
        """Pass it on."""
        await self.hooks.on_tool_start(context, agent, tool)

    async def on_tool_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object
    ) -> None:
        """Pass it on."""
        await self.hooks.on_tool_end(context, agent, tool, result)


class Guarding(Passing):
    """Such hooks that are there for *guard*."""

    def __init__(self, guard: Guard, hooks: RunHooks[Any] | None = None) -> None:
        super().__init__(hooks)
        self.guard = guard


def guards_in(hooks: Any) -> Iterator[Guard]:
    """The guards of *hooks* that pass on to others."""
    while isinstance(hooks, Passing):
        if isinstance(hooks, Guarding):
            yield hooks.guard
        hooks = hooks.hooks
