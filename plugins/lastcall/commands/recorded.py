"""What is expected of the runs of a file, for `lastcall replay --expect`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from lastcall.commands.codes import CommandError
from lastcall.expectation import CLEAN, Expectation, ExpectationError, Expectations, expected
from lastcall.replay import Replayed

Expect = Literal["stop", "clean", "recorded"]
"""recorded: what `*.expect.toml` beside a file says, else clean."""


class Wanted:
    """What is expected, as the command was told; reads what is beside one file after the other."""

    def __init__(self, expect: Expect | None) -> None:
        self.expect = expect
        self._read: tuple[Path | None, Expectations | None] = (None, None)

    def policy(self, file: Path) -> str | None:
        """The policy that is written beside *file*. Raises CommandError, and OSError."""
        told = self._beside(file)
        return None if told is None else told.policy

    def missed(self, done: Replayed) -> str | None:
        """In which way *done* is not as expected; None when it is, or nothing is expected."""
        if self.expect is None:
            return None
        if self.expect != "recorded":
            if done.stopped == (self.expect == "stop"):
                return None
            return f"expected {self.expect}"
        told = self._beside(Path(done.file))
        one: Expectation = CLEAN if told is None else told.of(done.run)
        return one.missed(done)

    def _beside(self, file: Path) -> Expectations | None:
        if self.expect != "recorded":
            return None
        if self._read[0] != file:
            try:
                self._read = (file, expected(file))
            except ExpectationError as error:
                raise CommandError(str(error)) from None
        return self._read[1]
