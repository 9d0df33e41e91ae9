"""Idempotency keys of writes, and the results that are kept under them (requirement E1).

The header they travel in is `Idempotency-Key` (IETF draft-ietf-httpapi-idempotency-key-header).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from lastcall.call import Call, Outcome, Where, as_text
from lastcall.fingerprint import arguments, canonical
from lastcall.tool import ToolPolicy
from lastcall.verdict import Ticket

LONGEST = 255
"""Characters of a key; some services take no longer ones."""

DIGEST = 32
"""Hex characters of the hash at a key's end: 128 bits."""

MOST = 64 * 1024
"""Bytes of a result that is kept."""

NOBODY = "_"
"""In place of a tenant, where none is known."""

PLAIN = re.compile(r"[A-Za-z0-9._/-]{1,64}")
"""A name that may stand in a key as it is; an e-mail address, say, may not."""

VISIBLE = re.compile(r"[!-~]+")
"""What a header's value may consist of (RFC 9110, section 5.5), without blanks."""


def operation_key(
    operation: str,
    args: Any,
    *,
    tenant: str | None = None,
    identity: Collection[str] = (),
    volatile: Collection[str] = (),
) -> str | None:
    """The key of a write: `tenant:operation:hash`, equal for a retry and for a re-plan of the same one.

    The hash is of those *args* (a mapping, or JSON text) that *identity* names; with none named, of all but
    the *volatile* ones. Names with other characters than letters, digits and `._/-` are hashed, so that a
    key holds no personal data. At most 255 characters. None: an argument that *identity* names is not
    there, or null, so this write cannot be told from others.
    """
    told = arguments(args, () if identity else volatile)
    if identity:
        if not isinstance(told, dict) or any(told.get(name) is None for name in identity):
            return None
        told = {name: told[name] for name in identity}
    return f"{plain(tenant)}:{plain(operation)}:{hashed(canonical(told))}"


def keyed(call: Call, where: Where, tool: ToolPolicy) -> tuple[str | None, str]:
    """The key of a write, the caller's own or made for it, and what tells its parameters from others."""
    key = own(as_text(call.key) or "") if call.key else None
    if not key:
        key = operation_key(
            call.name,
            call.args,
            tenant=where.tenant,
            identity=tool.identity,
            volatile=tool.volatile,
        )
        if not tool.identity:
            # It says all of them. A policy that names an identity later on must not take that for others.
            return key, (key or "").rpartition(":")[2]
    return key, params_of(call.args, tool.volatile)


def own(key: str) -> str:
    """A caller's key as it may travel in a header: visible ASCII, at most 255 characters, else hashed."""
    fits = len(key) <= LONGEST and VISIBLE.fullmatch(key)
    return key if fits else "~" + hashed(key.encode("utf-8", "backslashreplace"))


def params_of(args: Any, volatile: Collection[str] = ()) -> str:
    """The hash of all parameters: the same key with another one of these is a conflict."""
    return hashed(canonical(arguments(args, volatile)))


def kept(result: Any) -> str | None:
    """*result* as JSON, for `Outcome.kept`. None where JSON would make something else of it, or where it
    has 64 KiB or more."""
    try:
        text = msgspec.json.encode(result)
        if len(text) >= MOST or not same(msgspec.json.decode(text), result):
            return None
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return text.decode()


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of the same types throughout."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def plain(name: str | None) -> str:
    """*name* as a part of a key; `_` for none."""
    if name is None:
        return NOBODY
    return (
        name
        if name != NOBODY and PLAIN.fullmatch(name)
        else "~" + hashed(name.encode("utf-8", "backslashreplace"))
    )


def hashed(data: bytes) -> str:
    """128 bits that tell *data* from anything else."""
    return sha256(data).hexdigest()[:DIGEST]


def remembered(ticket: Ticket, outcome: Outcome, result: Any) -> Outcome:
    """*outcome* with *result*, in the form in which it is handed over, where a repeat is answered by it."""
    if ticket.call.policy.on_repeat != "replay" or outcome.kind != "ok":
        return outcome
    return replace(outcome, kept=kept(result))
