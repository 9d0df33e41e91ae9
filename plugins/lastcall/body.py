"""The body of a guarded call while it runs: whose it is, what it said of its cost, what was seen on the wire."""

from __future__ import annotations

from asyncio import _get_running_loop, current_task
from collections.abc import Collection, Mapping
from decimal import Decimal
from threading import get_ident
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from lastcall import status as statuses_of
from lastcall.call import Outcome
from lastcall.reading import SHORT, attribute, received
from lastcall.tool import PLAIN, Grade, ToolPolicy
from lastcall.verdict import Ticket


class Seen(Struct, frozen=True):
    """How one request was answered, as a transport saw it."""

    status: int | None = None
    """None: the service was not reached, or did not answer in time."""
    headers: Mapping[str, str] = {}
    """By name in lower case."""
    error: str | None = None
    """What went wrong where there was no answer."""
    response: Any = None
    """The answer itself; what has arrived of its body by the end of the call is looked at."""

    def outcome(
        self,
        tool: ToolPolicy = PLAIN,
        *,
        terminal: Collection[int] = (),
        statuses: Mapping[int, Grade] = statuses_of.NO_MAP,
        now: float | None = None,
    ) -> Outcome:
        """What it says of the request; *terminal*, *statuses* and *now* as for `status.returned`."""
        if self.status is None:
            return Outcome("error", None, error=self.error, recorded=False, transport=True)
        arrived = ""
        if self.response is not None:
            arrived = received(lambda name: attribute(self.response, name))
        meaning = statuses_of.grade(
            self.status,
            tool,
            terminal=terminal,
            statuses=statuses,
            body=arrived if self.status == 429 else "",  # noqa: PLR2004 - its own best name
            headers=self.headers,
        )
        if meaning == "ok":
            return Outcome("ok", None, self.status, recorded=False)
        lasting: Literal["final", "passing"] | None = None if meaning == "failed" else meaning
        wait = statuses_of.retry_after(self.headers, now)
        said = arrived[:SHORT] or f"HTTP {self.status}"
        return Outcome("error", None, self.status, lasting, said, wait, recorded=False)


def whereabouts() -> int:
    """What tells the task in which this is asked, or else the thread, from others that run."""
    loop = _get_running_loop()
    task = None if loop is None else current_task(loop)
    return get_ident() if task is None else id(task)


class Body:
    """One run of a tool's body, or of a further attempt of it, between `Bodies.enter` and `Bodies.leave`.

    Threads and tasks that got a copy of the context share it.
    """

    __slots__ = (
        "at",
        "costs",
        "held",
        "home",
        "last",
        "of",
        "over",
        "requests",
        "seam",
        "ticket",
        "tool",
        "until",
    )

    def __init__(
        self,
        tool: str,
        seam: str,
        at: Any = None,
        ticket: Ticket | None = None,
        of: Body | None = None,
    ) -> None:
        self.tool = tool
        self.seam = seam
        self.at = at
        """The place in the framework's run where the call is made; None: not known."""
        self.ticket = ticket
        """What it was granted by; None where the seam does not say."""
        self.of = of
        """Of a further attempt: the body of the call."""
        self.costs: list[Decimal] = []
        self.last: Seen | None = None
        """How the last request was answered that a transport saw in it."""
        self.until: float | None = None if ticket is None else ticket.until
        """When its time is over, in epoch seconds; None: no limit."""
        self.over = False
        self.held: str | None = None
        """The run of this one call, which is kept until the body is over."""
        self.home: int | None = None
        """The task or thread in which it runs (`whereabouts`); None: not known."""
        self.requests: Any = None
        """What a transport keeps of the requests made in it."""

    def bounded(self, until: float | None) -> None:
        """Its time is over by *until*, in epoch seconds, at the latest."""
        if until is not None and (self.until is None or until < self.until):
            self.until = until


def witnessed(
    outcome: Outcome,
    seen: Seen,
    tool: ToolPolicy = PLAIN,
    *,
    terminal: Collection[int] = (),
    statuses: Mapping[int, Grade] = statuses_of.NO_MAP,
    now: float | None = None,
) -> Outcome:
    """*outcome* of a body with what was *seen* of its last request. A status that the tool's own answer
    shows, or a failed connection that it raised, stands; so does what was called off or waits."""
    if outcome.kind not in ("ok", "error") or outcome.transport:
        return outcome
    if outcome.status is not None and outcome.status != seen.status:
        return outcome
    wire = seen.outcome(tool, terminal=terminal, statuses=statuses, now=now)
    if wire.kind == "ok":
        return outcome
    if outcome.status is not None:
        # An exception may have lost the headers on its way.
        wait = outcome.retry_after if outcome.retry_after is not None else wire.retry_after
        return replace(outcome, retry_after=wait) if outcome.kind == "error" else outcome
    told = outcome.content if isinstance(outcome.content, str) else None
    return replace(
        outcome,
        kind="error",
        status=wire.status,
        grade=wire.grade,
        # What the tool told the model of it is what a stop would else keep from it.
        error=outcome.error or (told and told[:SHORT]) or wire.error,
        retry_after=wire.retry_after,
        transport=wire.transport,
    )
