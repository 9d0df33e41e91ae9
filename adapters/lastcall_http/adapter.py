"""A guard beneath requests: an adapter to mount. Outside a guarded call it does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from lastcall import Guard
from lastcall.retrying import Retries
from lastcall_http.again import Again
from lastcall_http.layers import URLLIB3
from lastcall_http.missing import loaded
from lastcall_http.passage import BUSY, KEYED, SENDING, Passage, Wire, on_its_way, shorter
from lastcall_http.sending import OfRequests

if TYPE_CHECKING:
    from requests.adapters import HTTPAdapter
else:
    HTTPAdapter = loaded("requests").adapters.HTTPAdapter


class GuardAdapter(HTTPAdapter):
    """An adapter for `requests.Session.mount` that takes each request of a guarded call past *guard*.

    *retries*, *keyed*, *per_endpoint*, *per_request*, *credential* and *dependency*: as for `GuardTransport`.
    *adapter* are the settings of HTTPAdapter; what `max_retries` sends again passes the guard, too. Raises Stopped for a request that is
    refused.
    """

    # What a copy of it has; sessions are copied with what they are part of.
    __attrs__ = [*HTTPAdapter.__attrs__, "_guard", "_retries", "_wire"]  # noqa: RUF012 - requests' own

    def __init__(
        self,
        guard: Guard,
        *,
        retries: Retries | None = None,
        keyed: Iterable[str] = KEYED,
        per_endpoint: bool = False,
        per_request: bool = False,
        credential: Callable[[Any], str | None] | None = None,
        dependency: Callable[[Any], str] | None = None,
        **adapter: Any,
    ) -> None:
        super().__init__(**adapter)
        self.max_retries = watched(self.max_retries)
        self._guard = guard
        self._retries = retries
        self._wire = Wire(
            guard,
            keyed=keyed,
            per_endpoint=per_endpoint,
            per_request=per_request,
            credential=credential,
            dependency=dependency,
        )

    def send(self, request: Any, *args: Any, **settings: Any) -> Any:
        """Send *request*, in a guarded call by the guard's leave."""
        body = self._guard.bodies.innermost()
        ticket = None if body is None else body.ticket
        if body is None or ticket is None or on_its_way(body):
            return super().send(request, *args, **settings)
        stated = dict(zip(("stream", "timeout", "verify", "cert", "proxies"), args, strict=False))
        stated |= settings

        def once(passage: Passage) -> Any:
            return self._once(passage, stated)

        def make() -> Passage:
            return Passage(self._wire, body, ticket, OfRequests(request))

        if self._retries is None:
            return once(make())
        return Again(self._retries, make).send(once, lambda response: response.close())

    def _once(self, passage: Passage, settings: dict[str, Any]) -> Any:
        passage.admit()
        request = passage.sending.request
        if passage.headers:
            # A copy: who sends one request twice would else send a key of ours as their own.
            request = request.copy()
            request.headers.update(passage.headers)
        if passage.left is not None:
            settings = {**settings, "timeout": within(passage.left, settings.get("timeout"))}
        token = SENDING.set(passage)
        try:
            response = super().send(request, **settings)
            if response.status_code == BUSY and not settings.get("stream"):
                # It is read at once in any case, only after this.
                _ = response.content
            passage.answered(response.status_code, response.headers, response)
        except BaseException as error:
            passage.failed(error)
            raise
        finally:
            SENDING.reset(token)
            passage.settle()
        return response


def within(left: float, timeout: Any) -> Any:
    """*timeout* as requests takes it (None, seconds, two of them, urllib3's own), within the seconds *left*."""
    kind = loaded("urllib3").Timeout
    if isinstance(timeout, kind):
        connect, read, total = timeout.connect_timeout, timeout.read_timeout, timeout.total
    else:
        connect, read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        total = None
    connect, read, total = (
        shorter(each if isinstance(each, int | float) else None, left)
        for each in (connect, read, total)
    )
    return kind(connect=connect, read=read, total=total)


def watched(retry: Any) -> Any:
    """urllib3's *retry*, whose retries ask the guard. It is the same in all else."""
    made = retry.new()
    made.__class__ = watching(type(retry))  # type: ignore[arg-type]  # classes are hashable
    return made


@cache
def watching(kind: Any) -> Any:
    """*kind* of Retry, with the guard asked."""

    class Watched(kind):  # type: ignore[misc]
        """Told of each attempt that failed, before the next."""

        def increment(
            self,
            method: Any = None,
            url: Any = None,
            response: Any = None,
            error: Any = None,
            _pool: Any = None,
            _stacktrace: Any = None,
        ) -> Any:
            passage = SENDING.get()
            if passage is not None and response is not None:
                passage.answered(response.status, response.headers, None)
            elif passage is not None and error is not None:
                passage.failed(error)
            # Raises when none is left.
            further = super().increment(method, url, response, error, _pool, _stacktrace)
            if passage is not None:
                self.next(passage, response)
            return further

        def next(self, passage: Passage, response: Any) -> None:
            """Another attempt is about to be made."""
            passage.settle()
            passage.again()
            try:
                passage.admit(URLLIB3)
            except BaseException:
                if response is not None:
                    response.drain_conn()
                    response.release_conn()
                raise

    return Watched
