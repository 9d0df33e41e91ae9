"""A service on loopback that answers as a test says, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    status: int = 200
    body: Any = None
    headers: dict[str, str] = {}
    torn: bool = False
    """The connection is closed in the middle of the body."""


DROP = Answer(0)
"""The connection is closed without an answer."""


class Service:
    """*answers* says, for the how-manieth request (from 0) and what it asks, what it gets."""

    def __init__(self, answers: Callable[[int, Asked], Answer]) -> None:
        self.answers = answers
        self.asked: list[Asked] = []
        self._lock = threading.Lock()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, body)
                with service._lock:
                    number = len(service.asked)
                    service.asked.append(asked)
                said = service.answers(number, asked)
                if said is DROP:
                    self.close_connection = True
                    return
                data = json.dumps(said.body).encode()
                self.send_response(said.status)
                for name, value in said.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data) + (9 if said.torn else 0)))
                # Clients outlive the event loops of tests; a connection must not.
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(data)
                self.close_connection = True

            def __getattr__(self, name: str) -> Any:
                # `do_GET` and the like.
                if name.startswith("do_"):
                    return self.answer
                raise AttributeError(name)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def requests(self) -> int:
        return len(self.asked)

    def header(self, name: str) -> list[str | None]:
        """That header of every request."""
        return [each.headers.get(name) for each in self.asked]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
