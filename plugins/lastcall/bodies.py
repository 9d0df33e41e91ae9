"""The bodies of guarded calls that run in a context: entered and left at the seams of adapters, where one call
may pass several and counts once."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from lastcall.body import Body, whereabouts, witnessed
from lastcall.call import Outcome
from lastcall.contracts import Clock
from lastcall.policy import Policy
from lastcall.scope import Scopes, undone
from lastcall.verdict import Ticket

ALONE = "alone-"
"""The start of the id of a run that a call outside any run is given."""


class Bodies:
    """The bodies of one guard's calls. Frameworks that only listen know of more (`Scope.body`)."""

    def __init__(self, scopes: Scopes, policy: Callable[[], Policy], clock: Clock) -> None:
        self._scopes = scopes
        self._policy = policy
        self._clock = clock
        self._inside: ContextVar[tuple[Body, ...]] = ContextVar("lastcall_inside", default=())
        self._over: ContextVar[Body | None] = ContextVar("lastcall_ended", default=None)
        self.held: set[str | None] = set()
        """Runs of one call each that go on after an attempt is over."""

    def all(self) -> tuple[Body, ...]:
        """Those that run here, from the outermost."""
        return self._inside.get()

    def innermost(self) -> Body | None:
        """The body of the innermost guarded call here: what transports ask for, and tell what they saw.
        None outside any, and in what goes on after the call is over."""
        bodies = self._inside.get()
        return bodies[-1] if bodies and not bodies[-1].over else self._scopes.body()

    def inside(self, tool: str, seam: str, at: Any = None) -> bool:
        """Whether the call of *tool* in whose body this is asked was guarded at another seam. *at* is the
        place in the framework's run where it is made, by which a call further in, of an agent that calls
        itself perhaps, is told from it; None: not known."""
        return any(
            body.tool == tool
            and body.seam != seam
            and (at is None or body.at is None or at == body.at)
            for body in self._inside.get()
        ) or (seam in ("wrap", "calling", "retrying") and self._scopes.covers(tool))

    def enter(
        self, tool: str, seam: str, at: Any = None, ticket: Ticket | None = None
    ) -> Token[Any]:
        """Mark the body of a guarded call of *tool*, made *at* and granted by *ticket*, in this context,
        until `leave`."""
        if self._over.get() is not None:
            self._over.set(None)
        bodies = self._inside.get()
        again = ticket is not None and ticket.call.kind == "attempt" and seam == "retrying"
        of = bodies[-1] if again and bodies and bodies[-1].tool == tool else None
        body = Body(tool, seam, at, ticket, of)
        body.home = whereabouts()
        run = None if ticket is None else ticket.call.where.run
        if run is not None and run.startswith(ALONE) and run not in self.held:
            body.held = run
            self.held.add(run)
        return self._inside.set((*bodies, body))

    def leave(self, token: Token[Any]) -> None:
        """Take back the mark."""
        bodies = self._inside.get()
        if bodies:
            self.ended(bodies[-1])
        undone(self._inside, token)

    def ended(self, body: Body) -> None:
        """*body* is over, and what was said and seen in it goes into the outcome that is read next."""
        body.over = True
        if body.costs or body.last is not None:
            self._over.set(body)
        if body.of is not None:
            body.of.last = body.last
        if body.held is not None:
            self.held.discard(body.held)

    def seen(self, ticket: Ticket, outcome: Outcome) -> Outcome:
        """*outcome* of the call of *ticket* with what its body, which has just ended, said it cost, and with
        how the last request was answered that a transport saw in it, where the outcome shows no status."""
        body = self._over.get()
        return outcome if body is None else self.paid(self._witnessed(ticket, outcome, body))

    def paid(self, outcome: Outcome) -> Outcome:
        """*outcome* with what the body that has just ended said it cost."""
        body = self._over.get()
        if body is None:
            return outcome
        self._over.set(None)
        return replace(outcome, cost=sum(body.costs, Decimal(0))) if body.costs else outcome

    def so_far(self, ticket: Ticket, outcome: Outcome) -> Outcome:
        """*outcome* with how the last request was answered that a transport saw in the body where this is
        asked."""
        body = self.innermost()
        return outcome if body is None else self._witnessed(ticket, outcome, body)

    def _witnessed(self, ticket: Ticket, outcome: Outcome, body: Body) -> Outcome:
        if body.last is None:
            return outcome
        policy = ticket.policy or self._policy()
        return witnessed(
            outcome,
            body.last,
            ticket.call.policy,
            terminal=policy.terminal_statuses,
            statuses=policy.statuses,
            now=self._clock(),
        )
