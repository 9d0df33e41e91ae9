"""Guards every tool call of a `create_agent` agent, and ends its run with every call answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    hook_config,
)
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import override

from lastcall import Guard, Outcome, Ticket, Verdict, Where
from lastcall_langchain import answers
from lastcall_langchain.ask import aleave, leave
from lastcall_langchain.nodes import answered, passage_of
from lastcall_langchain.passing import apassed, passed, stop_in
from lastcall_langchain.places import Place, aplace, place, run_of
from lastcall_langchain.requests import request
from lastcall_langchain.roots import agent_of
from lastcall_langchain.runs import RUNS
from lastcall_langchain.shown import show
from lastcall_langchain.stops import farewell
from lastcall_langchain.withdrawal import awithdrawn, withdrawn

if TYPE_CHECKING:
    # The first langchain 1.x has it elsewhere.
    from langchain.agents.middleware import ToolCallRequest

    Handler = Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    AsyncHandler = Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]


class GuardMiddleware(AgentMiddleware):
    """Refuses calls in `wrap_tool_call` and ends the run in `before_model`.

    It keeps nothing of its own: one object may serve any number of agents at once. *last_answer*: the
    model is asked once more, without tools, and its text is the output. *withdraw*: tools that are closed
    for the turn are taken out of the model's requests, with the reason in its instructions. *name* tells it from a second
    one in the same agent.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        last_answer: bool = False,
        withdraw: bool = False,
        name: str = "GuardMiddleware",
    ) -> None:
        super().__init__()
        self.guard = guard
        self.last_answer = last_answer
        self.withdraw = withdraw
        self._name = name

    @property
    @override
    def name(self) -> str:
        return self._name

    @override
    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Handler
    ) -> ToolMessage | Command[Any]:
        said = answered(request)
        if said is not None:
            return said
        passage, asked = passage_of(self.guard, "middleware", request, handler)
        return passed(passage, lambda: handler(asked))  # type: ignore[no-any-return]

    @override
    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: AsyncHandler
    ) -> ToolMessage | Command[Any]:
        said = answered(request)
        if said is not None:
            return said
        passage, asked = passage_of(self.guard, "middleware", request, handler)
        return await apassed(passage, lambda: handler(asked))  # type: ignore[no-any-return]

    @override
    @hook_config(can_jump_to=["end"])
    def before_model(
        self,
        state: AgentState[Any],
        runtime: Runtime[Any],
    ) -> dict[str, Any] | None:
        verdict = leave(self.guard, request(where_of(place(self.guard))))
        unused = self._granted(verdict)
        if unused is not None:
            self.guard.observe(unused, Outcome("cancelled", started=False))
        return self._leaving(verdict, state)

    @override
    @hook_config(can_jump_to=["end"])
    async def abefore_model(
        self,
        state: AgentState[Any],
        runtime: Runtime[Any],
    ) -> dict[str, Any] | None:
        verdict = await aleave(self.guard, request(where_of(await aplace(self.guard))))
        unused = self._granted(verdict)
        if unused is not None:
            await self.guard.aobserve(unused, Outcome("cancelled", started=False))
        return self._leaving(verdict, state)

    @override
    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse | AIMessage:
        stop = answers.asked_for(self.guard)
        if stop is None:
            return handler(withdrawn(self.guard, request) if self.withdraw else request)
        try:
            return answers.given_by(handler(answers.request_for(stop, request)), stop)
        except Exception as error:
            return answers.not_given(error, stop)

    @override
    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse | AIMessage:
        stop = answers.asked_for(self.guard)
        if stop is None:
            return await handler(
                await awithdrawn(self.guard, request) if self.withdraw else request
            )
        try:
            return answers.given_by(await handler(answers.request_for(stop, request)), stop)
        except Exception as error:
            return answers.not_given(error, stop)

    def _leaving(self, verdict: Verdict, state: AgentState[Any]) -> dict[str, Any] | None:
        """The update that ends the run; None while it may go on, or is to be answered first."""
        stop, messages = stop_in(verdict), state["messages"]
        if self.last_answer and answers.due(self.guard, verdict, messages):
            return None
        if stop is None:
            return None
        if self.last_answer and answers.given(messages):
            return {"jump_to": "end"}
        show(stop)
        return {"jump_to": "end", "messages": [farewell(stop)]}

    def _granted(self, verdict: Verdict) -> Ticket | None:
        """Keep the leave for the request that follows; gives back one to settle here."""
        run = run_of()
        if verdict.ticket is None or run is None:
            return verdict.ticket
        return RUNS.grant(agent_of(run), self.guard, verdict.ticket)


def where_of(found: Place | None) -> Where:
    """The scope of a request to the model made there."""
    return Where() if found is None else found.where
