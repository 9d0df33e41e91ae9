"""An MCP server over stdio, or with `http` as its argument on a port of its own, which it prints."""

from __future__ import annotations

import socket
import sys

from mcp.server.fastmcp import FastMCP

server = FastMCP("desk", log_level="ERROR")
looked: list[int] = []


@server.tool()
def look(q: int) -> str:
    """Look."""
    looked.append(q)
    return f"found {q}"


@server.tool()
def order(q: int) -> str:
    """Order."""
    looked.append(q)
    raise ValueError(f"HTTP 422: there is no order {q}")


@server.tool()
def told() -> list[int]:
    """What was looked at since this was asked for last."""
    since = list(looked)
    looked.clear()
    return since


if __name__ == "__main__":
    if "http" in sys.argv:
        import uvicorn

        # Whoever connects before uvicorn is up waits in the queue of the socket.
        listening = socket.create_server(("127.0.0.1", 0))
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        uvicorn.Server(config).run(sockets=[listening])
    else:
        server.run()
