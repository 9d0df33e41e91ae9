"""Exit codes, and the error that a person reads."""

from __future__ import annotations

OK, UNEXPECTED, UNUSABLE, LATER, INTERRUPTED = 0, 1, 2, 75, 130
"""As asked; not as expected; unreadable, unreachable or used wrongly; not yet (EX_TEMPFAIL of sysexits.h,
which supervisors take for "later"); broken off by a person."""


class CommandError(Exception):
    """What is wrong, where, and what to do about it; the command ends by UNUSABLE."""


class OutOfReachError(CommandError):
    """It was asked for rightly, and the store or the file does not answer, or cannot be read."""
