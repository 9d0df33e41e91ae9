"""A run that goes on asking while the guard itself cannot decide: counted here, since no store can be asked."""

from __future__ import annotations

import threading
from collections import OrderedDict

from lastcall.call import Call

RUNS = 1024
"""Runs that are remembered; the longest untouched go first."""


class Rounds:
    """How many replies in a row of a run were refused because nothing could be decided."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, tuple[str | None, int]] = OrderedDict()

    def over(self, call: Call, most: int | None) -> bool:
        """Whether the run of *call*, which is refused now, is at its end: its model went on after *most*
        refused replies. None: it may go on for ever."""
        run = call.where.run
        if run is None or most is None:
            return False
        with self._lock:
            reply, rounds = self._runs.get(run, (None, 0))
            if call.kind == "model":
                return rounds >= most
            if reply is None or reply != call.reply:
                rounds += 1
            self._runs[run] = (call.reply, rounds)
            self._runs.move_to_end(run)
            if len(self._runs) > RUNS:
                self._runs.popitem(last=False)
            return rounds > most

    def decided(self, run: str | None) -> None:
        """A call of *run* could be decided again, or the run is over."""
        if self._runs and run is not None:
            with self._lock:
                self._runs.pop(run, None)
