"""A payment service for tests and examples, as real ones behave: a rate limit in fixed windows, outages, accounts
that are disabled, and idempotency keys kept by the server. On a clock of your own; no network, no randomness.

What is checked in which order: disabled, outage, rate limit, key, validation, decline, commit. So a 429, a 503
and a 422 are not kept under a key, and a decline is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Any

from msgspec import Struct

from lastcall.contracts import Clock
from lastcall.fingerprint import exact

DAY = 86_400.0

KEEP_KEYS = DAY
"""Seconds for which a key is remembered."""

Check = Callable[[Mapping[str, Any]], str | None]
"""What is wrong with the parameters of a charge; None when nothing is."""


class Request(Struct, frozen=True):
    """One request to the service: `POST /charges` with *body*, or `GET` of anything."""

    body: Mapping[str, Any] = {}
    key: str | None = None
    """The header `Idempotency-Key`."""
    method: str = "POST"
    path: str = "/charges"


class Response(Struct, frozen=True):
    """The answer: a status (RFC 9110), headers and a JSON body."""

    status: int
    body: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}


class Charge(Struct, frozen=True):
    """One charge that was committed."""

    number: int
    body: Mapping[str, Any]
    key: str | None
    at: float


class Kept(Struct):
    """What the server keeps under a key."""

    params: str
    at: float
    response: Response | None = None
    """None while the first request is in flight."""


class LostAnswerError(ConnectionError):
    """The service did what it was asked, and the answer never arrived."""


class Pending:
    """A request that the service has begun and not answered; `finish` commits it."""

    def __init__(self, provider: SimulatedProvider, request: Request, kept: Kept | None) -> None:
        self._provider = provider
        self._request = request
        self._kept = kept

    def finish(self) -> Response:
        """Commit, and answer."""
        return self._provider._finish(self._request, self._kept)  # noqa: SLF001 - its other half


class SimulatedProvider:
    """Takes charges. Safe for threads.

    *clock*: epoch seconds. *limit* requests in each fixed window of *window* seconds; what is over it is
    rejected by 429 with `Retry-After`, and after *disable_after* rejections the account is disabled (403)
    for good. *outages*: pairs of times between which every request gets 503. *invalid* and *declined* say
    what is wrong with a charge: 422, and 402, which alone is kept under its key.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        limit: int | None = None,
        window: float = 60.0,
        disable_after: int | None = 60,
        outages: Iterable[tuple[float, float]] = (),
        invalid: Check = lambda _: None,
        declined: Check = lambda _: None,
    ) -> None:
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be a whole number from 1, not {limit!r}")
        if not window > 0:
            raise ValueError(f"window must be more than 0 seconds, not {window!r}")
        self._clock = clock
        self._limit = limit
        self._window = window
        self._disable_after = disable_after
        self._outages = tuple(outages)
        self._invalid = invalid
        self._declined = declined
        self._lock = threading.Lock()
        self._keys: dict[str, Kept] = {}
        self._counted = (-1, 0)
        self._losing = 0
        self.charges: list[Charge] = []
        """What was committed, in order."""
        self.requests = 0
        """Requests that arrived."""
        self.rejected = 0
        """Those that were over the limit."""
        self.replayed = 0
        """Those that were answered from what was kept under their key."""
        self.disabled_at: float | None = None
        """When the account was disabled."""

    def handle(self, request: Request) -> Response:
        """Answer *request*. Raises LostAnswerError when its answer is to be lost."""
        begun = self.begin(request)
        return begun.finish() if isinstance(begun, Pending) else begun

    def begin(self, request: Request) -> Response | Pending:
        """Take *request* in: its answer when there is nothing to do, or what is left to be finished."""
        with self._lock:
            now = self._clock()
            self.requests += 1
            refused = self._refused(now)
            if refused is not None:
                return refused
            if request.method in ("GET", "HEAD"):
                return Response(200, {"charges": len(self.charges)})
            kept, answer = self._known(request, now)
            if answer is not None:
                return answer
            wrong = self._invalid(request.body)
            if wrong is not None:
                # Not kept: what is corrected may come under the same key.
                return failure(422, "invalid", wrong)
            if request.key is not None:
                kept = self._keys[request.key] = Kept(params_of(request), now)
            return Pending(self, request, kept)

    def lose_answers(self, count: int = 1) -> None:
        """Commit the next *count* charges and lose their answers."""
        with self._lock:
            self._losing += count

    def _finish(self, request: Request, kept: Kept | None) -> Response:
        with self._lock:
            wrong = self._declined(request.body)
            if wrong is not None:
                response = failure(402, "declined", wrong)
            else:
                charge = Charge(
                    len(self.charges) + 1, dict(request.body), request.key, self._clock()
                )
                self.charges.append(charge)
                response = Response(201, {"id": f"ch_{charge.number}", **request.body})
            if kept is not None:
                kept.response = response
            if self._losing:
                self._losing -= 1
                raise LostAnswerError("the connection was closed before the answer arrived")
            return response

    def _refused(self, now: float) -> Response | None:
        if self.disabled_at is not None:
            return failure(403, "account_disabled", "this account was disabled")
        if any(start <= now < end for start, end in self._outages):
            return failure(503, "unavailable", "the service is down")
        number = int(now // self._window)
        window, count = self._counted
        count = count if window == number else 0
        if self._limit is None or count < self._limit:
            self._counted = (number, count + 1)
            return None
        self.rejected += 1
        if self._disable_after is not None and self.rejected >= self._disable_after:
            self.disabled_at = now
        after = ceil((number + 1) * self._window - now)
        return failure(
            429, "rate_limited", "too many requests", {"Retry-After": str(max(after, 1))}
        )

    def _known(self, request: Request, now: float) -> tuple[Kept | None, Response | None]:
        """What is kept under the request's key, and the answer that follows from it."""
        if request.key is None:
            return None, None
        kept = self._keys.get(request.key)
        if kept is None or now - kept.at >= KEEP_KEYS:
            self._keys.pop(request.key, None)
            return None, None
        if kept.params != params_of(request):
            return kept, failure(
                400, "idempotency_mismatch", "this key was used with other parameters"
            )
        if kept.response is None:
            return kept, failure(409, "in_flight", "the first request with this key is in flight")
        self.replayed += 1
        headers = {**kept.response.headers, "Idempotent-Replayed": "true"}
        return kept, Response(kept.response.status, kept.response.body, headers)


def params_of(request: Request) -> str:
    """What tells the parameters of a request from others."""
    return exact(request.path, dict(request.body), ())


def failure(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer that says what went wrong."""
    return Response(status, {"error": {"code": code, "message": message}}, headers or {})
