"""Transports for httpx2 and httpx: a guard beneath the client. Outside a guarded call they do nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from lastcall import Guard, Ticket
from lastcall.body import Body
from lastcall.retrying import Retries
from lastcall_http.again import Again
from lastcall_http.missing import library_of
from lastcall_http.passage import BUSY, KEYED, SENDING, Passage, Wire, on_its_way, shorter
from lastcall_http.sending import OfHttpx
from lastcall_http.streams import arrived, streams

if TYPE_CHECKING:
    import httpx
    import httpx2

    class Transport(httpx2.BaseTransport, httpx.BaseTransport):  # type: ignore[misc]
        """What both libraries take for one."""

    class AsyncTransport(httpx2.AsyncBaseTransport, httpx.AsyncBaseTransport):  # type: ignore[misc]
        """What both libraries take for one."""

else:
    # Neither looks at its class, and one of the libraries is enough.
    Transport = AsyncTransport = object


_LOCK = Lock()


class GuardTransport(Transport):
    """A transport for `httpx2.Client` and `httpx.Client` that takes each request of a guarded call past
    *guard*, and then to *inner* (default: the library's own, made at the first request).

    *retries* (`guard.retrying(...)`) makes it the layer that retries. *keyed*: the methods of a tool declared
    `writes` that are sent with its `Idempotency-Key`; *per_endpoint*: each method and path with one of its own,
    for services that take a key for one endpoint only; *per_request*: each write by its method, URL and body,
    for tools that send several to one endpoint, whose order may change. *credential* and *dependency* are given a request of
    the library and name what it authenticates with and the service that it goes to, for the breaker
    (default: a short hash of the credential, the host). Raises Stopped for a request that is refused.
    """

    def __init__(
        self,
        guard: Guard,
        inner: Any = None,
        *,
        retries: Retries | None = None,
        keyed: Iterable[str] = KEYED,
        per_endpoint: bool = False,
        per_request: bool = False,
        credential: Callable[[Any], str | None] | None = None,
        dependency: Callable[[Any], str] | None = None,
    ) -> None:
        self._guard = guard
        self._inner = inner
        self._retries = retries
        self._wire = Wire(
            guard,
            keyed=keyed,
            per_endpoint=per_endpoint,
            per_request=per_request,
            credential=credential,
            dependency=dependency,
        )

    def handle_request(self, request: Any) -> Any:
        """Send *request*, in a guarded call by the guard's leave."""
        inner = self._inner
        if inner is None:
            with _LOCK:
                inner = self._inner = self._inner or library_of(request).HTTPTransport()
        body = self._guard.bodies.innermost()
        if body is None or body.ticket is None or on_its_way(body):
            return inner.handle_request(request)
        make = partial(passage_of, self._wire, body, body.ticket, request)
        if self._retries is None:
            return self._once(make())
        return Again(self._retries, make).send(self._once, lambda response: response.close())

    def _once(self, passage: Passage) -> Any:
        passage.admit()
        token = SENDING.set(passage)
        response = None
        try:
            try:
                response = self._inner.handle_request(made(passage))
            finally:
                SENDING.reset(token)
            heard = streams(library_of(passage.sending.request).__name__)[0]
            response.stream = heard(response.stream, passage)
            known = response
            if response.status_code == BUSY and not response.is_stream_consumed:
                known = arrived(response, response.stream.ahead())
            passage.answered(response.status_code, response.headers, known)
            passage.settle()
        except BaseException as error:
            passage.failed(error)
            passage.settle()
            if response is not None:
                # Nobody gets it, and its connection is wanted again.
                response.close()
            raise
        return response

    def close(self) -> None:
        """Close what is inside."""
        if self._inner is not None:
            self._inner.close()

    def __enter__(self) -> Self:
        if self._inner is not None:
            self._inner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._inner is not None:
            self._inner.__exit__(*error)


class AsyncGuardTransport(AsyncTransport):
    """`GuardTransport` for `httpx2.AsyncClient` and `httpx.AsyncClient`."""

    def __init__(
        self,
        guard: Guard,
        inner: Any = None,
        *,
        retries: Retries | None = None,
        keyed: Iterable[str] = KEYED,
        per_endpoint: bool = False,
        per_request: bool = False,
        credential: Callable[[Any], str | None] | None = None,
        dependency: Callable[[Any], str] | None = None,
    ) -> None:
        self._guard = guard
        self._inner = inner
        self._retries = retries
        self._wire = Wire(
            guard,
            keyed=keyed,
            per_endpoint=per_endpoint,
            per_request=per_request,
            credential=credential,
            dependency=dependency,
        )

    async def handle_async_request(self, request: Any) -> Any:
        """Send *request*, in a guarded call by the guard's leave."""
        inner = self._inner
        if inner is None:
            with _LOCK:
                inner = self._inner = self._inner or library_of(request).AsyncHTTPTransport()
        body = self._guard.bodies.innermost()
        if body is None or body.ticket is None or on_its_way(body):
            return await inner.handle_async_request(request)
        make = partial(passage_of, self._wire, body, body.ticket, request)
        if self._retries is None:
            return await self._once(make())
        return await Again(self._retries, make).asend(
            self._once, lambda response: response.aclose()
        )

    async def _once(self, passage: Passage) -> Any:
        await passage.aadmit()
        token = SENDING.set(passage)
        response = None
        try:
            try:
                response = await self._inner.handle_async_request(made(passage))
            finally:
                SENDING.reset(token)
            heard = streams(library_of(passage.sending.request).__name__)[1]
            response.stream = heard(response.stream, passage)
            known = response
            if response.status_code == BUSY and not response.is_stream_consumed:
                known = arrived(response, await response.stream.ahead())
            passage.answered(response.status_code, response.headers, known)
            await passage.asettle()
        except BaseException as error:
            passage.failed(error)
            if isinstance(error, Exception):
                await passage.asettle()
            else:
                # Not awaited: what is being cancelled may not get to run again.
                passage.settle()
            if response is not None:
                await response.aclose()
            raise
        return response

    async def aclose(self) -> None:
        """Close what is inside."""
        if self._inner is not None:
            await self._inner.aclose()

    async def __aenter__(self) -> Self:
        if self._inner is not None:
            await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._inner is not None:
            await self._inner.__aexit__(*error)


def passage_of(wire: Wire, body: Body, ticket: Ticket, request: Any) -> Passage:
    """The passage of *request* in *body*."""
    return Passage(wire, body, ticket, OfHttpx(request))


def made(passage: Passage) -> Any:
    """The request as it is sent: the caller's own, or a copy where there is something to add."""
    request = passage.sending.request
    if passage.left is None and not passage.headers:
        return request
    extensions = dict(request.extensions)
    if passage.left is not None:
        known = extensions.get("timeout", {})
        names = ("connect", "read", "write", "pool")
        extensions["timeout"] = {name: shorter(known.get(name), passage.left) for name in names}
    # A copy: who sends one request twice would else send a key of ours as their own.
    copy = type(request)(
        request.method,
        request.url,
        headers=request.headers,
        stream=request.stream,
        extensions=extensions,
    )
    copy.headers.update(passage.headers)
    return copy
