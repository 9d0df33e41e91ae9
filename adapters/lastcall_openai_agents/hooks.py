"""Run hooks: those that watch every run for us, and `GuardHooks` for agents that cannot be touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agents import (
    Agent,
    AgentHookContext,
    Handoff,
    ModelResponse,
    RunContextWrapper,
    RunHooks,
    Tool,
    ToolApprovalItem,
)
from agents.items import TResponseInputItem
from agents.tool_context import ToolContext
from openai.types.responses import ResponseCustomToolCall, ResponseFunctionToolCall

from lastcall import Call, Guard, Where
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.calls import PLAIN, arguments, told
from lastcall_openai_agents.endings import end
from lastcall_openai_agents.runs import Frame, at, inside
from lastcall_openai_agents.tools import guards_of

Asked = ResponseFunctionToolCall | ResponseCustomToolCall


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


class Watch(Passing):
    """Tells *frame* what its model asks for, and ends its run before the model is asked in vain."""

    def __init__(self, frame: Frame, hooks: RunHooks[Any] | None = None) -> None:
        super().__init__(hooks)
        self.frame = frame

    async def on_agent_start(self, context: AgentHookContext[Any], agent: Agent[Any]) -> None:
        """Note whose turn it is."""
        self.frame.agent = agent
        await super().on_agent_start(context, agent)

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """End a run that a guard has stopped; raises RunStopped."""
        self.frame.agent = agent
        self.frame.settle()
        await end(self.frame)
        await super().on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Note which calls make up the reply."""
        self.frame.agent = agent
        self.frame.heard(call.call_id for call in asked_for(agent, response))
        await super().on_llm_end(context, agent, response)


class GuardHooks(Passing):
    """Guards a run by hooks alone: `Runner.run(agent, ..., hooks=GuardHooks(guard))`.

    A call is refused before it starts, and the model reads why; a stopped run ends with RunStopped.
    Tools that the same guard guards already are left to it. *hooks* are your own; they go on as before.
    """

    def __init__(self, guard: Guard, hooks: RunHooks[Any] | None = None) -> None:
        super().__init__(hooks)
        self.guard = guard

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """End a run that the guard has stopped; raises RunStopped."""
        frame = at(context)
        frame.run.use(self.guard)
        await end(frame)
        await super().on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Decide about every call of the reply, and reject those that are refused."""
        frame = at(context)
        # An unguarded runner heard nothing yet.
        calls = list(asked_for(agent, response))
        if any(not frame.holds(call.call_id) for call in calls):
            frame.heard(call.call_id for call in calls)
        for call in calls:
            await self._decide(context, frame, agent, call)
        await super().on_llm_end(context, agent, response)

    async def on_tool_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object
    ) -> None:
        """Observe the outcome, as far as the model-visible result tells it."""
        if isinstance(context, ToolContext):
            frame = at(context)
            ticket = frame.take(self.guard, context.tool_call_id)
            if ticket is not None:
                failed = _sdk.is_failure_text(tool, result) or None
                outcome = self.guard.returned(ticket, result, failed=failed)
                await self.guard.aobserve(ticket, outcome)
        await super().on_tool_end(context, agent, tool, result)

    async def failed(self, frame: Frame, call_id: str, error: Exception) -> str | None:
        """Observe what a tool raised, before the SDK hides it; the text of the stop that it is."""
        ticket = frame.take(self.guard, call_id)
        if ticket is None:
            return None
        stop = told(await self.guard.aobserve(ticket, self.guard.raised(ticket, error)))
        return None if stop is None else stop.text

    async def _decide(
        self, context: RunContextWrapper[Any], frame: Frame, agent: Agent[Any], asked: Asked
    ) -> None:
        tool = next((tool for tool in agent.tools if tool.name == asked.name), None)
        if tool is not None and any(guard is self.guard for guard in guards_of(tool)):
            return
        known = tool is not None or bool(agent.mcp_servers)
        if isinstance(asked, ResponseCustomToolCall):
            args: dict[str, Any] | None = {"input": asked.input}
            raw = asked.input
        else:
            args, raw = arguments(asked.arguments), asked.arguments
        call = Call(
            asked.name,
            raw if args is None else args,
            Where(agent=agent.name),
            asked.call_id,
            "malformed" if args is None or not known else "tool",
            frame.reply(context),
            frame.place(asked.call_id),
            frame.size,
            getattr(asked, "namespace", None),
        )
        with inside(frame):
            verdict = await self.guard.adecide(call, PLAIN)
        stop = told(verdict)
        if verdict.ticket is not None:
            frame.keep(self.guard, asked.call_id, verdict.ticket)
        elif stop is not None:
            item = ToolApprovalItem(agent=agent, raw_item=asked, tool_name=asked.name)
            context.reject_tool(item, rejection_message=stop.text)


def asked_for(agent: Agent[Any], response: ModelResponse) -> Iterator[Asked]:
    """The calls of *response* that run here: no hand-overs, and nothing that the provider runs."""
    leads = {
        each.tool_name if isinstance(each, Handoff) else Handoff.default_tool_name(each)
        for each in agent.handoffs
    }
    for item in response.output:
        if isinstance(item, ResponseFunctionToolCall):
            if item.name not in leads:
                yield item
        elif isinstance(item, ResponseCustomToolCall):
            yield item
