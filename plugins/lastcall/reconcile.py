"""Says what became of a write that nobody knew the outcome of (requirement E6)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from lastcall.contracts import Key, Plan, Step
from lastcall.idempotency import kept
from lastcall.rules.identity import joined
from lastcall.rules.writes import Write, Writes


def reconciling(
    key: str, tenant: str | None, now: float, *, happened: bool, result: Any = None
) -> tuple[tuple[Key, ...], Step[bool]]:
    """The record of the write under *key*, and the step that settles it: it was carried out and brought
    *result*, or it never happened. The step's value is False where no write of that key waits to be settled at *now*, one that runs among them.

    Raises ValueError for a result that JSON cannot hold as it is.
    """
    text = None if result is None else kept(result)
    if result is not None and text is None:
        raise ValueError(
            f"the result of a write is kept as JSON, below 64 KiB; {type(result).__name__} is none"
        )
    keys: tuple[Key, ...] = ((("write", joined(tenant, key)), Writes.name),)
    return keys, partial(settled, now, happened=happened, text=text)


def settled(now: float, records: Sequence[Any], *, happened: bool, text: str | None) -> Plan[bool]:
    """The plan by which the write is settled."""
    state: Write | None = records[0]
    if state is None or not state.waits(now):
        return Plan(False)
    said = replace(state, phase="done", kept=text, status=None) if happened else None
    return Plan(True, [(0, said)])
