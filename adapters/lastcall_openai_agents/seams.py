"""Functions of the SDK that ours stand in for, and how they come back."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

from lastcall_openai_agents._sdk import Place

_LOCK = threading.RLock()


class Seam:
    """One function of the SDK, and what stands in for it as long as somebody needs it.

    What stands in passes everything on where it has no business, so it does no harm where others have
    put theirs round it and it cannot be taken away.
    """

    def __init__(self, place: Place, around: Callable[[Any], Any]) -> None:
        self.place = place
        self._around = around
        self._original: Any = None
        self._ours: Any = None
        self._kept = False

    @property
    def there(self) -> bool:
        """Whether this release of the SDK has such a function."""
        return callable(getattr(self.place.owner, self.place.name, None))

    def open(self) -> None:
        """Let ours stand in. Doing it twice does it once."""
        owner, name = self.place
        with _LOCK:
            if not self.there or self._is_in(getattr(owner, name)):
                return
            now = inspect.getattr_static(owner, name)
            bound = isinstance(now, classmethod)
            made = self._around(now.__func__ if bound else now)
            self._original, self._ours = now, made
            setattr(owner, name, classmethod(made) if bound else made)

    def keep(self) -> None:
        """Let ours stand in for good: a guarded copy depends on it."""
        with _LOCK:
            self._kept = True
            self.open()

    def close(self) -> None:
        """Put back what was there, unless it is kept or others have put theirs round ours."""
        owner, name = self.place
        with _LOCK:
            if self._kept or self._ours is None:
                return
            now = inspect.getattr_static(owner, name, None)
            if getattr(now, "__func__", now) is self._ours:
                setattr(owner, name, self._original)
                self._original = self._ours = None

    def _is_in(self, function: Any) -> bool:
        while function is not None:
            function = getattr(function, "__func__", function)
            if function is self._ours:
                return True
            function = getattr(function, "__wrapped__", None)
        return False
