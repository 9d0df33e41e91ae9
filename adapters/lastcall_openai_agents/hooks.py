"""Run hooks: those that watch every run for us, and `GuardHooks` for agents that cannot be touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agents import (
    Agent,
    AgentHookContext,
    FunctionTool,
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

from lastcall import Guard
from lastcall_openai_agents import _sdk, fields
from lastcall_openai_agents.around import at
from lastcall_openai_agents.calls import Passage
from lastcall_openai_agents.computers import ACTING
from lastcall_openai_agents.endings import end
from lastcall_openai_agents.frames import Frame, Heard
from lastcall_openai_agents.functions import INVOKING
from lastcall_openai_agents.guards import marks
from lastcall_openai_agents.passing_on import Guarding, Passing
from lastcall_openai_agents.servers import guards_at
from lastcall_openai_agents.tools import guards_of, passage_of
from lastcall_openai_agents.usage import answered, kind_of, run_here

Asked = ResponseFunctionToolCall | ResponseCustomToolCall


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
        await self.frame.adrop()
        for guard in marks(agent):
            await self.frame.run.ause(guard)
        await end(self.frame)
        self.frame.asking = True
        if self.frame.last is not None:
            self.frame.sent = context, agent, list(input_items)
        await super().on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Note which calls make up the reply, and what it cost."""
        self.frame.agent = agent
        self.frame.asking = False
        self.frame.response = response
        await self.frame.aanswered_by(answered(agent, response))
        self.frame.heard(heard_in(agent, response))
        await super().on_llm_end(context, agent, response)


class GuardHooks(Guarding):
    """Guards a run by hooks alone: `Runner.run(agent, ..., hooks=GuardHooks(guard))`.

    A call of a tool, of any kind, is refused before it starts, and the model reads why; a stopped run ends
    with RunStopped. The SDK passes no hooks on to runs nested in a tool, so of those the call alone is seen.
    Tools that the same guard guards already are left to it. *hooks* are your own; they go on as before.
    """

    def __init__(self, guard: Guard, hooks: RunHooks[Any] | None = None) -> None:
        super().__init__(guard, hooks)
        # The SDK tells hooks what the model reads of a call. What came of it is heard where it is executed.
        for seam in (*INVOKING, *fields.SEAMS.values(), ACTING):
            seam.keep()

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """End a run that the guard has stopped; raises RunStopped."""
        frame = at(context)
        await frame.run.ause(self.guard)
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
            frame.heard(heard_in(agent, response))
        for call in calls:
            await self._decide(context, frame, agent, call)
        await super().on_llm_end(context, agent, response)

    async def on_tool_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object
    ) -> None:
        """Observe what the model reads, where nothing else was heard of the call."""
        if isinstance(context, ToolContext):
            frame = at(context)
            ticket = frame.take(self.guard, context)
            if ticket is not None:
                failed = _sdk.is_failure_text(tool, result) or None
                outcome = self.guard.returned(ticket, result, failed=failed)
                await self.guard.aobserve(ticket, outcome)
        await super().on_tool_end(context, agent, tool, result)

    async def _decide(
        self, context: RunContextWrapper[Any], frame: Frame, agent: Agent[Any], asked: Asked
    ) -> None:
        tool = next((tool for tool in agent.tools if tool.name == asked.name), None)
        if tool is not None and any(guard is self.guard for guard in guards_of(tool)):
            return
        if tool is None and any(self.guard in guards_at(server) for server in agent.mcp_servers):
            return
        text, args = written(asked)
        ctx = ToolContext.from_agent_context(
            context,
            asked.call_id,
            agent=agent,
            tool_name=asked.name,
            tool_arguments=text,
            tool_namespace=getattr(asked, "namespace", None),
        )
        if isinstance(tool, FunctionTool):
            passage = passage_of(tool, self.guard)
            # Its body is behind a seam of ours, which answers in its place.
            passage.replays = "on_invoke_tool" in vars(tool)
        else:
            passage = Passage(self.guard)
        stop = await passage.ask(
            ctx,
            frame,
            args=args,
            exists=tool is not None or bool(agent.mcp_servers),
        )
        if stop is not None:
            item = ToolApprovalItem(agent=agent, raw_item=asked, tool_name=asked.name)
            context.reject_tool(item, rejection_message=stop.text)


def heard_in(agent: Agent[Any], response: ModelResponse) -> Iterator[Heard]:
    """All that *response* asks for here. Of several hand-overs the SDK looks at the first alone."""
    leads, led = leads_of(agent), False
    for item in response.output:
        if isinstance(item, Asked):
            leading = item.name in leads
            if not (leading and led):
                yield Heard(item.call_id, item.name, written(item)[0])
            led = led or leading
        elif run_here(agent, item):
            call = item.get("call_id") if isinstance(item, dict) else getattr(item, "call_id", None)
            yield Heard(call or "", kind_of(item) or "")


def leads_of(agent: Agent[Any]) -> set[str]:
    """The names under which *agent* may hand over."""
    return {
        each.tool_name if isinstance(each, Handoff) else Handoff.default_tool_name(each)
        for each in agent.handoffs
    }


def asked_for(agent: Agent[Any], response: ModelResponse) -> Iterator[Asked]:
    """The calls of *response* that hooks can refuse: no hand-overs, which are refused by themselves."""
    leads = leads_of(agent)
    for item in response.output:
        if isinstance(item, ResponseFunctionToolCall):
            if item.name not in leads:
                yield item
        elif isinstance(item, ResponseCustomToolCall):
            yield item


def written(asked: Asked) -> tuple[str, dict[str, Any] | None]:
    """What the model wrote, and the arguments that it is where it is no JSON."""
    if isinstance(asked, ResponseFunctionToolCall):
        return asked.arguments, None
    return asked.input, {"input": asked.input}
