"""Raw results of MCP servers: what the SDK makes of them no longer tells a failure from a success."""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from agents.mcp import MCPServer
from agents.tool_context import ToolContext

from lastcall_openai_agents._sdk import Invoke

RAW: WeakKeyDictionary[ToolContext[Any], Any] = WeakKeyDictionary()
"""What servers answered, by the call."""


def heard(invoke: Invoke) -> Invoke:
    """*invoke* of a tool; that of a server's tool keeps what the server answers."""
    if not (isinstance(invoke, partial) and invoke.args and isinstance(invoke.args[0], MCPServer)):
        return invoke
    server, *args = invoke.args

    async def hearing(ctx: ToolContext[Any], text: str) -> Any:
        return await invoke.func(Heard(server, ctx), *args, ctx, text, **invoke.keywords)

    return hearing


class Heard:
    """*server* for one call, whose answer is kept. Everything is its own, its class included."""

    def __init__(self, server: MCPServer, ctx: ToolContext[Any]) -> None:
        self.lastcall_server = server
        self.lastcall_call = ctx

    async def call_tool(self, *args: Any, **options: Any) -> Any:
        """Call the tool, and keep what it answered."""
        result = await self.lastcall_server.call_tool(*args, **options)
        RAW[self.lastcall_call] = result
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "lastcall_server"), name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self.lastcall_server)
