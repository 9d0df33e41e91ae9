"""The night of the 422, live in both frameworks: a scripted model that never learns, without and with
a guard. No network, no key: the models are scripted, everything else is the real framework.

Run: python examples/night_live.py
"""

from __future__ import annotations

import asyncio
import logging
import os
from itertools import count
from typing import Any

os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")

from agents import Agent, Runner, function_tool
from agents.exceptions import MaxTurnsExceeded
from agents.testing import ScriptedModel, function_call
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

import lastcall_langchain as lc
import lastcall_openai_agents as oa
from lastcall import Guard

NIGHT = 40
"""How often the model asks before somebody wakes up."""

DATES = ("2026-02-30", "30.02.2026", "2026-02-30T00:00", "the day after tomorrow", "soon")


class Sleepless(BaseChatModel):
    """Asks for the same reminder with another wrong date, whatever it is told."""

    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "sleepless"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Sleepless:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.asked += 1
        if self.asked > NIGHT:
            answer = AIMessage("Good morning.")
        else:
            arguments = {"due": DATES[self.asked % len(DATES)], "invoice": "inv-7"}
            call = {"name": "create_reminder", "args": arguments, "id": f"c{self.asked}"}
            answer = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def rejected(due: str) -> dict[str, Any]:
    """What the invoicing service says, every time."""
    return {"status": 422, "error": {"message": f"due: {due!r} is not a date. Please try again."}}


def langchain_night(guard: Guard | None) -> tuple[int, int, str]:
    """Model requests, executed calls, and how it ended."""
    executed = count()

    @tool
    def create_reminder(invoice: str, due: str) -> dict[str, Any]:
        """Remind a customer of an invoice."""
        next(executed)
        return rejected(due)

    model = Sleepless()
    middleware = [lc.GuardMiddleware(guard)] if guard else []
    agent = create_agent(model, [create_reminder], middleware=middleware)
    result = agent.invoke(
        {"messages": [("user", "Remind them of inv-7.")]}, {"recursion_limit": 3 * NIGHT}
    )
    stop = lc.stop_of(result)
    ending = stop.text.splitlines()[0] if stop else result["messages"][-1].text
    return model.asked, next(executed), ending


def agents_night(guard: Guard | None) -> tuple[int, int, str]:
    """The same in the OpenAI Agents SDK."""
    executed = count()

    @function_tool
    def create_reminder(invoice: str, due: str) -> str:
        """Remind a customer of an invoice."""
        next(executed)
        error = RuntimeError(rejected(due)["error"]["message"])
        error.status_code = 422  # type: ignore[attr-defined]
        raise error

    steps = [
        [
            function_call(
                "create_reminder",
                {"due": DATES[n % len(DATES)], "invoice": "inv-7"},
                call_id=f"c{n}",
            )
        ]
        for n in range(NIGHT)
    ]
    model = ScriptedModel(steps)
    agent = Agent("clerk", tools=[create_reminder], model=model)
    if guard:
        agent = oa.guard_agent(agent, guard)
    try:
        result = asyncio.run(Runner.run(agent, "Remind them of inv-7.", max_turns=NIGHT))
    except MaxTurnsExceeded as exceeded:
        return len(model.calls), next(executed), str(exceeded)
    stop = oa.stop_of(result)
    ending = stop.text.splitlines()[0] if stop else str(result.final_output)
    return len(model.calls), next(executed), ending


def main() -> None:
    """Both nights, ungoverned beside governed."""
    logging.disable(logging.WARNING)
    for name, night in (("LangChain", langchain_night), ("OpenAI Agents SDK", agents_night)):
        print(name)
        for label, guard in (("ungoverned", None), ("governed", Guard())):
            requests, executed, ending = night(guard)
            print(
                f"  {label:<11} {requests:>3} model requests, {executed:>3} calls executed. {ending}"
            )


if __name__ == "__main__":
    main()
