"""What one may implement, on one page: rules, tallies, stores, listeners, a clock, a scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from lastcall.stop import Stopped

if TYPE_CHECKING:
    from lastcall.body import Body
    from lastcall.call import Call, FirstResult, Kind, Outcome, Where
    from lastcall.events import Event
    from lastcall.stop import Stop
    from lastcall.tool import ToolPolicy


S = TypeVar("S")
T = TypeVar("T")

Shard = tuple[str, str | None]
"""What one worker owns and what is dropped at once: `("run", id)`, `("thread", id)`, `("user", id)`."""

Key = tuple[Any, ...]
"""A record's name: its shard, its rule, and what tells it apart there. Strings exist in stores only."""

Part = Literal["none", "turn", "call", "tool", "agent", "thread", "shared"]
"""What a rule's record is about. none: it keeps no record, the turn's past is enough. turn: the turn.
call, tool, agent: one fingerprint, tool or agent in the turn. thread: one fingerprint in the thread.
shared: something outside the run, which outlives it; the rule names the record's key by `shared(call)`."""

Clock = Callable[[], float]
"""Epoch seconds."""


class Halt(Struct, Generic[S], frozen=True):
    """A new state together with a stop: the call was answered, or refused, and that has an end."""

    state: S
    stop: Stop


class Noted(Struct, Generic[S], frozen=True):
    """A new state (None: it is forgotten) together with a notice: it is worth an event, and no stop."""

    state: S | None
    notice: Notice


class Replay(Struct, Generic[S], frozen=True):
    """A new state together with an answer: the call was made before, and need not be made again."""

    state: S
    replayed: FirstResult


class Rule(Protocol[S]):
    """Frozen settings and pure functions over one small record. No clock, no I/O, no randomness.

    A rule that gives back the very object it was given writes nothing; None forgets the record. One that
    is to stand in a policy file is a pydantic model too; `lastcall.rules.Settings` is a base for it.

    Some more methods are optional. `shared(call) -> Key` names a record of the part "shared".
    `ended(state, call, stop, now) -> S` hears of every stop that closes a tool or ends what is running,
    in the same step of the store. `pardoned(state, call) -> S | None` hears that a person let the call
    pass. `beside(tool) -> tuple[Rule, ...]` gives rules that come with this one, for calls of *tool*.
    `until(state, call) -> float | None` says when the time of the run is over, in epoch seconds.
    `fleetwide() -> Rule` gives the rule as it is where several processes share the store. `familiar`: True
    when its `before` has nothing to say of a call that the past of its turn does not hold. `whole`: True
    when it judges calls as a whole, and not the further attempts that are made inside one.
    """

    name: ClassVar[str]
    kinds: ClassVar[frozenset[Kind]]
    """The kinds of call it looks at."""
    quiet: ClassVar[bool]
    """Whether there is nothing to say before a tool call, and nothing to learn from one that went well,
    as long as there is no record: it is not asked then."""
    enforce: bool
    """False: it decides, logs and reports, and refuses nothing."""

    def record(self, tool: ToolPolicy) -> Part | None:
        """What a record of it is about, for calls of *tool*; None when it has no business with them."""
        ...

    def start(self) -> S:
        """The record before anything happened."""
        ...

    def before(self, state: S, call: Call, now: float) -> S | Stop | Noted[S] | Replay[S] | None:
        """What the rule thinks of a call that is about to be made."""
        ...

    def refused(self, state: S, call: Call, stop: Stop, now: float) -> S | Halt[S]:
        """Somebody refused the call: refusal counters and closed scopes move, limits do not."""
        ...

    def after(
        self, state: S, call: Call, outcome: Outcome, now: float
    ) -> S | Halt[S] | Noted[S] | None:
        """What the rule learns from the answer; a 422 is known only now."""
        ...


class Take(Struct, frozen=True, gc=False):
    """Take *amount* from a shared counter, if it stays within *limit* (None: count only).

    *window*: the seconds after which the counter starts anew, counted from the epoch (None: never).
    *offset*: seconds by which it does so earlier, where a day begins before that of UTC.
    """

    key: Key
    amount: int = 1
    limit: int | None = None
    window: float | None = None
    offset: float = 0.0


class Give(Struct, frozen=True, gc=False):
    """Give back *amount* of what was taken at *taken_at*; more than was taken is an error. A counter
    whose window is over since then has nothing to be given back to."""

    key: Key
    amount: int = 1
    window: float | None = None
    taken_at: float = 0.0
    offset: float = 0.0


class Lease(Struct, frozen=True, gc=False):
    """Hold one of *limit* places until freed or until *ttl* seconds are over, whatever comes first."""

    key: Key
    holder: str
    limit: int
    ttl: float


class Free(Struct, frozen=True, gc=False):
    """Free the place of *holder*; freeing an absent one does nothing."""

    key: Key
    holder: str


Claim = Take | Lease
Release = Give | Free


class Notice(Struct, frozen=True, gc=False):
    """Something worth an event. With *count* it is counted, and the *alert*-th in its window is worth an
    alert besides; what `before` notes has none."""

    kind: Literal["alert", "quarantined", "breaker"]
    message: str
    count: Take | None = None
    alert: int | None = None


class Tally(Protocol):
    """A rule over counters that many workers share; the store executes them itself, so they are exact.

    The window of a counter belongs into its key, and so does the zone that it has an offset of: one counter
    has windows of one length and one beginning at any time. Some more members
    are optional. `overdue(call, taken_at, now) -> str | None` says of a call that is over whether it held
    what it took for too long. `unplaced(call) -> tuple[str, ...]` says which limits cannot be applied
    because it is not known whose call this is, and what to do about it. `amount(claim, count) -> int |
    Decimal` is a count as it is shown, where that is not the count. `priced`: True when it has to be known
    what calls cost.
    """

    name: ClassVar[str]
    kinds: ClassVar[frozenset[Kind]]
    enforce: bool

    def takes(self, call: Call) -> tuple[Claim, ...]:
        """What this call takes; all of a decision's claims are granted together, or none."""
        ...

    def stop(self, call: Call, claim: Claim, observed: int, now: float) -> Stop:
        """The stop for a claim that was not granted; *observed* would have been counted."""
        ...

    def alert_at(self, call: Call, claim: Claim) -> int | None:
        """The count whose grant is worth one alert; None: none is."""
        ...

    def budget(self, call: Call, claim: Claim) -> tuple[str, int | None]:
        """The name and the limit of what the claim takes from, as they are shown."""
        ...

    def settle(self, call: Call, outcome: Outcome, taken_at: float) -> tuple[Release | Take, ...]:
        """What goes back, of what was taken at *taken_at*, once the outcome is known; and what is taken
        besides, without a limit, as long as the window of *taken_at* lasts."""
        ...


class Plan(Struct, Generic[T], frozen=True, gc=False):
    """What a pure step wants done. States are written at the index of their key; None forgets it.

    When a claim is refused, nothing of *writes* happens: `otherwise(i)` says what is written instead
    when claim *i* was the one. It depends on nothing but *i*, so a store may ask ahead.
    """

    value: T
    writes: Sequence[tuple[int, Any]] = ()
    claims: Sequence[Claim] = ()
    releases: Sequence[Release] = ()
    otherwise: Callable[[int], Sequence[tuple[int, Any]]] | None = None

    def written(self, refused: int | None) -> Sequence[tuple[int, Any]]:
        """What is written where the claim of that index was refused; None: every claim was granted."""
        if refused is None:
            return self.writes
        return () if self.otherwise is None else self.otherwise(refused)


class Answer(Struct, frozen=True, gc=False):
    """What the store did: which claim it refused (None: none), and each counter after, or as it stands."""

    refused: int | None
    observed: tuple[int, ...]
    standby: Literal["open", "last-known"] | None = None
    """Set when the store could not be reached and this process answered from what it knew."""


Step = Callable[[Sequence[Any]], Plan[T]]
"""From the records (None: absent) to a plan. It may run many times for one decision: pure is not a wish."""


class Store(Protocol):
    """Where records live. One `update` is one transaction and one round trip.

    What goes wrong with the store itself it raises as `lastcall.stores.StoreError`. Three more members
    are optional, for stores outside the process: `learn(types)` is told the type of each rule's record;
    `shared` is True where several processes see the same records; `clock()` gives the store's own time
    in epoch seconds, which a guard without a clock of its own goes by.
    """

    def update(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """Read *keys*, run *step*, do what it plans, all or nothing."""
        ...

    async def aupdate(self, keys: Sequence[Key], step: Step[T], now: float) -> tuple[T, Answer]:
        """The same without blocking the event loop."""
        ...

    def peek(self, shard: Shard, now: float) -> dict[Key, Any]:
        """Every record of a shard for snapshots, counters included: `(number of the window, count)`, or
        for leases `{holder: until}`."""
        ...

    def load(self, records: dict[Key, Any], now: float) -> None:
        """Put back what `peek` gave."""
        ...

    def drop(self, shard: Shard) -> None:
        """Forget a shard: its run is finished."""
        ...

    def shards(self, kind: str, now: float) -> list[Shard]:
        """The shards of *kind* that hold something."""
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...

    async def aclose(self) -> None:
        """The same from an event loop."""
        ...


class Witness(Protocol):
    """A listener that is also shown the calls and outcomes themselves: arguments and results, as they are.
    Requests to the model are among them, and writes that are answered by their first result. What it raises is logged and breaks nothing.

    What it keeps with a call when that is decided (`Call.mark`) it finds there when the call is settled."""

    def decided(self, call: Call, stops: Sequence[Stop], now: float) -> None:
        """*call* was allowed, or refused by *stops*."""
        ...

    def settled(self, call: Call, outcome: Outcome, stops: Sequence[Stop], now: float) -> None:
        """*call* came to *outcome*, which led to *stops*."""
        ...


class Listener(Protocol):
    """Told of every event. What it raises is logged and breaks nothing."""

    def __call__(self, event: Event, /) -> None:
        """Hear of *event*."""
        ...


class Scope(Protocol):
    """What a framework knows of a call that its own adapter did not see coming: one made by hand, or by
    a decorated function, somewhere inside a run.

    Found by entry point in the group `lastcall.scopes`, whose name is the framework's import name: it
    is loaded only once that framework is.
    """

    def find(self, guard: Any) -> Where | None:
        """Where a call made now belongs; None when it is in no run of that framework."""
        ...

    def ready(self, guard: Any) -> Awaitable[object] | None:
        """What to wait for in an event loop before `find` is asked, which else would have to ask the store
        of *guard*; None when there is nothing."""
        return None

    def covers(self, guard: Any, tool: str) -> bool:
        """Whether the adapter itself already guards, with *guard*, the call of *tool* in whose body
        this is asked; it is not counted again then."""
        return False

    def body(self, guard: Any) -> Body | None:
        """The body of a call in which this is asked, where the adapter judged it for *guard* at a seam that
        only listens; others mark it by `guard.bodies.enter`."""
        return None

    def caller(self) -> Any:
        """What tells the place where a tool was called from others, asked in its body."""
        return None

    def asked(self, call: Call) -> Call:
        """*call* with the id and the reply that the framework knows of it."""
        return call

    def raised(self, error: BaseException) -> Outcome | None:
        """The outcome of an exception that is the framework's own control flow; None for others."""
        return None

    def shown(self, value: Any) -> Any:
        """The part of a result that the model sees, in which equal results are equal."""
        return value

    def stopped(self, stop: Stop) -> Stopped:
        """The exception for *stop* that the framework knows best how to answer a call with."""
        return Stopped(stop)
