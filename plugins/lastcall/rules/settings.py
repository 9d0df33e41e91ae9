"""What every rule's settings have in common; a rule is its entry in the policy file."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, StrictBool

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Release, Take
from lastcall.stop import Stop

TOOLS: frozenset[Kind] = frozenset({"tool"})
"""The kinds of call that repeat rules look at: an attempt of a call already counted is none."""


class Settings(BaseModel, frozen=True):
    """Frozen settings; an unknown key is an error, not a rule that silently does nothing."""

    model_config = ConfigDict(extra="forbid")

    enforce: StrictBool = True
    """False: decide, log and report, and refuse nothing."""

    @property
    def lasting(self) -> bool:
        """Whether it counts something beyond a run and its thread, which workers would have to share."""
        return False

    def refused(self, state: Any, call: Call, stop: Stop, now: float) -> Any:
        """Most rules learn nothing from a refusal: limits do not move by it."""
        return state

    def after(self, state: Any, call: Call, outcome: Outcome, now: float) -> Any:
        """Some rules learn nothing from an outcome."""
        return state

    def settle(self, call: Call, outcome: Outcome, taken_at: float) -> tuple[Release | Take, ...]:
        """What a tally took stays spent, whatever came of the call."""
        return ()
