"""The last answer: one more request to the model, for a run that a guard has ended."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from lastcall import Guard, Stop

if TYPE_CHECKING:
    from lastcall_langchain.roots import Run


@dataclass(slots=True)
class Last:
    """The last answer of one agent, to be asked for when its run is ended."""

    run: str | None
    """The run of the guard that it is the last answer of."""
    stop: Stop | None = None
    """The stop for which it is asked; None while the run goes on."""
    opened: bool = False
    """Whether the model is being asked for it."""
    request: UUID | None = None
    """The one request that is let through."""


class LastAnswers:
    """Which agent gives the last answer of a run, and which request is for it. *lock* is that of the runs."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def answers(self, agent: Run, guard: Guard, run: str | None) -> None:
        """The agent that runs in *agent* would give the last answer of *guard*'s *run*."""
        if guard not in agent.last:
            agent.last[guard] = Last(run)

    def answer(self, agent: Run, guard: Guard, stop: Stop) -> bool:
        """Whether that agent gives it, now that *stop* ends the run: the outermost does, and once."""
        with self._lock:
            mine = agent.last.get(guard)
            if mine is not None and mine.stop is not None:
                return not mine.opened
            at = agent.parent
            while at is not None:
                above = at.last.get(guard)
                if above is not None and above.run == stop.run:
                    return False
                at = at.parent
            answered = agent.root.answered.setdefault(guard, set())
            if stop.run in answered:
                return False
            answered.add(stop.run)
            agent.last[guard] = Last(stop.run, stop)
            return True

    def opens(self, agent: Run, guard: Guard) -> Stop | None:
        """The stop for which the model is now asked for a last answer; None in any other request."""
        with self._lock:
            last = agent.last.get(guard)
            if last is None or last.stop is None or last.opened:
                return None
            last.opened = True
            return last.stop

    def admits(self, run: Run, guard: Guard, request: UUID) -> bool:
        """Whether *request*, made in *run*, is that for a last answer, or made to prepare it."""
        with self._lock:
            for at in run.asking():
                last = at.last.get(guard)
                if last is not None and last.stop is not None:
                    if last.opened and last.request is None:
                        last.request = request
                    return last.request in (None, request)
        return False
