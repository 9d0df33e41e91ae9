"""What a kill switch says: whom it stops, who set it, when and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from lastcall.call import Call, Where
from lastcall.stop import Scope, Stop

SELECTORS = ("agent", "user", "run")
"""What an entry may stop, besides everything."""


class Kill(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry of a kill switch. It stops every call for which all that is given holds; with neither
    *agent* nor *user* nor *run* that is every call there is.

    *agent* also stops whatever that agent called in: agents below it in `Where.path`. Unknown fields
    are refused when it is read, since an entry without its condition would stop everybody.
    """

    agent: str | None = None
    user: str | None = None
    run: str | None = None
    by: str = ""
    """Who set it."""
    at: datetime | None = None
    """When, in UTC; None: not said."""
    why: str = ""

    def matches(self, where: Where) -> bool:
        """Whether a call made there is stopped."""
        return (
            (self.agent is None or self.agent == where.agent or self.agent in where.path)
            and (self.user is None or self.user == where.user)
            and (self.run is None or self.run == where.run)
        )

    @property
    def selectors(self) -> tuple[str | None, str | None, str | None]:
        """Whom it stops; there is one entry for each."""
        return (self.agent, self.user, self.run)

    @property
    def scope(self) -> Scope:
        """The widest of its conditions."""
        if self.user is not None:
            return "user"
        if self.agent is not None:
            return "agent"
        return "all" if self.run is None else "run"

    @property
    def whom(self) -> str:
        """`everything`, or `agent 'clerk' and user 'ann'`."""
        told = [f"{name} {of!r}" for name, of in zip(SELECTORS, self.selectors, strict=True) if of]
        return " and ".join(told) or "everything"

    @property
    def told(self) -> str:
        """Who set it, when and why, in a sentence each: what is cut from one does not touch the other."""
        at = "" if self.at is None else f" at {spoken(self.at)}"
        why = f" Why: {self.why}" if self.why else ""
        return f"The kill switch for {self.whom} was set by {self.by or 'somebody'}{at}.{why}"


class Kills(Struct, frozen=True, forbid_unknown_fields=True):
    """All that is set: the record of a store, and the content of a file."""

    version: int = 1
    kills: tuple[Kill, ...] = ()

    def with_(self, kill: Kill) -> Kills:
        """With *kill*, in place of one for the same."""
        return Kills(kills=(*self.without(kill.selectors).kills, kill))

    def without(self, selectors: tuple[str | None, ...]) -> Kills:
        """Without the entry for exactly that."""
        return Kills(kills=tuple(each for each in self.kills if each.selectors != selectors))


NONE = Kills()

WIDEST = ("all", "user", "agent", "run")


def matching(kills: Iterable[Kill], where: Where) -> Kill | None:
    """The widest of *kills* that stops calls made there; None when none does."""
    found = [each for each in kills if each.matches(where)]
    return min(found, key=lambda each: WIDEST.index(each.scope), default=None)


def stop_by(kill: Kill, call: Call, now: float) -> Stop:
    """The stop of *call* that *kill* is."""
    return Stop.of(call, "kill", kill.scope, now, rule="switch", detail=kill.told)


def stop_unread(call: Call, said: str, now: float) -> Stop:
    """The stop of *call* when nobody knows what is set."""
    return Stop.of(call, "kill", "all", now, rule="switch", detail=said)


def spoken(at: datetime) -> str:
    """A time for people, to the second."""
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
