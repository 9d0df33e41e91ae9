"""One guard for both frameworks at once: the user is shared, the turn never."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent, Runner, function_tool
from agents.testing import ScriptedModel, function_call
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

import lastcall_langchain as lc
import lastcall_openai_agents as oa
from lastcall import Guard, Policy

ASKED = 10


class Asking(BaseChatModel):
    """Asks ten times for another page."""

    @property
    def _llm_type(self) -> str:
        return "asking"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Asking:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        n = sum(isinstance(message, AIMessage) for message in messages)
        call = {"name": "page", "args": {"n": n}, "id": f"c{n}"}
        answer = AIMessage("", tool_calls=[call]) if n < ASKED else AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=answer)])


def test_both_frameworks_run_under_one_guard_with_a_turn_each():
    events: list[Any] = []
    guard = Guard(Policy(max_calls=3), listeners=[events.append])
    ran: list[str] = []

    @tool
    def page(n: int) -> str:
        """Read a page."""
        ran.append("langchain")
        return f"page {n}"

    def page_of_the_sdk(n: int) -> str:
        """Read a page."""
        ran.append("agents")
        return f"page {n}"

    steps = [[function_call("page", {"n": n}, call_id=f"c{n}")] for n in range(ASKED)]
    there = Agent(
        "there",
        tools=[function_tool(page_of_the_sdk, name_override="page")],
        model=ScriptedModel(steps),
    )
    here = create_agent(Asking(), [page], middleware=[lc.GuardMiddleware(guard)])

    async def both() -> tuple[Any, Any]:
        with guard.within(user="ann"):
            return await asyncio.gather(
                here.ainvoke({"messages": [("user", "read")]}),
                Runner.run(oa.guard_agent(there, guard), "read"),
            )

    left, right = asyncio.run(both())
    assert sorted(ran) == ["agents"] * 3 + ["langchain"] * 3
    stops = lc.stop_of(left), oa.stop_of(right)
    assert [stop.reason for stop in stops] == ["ceiling", "ceiling"]
    assert stops[0].run != stops[1].run
    assert {event.user for event in events if event.kind != "finished"} == {"ann"}
    assert len({event.turn for event in events if event.turn}) == 2
