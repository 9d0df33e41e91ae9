"""Finds out who calls and in which run: set by hand with `within`, or known to a framework."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from msgspec.structs import replace

from lastcall.call import NOWHERE, Call, Outcome, Where, in_text
from lastcall.events import log
from lastcall.stop import Stop, Stopped

if TYPE_CHECKING:
    from lastcall.body import Body
    from lastcall.contracts import Scope

T = TypeVar("T")

HERE = Call("")
"""A call that says nothing of where it is made."""


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
        self._known: dict[str, Scope | None] = {}

    def place(self, call: Call) -> Call | None:
        """*call* with its whole scope, as far as it is known; None outside any run."""
        by_hand, where = self._set.get(), call.where
        told = where.run is not None and where.turn is not None
        if told and by_hand is NOWHERE and self._find is None:
            return call
        given = None if self._find is None else self._find()
        if where.run is None:
            # Asked also where run and turn are known: whose call it is only the framework knows.
            scope, found = self._framework()
            call = call if scope is None or call.reply is not None else scope.asked(call)
            if found is not None:
                where = laid(found, where)
        if given is not None:
            where = laid(where, given)
        if by_hand is not NOWHERE:
            where = laid(where, by_hand)
        # A block without a run of its own, and no framework inside it: the block is the run.
        run = where.run or self._block.get()
        if run is None:
            return None
        return replace(call, where=replace(where, run=run, turn=where.turn or run))

    async def ready(self) -> None:
        """Have the frameworks look up what they would else ask the store for in `place`."""
        for scope in self._loaded():
            waits = scope.ready(self._guard)
            if waits is not None:
                await waits

    def prepare(self) -> None:
        """Load the scopes of the frameworks at hand, so that they see a run from its start."""
        for _ in self._loaded():
            pass

    def covers(self, tool: str) -> bool:
        """Whether a framework's adapter guards the call of *tool* in whose body this is asked."""
        return any(scope.covers(self._guard, tool) for scope in self._loaded())

    def body(self) -> Body | None:
        """The body of the innermost call here that an adapter judged at a seam that only listens."""
        found = (scope.body(self._guard) for scope in self._loaded())
        return next((each for each in found if each is not None), None)

    def caller(self) -> Any:
        """The place in a framework's run where a tool was called."""
        found = (scope.caller() for scope in self._loaded())
        return next((each for each in found if each is not None), None)

    def shown(self, value: Any) -> Any:
        """*value* as the model of the framework in whose run it is returned sees it."""
        scope, _ = self._framework()
        return value if scope is None else scope.shown(value)

    def raised(self, error: BaseException) -> Outcome | None:
        """What *error* is, where it is a framework's own control flow."""
        outcomes = (scope.raised(error) for scope in self._loaded())
        return next((outcome for outcome in outcomes if outcome is not None), None)

    def stopped(self, stop: Stop) -> Stopped:
        """The exception for *stop*, of the framework in whose run it is raised."""
        scope, _ = self._framework()
        return Stopped(stop) if scope is None else scope.stopped(stop)

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
            placed = self.place(HERE)
            yield where if placed is None else placed.where
        finally:
            undone(self._set, tokens[0])
            undone(self._block, tokens[1])
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

    def _framework(self) -> tuple[Scope | None, Where | None]:
        """The framework in whose run this is asked, and where in it."""
        for scope in self._loaded():
            found = scope.find(self._guard)
            if found is not None:
                return scope, found
        return None, None

    def _loaded(self) -> Iterator[Scope]:
        """The scopes of the frameworks that are loaded by now."""
        for name, point in points().items():
            if name not in sys.modules:
                continue
            if name not in self._known:
                self._known[name] = None
                try:
                    self._known[name] = point.load()
                except Exception:
                    # Half a framework, or another version: it has no runs for us, the rest goes on.
                    log.exception("the scope for %r cannot be loaded", name)
            scope = self._known[name]
            if scope is not None:
                yield scope


def undone(var: ContextVar[T], token: Token[T]) -> None:
    """Take back what *token* set. A generator may be closed in another context than it was begun in:
    nothing was set there."""
    with suppress(ValueError):
        var.reset(token)


def laid(where: Where, over: Where | dict[str, Any]) -> Where:
    """*where* with the fields that *over* sets."""
    if isinstance(over, Where):
        over = {name: getattr(over, name) for name in Where.__struct_fields__}
    unknown = set(over) - set(Where.__struct_fields__)
    if unknown:
        known = ", ".join(Where.__struct_fields__)
        raise TypeError(f"no scope {min(unknown)!r}; there are {known}")
    said = {name: value for name, value in over.items() if value not in (None, "", ())}
    return in_text(replace(where, **said))


@cache
def points() -> dict[str, EntryPoint]:
    """The installed scopes, by the import name of their framework."""
    return {point.name: point for point in entry_points(group="lastcall.scopes")}
