"""The guard: the one object that every tool call passes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, overload
from uuid import uuid4

from msgspec.structs import replace

import lastcall
from lastcall import status
from lastcall.attempts import Attempts
from lastcall.bodies import ALONE, Bodies
from lastcall.call import Call, Kind, Outcome, Where, as_text, in_text
from lastcall.closed import closed
from lastcall.conclusions import Conclusions
from lastcall.contracts import Answer, Clock, Key, Shard, Step, Store
from lastcall.errand import Errands
from lastcall.events import Event, log
from lastcall.faults import Faults
from lastcall.flights import Flights, joins, landed, landing
from lastcall.fold import Decided, deciding, observing, raised_by, raising
from lastcall.idempotency import keyed
from lastcall.known import KnownTools
from lastcall.lasting import Settlements
from lastcall.lineup import Lineup, keys_of
from lastcall.money import Amount, money
from lastcall.pauses import Pauses
from lastcall.person import Person
from lastcall.policy import Policy
from lastcall.prices import UnknownPriceError, cost_of
from lastcall.reconcile import reconciling
from lastcall.reporter import Reporter
from lastcall.rounds import Rounds
from lastcall.scope import HERE, Scopes
from lastcall.snapshot import PAUSED, decoded, encoded
from lastcall.stop import Stop, Stopped
from lastcall.stores.memory import MemoryStore
from lastcall.stores.opening import open_store
from lastcall.stores.standby import Standby
from lastcall.switch import Switch
from lastcall.tool import PLAIN, ToolPolicy
from lastcall.verdict import Ticket, Verdict
from lastcall.wire import Wire
from lastcall.words import answered, words
from lastcall.wrapping import Calling, wrapped

if TYPE_CHECKING:
    from lastcall.retrying import Retries

P = ParamSpec("P")
R = TypeVar("R")

AT_ONCE: AbstractContextManager[None] = nullcontext()


class UnscopedError(LookupError):
    """A call outside any run, under `Policy(on_unscoped="error")`."""


class Guard:
    """Decides about tool calls and learns from their outcomes. One object serves any number of agents,
    runs, threads and event loops at once; copies of it are the same guard.

    *store* keeps the counts: an object, or the URL of one (`sqlite:///...`, `redis://...`; default: memory
    of this process). *clock* gives epoch seconds (default: the store's own, where it has one, else the
    machine's). *overrides* may give another policy for those who call. *listeners* are told of every
    event. *scope* finds out where a call is made, before the frameworks are asked. *words* makes the text
    that the model reads of a stop.

    *fingerprint_key*: a secret of at least 16 bytes, under which events, the log and traces tell fingerprints,
    and the idempotency keys of writes, by their HMAC, so that nobody who reads them can try out which arguments
    were meant. Reports, stores and what the run itself is given have them as they are. Raises TypeError or
    ValueError for anything else.

    *switch* is the kill switch, the path of its file or the URL of its store; it is read before any rule
    is asked. None: the one in *store*, where other processes share that; how long it serves while it cannot
    be read is then the policy's word about the store (`on_store`). False: none.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        store: Store | str | None = None,
        switch: Switch | str | Path | Literal[False] | None = None,
        clock: Clock | None = None,
        overrides: Callable[[Where], Policy | None] | None = None,
        listeners: Iterable[Callable[[Event], None]] = (),
        scope: Callable[[], Where | None] | None = None,
        words: Callable[[Stop], str] = words,
        fingerprint_key: bytes | None = None,
    ) -> None:
        if not isinstance(policy, Policy | None):
            raise TypeError(
                f"the policy must be a Policy, not {policy!r}; Policy.preset('strict') makes one by name"
            )
        self.policy = Policy() if policy is None else policy
        self._overrides = overrides
        if isinstance(store, str):
            store = open_store(store)
        self.store: Store = MemoryStore() if store is None else store
        self.clock: Clock = clock or getattr(self.store, "clock", None) or time.time
        # A store's own clock follows the machine's, which may be set back.
        steady = time.monotonic if clock is None or clock is time.time else clock
        self._shared_switch = switch is None and self._shared
        if self._shared_switch:
            switch = Switch(self.store, clock=self.clock, monotonic=steady)
        elif isinstance(switch, str | Path):
            switch = Switch(switch, clock=self.clock, monotonic=steady)
        self.switch: Switch | None = switch or None
        """The kill switch; None without one."""
        self._reporter = Reporter(self.clock, listeners, words, fingerprint_key)
        self._scopes = Scopes(self, scope)
        self._known = KnownTools(lambda: self.store)
        self._declared: dict[str, ToolPolicy] = {}
        self.bodies = Bodies(self._scopes, lambda: self.policy, self.clock)
        """The bodies of guarded calls that run here, for the seams of adapters."""
        self._warned = False
        self._rounds = Rounds()
        self._faults = Faults(self._own, lambda: self.switch, self._rounds, self._reporter)
        self._conclusions = Conclusions(self.clock, self._reporter)
        self._flights = Flights()
        self._settlements = Settlements(self.aobserve, self._observed, self._faults.unobserved)
        self._errands = Errands(lambda: self._records, self.clock, self._reporter)
        self.person = Person(self._errands, self._reporter, self._lineup, self._faults.undecided)
        """What a person says instead of a stop, for adapters that ask one."""
        self.pauses = Pauses(self._errands)
        """Runs that wait in a thread, for adapters."""
        self.wire = Wire(lambda: self._records, self.clock, self._reporter, self._faults.undecided)
        """Single requests in the body of a call, for transports."""
        self._remote = not isinstance(self.store, MemoryStore)
        self.attempts = Attempts(self._scopes, self.clock, self._reporter, remote=self._remote)
        """Attempts of one call, for who retries it."""
        # Who is shown calls is shown them in the order in which the store was asked.
        self._in_order: AbstractContextManager[Any] = RLock() if self._reporter.shows else AT_ONCE
        # Memory answers an event loop without a pause; nothing else may be waited for with a lock held.
        self._in_order_here = AT_ONCE if self._remote else self._in_order
        self._standby: Standby | None = None
        self._adopt()
        self._scopes.prepare()

    # Deciding and observing; the twins differ in `await` alone.

    def decide(self, call: Call, declared: ToolPolicy = PLAIN, *, wait: bool = False) -> Verdict:
        """Whether *call* may be made. *declared* is what its maker said of the tool. *wait*: a write with
        `on_repeat = "replay"` waits for an equal one that runs in this process, to be answered by what that
        brings; for who goes on to the body at once.

        A verdict with a ticket must be settled by `observe`, once, whatever happens to the call. Raises
        UnscopedError for a call outside any run under `on_unscoped="error"`, and nothing else.
        """
        try:
            ticket = self._asked(call, declared)
            call = ticket.call
            if not joins(ticket):
                return self._judged(ticket)
            self._flights.board(ticket, self.clock, wait=wait and not self._runs(call))
            with landing(ticket) as decided:
                return decided(self._judged(ticket))
        except UnscopedError:
            raise
        except Exception as fault:
            return self._faults.undecided(call, fault)

    async def adecide(
        self, call: Call, declared: ToolPolicy = PLAIN, *, wait: bool = False
    ) -> Verdict:
        """`decide` for an event loop."""
        try:
            if self._remote and call.where.run is None:
                await self._scopes.ready()
            ticket = self._asked(call, declared)
            call = ticket.call
            if not joins(ticket):
                return await self._ajudged(ticket)
            await self._flights.aboard(ticket, self.clock, wait=wait and not self._runs(call))
            with landing(ticket) as decided:
                return decided(await self._ajudged(ticket))
        except UnscopedError:
            raise
        except Exception as fault:
            return self._faults.undecided(call, fault)

    def observe(self, ticket: Ticket, outcome: Outcome) -> Verdict:
        """Settle *ticket* by *outcome*; the verdict carries a stop when the answer is one. A second
        time it does nothing. Raises nothing."""
        if ticket.settled:
            return Verdict(ticket.call)
        ticket.settled = True
        try:
            outcome = self._priced(ticket, outcome)
            now, step = self._settling(ticket, outcome)
            with self._in_order:
                decided, answer = self._kept(ticket).update(ticket.keys, step, now)
                return self._observed(ticket, outcome, decided, answer)
        except Exception as fault:
            return self._faults.unobserved(ticket, fault)
        finally:
            landed(ticket)

    async def aobserve(self, ticket: Ticket, outcome: Outcome) -> Verdict:
        """`observe` for an event loop."""
        if ticket.settled:
            return Verdict(ticket.call)
        ticket.settled = True
        try:
            outcome = self._priced(ticket, outcome)
            now, step = self._settling(ticket, outcome)
            update = self._kept(ticket).aupdate(ticket.keys, step, now)
            if self._shared:
                update = self._settlements.settled(ticket, outcome, update)
            with self._in_order_here:
                decided, answer = await update
                return self._observed(ticket, outcome, decided, answer)
        except Exception as fault:
            return self._faults.unobserved(ticket, fault)
        finally:
            landed(ticket)

    def returned(
        self,
        ticket: Ticket,
        value: object,
        *,
        failed: bool | None = None,
        status_code: int | None = None,
    ) -> Outcome:
        """The outcome of a call that returned *value*, read by the policy of its tool. *failed* and
        *status_code* are what is known beside the value."""
        policy = ticket.policy or self.policy
        outcome = status.returned(
            value,
            ticket.call.policy,
            failed=failed,
            status=status_code,
            terminal=policy.terminal_statuses,
            statuses=policy.statuses,
        )
        return self.bodies.seen(ticket, outcome)

    def raised(self, ticket: Ticket, error: BaseException) -> Outcome:
        """The outcome of a call that raised *error*."""
        policy = ticket.policy or self.policy
        outcome = self._scopes.raised(error) or status.raised(
            error,
            ticket.call.policy,
            terminal=policy.terminal_statuses,
            statuses=policy.statuses,
        )
        return self.bodies.seen(ticket, outcome)

    # For people.

    def calling(self, tool: str, args: Any = None, **call: Any) -> Calling:
        """Guard one call of a hand-made loop, with `with` or `async with`:

        `with guard.calling("search", {"q": "x"}) as call: call.result(search(q="x"))`

        Raises Stopped before the body when the call is refused, and after it when its answer is a stop.
        *call* takes the fields of `Call`: `id`, `reply`, `size`, `where`, `server`.
        """
        return Calling(self, Call(tool, args, **call))

    acalling = calling
    """The same under the name that an `async with` would look for."""

    @overload
    def wrap(self, fn: Callable[P, R], /, **tool: Any) -> Callable[P, R]: ...
    @overload
    def wrap(self, /, **tool: Any) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def wrap(self, fn: Callable[..., Any] | None = None, /, **tool: Any) -> Any:
        """Guard a function: `@guard.wrap` or `@guard.wrap(reads=True, volatile=["since"])`.

        Takes `def`, `async def` and callable objects; name, signature, docstring and annotations stay.
        *tool* are the fields of `ToolPolicy`, and `name` for the tool's own. A refused call raises
        Stopped before the body, a final answer after it. Raises TypeError for generators.
        """
        self._scopes.prepare()
        if fn is None:
            return partial(wrapped, self, **tool)
        return wrapped(self, fn, **tool)

    def spent(self, cost: Decimal | int | str) -> bool:
        """Say, in the body of a guarded tool, what the call really costs (several times: together), in the
        currency of the policy. It counts instead of what is declared of the tool. False, and nothing
        else, outside a guarded call. Raises ValueError for a float."""
        exact = money(cost)
        body = self.bodies.innermost()
        if body is not None:
            body.costs.append(exact)
        return body is not None

    def retrying(self, **settings: Any) -> Retries:
        """Guard functions and retry what fails in passing: `@guard.retrying(attempts=3, deadline=20.0)`.

        Each further attempt passes the guard as a call of the kind "attempt", and spends. *settings* are
        those of `lastcall.retrying.Retries`: `attempts`, `deadline` and `longest` (seconds), `budget`,
        `wait`, `repeatable`, `alert`, and the fields of `ToolPolicy` with `name`, as for `wrap`.
        """
        # tenacity takes longer to import than all of this.
        from lastcall.retrying import Retries  # noqa: PLC0415

        self._scopes.prepare()
        return Retries(self, **settings)

    def declare(self, tool: str, declared: ToolPolicy) -> None:
        """Keep what the maker of *tool* said of it, for seams that see nothing but its name. Two makers of
        one name who say different things have said nothing."""
        same = self._declared.setdefault(tool, declared) == declared
        self._declared[tool] = declared if same else PLAIN

    def declared(self, tool: str) -> ToolPolicy:
        """What the maker of *tool* said of it."""
        return self._declared.get(tool, PLAIN)

    def within(self, **where: Any) -> AbstractContextManager[Where]:
        """Say who calls: `with guard.within(run=..., turn=..., user=..., agent=..., thread=...)`. What is
        not said comes from the framework inside, or the block itself is the run. Leaving the outermost
        scope of a run finishes it and drops its records."""
        return self._scopes.within(**where)

    def here(self) -> Where | None:
        """Where a call made now would belong; None outside any run."""
        placed = self._scopes.place(HERE)
        return None if placed is None else placed.where

    # Behind a door, which opens for who asks for the types of a method to make a tool or an endpoint of it.
    def report(self, run: str) -> lastcall.Incident | None:
        """The incident of *run*: stops, attempts, results and totals. Kept for the newest 64 finished
        runs; None when nothing is known."""
        return self._reporter.incident(str(run))

    def finish(self, run: str) -> None:
        """Forget the counts of *run*; its report stays."""
        run = str(run)
        self._rounds.decided(run)
        if self._standby is not None:
            self._standby.forget(("run", run))
        try:
            self.store.drop(("run", run))
        except Exception as fault:
            # Nobody's run is broken by what expires by itself.
            self._reporter.failed(
                "the counts of a run that is over could not be dropped", fault, run=run
            )
        self.person.paid(run)
        self._reporter.finished(run)

    def snapshot(self, run: str | None = None, *, thread: str | None = None) -> bytes:
        """The counts of *run*, or of *thread* with the run that is paused in it, as bytes, to go on with
        in another process."""
        now = self.clock()
        shards: list[Shard] = [] if run is None else [("run", run)]
        records: dict[Key, Any] = {}
        if thread is not None:
            records = self.store.peek(("thread", thread), now)
            shards += [("run", at.run) for key, at in records.items() if key[1] == PAUSED]
        for shard in shards:
            records |= self.store.peek(shard, now)
        return encoded(records)

    def restore(self, snapshot: bytes) -> None:
        """Put back what `snapshot` gave. Raises ValueError for anything else."""
        self.store.load(decoded(snapshot, self.policy.rules), self.clock())

    def raise_limit(self, run: str, by: Amount, *, budget: str = "calls") -> None:
        """Let *run* spend *by* more of *budget*: `calls`, `calls:TOOL` for one tool, or the name of a limit
        of `Budget` (`calls/hour/agent`), in this run alone. What was ended because this budget was spent
        goes on. Of money *by* is an amount. Raises ValueError when *by* is no positive number."""
        more = raised_by(budget, by)
        run = str(run)
        step = partial(raising, budget, more)
        self._records.update([(("run", run), "turn")], step, self.clock())
        self._reporter.raised(run, budget, by)

    def reconcile(
        self, key: str, *, happened: bool, result: Any = None, tenant: str | None = None
    ) -> bool:
        """Say what became of the write under *key* (`Stop.key`), of which nobody knew: it *happened*, and
        brought *result*, by which a repeat is answered; or it did not, and may be made. False where no such
        write waits for that word. Raises ValueError for a result that is no JSON, and StoreError."""
        now = self.clock()
        keys, step = reconciling(key, tenant, now, happened=happened, result=result)
        return self.store.update(keys, step, now)[0]

    async def areconcile(
        self, key: str, *, happened: bool, result: Any = None, tenant: str | None = None
    ) -> bool:
        """`reconcile` for an event loop."""
        now = self.clock()
        keys, step = reconciling(key, tenant, now, happened=happened, result=result)
        return (await self.store.aupdate(keys, step, now))[0]

    def reload(self, policy: Policy | Path) -> None:
        """Go on by *policy*, or by the one in that TOML file. Counts stay; calls that are under way are
        settled by the policy that granted them. Raises PolicyError or OSError for a file that cannot be
        read, and goes on by the old one then."""
        adopted = Policy.from_toml(policy) if isinstance(policy, Path) else policy
        if not isinstance(adopted, Policy):
            raise TypeError(f"the policy must be a Policy or the Path of one, not {policy!r}")
        before, self.policy = self.policy, adopted
        self._adopt()
        self._reporter.reloaded(before.version, adopted.version)

    def close(self) -> None:
        """Close the store."""
        self.store.close()
        if self.switch is not None:
            self.switch.close()

    async def aclose(self) -> None:
        """Close the store from an event loop."""
        await self.store.aclose()
        if self.switch is not None:
            await self.switch.aclose()

    # For adapters.

    def warned(self, call: Call, message: str) -> None:
        """Say *message* about *call* as an alert, when it is the first time."""
        self._conclusions.once(call, message)

    def caller(self) -> Any:
        """The place in a framework's run where a tool was called, asked in its body."""
        return self._scopes.caller()

    def shown(self, value: Any) -> Any:
        """What the model sees of *value*, in a framework's run."""
        return self._scopes.shown(value)

    def stopped(self, stop: Stop) -> Stopped:
        """The exception for *stop* here: in a framework's run one that it knows how to answer with."""
        return self._scopes.stopped(stop)

    def hidden(self, stop: Stop) -> Stop:
        """*stop* for eyes outside the run, such as a tracer's: under `fingerprint_key` its fingerprint and key
        are told as in events."""
        return self._reporter.hidden(stop)

    def closed(self, run: str | None) -> dict[str, str]:
        """The tools that no call in the present turn of *run* may use any more, each with the reason;
        none while the store cannot be asked."""
        return self._errands.done(closed(run))

    async def aclosed(self, run: str | None) -> dict[str, str]:
        """`closed` for an event loop."""
        return await self._errands.adone(closed(run))

    def flying(self, call: Call, declared: ToolPolicy = PLAIN) -> bool:
        """Whether *call* is a write, and an equal one that it may be answered by runs in this process."""
        return bool(self._flights) and self._asked(call, declared) in self._flights

    def unreplayed(self, verdict: Verdict) -> Verdict:
        """The refusal of a write that was made before, for who cannot hand over what it brought then."""
        call, replay = verdict.call, verdict.replay
        if replay is None:
            return verdict
        said = answered(replay.kept)
        stop = Stop.of(call, "done", "call", self.clock(), rule="writes", key=call.key, detail=said)
        return self._reporter.refused(call, (stop,))

    async def akilled(self, ticket: Ticket) -> Stop | None:
        """Ask the kill switch once more about a call that waited since it was granted, for a person
        perhaps, now that its body begins. The stop, when it is not to begin; *ticket* is settled then."""
        killed = None if self.switch is None else await self.switch.acheck(ticket.call)
        if killed is None or not ticket.lineup.enforce:
            return None
        await self.aobserve(ticket, Outcome("cancelled", started=False))
        return self._killed(ticket.call, killed).stop

    def note(self, call: Call, outcome: Outcome) -> None:
        """Note what came of a request to a model that was let through beside the rules. It asks no store."""
        try:
            placed = self._scopes.place(call)
            if placed is not None:
                self._reporter.observed(Ticket(placed), outcome)
        except Exception as fault:
            self._reporter.fault(call, fault)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Frameworks copy tools and middleware; a copy with counters of its own would be no guard.
        return self

    # How.

    def _judged(self, ticket: Ticket) -> Verdict:
        """The verdict on the call of *ticket*."""
        call = ticket.call
        killed = None if self.switch is None else self.switch.check(call)
        if killed is not None and ticket.lineup.enforce:
            return self._killed(call, killed)
        if self.person.owed:
            self.person.pay(call.where.run)
        step = partial(deciding, call, ticket.lineup, ticket.time)
        with self._in_order:
            decided, answer = self._records.update(ticket.keys, step, ticket.time)
            return self._decided(ticket, decided, answer, killed)

    async def _ajudged(self, ticket: Ticket) -> Verdict:
        """`_judged` for an event loop."""
        call = ticket.call
        killed = None if self.switch is None else await self.switch.acheck(call)
        if killed is not None and ticket.lineup.enforce:
            return self._killed(call, killed)
        if self.person.owed:
            await self.person.apay(call.where.run)
        step = partial(deciding, call, ticket.lineup, ticket.time)
        with self._in_order_here:
            update = self._records.aupdate(ticket.keys, step, ticket.time)
            if self._shared:
                update = self._settlements.decided(ticket, update)
            decided, answer = await update
            return self._decided(ticket, decided, answer, killed)

    def _runs(self, call: Call) -> bool:
        """Whether this is inside the body of a call of the same tool, or of a write that others wait for:
        who is waited for does not wait, so that no two wait for each other."""
        return any(
            body.tool == call.name or (body.ticket is not None and body.ticket.flight is not None)
            for body in self.bodies.all()
            if not body.over
        )

    def _asked(self, call: Call, declared: ToolPolicy) -> Ticket:
        """What is needed to decide about *call*: a ticket, should it be granted."""
        call = self._scopes.place(call) or self._alone(call)
        # By the same names as in the store and in the kill switch, which are text.
        where = in_text(call.where)
        known = self._known.tool(call.name, declared, self._policy(where))
        key, params = keyed(call, where, known.policy) if known.policy.writes else (None, "")
        asked = call
        call = replace(
            asked,
            where=where,
            id=as_text(call.id),
            reply=as_text(call.reply),
            policy=known.policy,
            version=known.by.version,
            key=key,
            params=params,
        )
        if asked.lived is not None and asked.lived == known.policy.volatile:
            # Worked out when it was recorded, from arguments that may have been redacted since.
            vars(call).update(vars(asked))
        lineup = self._known.lineup(known, call.kind)
        if lineup.near:
            # Worked out here, since arguments may hold objects that run code of their own when looked
            # at, and inside its step a store is locked.
            _ = call.near
        return Ticket(call, keys_of(call, lineup), lineup, self.clock(), policy=known.by)

    def _lineup(self, call: Call) -> Lineup:
        """The rules that look at *call* when it is asked about again."""
        kind: Kind = "tool" if call.kind == "attempt" else call.kind
        known = self._known.tool(call.name, call.policy, self._policy(call.where))
        return self._known.lineup(known, kind)

    def _policy(self, where: Where) -> Policy:
        """The policy for those who call: their own, or everybody's."""
        return (self._overrides and self._overrides(where)) or self.policy

    def _own(self, where: Where) -> Policy:
        """The same, when deciding failed, and *overrides* may be what did."""
        own: Any = None
        with suppress(Exception):
            own = self._policy(where)
        return own if isinstance(own, Policy) else self.policy

    def _adopt(self) -> None:
        """Go by `policy` from now on."""
        self._known.learn(self.policy)
        if isinstance(self.store, MemoryStore):
            alone = [rule.name for rule in self.policy.rules if getattr(rule, "lasting", False)]
            if alone:
                log.info(
                    "%s: counted in this process alone; several share them by Guard(store=...)",
                    ", ".join(alone),
                )
        mode = self.policy.on_store
        if self._shared_switch and self.switch is not None:
            # Nobody asked for it by name, so it makes nothing closed that the policy wants open.
            known_for = math.inf if mode == "open" else self.policy.max_staleness
            self.switch.max_staleness = max(known_for, self.switch.ttl)
        if mode == "closed" or isinstance(self.store, MemoryStore):
            self._standby = None
        elif self._standby is None:
            self._standby = Standby(self.store, mode, self.policy.max_staleness)
        else:
            self._standby.mode, self._standby.max_staleness = mode, self.policy.max_staleness

    @property
    def _shared(self) -> bool:
        """Whether other processes have the same store."""
        return getattr(self.store, "shared", False)

    @property
    def _records(self) -> Store | Standby:
        """Where decisions are made."""
        return self._standby or self.store

    def _kept(self, ticket: Ticket) -> Store | Standby:
        """Where *ticket* was granted."""
        if ticket.standby and self._standby is not None:
            return self._standby.here
        return self._records

    def _alone(self, call: Call) -> Call:
        cure = (
            f"{call.tool!r} was called outside any run, so nothing adds up; open one with"
            " `with guard.within(run=...)`"
        )
        if self.policy.on_unscoped == "error":
            raise UnscopedError(cure)
        if not self._warned:
            self._warned = True
            log.warning("%s. Until then each such call is a run of its own", cure)
        run = ALONE + uuid4().hex
        return replace(call, where=replace(call.where, run=run, turn=run))

    def _killed(self, call: Call, stop: Stop) -> Verdict:
        """Stopped from outside: no rule is asked and nothing is counted."""
        return self._left(self._reporter.refused(call, (stop,)))

    def _decided(
        self, ticket: Ticket, decided: Decided, answer: Answer, killed: Stop | None = None
    ) -> Verdict:
        self._rounds.decided(decided.call.where.run)
        verdict = self._conclusions.decided(ticket, decided, answer, killed)
        return self._left(verdict) if verdict.ticket is None else verdict

    def _priced(self, ticket: Ticket, outcome: Outcome) -> Outcome:
        """*outcome* with what it cost, where a limit of money wants to know."""
        if not ticket.lineup.priced or outcome.cost is not None:
            return outcome
        policy = ticket.policy or self.policy
        message = "a request to the model brought no usage, so what it cost is not known"
        try:
            cost = cost_of(ticket.call, outcome, policy.prices)
        except UnknownPriceError as error:
            cost, message = None, str(error)
        if cost is not None:
            return replace(outcome, cost=cost)
        if ticket.call.kind == "model" and outcome.kind == "ok":
            self._conclusions.once(ticket.call, message)
        return outcome

    def _settling(self, ticket: Ticket, outcome: Outcome) -> tuple[float, Step[Decided]]:
        if outcome.known:
            # Here, and not inside the step: see `_asked`.
            _ = outcome.digest
        now = self.clock()
        return now, partial(observing, ticket, ticket.lineup, outcome, now)

    def _observed(
        self, ticket: Ticket, outcome: Outcome, decided: Decided, answer: Answer
    ) -> Verdict:
        return self._left(self._conclusions.observed(ticket, outcome, decided, answer))

    def _left(self, verdict: Verdict) -> Verdict:
        """A call outside any run is over: so is its run."""
        run = verdict.call.where.run
        if run is not None and run.startswith(ALONE) and run not in self.bodies.held:
            self.finish(run)
        return verdict
