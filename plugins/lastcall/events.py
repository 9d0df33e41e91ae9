"""One structured event for every attempt, refusal, alert and fault (requirement A10)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from lastcall.fingerprint import key_of, keyed
from lastcall.money import Amount
from lastcall.stop import Stop
from lastcall.visible import one_line

if TYPE_CHECKING:
    from lastcall.call import Call, Outcome

log = logging.getLogger("lastcall")


class Event(Struct, frozen=True):
    """What happened, without arguments and without results.

    attempt: a call was allowed and is over. refused: a call was not. stop: an allowed call's answer
    was turned into a stop. shadow: a rule that does not enforce would have stopped the call. alert: a
    threshold was crossed. quarantined: a call is refused in every run for a while. breaker: one
    opened, tried a call, or closed. retry: a call is about to be made again. replayed: a write was answered by its first result. fault: the guard itself failed. finished: a run is over. raised: a person raised a limit. policy: another policy counts.
    """

    kind: Literal[
        "attempt",
        "refused",
        "stop",
        "shadow",
        "alert",
        "quarantined",
        "breaker",
        "retry",
        "replayed",
        "fault",
        "finished",
        "raised",
        "policy",
    ]
    time: float
    tool: str | None = None
    fingerprint: str | None = None
    call_id: str | None = None
    outcome: str | None = None
    """The kind of the outcome: ok, error, cancelled, paused, lost."""
    status: int | None = None
    verdict: Literal["allowed", "refused", "stopped"] | None = None
    reason: str | None = None
    remaining: Mapping[str, Amount] = {}
    limit: Amount | None = None
    observed: Amount | None = None
    message: str | None = None
    agent: str | None = None
    user: str | None = None
    thread: str | None = None
    run: str | None = None
    turn: str | None = None
    policy: str | None = None
    """The version of the policy that judged (`Policy.version`), and what a person added: `9f86d081+calls:50`."""
    standby: Literal["open", "last-known"] | None = None
    """Set when the store could not be reached and this process answered by itself."""
    stop: Stop | None = None
    """Without results and without words: what a service answers may quote arguments. The incident has
    them (`guard.report(run)`)."""

    def fields(self) -> dict[str, Any]:
        """The event as plain data, without what is not set."""
        plain = {name: getattr(self, name) for name in self.__struct_fields__ if name != "stop"}
        return {
            name: to_builtins(value) for name, value in plain.items() if value not in (None, {})
        }


LEVELS = {
    "attempt": logging.DEBUG,
    "finished": logging.DEBUG,
    "alert": logging.WARNING,
    "quarantined": logging.WARNING,
    "breaker": logging.WARNING,
    "fault": logging.ERROR,
}
"""How loud each kind of event is; the others are information."""


class Announcer:
    """Sends events to the `lastcall` logger and to the listeners; what a listener raises is logged."""

    def __init__(
        self, listeners: Iterable[Callable[[Event], None]], fingerprint_key: bytes | None = None
    ) -> None:
        self._listeners = tuple(listeners)
        self._key = key_of(fingerprint_key)

    def hears(self, kind: str) -> bool:
        """Whether anybody would notice an event of that kind; building one costs."""
        return bool(self._listeners) or log.isEnabledFor(LEVELS.get(kind, logging.INFO))

    def hidden(self, stop: Stop) -> Stop:
        """*stop* as it goes out: what is a hash of arguments, or ends in one, is keyed."""
        if self._key is None:
            return stop
        own = None if stop.key is None else keyed(stop.key, self._key)
        print_ = keyed(stop.fingerprint, self._key)
        return stop.model_copy(update={"fingerprint": print_, "key": own})

    def __call__(self, event: Event) -> None:
        """Send *event* to everybody."""
        if self._key is not None:
            print_, stop = event.fingerprint, event.stop
            event = replace(
                event,
                fingerprint=None if print_ is None else keyed(print_, self._key),
                stop=None if stop is None else self.hidden(stop),
            )
        level = LEVELS.get(event.kind, logging.INFO)
        if log.isEnabledFor(level):
            log.log(
                level,
                "%s %s %s",
                event.kind,
                # To a log they are one line and nothing else: names come from models and services.
                one_line(event.tool or event.run or ""),
                one_line(event.reason or event.message or event.outcome or ""),
                extra={"lastcall": event.fields()},
            )
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %r; the run goes on", event.kind)


class Witnesses:
    """The listeners that are shown calls and outcomes themselves, with arguments and results (`Witness` in
    `contracts`). What one raises is logged."""

    def __init__(self, listeners: Iterable[Any]) -> None:
        self._those = tuple(
            each for each in listeners if hasattr(each, "decided") and hasattr(each, "settled")
        )

    def __bool__(self) -> bool:
        return bool(self._those)

    def decided(self, call: Call, stops: Sequence[Stop], now: float) -> None:
        """Show *call*, and what refused it."""
        self._show("decided", call, stops, now)

    def settled(self, call: Call, outcome: Outcome, stops: Sequence[Stop], now: float) -> None:
        """Show what *call* came to."""
        self._show("settled", call, outcome, stops, now)

    def _show(self, what: str, *shown: Any) -> None:
        for each in self._those:
            try:
                getattr(each, what)(*shown)
            except Exception:
                log.exception("a listener failed on a call; the run goes on")
