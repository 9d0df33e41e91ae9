"""Agents that call each other in a circle, or too deep (requirement G2)."""

from __future__ import annotations

from typing import ClassVar, Literal

from lastcall.call import Call, Kind
from lastcall.contracts import Part
from lastcall.rules.settings import TOOLS, Settings
from lastcall.stop import Stop
from lastcall.tool import Limit, ToolPolicy


class Path(Settings, frozen=True):
    """Refuse to let an agent go to work that is at work further out already, or more than *depth* agents deep:
    the call of it as a tool, and, where only its own calls show whose they are, each of those; it may still
    answer whoever called it.

    It keeps no record: the path of the call is enough. A hand-over
    replaces the last of the path, so agents that hand over to each other and back make no circle.
    """

    name: ClassVar[Literal["path"]] = "path"
    kinds: ClassVar[frozenset[Kind]] = TOOLS
    quiet: ClassVar[bool] = False

    depth: Limit = 8
    """Agents on a path, the outermost included."""

    def record(self, tool: ToolPolicy) -> Part:
        return "none"

    def start(self) -> None:
        return None

    def before(self, state: None, call: Call, now: float) -> Stop | None:
        path = call.where.path if call.into is None else (*call.where.path, call.into)
        if len(path) <= self.depth and len(set(path)) == len(path):
            return None
        return Stop.of(
            call, "path", "call", now, rule=self.name, limit=self.depth, observed=len(path)
        )
