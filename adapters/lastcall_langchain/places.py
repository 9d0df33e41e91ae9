"""Where a call is made: its root run, the reply that asked for it, and who it is made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from langchain_core.runnables.config import var_child_runnable_config

from lastcall import Guard, ToolPolicy, Where
from lastcall_langchain.roots import Root, Run
from lastcall_langchain.runs import RUNS

PLAIN = ToolPolicy()
"""A tool of which nothing was said. One object, so that the guard knows it again."""


class Place(NamedTuple):
    """Where a call is made."""

    root: Root
    where: Where
    reply: str | None
    calls: tuple[str | None, ...] = ()
    """The ids of all calls of that reply, where they are known."""


def around() -> Mapping[str, Any]:
    """The config of the run in which this is asked."""
    return var_child_runnable_config.get() or {}


def run_of(config: Mapping[str, Any] | None = None) -> Run | None:
    """The run in which something is called with *config*, or here."""
    for each in (config, around()):
        parent = None if each is None else getattr(each.get("callbacks"), "parent_run_id", None)
        run = RUNS.get(parent)
        if run is not None:
            return run
    return None


def place(guard: Guard, config: Mapping[str, Any] | None = None) -> Place | None:
    """Where *guard* is about to judge a call made with *config*; None outside any run."""
    run = run_of(config)
    return None if run is None else placed(guard, run, *told_by(config))


async def aplace(guard: Guard, config: Mapping[str, Any] | None = None) -> Place | None:
    """`place` for an event loop."""
    run = run_of(config)
    if run is None:
        return None
    await RUNS.arecall(run.root, guard)
    return joined(guard, run, *told_by(config))


def placed(
    guard: Guard,
    run: Run,
    metadata: Mapping[str, Any] | None,
    configurable: Mapping[str, Any] | None,
) -> Place:
    """`place` of a call in *run*."""
    RUNS.recall(run.root, guard)
    return joined(guard, run, metadata, configurable)


def joined(
    guard: Guard,
    run: Run,
    metadata: Mapping[str, Any] | None,
    configurable: Mapping[str, Any] | None,
) -> Place:
    """The place of a call in *run*, whose root *guard* now has a part in."""
    RUNS.joined(run.root, guard)
    where = whereabouts(run, metadata, configurable)
    return Place(run.root, where, reply_of(run, metadata), calls_of(run))


def told_by(
    config: Mapping[str, Any] | None,
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The metadata of a call made with *config*, and what is configured for it."""
    said, here = config or {}, around()
    return (
        said.get("metadata") or here.get("metadata"),
        said.get("configurable") or here.get("configurable"),
    )


def whereabouts(
    run: Run, metadata: Mapping[str, Any] | None, configurable: Mapping[str, Any] | None
) -> Where:
    """The scope of a call made in *run*: one root is one run and one turn.

    The user is the one whom LangGraph's own server has checked; else `user_id`, like `tenant_id`, is looked
    for in `config["configurable"]`, in the context that the graph was invoked with, and in
    `config["metadata"]`.
    """
    said, given = metadata or {}, configurable or {}
    context = context_in(given)
    return Where(
        run=run.root.run,
        # Whoever calls tools one by one says himself what a turn is, or the run is.
        turn=None if run.root.bare else run.root.run,
        thread=text(said.get("thread_id") or given.get("thread_id")),
        agent=text(said.get("lc_agent_name")),
        user=text(
            # An identity that the server has checked is none that a client can replace.
            given.get("langgraph_auth_user_id")
            or given.get("user_id")
            or field_of(context, "user_id")
            or said.get("user_id")
        ),
        tenant=text(
            given.get("tenant_id") or field_of(context, "tenant_id") or said.get("tenant_id")
        ),
        path=path_of(run, said.get("lc_agent_name")),
        lane=lane_of(run, said.get("langgraph_checkpoint_ns")),
    )


def context_in(configurable: Mapping[str, Any]) -> Any:
    """The context that the graph around was invoked with; None without one."""
    # LangGraph's `get_runtime` looks in this place too, but in the config of the moment only.
    return getattr(configurable.get("__pregel_runtime"), "context", None)


def field_of(context: Any, name: str) -> Any:
    """A field of a context, which is a mapping or an object."""
    return context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)


def path_of(run: Run, name: str | None) -> tuple[str, ...]:
    """The names of the agents from the outermost to the one, called *name*, that makes a call in *run*."""
    names: list[str] = [name] if name else []
    at: Run | None = run
    below, begins = name, False
    while at is not None:
        # What an agent tells of itself is told of everything in it, up to the tool that runs it.
        if at.agent and (at.agent != below or begins):
            names.append(at.agent)
        below, begins = at.agent, at.begins
        at = at.parent
    return tuple(reversed(names))


def lane_of(run: Run, ns: str | None) -> str | None:
    """Tells graphs apart that run at once in one root; a resume gives the same."""
    if ns is None:
        return None
    at: Run | None = run
    while at is not None and at.ns == ns:
        at = at.parent
    return graph_of(ns, at)


def graph_of(ns: str, around_it: Run | None) -> str:
    """Names the graph of a task. A tool that runs a second graph has a second *nth*."""
    return f"{ns.rpartition('|')[0]}/{0 if around_it is None else around_it.nth}"


def reply_of(run: Run, metadata: Mapping[str, Any] | None) -> str | None:
    """Names the model message that asked for a call made in *run*; a resume gives it the same name.
    None where no model was seen."""
    said = metadata or {}
    ns, step = said.get("langgraph_checkpoint_ns"), said.get("langgraph_step")
    at: Run | None = run
    while at is not None and at.ns == ns:
        if at.requests:
            return f"{ns or at.id}#{at.requests}"
        at = at.parent
    # One step of one graph answers one message.
    return None if ns is None else f"{graph_of(ns, at)}@{step}"


def calls_of(run: Run) -> tuple[str | None, ...]:
    """The ids of the calls in the message that asked for a call made in *run*; empty when not heard."""
    return next((at.calls for at in run.asking() if at.calls), ())


def text(value: Any) -> str | None:
    """*value* as an identity; what is empty is none."""
    return None if value is None or value == "" else str(value)
