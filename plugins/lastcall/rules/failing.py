"""An equal call that keeps failing with the same error, also from one user message to the next."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Kind, Outcome
from lastcall.contracts import Part
from lastcall.rules.settings import TOOLS, Settings
from lastcall.stop import Stop
from lastcall.tool import Limit, ToolPolicy


class Failures(Struct, frozen=True, gc=False):
    """How often one call failed alike, and how."""

    count: int = 0
    digest: str | None = None
    status: int | None = None
    detail: str | None = None
    retry_after: float | None = None


NONE = Failures()


class Failing(Settings, frozen=True):
    """Refuse a call that failed *times* times with one error: a passing status gets two retries by
    that, and anything else two doubts. Counted in the thread, where it is known, else in the run."""

    name: ClassVar[Literal["failing"]] = "failing"
    kinds: ClassVar[frozenset[Kind]] = TOOLS
    quiet: ClassVar[bool] = True

    times: Limit = 3

    def record(self, tool: ToolPolicy) -> Part:
        return "thread"

    def start(self) -> Failures:
        return NONE

    def before(self, state: Failures, call: Call, now: float) -> Failures | Stop:
        if state.count < self.times:
            return state
        return Stop.of(
            call,
            "failing",
            "call",
            now,
            rule=self.name,
            status=state.status,
            detail=state.detail,
            retry_after=state.retry_after,
            limit=self.times,
            observed=state.count + 1,
        )

    def after(self, state: Failures, call: Call, outcome: Outcome, now: float) -> Failures:
        if outcome.kind == "ok":
            return NONE if state.count else state
        if outcome.kind != "error":
            return state
        digest = outcome.like
        if state.digest == digest:
            return replace(state, count=state.count + 1, retry_after=outcome.retry_after)
        return Failures(1, digest, outcome.status, outcome.error, outcome.retry_after)
