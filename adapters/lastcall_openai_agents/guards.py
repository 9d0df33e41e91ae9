"""Which guards there are: of the process, and of the guarded copies of agents and hand-overs."""

from __future__ import annotations

from lastcall import Guard

EVERYWHERE: list[Guard] = []
"""The guards that every run of the process passes, see `instrument`."""

MARK = "_lastcall_guards"
"""Where a guarded copy of an agent keeps its guards."""


def marks(guarded: object) -> tuple[Guard, ...]:
    """The guards of an agent or a hand-over."""
    found: tuple[Guard, ...] = vars(guarded).get(MARK, ())
    return found
