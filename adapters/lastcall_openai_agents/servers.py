"""MCP servers whose tools are guarded: the SDK makes their tools anew for every request."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Self

from agents import ToolGuardrailFunctionOutput, ToolInputGuardrailData
from agents.mcp import MCPServer
from agents.tool_context import ToolContext
from mcp.types import CallToolResult

from lastcall import Call, Guard, Stop, Ticket
from lastcall_openai_agents import _sdk
from lastcall_openai_agents.around import at
from lastcall_openai_agents.ask import needing
from lastcall_openai_agents.beginnings import begins
from lastcall_openai_agents.calls import PLAIN, Passage, told
from lastcall_openai_agents.frames import Frame
from lastcall_openai_agents.tools import Gate

ALLOWED: ContextVar[tuple[Frame, ToolContext[Any]] | None] = ContextVar(
    "lastcall_openai_agents_allowed", default=None
)
"""The call that a server's gate has let pass in this task."""


class ServerGate(Gate):
    """A gate that tells `call_tool`, which knows no call id, which call it serves."""

    async def check(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        """Allow the call, or give the model the text of the stop."""
        said = await super().check(data)
        ALLOWED.set((at(data.context), data.context))
        return said


class GuardedServer:
    """*server* with guarded tools. Everything else is its own, its class included."""

    def __init__(self, server: MCPServer, guard: Guard) -> None:
        object.__setattr__(self, "lastcall_server", server)
        passage = Passage(guard, PLAIN, server=server.name)
        passage.asks = guard.policy.on_stop == "ask" and _sdk.needs_nobody(server)
        object.__setattr__(self, "lastcall_passage", passage)

    @property
    def tool_input_guardrails(self) -> list[Any]:
        """The gate, then the server's own."""
        return [
            ServerGate(self.lastcall_passage),
            *(self.lastcall_server.tool_input_guardrails or ()),
        ]

    def _get_needs_approval_for_tool(self, tool: Any, agent: Any) -> Any:
        """The server's own policy, and where a person is asked instead of a stop the guard's as well."""
        own = _sdk.approval_of(self.lastcall_server, tool, agent)
        passage = self.lastcall_passage
        if passage.guard.policy.on_stop != "ask":
            return own
        return needing(own, tool.name, passage)

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        """The server's tools; none for a run that is stopped from outside."""
        if not await begins(self.lastcall_passage.guard, run_context):
            return []
        found: list[Any] = await self.lastcall_server.list_tools(run_context, agent)
        return found

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, *args: Any, **options: Any
    ) -> Any:
        """Call the tool and see its raw result; a final answer comes back as the text of its stop."""
        guard = self.lastcall_passage.guard
        ticket, stop = await self._ticket(tool_name, arguments)
        if ticket is None:
            if stop is not None:
                return told_by(stop)
            return await self.lastcall_server.call_tool(tool_name, arguments, *args, **options)
        try:
            result = await self.lastcall_server.call_tool(tool_name, arguments, *args, **options)
        except BaseException as error:
            outcome = guard.raised(ticket, error)
            if outcome.kind == "cancelled":
                # Not awaited: what is being cancelled may not get to run again.
                guard.observe(ticket, outcome)
                raise
            stop = told(await guard.aobserve(ticket, outcome))
            if stop is None or not isinstance(error, Exception):
                raise
            return told_by(stop)
        stop = told(await guard.aobserve(ticket, guard.returned(ticket, result)))
        return result if stop is None else told_by(stop)

    async def _ticket(self, tool: str, args: Any) -> tuple[Ticket | None, Stop | None]:
        allowed = ALLOWED.get()
        if allowed is not None:
            frame, ctx = allowed
            ticket = frame.take(self.lastcall_passage.guard, ctx)
            if ticket is not None:
                # It may have been granted before a person was asked.
                stop = await self.lastcall_passage.guard.akilled(ticket)
                return (ticket, None) if stop is None else (None, stop)
        guard = self.lastcall_passage.guard
        verdict = guard.unreplayed(
            await guard.adecide(Call(tool, args, server=self.lastcall_server.name))
        )
        return verdict.ticket, told(verdict)

    async def __aenter__(self) -> Self:
        await self.lastcall_server.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self.lastcall_server.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "lastcall_server"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.lastcall_server, name, value)

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self.lastcall_server)


def guarded_server(server: MCPServer, guard: Guard) -> Any:
    """*server* with its tools guarded; one that *guard* guards already comes back as it is."""
    return server if guard in guards_at(server) else GuardedServer(server, guard)


def guards_at(server: Any) -> list[Guard]:
    """The guards that the calls of *server* pass already."""
    found: list[Guard] = []
    while type(server) is GuardedServer:
        found.append(server.lastcall_passage.guard)
        server = server.lastcall_server
    return found


def told_by(stop: Stop) -> Any:
    """The result by which a server tells of a refusal (requirement I3)."""
    content = [{"type": "text", "text": stop.text}]
    return CallToolResult.model_validate({"content": content, "isError": True})
