"""Finds the agent that `module:attribute` names, and who can play it."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any

from lastcall.live import Player, complete, in_a_line
from lastcall.live_function import FunctionPlayer
from lastcall.lived import Lived, lived
from lastcall.policy import Policy
from lastcall.policy_file import nearest
from lastcall.transcripts.recorded import Transcript
from lastcall.transcripts.said import Said

GROUP = "lastcall.live"


class AgentError(Exception):
    """Why there is no agent to live with, and what to do about it."""


class LiveAgent:
    """The agent of *name*, `module:attribute`, to be lived with run by run. Raises AgentError.

    A function without parameters makes the agent, anew for each run; it may be a coroutine function.
    """

    def __init__(self, name: str, loop: asyncio.Runner) -> None:
        self.name = name
        self._loop = loop
        self._found = attribute(name)
        self._next: Any = None
        player = player_of(self._found)
        self._makes = player is None and parameters(self._found) == 0
        if self._makes:
            self._next = self._make()
            player = player_of(self._next)
        if player is None and parameters(self._next if self._makes else self._found) == 2:  # noqa: PLR2004
            # A prompt and tools.
            player = FunctionPlayer()
        if player is None:
            what = self._next if self._makes else self._found
            raise AgentError(
                f"{name}: {described(what)} is no agent that is known here; known are LangChain and LangGraph"
                " agents (compiled graphs, runnables), an Agent of the OpenAI Agents SDK, a function without"
                " parameters that makes one, and a function agent(prompt, tools)"
            )
        self._player = player

    def gaps(self) -> Sequence[tuple[str, str]]:
        """What runs for real all the same, each with why."""
        return self._player.gaps(self._next if self._makes else self._found)

    def relive(self, transcript: Transcript, said: Said, policy: Policy) -> Lived:
        """*transcript* once more, by the words that the user *said* and under *policy*."""
        agent = self._found
        if self._makes:
            # What an agent remembers of one run is no affair of the next.
            agent = self._make() if self._next is None else self._next
            self._next = None
        return lived(transcript, said, self.name, agent, self._player, policy, self._loop)

    def _make(self) -> Any:
        try:
            made = self._found()
            return complete(self._loop, made) if inspect.isawaitable(made) else made
        except Exception as error:
            raise AgentError(f"{self.name}: making the agent failed: {in_a_line(error)}") from error


def attribute(name: str) -> Any:
    """What `module:attribute` names; modules are found from the working directory on. Raises AgentError."""
    module_name, colon, path = name.partition(":")
    if not colon or not module_name or not path:
        raise AgentError(f"{name}: write module:attribute, as in app.agents:clerk")
    here = os.getcwd()  # noqa: PTH109 - as it stands in sys.path
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent is not None and f"{module_name}.".startswith(f"{absent}."):
            raise AgentError(
                f"{name}: there is no module {absent}, neither in {here} nor installed; go where it is, or"
                " install it"
            ) from None
        raise AgentError(f"{name}: importing {module_name} failed: {in_a_line(error)}") from error
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            hint = nearest(part, [each for each in dir(found) if not each.startswith("_")])
            raise AgentError(f"{name}: there is no {part} in {module_name}{hint}") from None
    return found


def player_of(agent: object) -> Player | None:
    """Who plays *agent*; only frameworks that are loaded are asked, since it can be of no other. Raises
    AgentError where a framework's player cannot be loaded."""
    for point in entry_points(group=GROUP):
        if point.name not in sys.modules:
            continue
        try:
            player: Player = point.load()()
        except ImportError as error:
            raise AgentError(str(error)) from error
        if player.plays(agent):
            return player
    return None


def parameters(agent: Any) -> int | None:
    """How many parameters *agent* must be given; None where it cannot be called, or needs others than by
    place."""
    if not callable(agent):
        return None
    try:
        given = inspect.signature(agent).parameters.values()
    except (TypeError, ValueError):
        return None
    needed = [each for each in given if each.default is each.empty and each.kind not in VARIABLE]
    return None if any(each.kind is each.KEYWORD_ONLY for each in needed) else len(needed)


VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def described(value: Any) -> str:
    """What *value* is, for a person."""
    if inspect.isroutine(value):
        function: Callable[..., Any] = value
        return f"the function {function.__name__}{inspect.signature(function)}"
    if inspect.ismodule(value):
        return f"the module {value.__name__}"
    return f"an object of {type(value).__module__}.{type(value).__qualname__}"
