"""The last calls of a turn and what they brought, as bytes: looking for a pair is one memory search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from lastcall.call import Call, Outcome

HALF = 4
"""Bytes of a fingerprint or digest. Among 64 pairs two of them are mistaken for each other once in many
millions of calls, and one mistake alone stops nothing."""

PAIR = 2 * HALF
"""Bytes of a (call, result) pair."""

UNKNOWN = bytes(HALF)
"""The result of a call that has none yet."""


SIZE = 64
"""Calls that are remembered: half a kilobyte, which is what Python allocates fast."""

SLOTS = (1 << SIZE) - 1


class Past(Struct, frozen=True, gc=False):
    """Pairs in decision order, newest last. A pair in flight holds the last known result of its call:
    an equal call still running counts as equal."""

    pairs: bytes = b""
    open: int = 0
    """One bit a pair, the newest lowest: its outcome is not known yet."""
    stale: int = 0
    """How many settled calls in a row brought nothing that had not been seen before."""

    def __len__(self) -> int:
        return len(self.pairs) // PAIR

    def taken(self, call: Call) -> Past:
        """With a slot for *call*."""
        print_ = call.packed
        pairs = self.pairs
        last = self.last(print_) if print_ in pairs else UNKNOWN
        if len(pairs) >= SIZE * PAIR:
            pairs = pairs[PAIR:]
        return Past(pairs + print_ + last, (self.open << 1 | 1) & SLOTS, self.stale)

    def holds(self, call: Call) -> bool:
        """Whether *call* was made before."""
        return find(self.pairs, call.packed) >= 0

    def settled(self, call: Call, outcome: Outcome) -> Past:
        """With the result in the oldest open slot of *call*.

        Without a result to compare the slot stays as it is. The result is masked when this call brought
        another one before: only then does it matter what of it is volatile.
        """
        print_ = call.packed
        back = self.slot(print_)
        if back is None:
            return self
        left = self.open & ~(1 << back)
        if not outcome.known:
            return Past(self.pairs, left, self.stale)
        pairs = self.pairs
        at = len(pairs) - (back + 1) * PAIR
        digest = bytes.fromhex(outcome.digest[: 2 * HALF])
        known = False
        # A function of its own is asked only where the bytes are there at all.
        if pairs.find(print_, 0, at) >= 0 and find(pairs, print_, at) >= 0:
            known = find(pairs, print_ + digest, at) >= 0
            if not known:
                digest = packed(outcome.like)
                known = find(pairs, print_ + digest, at) >= 0
        pairs = pairs[: at + HALF] + digest + pairs[at + PAIR :]
        return Past(pairs, left, self.stale + 1 if known else 0)

    def slot(self, print_: bytes) -> int | None:
        """How far from the end the oldest open slot of a call is; None when it has none."""
        if self.open & 1 and self.pairs.endswith(print_, 0, -HALF) and self.open == 1:
            return 0
        for back in range(self.open.bit_length() - 1, -1, -1):
            at = len(self.pairs) - (back + 1) * PAIR
            if self.open >> back & 1 and self.pairs.startswith(print_, at):
                return back
        return None

    def last(self, print_: bytes) -> bytes:
        """The newest result of a call; zeros when it has none."""
        at = len(self.pairs)
        while (at := self.pairs.rfind(print_, 0, at)) >= 0:
            if at % PAIR == 0:
                return self.pairs[at + HALF : at + PAIR]
            at += HALF - 1
        return UNKNOWN


def find(pairs: bytes, start: bytes, end: int | None = None) -> int:
    """Where a pair that begins with *start* stands in *pairs* before *end*; -1 when there is none."""
    at = pairs.find(start, 0, end)
    while at >= 0 and at % PAIR:
        at = pairs.find(start, at + 1, end)
    return at


def packed(digest: str) -> bytes:
    """The first bytes of a digest in hex characters."""
    return bytes.fromhex(digest[: 2 * HALF])


NOTHING = Past()
