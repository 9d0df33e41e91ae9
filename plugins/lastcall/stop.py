"""The structured stop: what was refused, by which limit, how wide it reaches and what is left."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from lastcall.money import Shown

if TYPE_CHECKING:
    from lastcall.call import Call

Scope = Literal[
    "call", "tool", "turn", "run", "thread", "agent", "user", "tenant", "dependency", "all"
]
"""How far a stop reaches. A turn or anything wider ends what is running; a call or a tool does not."""

NARROW = frozenset({"call", "tool"})

WORDED = frozenset(
    {
        "tool",
        "server",
        "call_id",
        "agent",
        "user",
        "tenant",
        "thread",
        "run",
        "turn",
        "detail",
        "dependency",
        "key",
    }
)
"""Fields whose words come from outside."""


def legible(value: Any) -> str | None:
    """*value* as text that JSON can hold: models write half characters, programs use numbers as names,
    and a stop must come about all the same."""
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class Gathered(BaseModel):
    """One result that a stopped run had already gathered; *result* is None where it was too large
    to keep, and *digest* tells it apart."""

    model_config = ConfigDict(frozen=True)

    tool: str
    call_id: str | None = None
    fingerprint: str
    result: Any = None
    digest: str
    failed: bool = False


class Stop(BaseModel):
    """Why a call was refused or a run ended (requirement A7). `Stop.model_json_schema()` is public;
    *version* goes up when a field changes its meaning."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    reason: str
    """ceiling, repeat, same, near, cycle, stale, failing, terminal, malformed, refusals, attempts: what was
    going on in the run. budget, concurrency, quarantine, cooling: what others count too. unpriced: nobody knows
    what its requests cost. breaker, ramp: the
    service behind the tool is down, or coming back. path: agents called each other in a circle, or too deep. no_key, conflict, in_progress, unknown_outcome, done: of a
    write that must not be made twice. retry_budget, deadline: the call was retried, and no more
    of that is allowed, or in time. kill: somebody stopped it from outside. store, fault:
    the guard's store, or the guard itself, failed."""
    scope: Scope
    tool: str
    server: str | None = None
    call_id: str | None = None
    fingerprint: str
    status: int | None = None
    """The HTTP status behind the stop, where there is one."""
    limit: Shown | None = None
    """A whole number; of money an amount, which is text in JSON."""
    observed: Shown | None = None
    """What was counted against *limit*, the refused call included."""
    budget: str | None = None
    """The budget that is spent, by its name in *remaining*."""
    remaining: dict[str, Shown] = Field(default_factory=dict)
    """What is left of each budget after this decision, by the budget's name."""
    executed: bool = False
    """Whether the tool's body ran: True for a stop that its answer caused."""
    retryable: bool = False
    """Whether the same call may succeed later in the same run."""
    retry_after: float | None = None
    """Seconds until it may, for whoever schedules the next run."""
    resets_at: datetime | None = None
    """When the limit lifts by itself, in UTC; None where only a new turn, run or policy lifts it."""
    detail: str | None = None
    """What the service answered, as data, 500 characters at most."""
    text: str = ""
    """What the model reads."""
    gathered: tuple[Gathered, ...] = ()
    path: tuple[str, ...] = ()
    agent: str | None = None
    user: str | None = None
    tenant: str | None = None
    thread: str | None = None
    run: str | None = None
    turn: str | None = None
    time: datetime
    rule: str | None = None
    """The rule that decided."""
    dependency: str | None = None
    """The service that is down or coming back, where a breaker decided."""
    asked: bool = False
    """Whether a person was asked, and ended it."""
    key: str | None = None
    """The idempotency key of the write that was refused; `guard.reconcile` takes it."""

    @property
    def cause(self) -> str:
        """What it was that stopped it: the budget that is spent, by its name, else the reason."""
        return self.budget or self.reason

    @property
    def ends_run(self) -> bool:
        """Whether what is running ends here, rather than this one call or tool."""
        return self.scope not in NARROW

    @classmethod
    def of(
        cls, call: Call, reason: str, scope: Scope, now: float, *, rule: str, **fields: Any
    ) -> Self:
        """A stop of *call* at *now* (epoch seconds); *fields* are those of the class."""
        where = call.where
        own: dict[str, Any] = {
            "tool": call.tool,
            "server": call.server,
            "call_id": call.id,
            "path": tuple(map(legible, where.path)),
            "agent": where.agent,
            "user": where.user,
            "tenant": where.tenant,
            "thread": where.thread,
            "run": where.run,
            "turn": where.turn,
            **fields,
        }
        for name in WORDED & own.keys():
            own[name] = legible(own[name])
        return cls(
            reason=reason,
            scope=scope,
            rule=rule,
            fingerprint=call.fingerprint,
            time=datetime.fromtimestamp(now, UTC),
            **own,
        )


class Stopped(Exception):  # noqa: N818 - it is not an error: the run was stopped
    """Raised where a refusal can only be an exception. `.stop` is the whole story."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.text or f"{stop.tool}: {stop.reason}")
        self.stop = stop

    def __reduce__(self) -> tuple[type[Stopped], tuple[Stop]]:
        return type(self), (self.stop,)
