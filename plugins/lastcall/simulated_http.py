"""The simulated service as a real HTTP server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from lastcall.simulated import LostAnswerError, Request, Response, SimulatedProvider, failure


@contextmanager
def served(provider: SimulatedProvider) -> Iterator[str]:
    """The base URL of a server that answers for *provider*, for the length of a block. An answer that is to
    be lost closes the connection instead."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            try:
                response = provider.handle(self.read())
            except json.JSONDecodeError as error:
                response = failure(400, "malformed", f"the body is no JSON: {error}")
            except LostAnswerError:
                self.close_connection = True
                return
            self.write(response)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - http.server's names

        def read(self) -> Request:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return Request(
                json.loads(body) if body else {},
                self.headers.get("Idempotency-Key"),
                self.command,
                self.path,
            )

        def write(self, response: Response) -> None:
            body = json.dumps(response.body).encode()
            self.send_response(response.status)
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
