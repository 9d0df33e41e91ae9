"""The book of LangChain runs: which root each belongs to, for as long as it lives."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from lastcall import Guard, Stopped, Ticket
from lastcall_langchain.control import before_tools, pauses, resumes
from lastcall_langchain.last import LastAnswers
from lastcall_langchain.roots import Root, Run, finish, keep, outermost

MOST_RUNS = 100_000
"""Runs known at once; the oldest root of more was probably never ended."""

MOST_REFUSED = 1_000
"""Refused runs of which another thread may still tell that they began."""

MOST_PAUSED = 10_000
"""Paused or stopped roots that a resume may still continue."""


class Runs:
    """Every run that was begun and has not ended, and the roots that wait for a resume.

    Handlers tell it from many threads; guards are told to finish outside its lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[UUID, Run] = {}
        self._roots: OrderedDict[UUID, Root] = OrderedDict()
        self._paused: OrderedDict[tuple[str, str | None], Root] = OrderedDict()
        self._refused: OrderedDict[UUID, None] = OrderedDict()
        self.last = LastAnswers(self._lock)
        """The last answers of agents whose runs a guard has ended."""
        self.everywhere: tuple[Guard, ...] = ()
        """The guards of the whole process: each has a part in every root from its start."""

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
            if parent is None and run_id in self._refused:
                # Told too late by a thread of its own: what it was a part of is over, and nobody tells its end.
                return Run(run_id, Root(str(run_id), None), tool=tool, call_id=call_id)
            if parent is None:
                root = self._root(run_id, said, inputs, name, over)
                root.bare = tool is not None
            else:
                root, nth = parent.root, parent.children
                parent.children += 1
            ns = said.get("langgraph_checkpoint_ns")
            run = self._runs[run_id] = Run(run_id, root, parent, ns, nth, tool, call_id)
            run.agent = said.get("lc_agent_name")
            # What an agent says of itself is inherited by all within it; its graph alone is called like it,
            # and is in the task of whoever invokes it.
            alike = tool is None and name is not None and name == run.agent
            run.begins = alike and parent is not None and parent.ns == ns
            root.tools |= tool is not None
            thread = said.get("thread_id")
            if thread is not None and "ls_integration" in said:
                run.pausable = (str(thread), name)
                if parent is not None and ns is None:
                    self._inside(root, run.pausable, inputs, over)
            root.runs.add(run_id)
            while len(self._runs) > MOST_RUNS:
                over.append(self._forget(next(iter(self._roots))))
        finish(over)
        return run

    def refused(self, run_id: UUID, error: BaseException) -> None:
        """Forget a run that was refused at its start."""
        with self._lock:
            self._refused[run_id] = None
            if len(self._refused) > MOST_REFUSED:
                self._refused.popitem(last=False)
        self.ended(run_id, error)

    def ended(self, run_id: UUID, error: BaseException | None = None, outputs: Any = None) -> None:
        """Forget a run that ended, and with a root everything below it."""
        over: list[Root] = []
        waits: Root | None = None
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                return
            root, is_root = run.root, run_id in self._roots
            graph = outermost(run)
            if graph.pausable is not None and (
                pauses(error)
                if error is not None
                else graph is run and root.tools and before_tools(outputs)
            ):
                root.paused, root.pausable = True, graph.pausable
            elif graph.pausable is not None and graph is run and stopped(root, error):
                root.stopped, root.pausable = True, graph.pausable
            if error is not None and is_root and root.stop is not None:
                # Drained at our word: the exception is LangGraph's, the reason is ours.
                error.stop = root.stop  # type: ignore[attr-defined]
            if not is_root:
                del self._runs[run_id]
                root.runs.discard(run_id)
                return
            self._forget(run_id)
            if (root.paused or root.stopped) and root.pausable is not None:
                gone = [self._paused.pop(root.pausable, root)]
                self._paused[root.pausable] = root
                waits = root if root.paused else None
                while len(self._paused) > MOST_PAUSED:
                    gone.append(self._paused.popitem(last=False)[1])
                # The counts of a pause stay where they are kept; a resume may come, or their time is over.
                over.extend(each for each in gone if each is not root and not each.paused)
            else:
                over.append(root)
        if waits is not None:
            keep(waits)
        finish(over)

    def waits(self, run_id: UUID | None) -> None:
        """The graph of that run waits for somebody to resume it, and is about to end."""
        with self._lock:
            run = self.get(run_id)
            if run is not None and run.pausable is not None:
                run.root.paused, run.root.pausable = True, run.pausable

    def recall(self, root: Root, guard: Guard) -> bool:
        """Whether *guard* knows the run that *root* goes on with, since another process paused it."""
        if not root.foreign or root.pausable is None:
            return False
        return self._recalled(root, guard.pauses.find(*root.pausable))

    async def arecall(self, root: Root, guard: Guard) -> bool:
        """`recall` for an event loop."""
        if not root.foreign or root.pausable is None:
            return False
        return self._recalled(root, await guard.pauses.afind(*root.pausable))

    def grant(self, agent: Run, guard: Guard, ticket: Ticket) -> Ticket | None:
        """Keep *guard*'s leave for the next request of *agent*; gives back one that was never used."""
        with self._lock:
            unused = agent.granted.get(guard)
            agent.granted[guard] = ticket
        return unused

    def granted(self, run: Run, guard: Guard) -> Ticket | None:
        """*guard*'s leave for the request that is made in *run*, where it gave one."""
        with self._lock:
            return next((at.granted.pop(guard) for at in run.asking() if guard in at.granted), None)

    def opened(self, root: Root, request: UUID, close: Callable[[], None]) -> None:
        """A request to a model is on its way; *close* ends it when *root* is over before."""
        with self._lock:
            root.open[request] = close

    def closed(self, root: Root, request: UUID) -> None:
        """A request to a model is over."""
        with self._lock:
            root.open.pop(request, None)

    def asked(self, run: Run) -> None:
        """Count a request to a model made in *run*."""
        with self._lock:
            run.root.requests += 1
            for at in run.asking():
                at.requests += 1

    def replied(self, run: Run, calls: tuple[str | None, ...]) -> None:
        """A model that was asked in *run* answered with the *calls* of these ids."""
        with self._lock:
            for at in run.asking():
                at.calls = calls

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

    def _recalled(self, root: Root, pause: Any) -> bool:
        # The store was out of reach: the next who asks may hear more.
        if pause is not None and pause.unread:
            return False
        with self._lock:
            if pause is not None and root.foreign:
                root.run, root.kept = pause.run, True
            root.foreign = False
        return pause is not None

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
        root = None if pausable is None else self._waiting(pausable, inputs, over)
        if root is None:
            root = Root(str(run_id), pausable)
            root.foreign = pausable is not None and resumes(inputs)
        root.paused, root.stopped, root.stop = False, False, None
        for guard in self.everywhere:
            root.guards.add(guard)
        self._roots[run_id] = root
        return root

    def _waiting(
        self, pausable: tuple[str, str | None], inputs: Any, over: list[Root]
    ) -> Root | None:
        """The root that a graph begun with *inputs* goes on with; anything new gives up what waits."""
        root = self._paused.pop(pausable, None)
        # Nobody answers what a stop ended.
        if not resumes(inputs) or (root is not None and not root.paused and inputs is not None):
            if root is not None:
                over.append(root)
            return None
        if root is None:
            # The run may be named anew each time; of several in one thread the name has to tell.
            others = [
                key for key, each in self._paused.items() if key[0] == pausable[0] and each.paused
            ]
            root = self._paused.pop(others[0]) if len(others) == 1 else None
        return root

    def _inside(
        self, root: Root, pausable: tuple[str, str | None], inputs: Any, over: list[Root]
    ) -> None:
        """A graph begins inside a root that is no graph: what it goes on with, the root does."""
        waiting = self._waiting(pausable, inputs, over)
        if waiting is not None:
            root.run, root.kept = waiting.run, waiting.kept
            for guard in tuple(waiting.guards):
                root.guards.add(guard)

    def _forget(self, run_id: UUID) -> Root:
        root = self._roots.pop(run_id)
        for each in root.runs:
            run = self._runs.pop(each, None)
            if run is not None:
                root.unused.extend(run.granted.items())
        root.runs.clear()
        return root


def stopped(root: Root, error: BaseException | None) -> bool:
    """Whether a graph of *root* came to *error* by a stop."""
    return error is not None and (isinstance(error, Stopped) or root.stop is not None)


RUNS = Runs()
"""One for the process, as are the callbacks that fill it."""
