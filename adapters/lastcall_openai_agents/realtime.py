"""Realtime sessions: a run there is what follows one utterance of the user."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

from agents.tool_context import ToolContext

from lastcall_openai_agents import _sdk
from lastcall_openai_agents.around import aloosened
from lastcall_openai_agents.seams import Seam


def reply(ctx: ToolContext[Any]) -> str | None:
    """The name of the reply that a call in a realtime session belongs to: the call itself, since the
    session does not tell which calls came together. None for calls elsewhere."""
    session = _sdk.realtime()
    if session is None or not isinstance(ctx.agent, session.agent):
        return None
    listening(session.place).keep()
    return ctx.tool_call_id


_SEAMS: dict[_sdk.Place, Seam] = {}


def listening(place: _sdk.Place) -> Seam:
    """What hears the events of every session. It begins with the first call, and stays."""
    return _SEAMS.setdefault(place, Seam(place, hearing))


def hearing(on_event: Callable[..., Any]) -> Callable[..., Any]:
    """*on_event* of a session, which ends its run when the user has said something new."""
    heard: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()

    @wraps(on_event)
    async def hearing(self: Any, event: Any) -> Any:
        item: Any = getattr(event, "item", None)
        if getattr(item, "role", None) == "user":
            known = heard.get(self)
            if known is None:
                known = heard[self] = _sdk.items_of(self)
            if item.item_id not in known:
                known.add(item.item_id)
                await aloosened(id(_sdk.usage_of(self)))
        return await on_event(self, event)

    return hearing
