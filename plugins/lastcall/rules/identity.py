"""Whose limit it is: the shard of a run, thread, agent, user or tenant, of which a call says what it knows."""

from __future__ import annotations

from typing import Literal

from lastcall.call import Call
from lastcall.contracts import Shard

Per = Literal["run", "thread", "agent", "user", "tenant", "all"]
"""Whom one limit counts together."""

OWN = frozenset({"run", "thread"})
"""Those of which one worker has the whole."""

ALL: Shard = ("all", None)


def shard_of(per: Per, call: Call) -> Shard | None:
    """The shard of everything that counts together with *call*; None when it is not known whose call it
    is, since nobody shares a limit with strangers. A user is one of a tenant, where that is known."""
    if per == "run":
        return call.shard
    if per == "all":
        return ALL
    where = call.where
    who = getattr(where, per)
    if not who:
        return None
    if per == "user" and where.tenant:
        who = joined(where.tenant, who)
    return (per, who)


def unknown(limit: str, per: Per) -> str:
    """Why *limit* is not applied to a call, and what to do about it."""
    return (
        f"the limit {limit} is not applied to calls of which the {per} is not known; say it with"
        f" `with guard.within({per}=...)`, or by the framework's own settings"
    )


def joined(*parts: str | None) -> str:
    """Several names as one, such that different ones stay different."""
    return "/".join(str(part or "").replace("%", "%25").replace("/", "%2F") for part in parts)


def named(name: str) -> list[str]:
    """The names that `joined` made into one."""
    return [each.replace("%2F", "/").replace("%25", "%") for each in name.split("/")]
