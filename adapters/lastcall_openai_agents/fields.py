"""Tools of kinds of their own, guarded as the very objects they are, for hooks and whoever else is shown them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any

from lastcall_openai_agents import _sdk, recorded
from lastcall_openai_agents.calls import PLAIN
from lastcall_openai_agents.guards import EVERYWHERE
from lastcall_openai_agents.kinds import gap_of, guards_of_native
from lastcall_openai_agents.native import FIELDS, Body, body_of, kind_of
from lastcall_openai_agents.passing_on import guards_in
from lastcall_openai_agents.seams import Seam

DOING: ContextVar[tuple[Any, Body] | None] = ContextVar(
    "lastcall_openai_agents_doing", default=None
)
"""The tool that is executed in this task, and its body behind the guards of the moment."""


class Field:
    """The field in which a class of tools keeps what they do. It gives the guarded body to the call that
    is on its way, and else what it was given."""

    def __init__(self, owner: type, name: str) -> None:
        self.place = _sdk.Place(owner, name)
        self.there = True
        self._kept = False
        self._default: Any = vars(owner).get(name, self)

    def __get__(self, tool: Any, owner: type | None = None) -> Any:
        name = self.place.name
        if tool is None or name not in vars(tool):
            if self._default is self:
                raise AttributeError(f"{self.place.owner.__name__!r} has no attribute {name!r}")
            return self._default
        doing = DOING.get()
        return doing[1] if doing is not None and doing[0] is tool else vars(tool)[name]

    def __set__(self, tool: Any, value: Any) -> None:
        vars(tool)[self.place.name] = value

    def __delete__(self, tool: Any) -> None:
        del vars(tool)[self.place.name]

    def open(self) -> None:
        """Stand in for the class's own."""
        setattr(self.place.owner, self.place.name, self)

    def keep(self) -> None:
        """Stand in for good."""
        self._kept = True
        self.open()

    def close(self) -> None:
        """Put back the class's own, unless it is kept."""
        owner, name = self.place
        if self._kept or vars(owner).get(name) is not self:
            return
        if self._default is self:
            delattr(owner, name)
        else:
            setattr(owner, name, self._default)


def doing(native: _sdk.Native, execute: Callable[..., Any]) -> Callable[..., Any]:
    """*execute* of one kind of tool, behind the guards that are met here."""

    @wraps(execute)
    async def guarded(cls: Any, **given: Any) -> Any:
        call = given[native.given]
        tool = getattr(call, native.field)
        known = list(guards_of_native(tool))
        met = dict.fromkeys([*EVERYWHERE, *guards_in(given["hooks"])])
        guards = [guard for guard in met if guard not in known]
        if not guards or gap_of(tool) is not None:
            return await execute(cls, **given)
        field = kind_of(tool)[0]
        body = recorded.body(field) if recorded.TAPES else getattr(tool, field)
        for guard in guards:
            body = body_of(tool, body, guard, PLAIN, given["agent"])
        if not isinstance(inspect.getattr_static(type(tool), field, None), Field):
            # A class of its own making: a copy has to do.
            call, copied = copy.copy(call), copy.copy(tool)
            setattr(copied, field, body)
            setattr(call, native.field, copied)
            return await execute(cls, **{**given, native.given: call})
        token = DOING.set((tool, body))
        try:
            return await execute(cls, **given)
        finally:
            DOING.reset(token)

    return guarded


def seam_of(kind: type) -> Seam:
    """Where the SDK executes tools of *kind*."""
    native = _sdk.NATIVE[kind.__name__]
    return Seam(native.place, partial(doing, native))


SEAMS: dict[str, Seam | Field] = {
    **{kind.__name__: Field(kind, name) for kind, (name, _) in FIELDS.items()},
    **{f"a call of {kind.__name__}": seam_of(kind) for kind in FIELDS},
}
"""What has to stand in for the SDK's own, and for what: while `instrument` is on, and for good once there are
guarding hooks."""
