"""Finds out who calls and in which run: set by hand with `within`, or known to a framework."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from msgspec.structs import replace

from lastcall.call import NOWHERE, Where
from lastcall.events import log

if TYPE_CHECKING:
    from lastcall.contracts import Scope


class Scopes:
    """The scopes of one guard. What was set by hand wins field by field; then *find* is asked, then
    every framework that is loaded and has a scope installed."""

    def __init__(self, guard: Any, find: Callable[[], Where | None] | None) -> None:
        self._guard = guard
        self._find = find
        self._set: ContextVar[Where] = ContextVar("lastcall_within", default=NOWHERE)
        self._block: ContextVar[str | None] = ContextVar("lastcall_block", default=None)
        self._lock = threading.Lock()
        self._entered: dict[str, int] = {}
        self._loaded: dict[str, Scope | None] = {}

    def of(self, where: Where) -> Where | None:
        """The whole scope of a call whose caller knows *where*; None outside any run."""
        by_hand = self._set.get()
        if by_hand is NOWHERE and where.run is not None and where.turn is not None:
            return where
        if by_hand.run is not None and by_hand.turn is not None:
            return by_hand if where is NOWHERE else laid(where, by_hand)
        if where.run is None:
            found = (self._find() if self._find is not None else None) or self._framework()
            if found is not None:
                where = laid(found, where)
        if by_hand is not NOWHERE:
            where = laid(where, by_hand)
        # A block without a run of its own, and no framework inside it: the block is the run.
        run = where.run or self._block.get()
        if run is None:
            return None
        return replace(where, run=run, turn=where.turn or run)

    def prepare(self) -> None:
        """Load the scopes of the frameworks at hand, so that they see a run from its start."""
        for name in points():
            if name in sys.modules:
                self._scope(name)

    def covers(self, tool: str) -> bool:
        """Whether a framework's adapter guards the call of *tool* in whose body this is asked."""
        return any(
            scope is not None and scope.covers(self._guard, tool)
            for name in points()
            if name in sys.modules and (scope := self._scope(name)) is not None
        )

    @contextmanager
    def within(self, **fields: Any) -> Iterator[Where]:
        """Set *fields* of the scope; leaving the outermost scope of a run finishes it."""
        outer = self._set.get()
        where = laid(outer, fields)
        if where.run != outer.run and not fields.get("turn"):
            where = replace(where, turn=None)
        block = self._block.get()
        run = where.run if where.run != outer.run else None if block else uuid4().hex
        tokens = self._set.set(where), self._block.set(run or block)
        if run is not None:
            self._enter(run)
        try:
            yield self.of(NOWHERE) or where
        finally:
            self._set.reset(tokens[0])
            self._block.reset(tokens[1])
            if run is not None:
                self._leave(run)

    def _enter(self, run: str) -> None:
        with self._lock:
            self._entered[run] = self._entered.get(run, 0) + 1

    def _leave(self, run: str) -> None:
        with self._lock:
            left = self._entered[run] - 1
            if left:
                self._entered[run] = left
            else:
                del self._entered[run]
        if not left:
            self._guard.finish(run)

    def _framework(self) -> Where | None:
        for name in points():
            if name in sys.modules:
                scope = self._scope(name)
                found = None if scope is None else scope.find(self._guard)
                if found is not None:
                    return found
        return None

    def _scope(self, name: str) -> Scope | None:
        if name not in self._loaded:
            try:
                self._loaded[name] = points()[name].load()
            except Exception:
                # Half a framework, or another version: it has no runs for us, and the rest goes on.
                log.exception("the scope for %r cannot be loaded", name)
                self._loaded[name] = None
        return self._loaded[name]


def laid(where: Where, over: Where | dict[str, Any]) -> Where:
    """*where* with the fields that *over* sets."""
    if isinstance(over, Where):
        over = {name: getattr(over, name) for name in Where.__struct_fields__}
    unknown = set(over) - set(Where.__struct_fields__)
    if unknown:
        known = ", ".join(Where.__struct_fields__)
        raise TypeError(f"no scope {min(unknown)!r}; there are {known}")
    return replace(where, **{name: value for name, value in over.items() if value})


@cache
def points() -> dict[str, EntryPoint]:
    """The installed scopes, by the import name of their framework."""
    return {point.name: point for point in entry_points(group="lastcall.scopes")}
