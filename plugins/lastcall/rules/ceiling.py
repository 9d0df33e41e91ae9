"""At most so many executed tool calls in a turn, in all and per tool (requirement A1)."""

from __future__ import annotations

from typing import ClassVar, Literal

from lastcall.call import Call, Kind
from lastcall.contracts import Claim, Take
from lastcall.rules.settings import TOOLS, Settings
from lastcall.stop import Stop
from lastcall.tool import LimitOrNone

CALLS = "calls"
"""The name of the budget of a turn; that of a tool has the tool's name behind it."""


class Ceiling(Settings, frozen=True):
    """Refuse the call after *calls* executions in one turn; a failed execution counts too."""

    name: ClassVar[Literal["ceiling"]] = "ceiling"
    kinds: ClassVar[frozenset[Kind]] = TOOLS

    calls: LimitOrNone = 200
    """Executions in one turn, of all tools together; None: no limit, but counted."""
    alert: LimitOrNone = None
    """One alert is sent when this many were executed."""
    batch: Literal["first", "all-or-none"] = "first"
    """What a reply with more calls than are left gets: the first that arrive run and the rest are
    refused, or, where the size of the reply is known, it is refused as a whole."""

    def takes(self, call: Call) -> tuple[Claim, ...]:
        plain = self.batch == "first" and not call.raised
        limit = self.calls if plain else self.bound(call)
        turn = Take((call.shard, self.name, call.where.turn), 1, limit)
        tool = call.policy
        if tool.max_calls is None and tool.alert_calls is None:
            return (turn,)
        # The narrower one first: it is the better advice when both are used up.
        key = (call.shard, self.name, (call.where.turn, call.name))
        return (Take(key, 1, self.of_tool(call)), turn)

    def stop(self, call: Call, claim: Claim, observed: int, now: float) -> Stop:
        scope: Literal["turn", "tool"] = "turn" if of_turn(claim) else "tool"
        budget, limit = self.budget(call, claim)
        if limit is not None and claim.limit is not None and scope == "turn":
            # Under `all-or-none` the claim stood for the rest of its reply too.
            observed += limit - claim.limit
        return Stop.of(
            call,
            "ceiling",
            scope,
            now,
            rule=self.name,
            limit=limit,
            observed=observed,
            budget=budget,
        )

    def bound(self, call: Call) -> int | None:
        """The count that *call* may bring the turn to: lower by what its reply still has to ask for."""
        calls = self.of_all(call)
        if calls is None or self.batch == "first" or call.size is None:
            return calls
        before = call.reply_calls if call.reply == call.last_reply else 0
        return calls - max(call.size - 1 - before, 0)

    def of_all(self, call: Call) -> int | None:
        """The limit of the turn, with what a person added."""
        return self.calls and self.calls + call.raised.get(CALLS, 0)

    def of_tool(self, call: Call) -> int | None:
        """The limit of the tool, with what a person added."""
        most = call.policy.max_calls
        return most and most + call.raised.get(f"{CALLS}:{call.name}", 0)

    def alert_at(self, call: Call, claim: Claim) -> int | None:
        return self.alert if of_turn(claim) else call.policy.alert_calls

    def budget(self, call: Call, claim: Claim) -> tuple[str, int | None]:
        if of_turn(claim):
            return CALLS, self.of_all(call)
        return f"{CALLS}:{call.name}", self.of_tool(call)


def of_turn(claim: Claim) -> bool:
    """Whether the claim is on the counter of the whole turn, not on a tool's."""
    return not isinstance(claim.key[2], tuple)
