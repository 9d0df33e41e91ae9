"""What waits for a person, in this process, and how it is named for others."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastcall_openai_agents.frames import Frame

PAUSES = 256
"""Runs that wait for a person, of which the counts are kept in this process."""


class Paused:
    """Frames that wait for a person, by what they wait for: a resume is a `Runner.run` of its own, also
    from JSON, and the turn goes on in it."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[tuple[Any, ...], Frame]] = deque()

    def put(self, pending: tuple[Any, ...], frame: Frame) -> list[Frame]:
        """*frame* waits for *pending*; gives the frames that this forgets, which are to be settled. Their
        counts stay where they are kept; a resume may come, or their time is over."""
        if not any(waits == pending and known is frame for waits, known in self._waiting):
            self._waiting.append((pending, frame))
        forgotten: list[Frame] = []
        while len(self._waiting) > PAUSES:
            forgotten.append(self._waiting.popleft()[1])
        return forgotten

    def waiting(self) -> tuple[tuple[tuple[Any, ...], Frame], ...]:
        """Every frame that waits, the newest last."""
        return tuple(self._waiting)

    def find(self, pending: tuple[Any, ...]) -> Frame | None:
        """The newest frame that waits for *pending*, which goes on waiting."""
        found = (frame for waits, frame in reversed(tuple(self._waiting)) if waits == pending)
        return next(found, None)

    def take(self, pending: tuple[Any, ...]) -> Frame | None:
        """The newest frame that waits for *pending*; each is given once, so that none is shared."""
        for waiting in reversed(tuple(self._waiting)):
            if waiting[0] == pending:
                with suppress(ValueError):
                    self._waiting.remove(waiting)
                return waiting[1] if waiting[1].run.open else None
        return None


PAUSED = Paused()


def waiting_in(pending: tuple[Any, ...], thread: str | None) -> str:
    """The thread that a pause is kept with: that of the session, or one of its own."""
    return f"pause-{hash_of(pending)}" if thread is None else thread


def hash_of(pending: tuple[Any, ...]) -> str:
    """Names the calls that a person has to decide on, in any process."""
    return sha256(repr(pending).encode("utf-8", "surrogatepass")).hexdigest()[:16]
