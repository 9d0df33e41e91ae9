"""The rules, one a file. Each is frozen settings and pure functions over one small record."""

from typing import TYPE_CHECKING

from lastcall.doors import doors

if TYPE_CHECKING:
    from lastcall.rules.breaker import Breaker
    from lastcall.rules.budget import Budget, Limit
    from lastcall.rules.ceiling import Ceiling
    from lastcall.rules.concurrency import Concurrency
    from lastcall.rules.cooling import Cooling
    from lastcall.rules.cycle import Cycle
    from lastcall.rules.failing import Failing
    from lastcall.rules.malformed import Malformed
    from lastcall.rules.near import Near
    from lastcall.rules.path import Path
    from lastcall.rules.quarantine import Quarantine
    from lastcall.rules.refusals import Refusals
    from lastcall.rules.repeat import Repeat
    from lastcall.rules.same import Same
    from lastcall.rules.settings import Settings
    from lastcall.rules.stale import Stale
    from lastcall.rules.streak import Streak
    from lastcall.rules.terminal import Terminal
    from lastcall.rules.writes import Writes
else:
    # A rule is a model, which takes a millisecond to make; most policies have few of them.
    __getattr__, __dir__ = doors(
        globals(),
        {
            "breaker": ("Breaker",),
            "budget": ("Budget", "Limit"),
            "ceiling": ("Ceiling",),
            "concurrency": ("Concurrency",),
            "cooling": ("Cooling",),
            "cycle": ("Cycle",),
            "failing": ("Failing",),
            "malformed": ("Malformed",),
            "near": ("Near",),
            "path": ("Path",),
            "quarantine": ("Quarantine",),
            "refusals": ("Refusals",),
            "repeat": ("Repeat",),
            "same": ("Same",),
            "settings": ("Settings",),
            "stale": ("Stale",),
            "streak": ("Streak",),
            "terminal": ("Terminal",),
            "writes": ("Writes",),
        },
    )

__all__ = [
    "Breaker",
    "Budget",
    "Ceiling",
    "Concurrency",
    "Cooling",
    "Cycle",
    "Failing",
    "Limit",
    "Malformed",
    "Near",
    "Path",
    "Quarantine",
    "Refusals",
    "Repeat",
    "Same",
    "Settings",
    "Stale",
    "Streak",
    "Terminal",
    "Writes",
]
