"""The guard's word on one call: go, or stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from lastcall.call import Call, FirstResult
from lastcall.money import Amount
from lastcall.stop import Stop

if TYPE_CHECKING:
    from lastcall.contracts import Key
    from lastcall.flights import Flight

WIDTH = ("call", "tool", "dependency", "turn", "run", "thread", "agent", "user", "tenant", "all")


class Ticket(Struct, gc=False):
    """Leave to make one call; `observe` settles from it, once."""

    call: Call
    keys: Sequence[Key] = ()
    lineup: Any = None
    time: float = 0.0
    """When the call was granted, in epoch seconds."""
    settled: bool = False
    policy: Any = None
    """The policy by which it was granted."""
    until: float | None = None
    """When the time of the run is over, in epoch seconds; sleeps and requests of the call end by then. None:
    no limit of seconds."""
    flight: Flight | None = None
    """What equal writes that came meanwhile wait for."""
    standby: Literal["open", "last-known"] | None = None
    """Set when it was granted without the store, which could not be reached."""
    counted: Callable[[], dict[str, Amount]] | None = None
    """Works `remaining` out."""

    @property
    def remaining(self) -> dict[str, Amount]:
        """What is left of each limit with this call granted, by its name."""
        return {} if self.counted is None else self.counted()


class Verdict(Struct, frozen=True, gc=False):
    """What the guard says of a call before it is made, or of its answer afterwards."""

    call: Call
    ticket: Ticket | None = None
    """Leave to make the call; None after a refusal and after the answer."""
    stop: Stop | None = None
    """The refusal, or the stop that the answer led to."""
    also: tuple[Stop, ...] = ()
    """Stops that came with it."""
    shadow: tuple[Stop, ...] = ()
    """Stops that rules which do not enforce would have made."""
    replay: FirstResult | None = None
    """The answer to a write that was made before, in place of leave to make it again."""

    @property
    def ending(self) -> Stop | None:
        """The widest stop that ends a turn or more; None when at most one call or tool is concerned.
        Adapters end what is running when there is one."""
        if self.stop is None:
            return None
        wide = [stop for stop in (self.stop, *self.also) if stop.ends_run]
        return max(wide, key=lambda stop: WIDTH.index(stop.scope), default=None)
