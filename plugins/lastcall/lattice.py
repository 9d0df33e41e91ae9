"""The settings that `lastcall tune` tries: a few levels of each, the calmest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from lastcall.policy import SUPERSEDED, Policy
from lastcall.policy_file import rule_class

OFF: Final = None
"""The level at which a setting stops nothing."""

NEW: Final = 3
"""Steps that switching on what the policy leaves out counts for: a new reason to stop."""


class Dial(Struct, frozen=True):
    """One setting of one rule: levels from the calmest, which is `OFF`, to the strictest."""

    rule: str
    field: str
    levels: tuple[Any, ...]

    @property
    def name(self) -> str:
        """As a policy file would say it."""
        return f"{self.rule}.{self.field}"

    def at(self, policy: Policy) -> int:
        """The level at which *policy* has it."""
        rule = next((each for each in policy.rules if each.name == self.rule), None)
        value = None if rule is None else getattr(rule, self.field)
        return self.levels.index(value or OFF)

    def steps(self, from_: int, to: int) -> int:
        """How much stricter one level is than another."""
        return to - from_ + (NEW - 1 if from_ == 0 and to else 0)


DIALS: tuple[Dial, ...] = (
    Dial("stale", "in_a_row", (OFF, 20, 15, 10, 8, 6, 5, 4)),
    Dial("cycle", "rounds", (OFF, 5, 4, 3, 2)),
    Dial("near", "in_a_row", (OFF, 8, 5, 4, 3, 2)),
    Dial("same", "in_turn", (OFF, 16, 12, 8, 6, 5, 4, 3)),
    Dial("same", "reads", (OFF, 12, 8, 6, 4, 3)),
    Dial("same", "no_write", (OFF, 10, 7, 5, 4, 3)),
    Dial("same", "in_a_row", (OFF, 6, 4, 3, 2)),
    Dial("failing", "times", (OFF, 8, 5, 4, 3, 2)),
    Dial("streak", "final", (OFF, 8, 5, 4, 3, 2)),
    Dial("streak", "passing", (OFF, 12, 8, 5, 4, 3)),
    Dial("malformed", "in_a_row", (OFF, 8, 5, 3, 2)),
    Dial("terminal", "closes", (OFF, "call", "turn")),
    Dial("ceiling", "calls", (OFF, 400, 200, 100, 50, 25, 15, 8)),
    Dial("repeat", "max_repeats", (OFF, 12, 8, 6, 5, 4, 3, 2)),
)
"""In the order in which they are tried where two are as calm: first those that ask for most evidence."""

OF_READS: Final = frozenset({"reads", "no_write"})
"""Settings of `same` about tools that only read."""

REPEAT: Final = "repeat"
"""The rule that makes others stand aside while it is on."""

GONE: Final = frozenset({"stale", "cycle", "failing", "malformed", "terminal"})
"""Rules that are off when they are left out; the others have a value for it."""

EMPTY: Final = {"ceiling": None, "repeat": None}
"""What stands for off in a setting where it is not 0."""


def dials(base: Policy) -> tuple[Dial, ...]:
    """`DIALS`, with the levels of *base* among them, but for those that have nothing to say: of tools that
    only read where none is declared so, and about equal calls where they are nobody's business
    (`max_repeats = 0`)."""
    free = any(rule.name == REPEAT and rule.max_repeats == 0 for rule in base.rules)
    left_out = SUPERSEDED | {REPEAT} if free else frozenset()
    reads = any(tool.reads for tool in base.tools.values())
    return tuple(
        widened(dial, base)
        for dial in DIALS
        if dial.rule not in left_out and (reads or dial.field not in OF_READS)
    )


def widened(dial: Dial, base: Policy) -> Dial:
    """*dial* with the level of *base*, where that is none of its own."""
    rule = next((each for each in base.rules if each.name == dial.rule), None)
    value: Any = None if rule is None else getattr(rule, dial.field) or OFF
    if value in dial.levels:
        return dial
    levels = sorted((*dial.levels[1:], value), reverse=True)
    return Dial(dial.rule, dial.field, (OFF, *levels))


def composed(base: Policy, levels: Mapping[Dial, int], *, alone: bool = False) -> Policy:
    """*base* with each dial at its level. *alone*: what of a rule is on no dial is off."""
    settings: dict[str, dict[str, Any]] = {}
    for dial, level in levels.items():
        settings.setdefault(dial.rule, {})[dial.field] = dial.levels[level]
    if alone:
        for dial in DIALS:
            settings.setdefault(dial.rule, {}).setdefault(dial.field, OFF)
    made = base
    gone: set[str] = set()
    for name, fields in settings.items():
        if name in GONE and all(value is OFF for value in fields.values()):
            gone.add(name)
            continue
        old = next((rule for rule in base.rules if rule.name == name), None)
        if old is None and all(value is OFF for value in fields.values()):
            continue
        cls = rule_class(name, "tune") if old is None else type(old)
        kept = {} if old is None else old.model_dump()
        off = {key: EMPTY.get(name, 0) if value is OFF else value for key, value in fields.items()}
        made = made.replaced(cls(**{**kept, **off}))
    if not gone & {rule.name for rule in made.rules}:
        return made
    others = {name: getattr(made, name) for name in Policy.model_fields if name != "rules"}
    return Policy(rules=[rule for rule in made.rules if rule.name not in gone], **others)


def aside(dial: Dial, levels: Mapping[Dial, int]) -> bool:
    """Whether *dial* does nothing at *levels*, since `max_repeats` says how often an equal call may run."""
    return dial.rule in SUPERSEDED and any(
        level > 0 for other, level in levels.items() if other.rule == REPEAT
    )
