"""What a recording knows of a call beside what every transcript may: what the guard went by when it was live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from lastcall.call import Kind, Outcome, Where


class Live(Struct, frozen=True):
    """One call as the guard saw it.

    *begun* and *ended* order everything that happened in a recording: the decision about the call, and its
    settlement (None: none was recorded). *outcome* has the digests of the real result.
    """

    where: Where
    kind: Kind
    begun: int
    ended: int | None = None
    settled_at: float | None = None
    """When it was settled, in epoch seconds."""
    fingerprint: str | None = None
    near: str | None = None
    reply: str | None = None
    index: int = 0
    size: int | None = None
    key: str | None = None
    params: str = ""
    into: str | None = None
    """The agent that would have gone to work by it."""
    policy: str | None = None
    """The version of the policy that judged it."""
    tool: Mapping[str, Any] = {}
    """What was said of the tool: fields of `ToolPolicy`."""
    outcome: Outcome | None = None
    refused: tuple[tuple[str, str], ...] = ()
    """The reason and scope of the stops that refused it then."""
    stopped: tuple[tuple[str, str], ...] = ()
    """Those of the stops that its answer was."""
    inside: bool = False
    """Whether it is a further attempt, made inside of a call."""
