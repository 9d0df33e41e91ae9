"""Which rules a transcript cannot tell enough for (requirement H4: not judged is not passed)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lastcall.policy import Policy
from lastcall.transcripts.recorded import Aspect

EQUAL: tuple[frozenset[Aspect], ...] = (frozenset({"arguments"}),)
RESULTS: tuple[frozenset[Aspect], ...] = (*EQUAL, frozenset({"results"}))
FAILURES: tuple[frozenset[Aspect], ...] = (frozenset({"errors", "statuses"}),)

NEEDS: dict[str, tuple[frozenset[Aspect], ...]] = {
    "repeat": EQUAL,
    "same": RESULTS,
    "near": RESULTS,
    "cycle": RESULTS,
    "stale": RESULTS,
    "failing": (*EQUAL, *FAILURES),
    "terminal": FAILURES,
    "streak": FAILURES,
    "quarantine": (*EQUAL, *FAILURES),
    "breaker": (*FAILURES, frozenset({"time"})),
    "cooling": (*FAILURES, frozenset({"time"})),
}
"""By rule the groups of aspects of each of which it needs one."""

QUANTITIES: dict[str, Aspect] = {
    "tokens": "usage",
    "tokens:input": "usage",
    "tokens:output": "usage",
    "money": "usage",
    "requests": "usage",
    "seconds": "time",
}
"""By quantity of a budget the aspect it needs. Requests are known from what they used."""

ALONE = frozenset({"concurrency", "path"})
"""Rules that see nothing in a replay, which makes one call after the other, and for one agent."""


def unjudged(policy: Policy, lacks: Collection[Aspect]) -> tuple[str, ...]:
    """The names of the rules of *policy* that need something of what is lacking, in their order."""
    lacking = frozenset(lacks)
    return tuple(rule.name for rule in policy.rules if _on(rule, policy) and _blind(rule, lacking))


def _on(rule: Any, policy: Policy) -> bool:
    """Whether a rule stops anything: how often an equal call may be made is said for all tools, for some, or not."""
    if rule.name != "repeat":
        return True
    return bool(rule.max_repeats) or any(tool.max_repeats for tool in policy.tools.values())


def asks(policy: Policy) -> bool:
    """Whether a rule of *policy* looks at requests to the model."""
    looked = {*QUANTITIES, "attempts"} - {"seconds"}
    return any(limit.quantity in looked for rule in policy.rules for limit in _limits(rule))


def _blind(rule: Any, lacks: frozenset[Aspect]) -> bool:
    if rule.name in ALONE:
        return True
    if any(group <= lacks for group in _needs(rule)):
        return True
    return any(QUANTITIES.get(limit.quantity) in lacks for limit in _limits(rule))


def _needs(rule: Any) -> tuple[frozenset[Aspect], ...]:
    needs = NEEDS.get(rule.name)
    if needs is None:
        # A rule of somebody else may say by itself which aspects it cannot do without.
        needs = tuple(frozenset({aspect}) for aspect in getattr(rule, "needs", ()))
    return needs


def _limits(rule: Any) -> tuple[Any, ...]:
    return rule.limits if rule.name == "budget" else ()
