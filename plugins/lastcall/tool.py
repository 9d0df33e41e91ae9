"""What one may say of a tool: whether it reads, writes, polls, what its statuses mean, its own limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from lastcall.money import Money

Grade = Literal["final", "passing", "failed", "ok"]
"""final: repeating the same call cannot help. passing: it may. failed: an ordinary failure. ok: no failure."""


def unset(value: Any) -> Any:
    """TOML has no null; `false` takes a limit away."""
    return None if value is False else value


Limit = Annotated[StrictInt, Field(ge=1)]
"""A whole number from 1; True is refused, since it would silently mean 1."""

LimitOrNone = Annotated[Limit | None, BeforeValidator(unset)]
"""A limit; None, and `false` in a file, is none."""

LimitOrOff = Annotated[StrictInt, Field(ge=0)]
"""A whole number; 0 switches the limit off."""

RepeatLimit = Annotated[LimitOrOff | None, BeforeValidator(unset)]
"""As often as one exact call may run; 0: as often as it likes; None: other rules decide."""

Seconds = Annotated[StrictFloat, Field(gt=0, allow_inf_nan=False)]
"""A time span, more than 0 and finite."""

SecondsOrNone = Annotated[Seconds | None, BeforeValidator(unset)]
"""A time span; None, and `false` in a file, is none."""

NameOrNone = Annotated[Annotated[StrictStr, Field(min_length=1)] | None, BeforeValidator(unset)]
"""A name that is not empty; None, and `false` in a file, is none."""

Status = Annotated[StrictInt, Field(ge=100, le=599)]
"""An HTTP status code (RFC 9110, section 15)."""


def numbered(statuses: Any) -> Any:
    """TOML has no keys but text; digits are numbers here."""
    if not isinstance(statuses, Mapping):
        return statuses
    return {
        int(status) if isinstance(status, str) and status.isdecimal() else status: grade
        for status, grade in statuses.items()
    }


StatusMap = Annotated[Mapping[Status, Grade], BeforeValidator(numbered)]
"""What each status means."""


def priced(cost: Any) -> Any:
    """`false` in a file is no price; digits are statuses."""
    return None if cost is False else numbered(cost)


Cost = Annotated[
    Money | Mapping[Literal["ok", "error"] | Status, Money] | None, BeforeValidator(priced)
]
"""What a call costs: one amount for a call that goes well, or a table by status, `ok` and `error`."""


class ToolPolicy(BaseModel):
    """One tool, as the guard should see it.

    Given by name or pattern in `Policy(tools={...})`, or where the tool is made
    (`@guard.wrap(reads=True)`). A field set in the policy wins over one set at the function.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reads: StrictBool = False
    """The tool changes nothing; reads between two equal calls are no reason for a new result."""
    writes: StrictBool = False
    """The tool changes something; two writes whose values differ are never near repeats."""
    identity: tuple[str, ...] = ()
    """Of a write: the names of the top-level arguments that say which operation it is (an invoice's number,
    not its amount). None are named: all of them but the *volatile* ones do."""
    keyed: StrictBool = False
    """Of a write: the service behind it takes an idempotency key, so a call whose outcome nobody knows may be
    made again under its key."""
    on_repeat: Literal["run", "replay"] = "run"
    """Of a write that was carried out already. run: it is made again. replay: it is answered by what it brought
    the first time, in any run and worker for 24 h; results of 64 KiB and more are not kept."""
    polls: StrictBool = False
    """Equal calls are expected: results are compared raw, and a changed one starts `max_repeats` again."""
    shell: StrictBool = False
    """The tool prints what other programs say: no status is read from its text, and no row of
    failures closes it."""
    exempt: StrictBool = False
    """No rule about repeats looks at the tool; its calls still count for the ceilings."""
    volatile: tuple[str, ...] = ()
    """Names of top-level arguments that do not tell two calls apart (a time window, a request id)."""
    max_calls: LimitOrNone = None
    """Executions of this tool in one turn."""
    alert_calls: LimitOrNone = None
    """One alert is sent when this many calls of the tool were executed in a turn."""
    max_repeats: RepeatLimit = None
    """Executions of one exact call in one turn; None: the policy's; 0: no limit."""
    timeout: SecondsOrNone = None
    """Seconds after which a call of the tool is given up, by whoever makes it. Its place among those that
    `concurrency` grants is free again then, whatever became of it."""
    credential: NameOrNone = None
    """A name for what the tool authenticates with, never the secret itself: a call that fails under one may
    succeed under another."""
    dependency: NameOrNone = None
    """The service behind the tool, by a name that tools of one service share."""
    cost: Cost = None
    """What a call of the tool costs, in the currency of the policy: an amount (a call that fails costs
    nothing then), or a table by status, `ok` and `error`. Its highest is reserved before the call."""
    terminal_statuses: tuple[Status, ...] = ()
    """Statuses that are final for this tool, besides those of the policy."""
    statuses: StatusMap = Field(default_factory=dict)
    """What a status of this tool means; wins over `terminal_statuses` and over the policy."""

    def under(self, policy: ToolPolicy) -> ToolPolicy:
        """These settings with those that *policy* sets explicitly laid over them."""
        laid = {name: getattr(policy, name) for name in policy.model_fields_set}
        return self.model_copy(update=laid) if laid else self


PLAIN = ToolPolicy()
"""A tool of which nothing was said."""
