"""An MCP server over stdio, or with `http` as its argument on a port of its own, which it prints.

Over HTTP it answers a call of `forbidden` with a bare 403, as a gateway before a server does.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("desk", log_level="ERROR")
served: list[str] = []


@server.tool()
def look(q: int) -> str:
    """Look."""
    served.append("look")
    return "nothing"


@server.tool()
def order(q: int) -> str:
    """Order."""
    served.append("order")
    raise ToolError(f"HTTP 422: there is no order {q}. Please try again.")


@server.tool()
def busy(q: int) -> str:
    """Ask somebody who has no time."""
    served.append("busy")
    raise ToolError("HTTP 503 Service Unavailable")


@server.tool()
def forbidden(q: int) -> str:
    """Ask for what nobody may have."""
    served.append("forbidden")
    return "never over HTTP"


@server.tool()
def told() -> list[str]:
    """What was asked since this was asked for last."""
    since = list(served)
    served.clear()
    return since


def gateway(app: Any) -> Any:
    """*app* behind something that forbids one tool."""

    async def before(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        message = await receive()
        if b'"forbidden"' in message.get("body", b""):
            served.append("forbidden")
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
            return
        waiting = [message]

        async def again() -> Any:
            return waiting.pop() if waiting else await receive()

        await app(scope, again, send)

    return before


if __name__ == "__main__":
    if "http" in sys.argv:
        import uvicorn

        # Whoever connects before uvicorn is up waits in the queue of the socket.
        listening = socket.create_server(("127.0.0.1", 0))
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(gateway(server.streamable_http_app()), log_level="error")
        uvicorn.Server(config).run(sockets=[listening])
    else:
        server.run()
