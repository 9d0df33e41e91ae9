"""What one task or thread sent and met of a body, and whatever it begins has from it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import NamedTuple
from weakref import ref


class Flow(NamedTuple):
    """Of one body, by the numbers of its requests."""

    latest: int = 0
    """The last one that was sent here; 0: none."""
    met: frozenset[int] = frozenset()
    """Those that failed here, and nobody got past yet."""


BEGUN = Flow()

FLOWS: ContextVar[Mapping[ref[object], Flow]] = ContextVar("lastcall_http_flows")
"""By what stands of a body: a guarded tool that is called in the body of another leaves the other's alone."""


def flow_of(standing: object) -> Flow:
    """The flow here of the body of which that stands."""
    return FLOWS.get({}).get(ref(standing), BEGUN)


def goes_on(standing: object, flow: Flow) -> None:
    """From here on it is *flow*."""
    # A copy: whatever was begun here goes its own way. No weak dictionary, from which what is gone goes by
    # itself: a thread that was begun elsewhere with the same one may be copying it.
    others = {it: each for it, each in FLOWS.get({}).items() if it() is not None}
    FLOWS.set({**others, ref(standing): flow})
