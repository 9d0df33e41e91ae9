"""What a turn remembers of its calls: how many, the last write, who was seen before, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from lastcall.call import Call, Outcome
from lastcall.money import Amount
from lastcall.past import NOTHING, Past
from lastcall.stop import Scope, Stop

KEPT = 128
"""Identities of one reply that are remembered."""

RECENT = 48
"""Identities remembered across replies: a resume or a retry comes soon or not at all."""

IDENTITY = 8

ENTRY = IDENTITY + 1
"""Bytes of one and of its attempts."""

ONCE = b"\x01"


class Ended(Struct, frozen=True, gc=False):
    """The stop that ended the turn or the run, as far as later refusals repeat it."""

    reason: str
    scope: Scope
    tool: str
    status: int | None = None
    limit: Amount | None = None
    observed: Amount | None = None
    retry_after: float | None = None
    rule: str | None = None
    asked: bool = False
    """Whether a person was asked, and ended it."""
    budget: str | None = None
    until: float | None = None
    """Epoch seconds at which it lifts by itself; None: not before the turn, or the run, is over."""

    @property
    def why(self) -> str:
        """The reason in a few words."""
        return self.reason if self.status is None else f"{self.reason}, HTTP {self.status}"

    @classmethod
    def by(cls, stop: Stop) -> Ended:
        """What later refusals repeat of *stop*."""
        return cls(
            stop.reason,
            stop.scope,
            stop.tool,
            stop.status,
            stop.limit,
            stop.observed,
            stop.retry_after,
            stop.rule,
            stop.asked,
            stop.budget,
            None if stop.resets_at is None else stop.resets_at.timestamp(),
        )

    def holds(self, now: float) -> bool:
        """Whether it has not lifted yet."""
        return self.until is None or now < self.until


class Turn(Struct, frozen=True, gc=False):
    """The record of the turn at hand, one a run; every decision reads it."""

    turn: str | None = None
    order: int = 0
    """Calls granted so far."""
    reply: str | None = None
    """The reply of the last of them."""
    reply_calls: int = 0
    """How many of them that reply had."""
    write: int = 0
    """The order of the last call not declared `reads`."""
    writer: str = ""
    """Its fingerprint."""
    other_write: int = 0
    """The order of the last such call of another fingerprint than *writer*."""
    seen: bytes = b""
    """Identities and their attempts, newest last."""
    ended: Ended | None = None
    past: Past = NOTHING
    closed: tuple[Ended, ...] = ()
    """Tools that no call of this turn may use any more."""
    raised: dict[str, int] = {}
    """By how much a person raised the limits of the run, by the budget's name."""
    asked: dict[str, int] = {}
    """How often a person was asked about a call of this turn, by `asked_of`."""

    def at(self, call: Call) -> Turn:
        """This record, or a new one when *call* belongs to another turn. What ended the run stays."""
        if self.turn == call.where.turn:
            return self
        ended = self.ended if self.ended is not None and self.ended.scope != "turn" else None
        return Turn(turn=call.where.turn, ended=ended, raised=self.raised)

    def lifted(self, now: float) -> Turn:
        """Open again, where what ended it has lifted by itself."""
        if self.ended is None or self.ended.holds(now):
            return self
        return replace(self, ended=None)

    def attempts(self, identity: bytes | None) -> int:
        """How often the call of that identity was started already."""
        at = -1 if identity is None else self.find(identity)
        return 0 if at < 0 else self.seen[at + IDENTITY]

    def last_write(self, call: Call) -> int:
        """The order of the last call not declared `reads`, leaving out equal ones of *call*."""
        return self.other_write if self.writer == call.fingerprint else self.write

    def granted(self, call: Call, identity: bytes | None) -> Turn:
        """With *call* counted, or with one more attempt of it."""
        seen = self.seen
        if call.kind == "attempt" and identity is not None:
            at = self.find(identity) + IDENTITY
            return replace(self, seen=seen[:at] + bytes((seen[at] + 1,)) + seen[at + 1 :])
        if call.kind != "tool":
            return self
        if identity is not None:
            seen = self.seen_with(call, identity)
        order, write, writer, other = self.order + 1, self.write, self.writer, self.other_write
        if not call.policy.reads:
            print_ = call.fingerprint
            other = other if print_ == writer else write
            write, writer = order, print_
        return Turn(
            self.turn,
            order,
            call.reply,
            self.reply_calls + 1 if call.reply == self.reply else 1,
            write,
            writer,
            other,
            seen,
            self.ended,
            self.past if call.policy.exempt else self.past.taken(call),
            self.closed,
            self.raised,
            self.asked,
        )

    def answered(self, call: Call, identity: bytes | None) -> Turn:
        """With *call* known, which was answered in place of being made."""
        if call.kind != "tool" or identity is None:
            return self
        return replace(self, seen=self.seen_with(call, identity))

    def seen_with(self, call: Call, identity: bytes) -> bytes:
        """What was seen, with that first start of *call*."""
        # All of the reply at hand, however many it has; of those before it the latest.
        kept = KEPT if call.reply == self.reply else max(RECENT, self.reply_calls)
        return self.seen[-(kept - 1) * ENTRY :] + identity + ONCE

    def settled(self, call: Call, outcome: Outcome) -> Turn:
        """With what *call* brought, unless this is another turn by now."""
        if self.turn != call.where.turn:
            return self
        if call.kind == "attempt" and outcome.kind == "paused":
            return self.given_back(identity_of(replace(call, kind="tool")))
        if call.kind != "tool":
            return self
        past = self.past.settled(call, outcome)
        if call.policy.max_repeats is not None:
            # Its own limit says how often it may bring nothing new; that is no sign of a stale turn.
            past = replace(past, stale=self.past.stale)
        return replace(self, past=past)

    def given_back(self, identity: bytes | None) -> Turn:
        """With one attempt of that call less: it waits for a person, which is no try."""
        found = -1 if identity is None else self.find(identity)
        at = found + IDENTITY
        if found < 0 or self.seen[at] < 2:  # noqa: PLR2004 - the first start stays, or it would count again
            return self
        return replace(
            self, seen=self.seen[:at] + bytes((self.seen[at] - 1,)) + self.seen[at + 1 :]
        )

    def stopped(self, stop: Stop) -> Turn:
        """Ended, when *stop* reaches that far and nothing wider has."""
        if stop.scope == "turn" and stop.turn != self.turn:
            # A late answer to a call of an earlier turn ends nothing of this one.
            return self
        if stop.scope == "tool" and stop.turn == self.turn:
            return self.with_closed(Ended.by(stop))
        if not stop.ends_run or (self.ended is not None and self.ended.scope != "turn"):
            return self
        if self.ended is not None and stop.scope == "turn":
            return self
        return replace(self, ended=Ended.by(stop))

    def with_closed(self, tool: Ended) -> Turn:
        """With that tool closed for the turn."""
        before = next((each for each in self.closed if each.tool == tool.tool), None)
        if before is None:
            return replace(self, closed=(*self.closed, tool))
        if before.until is None or (tool.until is not None and tool.until <= before.until):
            return self
        closed = tuple(tool if each is before else each for each in self.closed)
        return replace(self, closed=closed)

    def pardoned(self, call: Call, more: Mapping[str, int], asked: int) -> Turn:
        """Open again, with limits raised by *more*: a person who was asked so often let *call* pass."""
        raised = {
            name: self.raised.get(name, 0) + more.get(name, 0) for name in (*self.raised, *more)
        }
        at = asked_of(call)
        return replace(
            self,
            ended=None,
            closed=tuple(each for each in self.closed if each.tool != call.tool),
            raised=raised,
            asked=self.asked if at is None else {**self.asked, at: asked},
        )

    def find(self, identity: bytes) -> int:
        """Where an identity stands in `seen`; -1 when it does not."""
        at = self.seen.find(identity)
        while at >= 0 and at % ENTRY:
            at = self.seen.find(identity, at + 1)
        return at


def identity_of(call: Call) -> bytes | None:
    """Eight bytes for (reply, call id, fingerprint). Without an id or a reply a call cannot be told from
    an equal one, so each is a call of its own."""
    if call.id is None or call.reply is None or call.kind != "tool":
        return None
    return call.packed + crc32(
        f"{call.reply}\0{call.id}".encode("utf-8", "surrogatepass")
    ).to_bytes(4)


def asked_of(call: Call) -> str | None:
    """What tells a call that a person was asked about from others; None when nothing does."""
    return None if call.id is None or call.kind == "model" else f"{call.reply} {call.id}"
