"""Real clients against real services: what a tool's body sends, in each library and colour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import httpx2
import pytest

from lastcall import Guard
from lastcall.testing import FakeClock
from lastcall_http import async_client, client, session

from .service import Answer, Asked, Service


@pytest.fixture
def events() -> list[Any]:
    """What the guard tells of."""
    return []


@pytest.fixture
def guard(make_guard: Callable[..., Guard], events: list[Any]) -> Guard:
    """One with the default policy."""
    return make_guard(listeners=[events.append])


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    """Starts services that answer with statuses, in order (the last one for ever), or as a function says."""
    running: list[Service] = []

    def start(*answers: Any, by: Callable[[int, Asked], Answer] | None = None) -> Service:
        def said(number: int, _: Asked) -> Answer:
            given = answers[min(number, len(answers) - 1)] if answers else 200
            return given if isinstance(given, Answer) else Answer(given, {"n": number})

        service = Service(by or said)
        running.append(service.__enter__())
        return service

    yield start
    for service in running:
        service.__exit__()


class Client:
    """One client of one library: `send` is the body of a tool, `run` calls a guarded one."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.library, _, self.colour = kind.partition("-")

    def call(
        self,
        guard: Guard,
        body: Callable[[Any], Any],
        *,
        run: str = "r",
        declared: dict[str, Any] | None = None,
        arguments: dict[str, Any] | None = None,
        guarded: Callable[..., Any] | None = None,
        **settings: Any,
    ) -> Any:
        """What a tool gives whose body is *body*: it is given `send(method, url, **request)` and gives
        an answer, as a generator: each request is yielded, and its response or exception comes back."""
        wrap = guarded or guard.wrap(name="tool", **(declared or {}))
        given = arguments or {}
        if self.library != "requests":
            # Reading certificates takes longer than all else here.
            settings.setdefault("verify", False)

        if self.colour == "async":

            async def main() -> Any:
                made = async_client(guard, library=self.library, **settings)
                async with made:

                    @wrap
                    async def tool(**_: Any) -> Any:
                        return await adriven(made, body)

                    with guard.within(run=run):
                        return await tool(**given)

            return asyncio.run(main())
        if self.library == "requests":
            made = session(guard, **settings)
        else:
            made = client(guard, library=self.library, **settings)
        with made:

            @wrap
            def tool(**_: Any) -> Any:
                return driven(made, body)

            with guard.within(run=run):
                return tool(**given)

    def plain(self) -> Any:
        """The library's own client."""
        import requests

        return {"requests": requests.Session, "httpx": httpx.Client, "httpx2": httpx2.Client}[
            self.library
        ]()


def driven(client: Any, body: Callable[[], Any]) -> Any:
    steps = body()
    back: Any = None
    try:
        request = next(steps)
        while True:
            try:
                back = client.request(*request[:2], **(request[2] if len(request) > 2 else {}))
            except Exception as error:
                request = steps.throw(error)
            else:
                request = steps.send(back)
    except StopIteration as over:
        return over.value


async def adriven(client: Any, body: Callable[[], Any]) -> Any:
    steps = body()
    back: Any = None
    try:
        request = next(steps)
        while True:
            try:
                back = await client.request(
                    *request[:2], **(request[2] if len(request) > 2 else {})
                )
            except Exception as error:
                request = steps.throw(error)
            else:
                request = steps.send(back)
    except StopIteration as over:
        return over.value


KINDS = ("httpx2-sync", "httpx2-async", "httpx-sync", "httpx-async", "requests-sync")


@pytest.fixture(params=KINDS)
def http(request: pytest.FixtureRequest) -> Client:
    return Client(request.param)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
