"""A root invocation and the runs below it: what is known of each while it lives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from uuid import UUID
from weakref import WeakKeyDictionary, WeakSet

from lastcall import Guard, Outcome, Stop, Ticket
from lastcall.body import Body
from lastcall_langchain.last import Last


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


def agent_of(run: Run) -> Run:
    """The run of the graph in one of whose nodes *run* is."""
    at = run
    while at.parent is not None and at.ns == run.ns:
        at = at.parent
    return at


def outermost(run: Run) -> Run:
    """The run of the outermost graph that *run* is in."""
    at = run
    while at.ns is not None and at.parent is not None:
        at = at.parent
    return at


def keep(root: Root) -> None:
    """Let every guard keep for the thread that *root* waits, for a resume in another process."""
    if root.pausable is not None:
        root.kept = True
        for guard in tuple(root.guards):
            guard.pauses.keep(root.run, *root.pausable)


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
                guard.pauses.drop(*root.pausable)
