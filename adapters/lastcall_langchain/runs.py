"""The book of LangChain runs: which root each belongs to, for as long as it lives."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID
from weakref import WeakSet

from lastcall import Guard, Stop

MOST_RUNS = 100_000
"""Runs known at once; the oldest root of more was probably never ended."""

MOST_PAUSED = 10_000
"""Paused roots that a resume may still continue."""


@dataclass(slots=True, eq=False)
class Root:
    """One root invocation, with the resumes that continue it: one run and one turn of the guards."""

    run: str
    pausable: tuple[str, str | None] | None
    """Its thread and its graph's name, by which a resume is known."""
    guards: WeakSet[Guard] = field(default_factory=WeakSet)
    runs: set[UUID] = field(default_factory=set)
    requests: int = 0
    """Requests to a model seen so far."""
    stop: Stop | None = None
    """The stop for which the graph was asked to drain."""
    paused: bool = False
    over: bool = False


@dataclass(slots=True, eq=False)
class Run:
    """One run below a root."""

    id: UUID
    root: Root
    parent: Run | None = None
    ns: str | None = None
    """The LangGraph task it is in; None outside LangGraph."""
    nth: int = 0
    """How many siblings began before it."""
    tool: str | None = None
    call_id: str | None = None
    """The id of the tool call that it answers."""
    children: int = 0
    requests: int = 0
    """Requests to a model made for it, leaving out those that its tools make for themselves."""
    guards: WeakSet[Guard] = field(default_factory=WeakSet)
    """Those whose handler guards this run of a tool."""


class Runs:
    """Every run that was begun and has not ended, and the roots that wait for a resume.

    Handlers tell it from many threads; guards are told to finish outside its lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[UUID, Run] = {}
        self._roots: OrderedDict[UUID, Root] = OrderedDict()
        self._paused: OrderedDict[tuple[str, str | None], Root] = OrderedDict()

    def __len__(self) -> int:
        return len(self._runs) + len(self._roots) + len(self._paused)

    def get(self, run_id: UUID | None) -> Run | None:
        """The run with that id, while it lives."""
        return None if run_id is None else self._runs.get(run_id)

    def began(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        metadata: Mapping[str, Any] | None,
        *,
        inputs: Any = None,
        name: str | None = None,
        tool: str | None = None,
        call_id: str | None = None,
    ) -> Run:
        """The record of a run that begins; a second telling changes nothing."""
        said = metadata or {}
        over: list[Root] = []
        with self._lock:
            known = self._runs.get(run_id)
            if known is not None:
                return known
            # A parent that nobody told us of is somebody else's: a trace, or a run begun before us.
            parent = self.get(parent_run_id)
            nth = 0
            if parent is None:
                root = self._root(run_id, said, inputs, name, over)
            else:
                root, nth = parent.root, parent.children
                parent.children += 1
            ns = said.get("langgraph_checkpoint_ns")
            run = self._runs[run_id] = Run(run_id, root, parent, ns, nth, tool, call_id)
            root.runs.add(run_id)
            while len(self._runs) > MOST_RUNS:
                over.append(self._forget(next(iter(self._roots))))
        finish(over)
        return run

    def ended(self, run_id: UUID, error: BaseException | None = None) -> None:
        """Forget a run that ended, and with a root everything below it."""
        over: list[Root] = []
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                return
            root, is_root = run.root, run_id in self._roots
            if error is not None:
                root.paused |= pauses(error)
                if is_root and root.stop is not None:
                    # Drained at our word: the exception is LangGraph's, the reason is ours.
                    error.stop = root.stop  # type: ignore[attr-defined]
            if not is_root:
                del self._runs[run_id]
                root.runs.discard(run_id)
                return
            self._forget(run_id)
            if root.paused and root.pausable is not None:
                self._paused[root.pausable] = root
                while len(self._paused) > MOST_PAUSED:
                    over.append(self._paused.popitem(last=False)[1])
            else:
                over.append(root)
        finish(over)

    def asked(self, run: Run) -> None:
        """Count a request to a model made in *run*."""
        with self._lock:
            run.root.requests += 1
            at: Run | None = run
            while at is not None:
                at.requests += 1
                # What a tool asks a model for is its own affair, not its caller's reply.
                at = None if at.tool is not None else at.parent

    def joined(self, root: Root, guard: Guard) -> None:
        """*guard* judges calls of *root*, so it is told when that ends."""
        with self._lock:
            root.guards.add(guard)

    def guards(self, root: Root) -> tuple[Guard, ...]:
        """The guards that judged calls of *root*."""
        with self._lock:
            return tuple(root.guards)

    def claimed(self, run: Run, guard: Guard) -> bool:
        """Whether *guard* now guards this run of a tool; False when it did already."""
        with self._lock:
            new = guard not in run.guards
            run.guards.add(guard)
        return new

    def _root(
        self,
        run_id: UUID,
        metadata: Mapping[str, Any],
        inputs: Any,
        name: str | None,
        over: list[Root],
    ) -> Root:
        thread = metadata.get("thread_id")
        pausable = None if thread is None else (str(thread), name)
        root = None if pausable is None else self._paused.pop(pausable, None)
        if root is not None and not resumes(inputs):
            over.append(root)
            root = None
        if root is None:
            root = Root(str(run_id), pausable)
        root.paused = False
        self._roots[run_id] = root
        return root

    def _forget(self, run_id: UUID) -> Root:
        root = self._roots.pop(run_id)
        for each in root.runs:
            self._runs.pop(each, None)
        root.runs.clear()
        return root


def finish(over: Iterable[Root]) -> None:
    """Let every guard forget what it counted for roots that are over."""
    for root in over:
        root.over = True
        for guard in tuple(root.guards):
            guard.finish(root.run)


def pauses(error: BaseException) -> bool:
    """Whether *error* is LangGraph's way to wait for a person."""
    return any(each.__name__ == "GraphInterrupt" for each in type(error).__mro__)


def bubbles(error: BaseException) -> bool:
    """Whether *error* is LangGraph's control flow and no failure: a pause, or a command to a parent."""
    return any(each.__name__ == "GraphBubbleUp" for each in type(error).__mro__)


def resumes(inputs: Any) -> bool:
    """Whether a graph is started to go on: with nothing new, or with the answer to a question."""
    return inputs is None or getattr(inputs, "resume", None) is not None


RUNS = Runs()
"""One for the process, as are the callbacks that fill it."""
