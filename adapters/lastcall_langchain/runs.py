"""The book of LangChain runs: which root each belongs to, for as long as it lives."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary, WeakSet

from lastcall import Guard, Outcome, Stop, Stopped, Ticket
from lastcall.body import Body

MOST_RUNS = 100_000
"""Runs known at once; the oldest root of more was probably never ended."""

MOST_REFUSED = 1_000
"""Refused runs of which another thread may still tell that they began."""

MOST_PAUSED = 10_000
"""Paused or stopped roots that a resume may still continue."""


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
    answered: WeakKeyDictionary[Guard, set[str | None]] = field(default_factory=WeakKeyDictionary)
    """The runs of each guard for which a last answer was asked."""
    bare: bool = False
    """Whether it is one call of a tool and nothing round it: that is no turn."""
    paused: bool = False
    stopped: bool = False
    """Whether it came to an exception that tells of a stop: the turn goes on, and is refused, if the graph
    does so with nothing new."""
    tools: bool = False
    """Whether a tool was called in it."""
    over: bool = False
    foreign: bool = False
    """Whether it goes on with a run that this process has not seen; its guards may know which."""
    kept: bool = False
    """Whether its guards keep for the thread that it waits."""
    open: dict[UUID, Callable[[], None]] = field(default_factory=dict)
    """Requests to models on their way, each with how it is closed when nobody tells of its end."""
    unused: list[tuple[Guard, Ticket]] = field(default_factory=list)
    """Leave for requests that were never made."""


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
    calls: tuple[str | None, ...] = ()
    """The ids of the calls in the last message that a model answered in it, where a handler heard."""
    agent: str | None = None
    """The name of the agent, where it says one."""
    begins: bool = False
    """Whether an agent begins here, perhaps one that has the name of the agent around it."""
    pausable: tuple[str, str | None] | None = None
    """Its thread and its name, where it is a run of a graph."""
    granted: dict[Guard, Ticket] = field(default_factory=dict)
    """Leave for the next request to a model, where it was asked for before the node that makes it."""
    bodies: dict[Guard, Body] = field(default_factory=dict)
    """The body of this run of a tool, as the handler of each guard keeps it."""
    last: dict[Guard, Last] = field(default_factory=dict)
    """What each guard asks of the agent that runs here when it ends it."""

    def asking(self) -> Iterator[Run]:
        """It and those around it, up to a tool: what that asks a model for is its own affair."""
        at: Run | None = self
        while at is not None:
            yield at
            at = None if at.tool is not None else at.parent


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
        return self._recalled(root, guard.paused(*root.pausable))

    async def arecall(self, root: Root, guard: Guard) -> bool:
        """`recall` for an event loop."""
        if not root.foreign or root.pausable is None:
            return False
        return self._recalled(root, await guard.apaused(*root.pausable))

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

    # The last answer: one more request for a run that a guard has ended.

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


def agent_of(run: Run) -> Run:
    """The run of the graph in one of whose nodes *run* is."""
    at = run
    while at.parent is not None and at.ns == run.ns:
        at = at.parent
    return at


def keep(root: Root) -> None:
    """Let every guard keep for the thread that *root* waits, for a resume in another process."""
    if root.pausable is not None:
        root.kept = True
        for guard in tuple(root.guards):
            guard.pause(root.run, *root.pausable)


def finish(over: Iterable[Root]) -> None:
    """Let every guard forget what it counted for roots that are over."""
    for root in over:
        root.over = True
        for close in tuple(root.open.values()):
            close()
        for guard, ticket in root.unused:
            guard.observe(ticket, Outcome("cancelled", started=False))
        root.unused.clear()
        for guard in tuple(root.guards):
            guard.finish(root.run)
            if root.kept and root.pausable is not None:
                guard.resumed(*root.pausable)


def outermost(run: Run) -> Run:
    """The run of the outermost graph that *run* is in."""
    at = run
    while at.ns is not None and at.parent is not None:
        at = at.parent
    return at


def before_tools(outputs: Any) -> bool:
    """Whether a graph ended before its tools were called: a breakpoint tells of itself by nothing else."""
    messages = outputs.get("messages") if isinstance(outputs, Mapping) else None
    last = messages[-1] if isinstance(messages, list) and messages else None
    return bool(getattr(last, "tool_calls", None))


def pauses(error: BaseException) -> bool:
    """Whether *error* is LangGraph's way to wait for a person."""
    return any(each.__name__ == "GraphInterrupt" for each in type(error).__mro__)


def stopped(root: Root, error: BaseException | None) -> bool:
    """Whether a graph of *root* came to *error* by a stop."""
    return error is not None and (isinstance(error, Stopped) or root.stop is not None)


def bubbles(error: BaseException) -> bool:
    """Whether *error* is LangGraph's control flow and no failure: a pause, or a command to a parent."""
    return any(each.__name__ == "GraphBubbleUp" for each in type(error).__mro__)


def resumes(inputs: Any) -> bool:
    """Whether a graph is started to go on: with nothing new, or with the answer to a question."""
    return inputs is None or getattr(inputs, "resume", None) is not None


RUNS = Runs()
"""One for the process, as are the callbacks that fill it."""
