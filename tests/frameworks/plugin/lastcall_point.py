"""Puts a guard into a framework's own test run: `pytest -p lastcall_point`.

LASTCALL_POINT says where (see POINTS), LASTCALL_ADAPTER whose seams, LASTCALL_NOTES into which file it
is written, as JSON, what the guard was asked. The tests know nothing of it.
"""

from __future__ import annotations

import functools
import importlib
import json
import logging
import os
from collections import Counter
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path

import pytest


class Notes(logging.Handler):
    """What the guard was asked, and in which tests; what went wrong in it, which no test would show,
    since a permissive guard lets the call through."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.test = None
        self.events = Counter()
        self.tests = set()
        self.wrong = []
        self.guard = None

    def heard(self, event):
        """Listens to the guard. Requests to the model pass it too; tools are what is counted."""
        if event.kind in ("attempt", "refused") and event.tool != "model":
            self.events[event.kind] += 1
            self.tests.add(self.test)

    def emit(self, record):
        """The guard logs its faults, and whatever it swallows to let a run go on."""
        self.wrong.append(f"{self.test}: {record.getMessage()}")

    def write(self, start):
        # Each worker of xdist writes its own.
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        said = {
            "events": self.events,
            "tests": sorted(filter(None, self.tests)),
            "wrong": self.wrong,
            "left": len(self.guard.store) if self.guard else 0,
        }
        Path(f"{start}.{worker}.json").write_text(json.dumps(said))


NOTES = Notes()


def guarding(refuses):
    """The one guard of this process: it allows every call, or refuses every call."""
    from lastcall import Guard, Policy
    from lastcall.rules import Ceiling

    # A policy that allows nothing is no policy, so it has to be made past the check.
    nothing = Ceiling.model_construct(calls=0)
    policy = Policy().replaced(nothing) if refuses else Policy.permissive()
    logging.getLogger("lastcall").addHandler(NOTES)
    NOTES.guard = Guard(policy, listeners=[NOTES.heard])
    return NOTES.guard


def instrument(*, refuses=False):
    """Every tool call of the process, by the adapter's own entry."""
    adapter = importlib.import_module(os.environ["LASTCALL_ADAPTER"])
    return adapter.instrument(guarding(refuses))


def middleware(*, refuses=False):
    """A GuardMiddleware in every agent."""
    from lastcall_langchain import GuardMiddleware

    return prepended(GuardMiddleware(guarding(refuses)))


def prepended(first):
    """Put *first* before the middleware of every `create_agent`."""
    from langchain import agents
    from langchain.agents import factory

    create = factory.create_agent

    @functools.wraps(create)
    def create_agent(*args, middleware=(), **kwargs):
        return create(*args, middleware=[first, *middleware], **kwargs)

    agents.create_agent = factory.create_agent = create_agent

    def undo():
        agents.create_agent = factory.create_agent = create

    return undo


def bystander():
    """Nothing of Lastcall: a handler in every callback manager and a middleware in every agent that do
    nothing. What they change, anybody's would."""
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.tracers.context import register_configure_hook

    idle = BaseCallbackHandler()
    register_configure_hook(ContextVar("bystander", default=idle), inheritable=True)
    if find_spec("langchain") is None:
        return lambda: None

    from langchain.agents.middleware import AgentMiddleware, hook_config

    class Bystander(AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            return handler(request)

        async def awrap_tool_call(self, request, handler):
            return await handler(request)

        @hook_config(can_jump_to=["end"])
        def before_model(self, state, runtime):
            return None

        @hook_config(can_jump_to=["end"])
        async def abefore_model(self, state, runtime):
            return None

    return prepended(Bystander())


POINTS = {
    "instrument": instrument,
    "middleware": middleware,
    # The tests that fail under these are tests that the point reaches.
    "deny-instrument": functools.partial(instrument, refuses=True),
    "deny-middleware": functools.partial(middleware, refuses=True),
    "bystander": bystander,
}


def pytest_configure(config):
    config.add_cleanup(POINTS[os.environ["LASTCALL_POINT"]]())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    NOTES.test = item.nodeid


def pytest_sessionfinish():
    NOTES.write(os.environ["LASTCALL_NOTES"])
