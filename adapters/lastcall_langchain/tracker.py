"""Knows the root run of every run, by one handler that is in all callback managers of the process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID
from weakref import WeakSet

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import register_configure_hook
from lastcall import Call, Guard, Outcome, Stop, Where

from lastcall_langchain.stops import ended, keep_quiet

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
    parent: Run | None
    ns: str | None
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


class Place(NamedTuple):
    """Where a call is made."""

    root: Root
    where: Where
    reply: str | None = None


class Tracker(BaseCallbackHandler):
    """Maps runs to their roots, forgets both when they end, and ends the runs that guards have ended.

    Never asynchronous (LangChain swallows what such a handler raises in synchronous runs) and never
    inline (that takes events from other handlers).
    """

    raise_error = True
    run_inline = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[UUID, Run] = {}
        self._roots: OrderedDict[UUID, Root] = OrderedDict()
        self._paused: OrderedDict[tuple[str, str | None], Root] = OrderedDict()

    def __len__(self) -> int:
        return len(self._runs) + len(self._roots) + len(self._paused)

    def __bool__(self) -> bool:
        # LangChain takes a handler that counts as false for none.
        return True

    @property
    def ignore_llm(self) -> bool:
        """Tokens are events of this kind, and each would cost a thread; chat models have their own."""
        return True

    @property
    def ignore_retry(self) -> bool:
        return True

    @property
    def ignore_custom_event(self) -> bool:
        return True

    # What LangChain tells.

    def on_chain_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        name = kwargs.get("name")
        self.began(run_id, parent_run_id, metadata, inputs=inputs, name=name)

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        tool = (serialized or {}).get("name") or kwargs.get("name")
        call_id = kwargs.get("tool_call_id")
        self.began(run_id, parent_run_id, metadata, inputs=input_str, tool=tool, call_id=call_id)

    def on_retriever_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        self.began(run_id, parent_run_id, metadata, inputs=query)

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002
        messages: list[list[Any]],
        *,
        run_id: UUID,  # noqa: ARG002
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        root = self.asked(parent_run_id)
        if root is not None:
            self.gate(tuple(root.guards), parent_run_id, metadata, messages)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        self.finished(run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        self.finished(run_id, error)

    on_tool_end = on_retriever_end = on_chain_end
    on_tool_error = on_retriever_error = on_chain_error

    # What is kept of it.

    def began(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        metadata: Mapping[str, Any] | None,
        *,
        inputs: Any = None,
        tool: str | None = None,
        call_id: str | None = None,
        name: str | None = None,
    ) -> Run:
        """The record of a run that begins; a second telling changes nothing."""
        said = metadata or {}
        over: list[Root] = []
        with self._lock:
            known = self._runs.get(run_id)
            if known is not None:
                return known
            # A parent that nobody told us of is somebody else's: a trace, or a run begun before us.
            parent = None if parent_run_id is None else self._runs.get(parent_run_id)
            nth = 0
            if parent is None:
                root = self._root(run_id, said, inputs, name, over)
            else:
                root, nth = parent.root, parent.children
                parent.children += 1
            ns = said.get("langgraph_checkpoint_ns")
            run = Run(run_id, root, parent, ns, nth, tool, call_id)
            self._runs[run_id] = run
            root.runs.add(run_id)
            while len(self._runs) > MOST_RUNS:
                over.append(self._forget(next(iter(self._roots))))
        self._finish(over)
        return run

    def claimed(self, run: Run, guard: Guard) -> bool:
        """Whether *guard* now guards this run of a tool; False when it did already."""
        with self._lock:
            new = guard not in run.guards
            run.guards.add(guard)
        return new

    def asked(self, parent_run_id: UUID | None) -> Root | None:
        """Count a request to a model; its root, where one is known."""
        with self._lock:
            run = None if parent_run_id is None else self._runs.get(parent_run_id)
            if run is None:
                return None
            run.root.requests += 1
            at: Run | None = run
            while at is not None:
                at.requests += 1
                # What a tool asks a model for is its own affair, not its caller's reply.
                at = None if at.tool is not None else at.parent
            return run.root

    def finished(self, run_id: UUID, error: BaseException | None = None) -> None:
        """Forget a run that ended, and with a root everything below it."""
        over: list[Root] = []
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                return
            root = run.root
            if error is not None:
                if pauses(error):
                    root.paused = True
                elif root.stop is not None and run_id in self._roots:
                    # Drained at our word: the exception is LangGraph's, the reason is ours.
                    error.stop = root.stop  # type: ignore[attr-defined]
            if run_id not in self._roots:
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
        self._finish(over)

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

    def _finish(self, over: Iterable[Root]) -> None:
        for root in over:
            root.over = True
            for guard in tuple(root.guards):
                guard.finish(root.run)

    # What others ask.

    def parent_of(self, config: Mapping[str, Any] | None) -> Run | None:
        """The run in which something is called with *config*, or here."""
        for each in (config, var_child_runnable_config.get()):
            manager = None if each is None else each.get("callbacks")
            parent = getattr(manager, "parent_run_id", None)
            run = None if parent is None else self._runs.get(parent)
            if run is not None:
                return run
        return None

    def place(self, guard: Guard, config: Mapping[str, Any] | None = None) -> Place | None:
        """Where a call made with *config* belongs, which *guard* is about to judge; None outside any
        run."""
        run = self.parent_of(config)
        if run is None:
            return None
        around = config or var_child_runnable_config.get() or {}
        return self.placed(guard, run, around.get("metadata"), around.get("configurable"))

    def placed(
        self,
        guard: Guard,
        run: Run,
        metadata: Mapping[str, Any] | None,
        configurable: Mapping[str, Any] | None,
    ) -> Place:
        """The same for what is known of the caller."""
        with self._lock:
            run.root.guards.add(guard)
        return Place(run.root, whereabouts(run, metadata, configurable), reply_of(run, metadata))

    def gate(
        self,
        guards: Sequence[Guard],
        parent_run_id: UUID | None,
        metadata: Mapping[str, Any] | None,
        messages: Sequence[Sequence[Any]] = (),
    ) -> None:
        """Raise RunStopped when one of *guards* has ended what a model is about to be asked for."""
        run = None if parent_run_id is None else self._runs.get(parent_run_id)
        if run is None:
            return
        around = var_child_runnable_config.get() or {}
        where = whereabouts(run, metadata, around.get("configurable"))
        for guard in guards:
            verdict = guard.decide(request(where))
            if verdict.ticket is not None:
                guard.observe(verdict.ticket, Outcome())
            stop = verdict.ending or verdict.stop
            if stop is not None:
                raise ended(stop, messages[0] if messages else ())


def request(where: Where) -> Call:
    """A request to the model as the guard is asked about it."""
    return Call("model", kind="model", where=where)


def whereabouts(
    run: Run, metadata: Mapping[str, Any] | None, configurable: Mapping[str, Any] | None
) -> Where:
    """The scope of a call made in *run*: one root is one run and one turn."""
    said, given = metadata or {}, configurable or {}
    thread = said.get("thread_id") or given.get("thread_id")
    return Where(
        run=run.root.run,
        turn=run.root.run,
        thread=text(thread),
        agent=text(said.get("lc_agent_name")),
        user=text(given.get("user_id") or said.get("user_id")),
        tenant=text(given.get("tenant_id") or said.get("tenant_id")),
    )


def reply_of(run: Run, metadata: Mapping[str, Any] | None) -> str | None:
    """Names the model message that asked for a call made in *run*. It is the same after a resume."""
    said = metadata or {}
    ns, step = said.get("langgraph_checkpoint_ns"), said.get("langgraph_step")
    at: Run | None = run
    while at is not None and at.ns == ns:
        if at.requests:
            return f"{ns or at.id}#{at.requests}"
        at = at.parent
    if ns is None:
        return None
    # One step of one graph answers one message. A tool that runs a second graph has a second *nth*.
    graph = ns.rpartition("|")[0]
    return f"{graph}/{0 if at is None else at.nth}@{step}"


def text(value: Any) -> str | None:
    """*value* as an identity; what is empty is none."""
    return None if value is None or value == "" else str(value)


def pauses(error: BaseException) -> bool:
    """Whether *error* is LangGraph's way to wait for a person."""
    return any(each.__name__ == "GraphInterrupt" for each in type(error).__mro__)


def bubbles(error: BaseException) -> bool:
    """Whether *error* is LangGraph's control flow and no failure: a pause, or a command to a parent."""
    return any(each.__name__ == "GraphBubbleUp" for each in type(error).__mro__)


def resumes(inputs: Any) -> bool:
    """Whether a graph is started to go on: with nothing new, or with the answer to a question."""
    return inputs is None or getattr(inputs, "resume", None) is not None


TRACKER = Tracker()

# A default, so that every context has it; a handler that is set there is in every manager.
_EVERYWHERE: ContextVar[Any] = ContextVar("lastcall_tracker", default=TRACKER)
register_configure_hook(_EVERYWHERE, inheritable=True)
keep_quiet()
