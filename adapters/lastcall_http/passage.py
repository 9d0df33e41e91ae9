"""Takes one request of a guarded call past the guard: what is asked before it, and told after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from math import ceil
from typing import Any

from msgspec.structs import replace

from lastcall import Call, Guard, Outcome, Stop, Stopped, Ticket, Verdict
from lastcall.body import Body, Seen
from lastcall.hosts import Trip, declined, watches
from lastcall.retrying import passing
from lastcall.transport import unreached
from lastcall_http.credentials import credential_of
from lastcall_http.layers import layers_of
from lastcall_http.ledger import LONGEST, ledger_of
from lastcall_http.sending import Sending
from lastcall_http.standing import Asked

HEADER = "Idempotency-Key"
KEYED = frozenset({"POST", "PUT", "PATCH"})
MOVED = frozenset({307, 308})
"""Redirects that keep the method and the body (RFC 9110, section 15.4)."""

BUSY = 429
"""What it says of why decides whether it is worth another attempt (requirement A4)."""

REPLAYED = "idempotent-replayed"

NONE: Mapping[str, str] = {}

UNSENT = Outcome("cancelled", recorded=False, started=False)
"""Nothing was sent, so nothing is learnt of anybody."""


class Wire:
    """What is said of all requests of one transport."""

    def __init__(
        self,
        guard: Guard,
        *,
        keyed: Iterable[str] = KEYED,
        per_endpoint: bool = False,
        per_request: bool = False,
        credential: Callable[[Any], str | None] | None = None,
        dependency: Callable[[Any], str] | None = None,
    ) -> None:
        self.guard = guard
        self.keyed = frozenset(method.upper() for method in keyed)
        self.per_endpoint = per_endpoint
        self.per_request = per_request
        self.credential = credential
        self.dependency = dependency

    def trip(self, sending: Sending, ticket: Ticket) -> Trip | None:
        """The request as the breaker of its host sees it; None where there is no breaker."""
        rule = watches(ticket)
        if rule is None:
            return None
        host = self.dependency(sending.request) if self.dependency else sending.host
        if self.credential is not None:
            return Trip.of(ticket, rule, host, self.credential(sending.request))
        return Trip.of(ticket, rule, host, credential_of(sending.headers))


class Passage:
    """One request, in the *body* of a call that was granted by *ticket*. The twins differ in `await` alone."""

    def __init__(self, wire: Wire, body: Body, ticket: Ticket, sending: Sending) -> None:
        self.wire = wire
        self.guard = wire.guard
        self.body = body
        self.call = ticket.call
        self.ticket = ticket
        self.sending = sending
        self.ledger = ledger_of(body)
        self.trip = wire.trip(sending, ticket)
        self.further: Ticket | None = None
        """What it was granted by, where it is a further attempt."""
        self.key: str | None = None
        """The key to be sent with it; None: none, or it has one."""
        self.left: float | None = None
        """Seconds in which it must be answered; None: no limit."""
        self.outcome = UNSENT
        """What it came to."""
        self._policy = ticket.policy or wire.guard.policy
        self._asked: Asked | None = None
        self._open = False
        self._answered = False

    # Before it is sent.

    def admit(self, layer: str | None = None) -> None:
        """Ask whether it may be sent. Raises Stopped. *layer* sends it once more, where that is known."""
        self._asked = asked = Asked(self.ledger.standing, self.sending)
        try:
            self._admit(layer)
        except BaseException:
            asked.is_over()
            raise

    def _admit(self, layer: str | None) -> None:
        if self.asked(layer):
            self.granted(self.guard.decide(self.attempt(), self.call.policy))
        try:
            stop = None if self.trip is None else self.guard.wire.may_send(self.trip)
        except BaseException:
            # Called off meanwhile; the trial that it may have been is another's then.
            self._open = True
            self.settle()
            raise
        if stop is not None:
            if self.further is not None:
                self.guard.observe(self.further, UNSENT)
            raise self._resting(stop)
        self._open = True

    async def aadmit(self, layer: str | None = None) -> None:
        """`admit` for an event loop."""
        self._asked = asked = Asked(self.ledger.standing, self.sending)
        try:
            await self._aadmit(layer)
        except BaseException:
            asked.is_over()
            raise

    async def _aadmit(self, layer: str | None) -> None:
        if self.asked(layer):
            self.granted(await self.guard.adecide(self.attempt(), self.call.policy))
        try:
            stop = None if self.trip is None else await self.guard.wire.amay_send(self.trip)
        except BaseException:
            self._open = True
            self.settle()
            raise
        if stop is not None:
            if self.further is not None:
                await self.guard.aobserve(self.further, UNSENT)
            raise self._resting(stop)
        self._open = True

    def asked(self, layer: str | None) -> bool:
        """Whether it is an attempt of its own, about which the rules are asked. Raises Stopped where it is
        not to be sent for what the request itself is."""
        self._key()
        again = layer is not None or self.ledger.further(self.sending)
        if layer is not None or self.ledger.repeats(self.sending):
            self._stacked(layers_of(self.sending.headers) if layer is None else [layer])
        self.left = None
        if self.body.until is not None:
            self.left = self.body.until - self.guard.clock()
            if self.left <= 0:
                if self.body.until != self.ticket.until:
                    raise self._refused("deadline")
                # The rule that set it says so, unless a person gave the run more time.
                self.left, again = None, True
        return again

    def attempt(self) -> Call:
        """The call as a further attempt."""
        further = replace(self.call, kind="attempt")
        # Fingerprints cost more than the copy.
        vars(further).update(vars(self.call))
        return further

    def granted(self, verdict: Verdict) -> None:
        """The word on a further attempt. Raises Stopped."""
        self.further = verdict.ticket
        stop = verdict.ending or verdict.stop
        if self.further is None and stop is not None:
            raise self.guard.stopped(stop)

    @property
    def headers(self) -> dict[str, str]:
        """What is sent with it besides its own."""
        return {} if self.key is None else {HEADER: self.key}

    # After it.

    def answered(self, status: int, headers: Mapping[str, str], response: Any) -> None:
        """It was answered, and its body may not be there yet."""
        mapped = self.call.policy.statuses or self._policy.statuses
        bad = status >= 400 or bool(mapped)  # noqa: PLR2004 - RFC 9110, section 15
        named = {str(name).lower(): str(value) for name, value in headers.items()} if bad else NONE
        self._saw(Seen(status, named, None, response if bad else None))
        if headers.get(REPLAYED, "").strip().lower() == "true":
            whole = self.ledger.whole
            whole.replayed += 1
            said = f"{self.sending.host} answered by what it kept under the key: {whole.replayed}"
            self.guard.wire.replayed(self.call, f"{said} in this call")

    def failed(self, error: BaseException) -> None:
        """There is no answer, for *error*."""
        if isinstance(error, Exception) and any(unreached(each) for each in causes(error)):
            self._saw(Seen(error=f"{type(error).__name__}: {error}"))
        elif not self._answered:
            # It was called off, refused further in, or is no request at all.
            self.outcome = UNSENT

    def settle(self) -> None:
        """Tell the rules what it came to; a second time nothing happens."""
        if self._open:
            self._settled()
            try:
                if self.further is not None:
                    self.guard.observe(self.further, self.outcome)
            finally:
                if self.trip is not None:
                    self.guard.wire.sent(self.trip, self.outcome)

    async def asettle(self) -> None:
        """`settle` for an event loop."""
        if self._open:
            self._settled()
            try:
                if self.further is not None:
                    await self.guard.aobserve(self.further, self.outcome)
            finally:
                if self.trip is not None:
                    await self.guard.wire.asent(self.trip, self.outcome)

    def again(self) -> None:
        """The same request is made once more."""
        self.further, self.outcome, self._answered = None, UNSENT, False

    # How.

    def _settled(self) -> None:
        self._open = False
        if self._asked is not None:
            self._asked.is_over()

    def _counts(self, seen: Seen) -> Outcome:
        policy = self._policy
        outcome = seen.outcome(
            self.call.policy,
            terminal=policy.terminal_statuses,
            statuses=policy.statuses,
            now=self.guard.clock(),
        )
        if self._asked is not None:
            writes = bool(self.call.policy.writes)
            self._asked.answered(self.body, seen, outcome, writes=writes)
        return outcome

    def _saw(self, seen: Seen) -> None:
        self._answered = True
        self.outcome = outcome = self._counts(seen)
        self.ledger.answered(
            self.sending,
            failed=outcome.kind == "error",
            passing=passing(outcome),
        )
        if self.key is not None:
            self.ledger.wrote(
                self.sending,
                self.key,
                refused=outcome.kind == "error"
                and not outcome.doubtful
                and seen.status not in declined(self.ticket),
                redirected=seen.status in MOVED,
            )

    def _key(self) -> None:
        """Find the key of a write. Raises Stopped for one without."""
        tool, sending = self.call.policy, self.sending
        if not tool.writes or not sending.writes:
            return
        own = sending.headers.get(HEADER)
        if own:
            return
        if self.call.key is None:
            if self.ticket.lineup is None or self.ticket.lineup.enforce:
                raise self._refused("no_key")
        elif sending.method in self.wire.keyed and self.key is None:
            own = self.call.key
            if self.wire.per_endpoint:
                own = f"{own[: LONGEST - len(sending.mark)]}{sending.mark}"
            self.key = self.ledger.key(sending, own, by_what_it_says=self.wire.per_request)
            if self.key != own and not self.wire.per_request:
                self._mixed_up()

    def _mixed_up(self) -> None:
        """Say once that keys go by an order which may be another one next time."""
        if self._asked is not None and self._asked.has_rivals():
            self.guard.warned(
                self.call,
                f"{self.call.name}: several writes to one endpoint of {self.sending.host} at once, whose"
                " keys go by their order; per_request=True gives each one by what it says",
            )

    def _stacked(self, layers: list[str]) -> None:
        """Say once that two layers retry."""
        both = self.ledger.retried_by(layers)
        if both is not None:
            self.guard.warned(
                self.call,
                f"{self.call.name}: two layers retry the same request, {both[0]} and {both[1]}, so their"
                " attempts multiply; switch one of them off",
            )

    def _resting(self, stop: Stop) -> Stopped:
        """The host is left alone. That is no answer of its own: to whoever waits for the call, the service
        is as sick as it was."""
        wait = {} if stop.retry_after is None else {"retry-after": str(ceil(stop.retry_after))}
        self._counts(Seen(stop.status, wait, stop.text))
        return self.guard.stopped(stop)

    def _refused(self, reason: str) -> Stopped:
        stop = Stop.of(self.call, reason, "call", self.guard.clock(), rule="wire", executed=True)
        return self.guard.stopped(self.guard.attempts.gave_up(self.call, stop))


SENDING: ContextVar[Passage | None] = ContextVar("lastcall_http_sending", default=None)
"""The request that is on its way here: of a transport beneath another, and of urllib3's retries, which no
adapter sees."""


def on_its_way(body: Body) -> bool:
    """Whether a transport above has taken a request of *body* past the guard."""
    passage = SENDING.get()
    return passage is not None and passage.body is body


def shorter(seconds: float | None, left: float) -> float:
    """A time-out of so many seconds (None: none) that ends within those that are *left*."""
    return left if seconds is None else min(seconds, left)


def causes(error: BaseException) -> Iterable[BaseException]:
    """*error* and what it was raised from."""
    each: BaseException | None = error
    for _ in range(8):
        if each is None:
            return
        yield each
        each = each.__cause__
