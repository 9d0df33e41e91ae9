"""Makes known what was decided: a full stop for the caller, notes for the report, events for listeners."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from lastcall.call import Call, FirstResult, Outcome, Where
from lastcall.contracts import Clock
from lastcall.events import Announcer, Event, Witnesses, log
from lastcall.money import Amount
from lastcall.report import Ledger
from lastcall.stop import Gathered, Stop, legible
from lastcall.stores.trouble import StoreError
from lastcall.verdict import Ticket, Verdict
from lastcall.words import answered, words

if TYPE_CHECKING:
    from lastcall.incident import Incident

NOTHING: Mapping[str, Amount] = {}


class Reporter:
    """The one place where the guard speaks. Nothing it does can refuse or allow a call."""

    def __init__(
        self,
        clock: Clock,
        listeners: Iterable[Callable[[Event], None]],
        text: Callable[[Stop], str],
        fingerprint_key: bytes | None = None,
    ) -> None:
        self._clock = clock
        listeners = tuple(listeners)
        self._announce = Announcer(listeners, fingerprint_key)
        self._witnesses = Witnesses(listeners)
        self.shows = bool(self._witnesses)
        """Whether somebody is shown the calls themselves."""
        self._text = text
        self._ledger = Ledger()

    def refused(
        self,
        call: Call,
        stops: Sequence[Stop],
        shadow: tuple[Stop, ...] = (),
        remaining: Mapping[str, Amount] = NOTHING,
        standby: Any = None,
    ) -> Verdict:
        """*call* was refused by the first of *stops*, which led to the others."""
        notes = self._ledger.notes(call)
        notes.refused(call)
        gathered = notes.results()
        full = tuple(self.full(stop, remaining, gathered) for stop in stops)
        for stop in full:
            brief = briefly(stop)
            notes.stopped(brief)
            self._stop("refused", call, brief, standby)
        self.shadowed(call, shadow)
        if self.shows:
            self._witnesses.decided(call, full, self._now())
        return Verdict(call, None, full[0], full[1:], shadow)

    def ended(self, call: Call, stop: Stop) -> Stop:
        """A person ended the run by *stop*, or a call was given up for it."""
        notes = self._ledger.noted(call)
        full = self.full(stop, stop.remaining, stop.gathered)
        notes.stopped(briefly(full))
        self._stop("stop", call, briefly(full))
        return full

    def observed(
        self,
        ticket: Ticket,
        outcome: Outcome,
        stops: Sequence[Stop] = (),
        shadow: tuple[Stop, ...] = (),
    ) -> Verdict:
        """The call of *ticket* came to *outcome*, and that led to *stops*."""
        call = ticket.call
        notes = self._ledger.noted(call)
        if getattr(ticket.lineup, "priced", False):
            notes.cost(call, outcome)
        if call.kind == "model":
            notes.answered(outcome)
        else:
            notes.observed(call, outcome)
            if self._announce.hears("attempt"):
                self._say(
                    "attempt",
                    call,
                    outcome=outcome.kind,
                    status=outcome.status,
                    verdict="stopped" if stops else "allowed",
                    remaining=ticket.remaining,
                    standby=ticket.standby,
                )
        if self.shows:
            self._witnesses.settled(call, outcome, stops, self._now())
        if not stops and not shadow:
            return Verdict(call)
        gathered = notes.results() if stops else ()
        full = tuple(self.full(stop, ticket.remaining, gathered) for stop in stops)
        for stop in full:
            brief = briefly(stop)
            notes.stopped(brief)
            self._stop("stop", call, brief)
        self.shadowed(call, shadow)
        return Verdict(call, None, full[0] if full else None, full[1:], shadow)

    def replayed(self, call: Call, replay: FirstResult, standby: Any = None) -> None:
        """*call*, a write, was answered by what it brought when it was made."""
        self._ledger.notes(call)
        made = "" if replay.run is None else f" in run {legible(replay.run)}"
        self._say("replayed", call, message=f"answered by its first result{made}", standby=standby)
        if self.shows:
            now = self._now()
            self._witnesses.decided(call, (), now)
            answer = Outcome(content=replay.result, kept=replay.kept)
            self._witnesses.settled(call, answer, (), now)

    def granted(self, call: Call, shadow: tuple[Stop, ...]) -> None:
        """*call* may be made, though rules which do not enforce would have made stops of it."""
        self._ledger.notes(call)
        if shadow:
            self.shadowed(call, shadow)
        if self.shows:
            self._witnesses.decided(call, (), self._now())

    def shadowed(self, call: Call, stops: Sequence[Stop]) -> None:
        """Rules that do not enforce would have made *stops*."""
        for stop in stops:
            self._ledger.noted(call).shadow.append(stop)
            self._stop("shadow", call, stop)

    def alert(self, call: Call, budget: str, limit: Amount | None, observed: Amount) -> None:
        """A threshold was reached."""
        message = f"{budget}: {observed} of {'any number' if limit is None else limit}"
        self.noticed(call, "alert", message, limit, observed)

    def noticed(
        self,
        call: Call,
        kind: Literal["alert", "quarantined", "breaker", "retry", "replayed"],
        message: str,
        limit: Amount | None = None,
        observed: Amount | None = None,
    ) -> None:
        """Something about *call* is worth an event; an alert is kept for the report, too."""
        if kind == "alert":
            self._ledger.noted(call).alerts.append(message)
        self._say(kind, call, message=message, limit=limit, observed=observed)

    def fault(self, call: Call, fault: Exception) -> None:
        """The guard itself failed on *call*."""
        if isinstance(fault, StoreError):
            # Where in our code is of no use to anybody; the store is elsewhere.
            log.error("nothing could be decided about %r: %s", call.name, fault)
        else:
            log.error("the guard failed on %r", call.name, exc_info=fault)
        self._ledger.noted(call).faults.append(f"{type(fault).__name__}: {fault}")
        # What an exception says may quote an argument; an event holds none.
        self._say("fault", call, message=type(fault).__name__)

    def failed(
        self, so: str, fault: Exception, *, run: str | None = None, thread: str | None = None
    ) -> None:
        """The guard failed beside decisions, and *so* it is now."""
        if isinstance(fault, StoreError):
            log.error("%s: %s", so, fault)
        else:
            log.error("%s", so, exc_info=fault)
        if run is not None:
            about = Call("", where=Where(run=run))
            self._ledger.noted(about).faults.append(f"{type(fault).__name__}: {fault}")
        self._announce(
            Event("fault", self._now(), run=run, thread=thread, message=type(fault).__name__)
        )

    def raised(self, run: str, budget: str, by: Amount) -> None:
        """A person let *run* spend *by* more of *budget*."""
        self._announce(Event("raised", self._now(), run=run, message=f"{budget} +{by}"))

    def reloaded(self, before: str, now: str) -> None:
        """Another policy counts from now on."""
        self._announce(Event("policy", self._now(), policy=now, message=f"instead of {before}"))

    def finished(self, run: str) -> None:
        """*run* is over."""
        self._ledger.finish(run)
        if self._announce.hears("finished"):
            self._announce(Event("finished", self._now(), run=run))

    def hidden(self, stop: Stop) -> Stop:
        """*stop* as events tell it."""
        return self._announce.hidden(stop)

    def incident(self, run: str) -> Incident | None:
        """What is known of *run*."""
        return self._ledger.incident(run)

    def full(
        self,
        stop: Stop,
        remaining: Mapping[str, Amount] = NOTHING,
        gathered: tuple[Gathered, ...] = (),
    ) -> Stop:
        """*stop* with what no rule knows: budgets, results so far, and the text."""
        # What an operator wrote at the kill switch is data as it stands; the model alone is not to read
        # an invitation in it.
        own = {"detail": stop.detail} if stop.reason == "kill" else {}
        stop = stop.model_copy(
            update={
                "remaining": dict(remaining),
                "gathered": gathered,
                "detail": answered(stop.detail),
            }
        )
        try:
            text = self._text(stop)
        except Exception:
            log.exception("the text function failed; the usual text is used")
            text = ""
        # An empty result is refused by some providers, so a stop is never without words.
        return stop.model_copy(update={"text": legible(text) or words(stop), **own})

    def _stop(
        self,
        kind: Literal["refused", "stop", "shadow"],
        call: Call,
        stop: Stop,
        standby: Any = None,
    ) -> None:
        if self._announce.hears(kind):
            self._say(
                kind,
                call,
                status=stop.status,
                verdict={"refused": "refused", "stop": "stopped"}.get(kind, "allowed"),
                reason=stop.reason,
                remaining=stop.remaining,
                limit=stop.limit,
                observed=stop.observed,
                standby=standby,
                # A service quotes arguments in its answers, and its answer is in the text.
                stop=stop.model_copy(update={"detail": None, "text": ""}),
            )

    def _now(self) -> float:
        """The clock's time; the machine's when the clock is what failed."""
        try:
            return self._clock()
        except Exception:
            return time.time()

    def _say(self, kind: Any, call: Call, **fields: Any) -> None:
        where = call.where
        self._announce(
            Event(
                kind,
                self._now(),
                tool=call.name,
                fingerprint=call.fingerprint,
                call_id=call.id,
                agent=where.agent,
                user=where.user,
                thread=where.thread,
                run=where.run,
                turn=where.turn,
                policy=version_of(call),
                **fields,
            )
        )


def version_of(call: Call) -> str | None:
    """The version of the policy that judged *call*, and what a person added to its limits."""
    if not call.raised:
        return call.version
    return "+".join([call.version or "", *(f"{name}:{by}" for name, by in call.raised.items())])


def briefly(stop: Stop) -> Stop:
    """*stop* without results: an event holds none, and an incident holds them once."""
    return stop.model_copy(update={"gathered": ()})
