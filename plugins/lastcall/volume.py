"""How many retries there were within a minute (requirement C6)."""

from __future__ import annotations

import threading
from collections import deque


class Volume:
    """The retries of the last minute, for an alert."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: deque[float] = deque()
        self._said: float | None = None

    def reached(self, now: float, alert: int, seconds: float = 60.0) -> bool:
        """Count one more; whether that makes *alert* of them, for the first time within *seconds*."""
        with self._lock:
            self._times.append(now)
            while self._times[0] <= now - seconds or len(self._times) > alert:
                self._times.popleft()
            said = self._said is not None and now - self._said < seconds
            if len(self._times) < alert or said:
                return False
            self._said = now
            return True
