"""What every rule's settings have in common; a rule is its entry in the policy file."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, StrictBool

from lastcall.call import Call, Kind
from lastcall.contracts import Key

TOOLS: frozenset[Kind] = frozenset({"tool"})
"""The kinds of call that repeat rules look at: an attempt of a call already counted is none."""


class Settings(BaseModel, frozen=True):
    """Frozen settings; an unknown key is an error, not a rule that silently does nothing."""

    model_config = ConfigDict(extra="forbid")

    enforce: StrictBool = True
    """False: decide, log and report, and refuse nothing."""


def in_turn(call: Call, rule: str, *rest: Any) -> Key:
    """The key of a record that lives as long as the turn of *call*."""
    return (call.shard, rule, call.where.turn, *rest)
