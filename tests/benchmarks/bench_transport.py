"""What the guard on the wire costs per request: beside the bare client, on loopback and without a network.

Bare and guarded alternate in short blocks, since the machine changes its speed; ratios tell more than
microseconds. Run: python tests/benchmarks/bench_transport.py
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import perf_counter
from typing import Any

import httpx
import httpx2
import requests

from lastcall import Guard, Policy
from lastcall.rules import Breaker
from lastcall_http import AsyncGuardTransport, GuardTransport, session

BLOCK = 100
BLOCKS = 15


class Handler(BaseHTTPRequestHandler):
    """Answers at once, on a connection that stays."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def seconds(send: Callable[[], Any]) -> float:
    """One block."""
    begun = perf_counter()
    for _ in range(BLOCK):
        send()
    return (perf_counter() - begun) / BLOCK


def compare(name: str, ours: Callable[[], Any], bare: Callable[[], Any]) -> None:
    """Print the best times, the median of what comes on top, and that of the ratios."""
    pairs = [(seconds(ours), seconds(bare)) for _ in range(BLOCKS)]
    best, floor = (min(each) * 1e6 for each in zip(*pairs, strict=True))
    more = statistics.median(mine - theirs for mine, theirs in pairs) * 1e6
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    print(f"{name:<52} {best:7.1f} us   bare {floor:7.1f} us   +{more:6.1f} us   {ratio:5.2f} x")


def inside(guard: Guard, work: Callable[[], None], **declared: Any) -> None:
    """Do *work* in the body of a guarded call."""
    with guard.within(run="r"):
        guard.wrap(work, name="tool", **declared)()


def of_httpx(library: Any, url: str, transport: Any, name: str) -> None:
    """The clients of httpx2 and httpx: outside a call, inside one, with a breaker, with a key."""
    plain = library.Client(transport=transport())
    for what, policy, declared, method in (
        ("in a call", Policy(), {}, "GET"),
        ("in a call, with a breaker", Policy().replaced(Breaker()), {}, "GET"),
        ("in a call that writes", Policy(), {"writes": True}, "POST"),
    ):
        if method == "POST" and "loopback" in name:
            continue
        guard = Guard(policy)
        ours = library.Client(transport=GuardTransport(guard, transport()))
        send, bare = lambda: ours.request(method, url), lambda: plain.request(method, url)
        if what == "in a call":
            compare(f"{name}, outside a call", send, bare)
        inside(guard, lambda: compare(f"{name}, {what}", send, bare), **declared)


def of_requests(url: str) -> None:
    """The session of requests."""
    guard = Guard()
    plain, ours = requests.Session(), session(guard)
    send, bare = lambda: ours.get(url), lambda: plain.get(url)
    compare("requests on loopback, outside a call", send, bare)
    inside(guard, lambda: compare("requests on loopback, in a call", send, bare))


def of_loops() -> None:
    """The async client, without a network."""
    guard = Guard()
    answer = lambda request: httpx2.Response(200, json={})
    loop = asyncio.new_event_loop()
    ours = httpx2.AsyncClient(transport=AsyncGuardTransport(guard, httpx2.MockTransport(answer)))
    plain = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))

    async def block(client: Any) -> float:
        begun = perf_counter()
        for _ in range(BLOCK):
            await client.get("http://x/")
        return (perf_counter() - begun) / BLOCK

    async def work() -> None:
        pairs = [(await block(ours), await block(plain)) for _ in range(BLOCKS)]
        more = statistics.median(mine - theirs for mine, theirs in pairs) * 1e6
        ratio = statistics.median(mine / theirs for mine, theirs in pairs)
        print(f"{'httpx2 async on a mock, in a call':<52} +{more:6.1f} us   {ratio:5.2f} x")

    async def main() -> None:
        with guard.within(run="r"):
            await guard.wrap(work, name="tool")()

    loop.run_until_complete(main())
    loop.close()


def main() -> None:
    """All of it."""
    for library in (httpx2, httpx):
        answer = lambda request, library=library: library.Response(200, json={})
        mock = lambda library=library, answer=answer: library.MockTransport(answer)
        of_httpx(library, "http://x/", mock, f"{library.__name__} on a mock")
    of_loops()
    with ExitStack() as until:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        until.callback(server.shutdown)
        url = f"http://127.0.0.1:{server.server_port}/"
        for library in (httpx2, httpx):
            of_httpx(library, url, library.HTTPTransport, f"{library.__name__} on loopback")
        of_requests(url)


if __name__ == "__main__":
    main()
