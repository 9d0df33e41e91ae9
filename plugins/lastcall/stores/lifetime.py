"""How long a shard that nobody touches is kept, in the stores that outlive a process."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from lastcall.contracts import Claim, Shard, Take

TTL = 6 * 3600.0
"""Seconds that a run or a thread is kept after it was last touched."""

KEEP = 48 * 3600.0
"""Seconds for what outlives a run: users, agents, tenants, quarantine. A longer window makes it longer."""

OWNED = frozenset({"run", "thread"})

LASTING = frozenset({"switch"})
"""What somebody set by hand stays until somebody takes it back."""

RENEW = 0.75
"""A shard's time is set anew once less than this part of it is left, so that most decisions need not."""


class Lifetimes:
    """The seconds each shard is kept: *ttl* for runs and threads, *keep* for everything else."""

    def __init__(self, ttl: float = TTL, keep: float = KEEP) -> None:
        for name, seconds in (("ttl", ttl), ("keep", keep)):
            if not 0 < seconds < math.inf:
                raise ValueError(f"{name} must be more than 0 seconds, not {seconds!r}")
        self._ttl = ttl
        self._keep = keep

    def of(self, shard: Shard, claims: Iterable[Claim] = ()) -> float | None:
        """Seconds for *shard*, in which *claims* are counted; None: for ever."""
        kind = shard[0]
        if kind in LASTING:
            return None
        seconds = self._ttl if kind in OWNED else self._keep
        for claim in claims:
            if claim.key[0] == shard:
                seconds = max(seconds, 2 * span(claim))
        return seconds


def span(claim: Any) -> float:
    """The seconds for which a claim must be remembered at least."""
    return (claim.window or 0.0) if isinstance(claim, Take) else float(claim.ttl)
