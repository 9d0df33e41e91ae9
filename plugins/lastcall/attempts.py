"""Attempts of one call, for who retries it: by what they are known, and what is told of them."""

from __future__ import annotations

from uuid import uuid4

from msgspec.structs import replace

from lastcall.call import Call
from lastcall.contracts import Clock
from lastcall.reporter import Reporter
from lastcall.scope import Scopes
from lastcall.stop import Stop
from lastcall.volume import Volume


class Attempts:
    """The attempts at one guard's calls. *remote*: its store is asked over a wire, which an event loop waits for."""

    def __init__(self, scopes: Scopes, clock: Clock, reporter: Reporter, *, remote: bool) -> None:
        self._scopes = scopes
        self._remote = remote
        self._clock = clock
        self._reporter = reporter
        self._volume = Volume()

    def identified(self, call: Call) -> Call:
        """*call* in its place, with an id and a reply by which attempts of it are known, where it has none."""
        call = self._scopes.place(call) or call
        if call.id is not None and call.reply is not None:
            return call
        own = f"retried-{uuid4().hex}"
        return replace(call, id=call.id or own, reply=call.reply or own)

    async def aidentified(self, call: Call) -> Call:
        """`identified` for an event loop."""
        if self._remote and call.where.run is None:
            await self._scopes.ready()
        return self.identified(call)

    def retried(self, call: Call, message: str, alert: int | None) -> None:
        """*call* is about to be made again; the *alert*-th retry within a minute is worth an alert."""
        self._reporter.noticed(call, "retry", message)
        if alert is not None and self._volume.reached(self._clock(), alert):
            self._reporter.noticed(call, "alert", f"retries: {alert} within 60 s", alert, alert)

    def gave_up(self, call: Call, stop: Stop) -> Stop:
        """*call* is not made again, for *stop*; gives it in full."""
        return self._reporter.ended(call, stop)
