"""Requests to models: each is asked of each guard once, and settled with what it used."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from lastcall import Call, Guard, Outcome, Ticket, Where
from lastcall_langchain.places import around, whereabouts
from lastcall_langchain.roots import Run
from lastcall_langchain.runs import RUNS
from lastcall_langchain.shown import show
from lastcall_langchain.stops import ended
from lastcall_langchain.usage import hosted, name_hosted, offered, usage

MOST_OPEN = 10_000
"""Requests on their way; the oldest of more was never told to be over."""


@dataclass(slots=True, eq=False)
class Asked:
    """One request on its way."""

    where: Where
    offered: tuple[str, ...]
    """The tools that its provider runs by itself."""
    run: Run | None = None
    guards: set[Guard] = field(default_factory=set)
    """Those that were asked; several handlers tell of one request."""
    tickets: list[tuple[Guard, Ticket | None]] = field(default_factory=list)
    """Leave given; None where a request was let through for a last answer."""


class Requests:
    """Every request on its way, by the id of its run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: OrderedDict[UUID, Asked] = OrderedDict()

    def __len__(self) -> int:
        return len(self._asked)

    def first(self, request: UUID, guard: Guard, asked: Asked) -> Asked | None:
        """The record of *request* (*asked*, where there is none yet) when *guard* was not asked before."""
        with self._lock:
            found = self._asked.setdefault(request, asked)
            if guard in found.guards:
                return None
            found.guards.add(guard)
            while len(self._asked) > MOST_OPEN:
                self._asked.popitem(last=False)
            return found

    def closed(self, request: UUID) -> Asked | None:
        """The record of a request that is over, which is forgotten."""
        with self._lock:
            return self._asked.pop(request, None)


REQUESTS = Requests()


def request(where: Where) -> Call:
    """A request to the model, as the guard is asked about it."""
    return Call("model", kind="model", where=where)


def gate(
    guards: Iterable[Guard],
    run: Run | None,
    request_id: UUID,
    metadata: Mapping[str, Any] | None,
    messages: Sequence[Sequence[Any]],
    params: Any = None,
) -> None:
    """Raise RunStopped when one of *guards* has ended what a model is about to be asked for in *run*.

    *params* are those of the invocation, as the handler is told them.
    """
    where, tools = Where(), offered(params)
    if run is not None:
        where = whereabouts(run, metadata, around().get("configurable"))
    for guard in guards:
        if run is None and guard.here() is None:
            # A model asked by itself belongs to no run, so nothing could have ended it.
            continue
        asked = REQUESTS.first(request_id, guard, Asked(where, tools, run))
        if asked is None:
            continue
        if run is not None:
            RUNS.opened(run.root, request_id, partial(lost, request_id))
        if run is not None and RUNS.recall(run.root, guard):
            where = whereabouts(run, metadata, around().get("configurable"))
        name_hosted(guard, tools)
        if run is not None and RUNS.last.admits(run, guard, request_id):
            asked.tickets.append((guard, None))
            continue
        ticket = None if run is None else RUNS.granted(run, guard)
        if ticket is None:
            verdict = guard.decide(request(where))
            stop = verdict.ending or verdict.stop
            if stop is not None:
                show(stop, run)
                raise ended(stop, messages[0] if messages else ())
            ticket = verdict.ticket
        if ticket is not None:
            asked.tickets.append((guard, ticket))


def answered(request_id: UUID, response: Any) -> None:
    """A model answered *request_id* with *response*."""
    asked = closed(request_id)
    if asked is not None:
        settle(asked, Outcome(usage=usage(response), hosted=hosted(response, asked.offered)))


def failed(request_id: UUID, error: BaseException) -> None:
    """*request_id* came to *error*."""
    settle(closed(request_id), Outcome("error", str(error), error=type(error).__name__))


def unmade(request_id: UUID) -> None:
    """*request_id* was refused by one of the guards, so it is not made."""
    settle(closed(request_id), Outcome("cancelled", started=False))


def lost(request_id: UUID) -> None:
    """The run around *request_id* is over, and nobody told what came of it."""
    settle(closed(request_id), Outcome("lost"))


def closed(request_id: UUID) -> Asked | None:
    """The record of a request that is over, which is forgotten."""
    asked = REQUESTS.closed(request_id)
    if asked is not None and asked.run is not None:
        RUNS.closed(asked.run.root, request_id)
    return asked


def settle(asked: Asked | None, outcome: Outcome) -> None:
    """Tell every guard that gave leave what came of it."""
    if asked is None:
        return
    for guard, ticket in asked.tickets:
        if ticket is None:
            guard.note(request(asked.where), outcome)
        else:
            guard.observe(ticket, outcome)
    asked.tickets.clear()
