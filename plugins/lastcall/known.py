"""What is worked out once for each tool under each policy, so that a decision need not."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from lastcall.call import Kind
from lastcall.contracts import Store
from lastcall.lineup import Lineup
from lastcall.policy import Policy
from lastcall.snapshot import types_of
from lastcall.tool import ToolPolicy

MOST = 4096
"""Tools that are kept; servers that make new ones every turn exist."""


class Known(Struct, frozen=True):
    """One tool. *by* and *declared* are kept so that their identities stay taken."""

    by: Policy
    declared: ToolPolicy
    policy: ToolPolicy
    lineups: dict[str, Lineup]


class KnownTools:
    """Every tool seen so far, by its policy, its name and what its maker said of it."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._tools: dict[tuple[int, str, int], Known] = {}

    def tool(self, name: str, declared: ToolPolicy, by: Policy) -> Known:
        """The tool *name*, of which its maker *declared* that, under the policy *by*."""
        at = (id(by), name, id(declared))
        known = self._tools.get(at)
        if known is None:
            if len(self._tools) >= MOST:
                self._tools.clear()
            self.learn(by)
            known = self._tools[at] = Known(by, declared, by.tool(name, declared), {})
        return known

    def lineup(self, known: Known, kind: Kind) -> Lineup:
        """The rules that look at calls of that kind."""
        lineup = known.lineups.get(kind)
        if lineup is None:
            policy = known.by
            rules = policy.lineup(known.policy)
            if getattr(self._store(), "shared", False):
                rules = tuple(
                    rule.fleetwide() if hasattr(rule, "fleetwide") else rule for rule in rules
                )
            lineup = known.lineups[kind] = Lineup.of(
                rules,
                known.policy,
                kind,
                enforce=policy.enforce,
                attempts=policy.max_attempts if policy.enforce else None,
            )
        return lineup

    def learn(self, policy: Policy) -> None:
        """Tell the store the types of the records under *policy*."""
        learn = getattr(self._store(), "learn", None)
        if learn is not None:
            learn(types_of(policy.rules))
