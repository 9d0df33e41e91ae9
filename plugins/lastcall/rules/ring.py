"""The last calls of a turn and what they brought, as bytes: looking for a pair is one memory search."""

from __future__ import annotations

from msgspec import Struct

from lastcall.call import Call, Outcome

HALF = 8
PAIR = 2 * HALF
"""Bytes of a (call, result) pair."""


class Ring(Struct, frozen=True):
    """Pairs in decision order, newest last. A pair in flight holds the last known result of its call:
    an equal call still running counts as equal."""

    pairs: bytes = b""
    open: int = 0
    """One bit a pair, the newest lowest: its outcome is not known yet."""

    def __len__(self) -> int:
        return len(self.pairs) // PAIR

    def taken(self, call: Call, size: int) -> Ring:
        """With a slot for *call*, at most *size* in all."""
        print_ = packed(call.fingerprint)
        pairs = (self.pairs + print_ + self.last(print_))[-size * PAIR :]
        return Ring(pairs, (self.open << 1 | 1) & ((1 << size) - 1))

    def filled(self, call: Call, outcome: Outcome) -> Ring:
        """With the result of *call* in its slot."""
        return self.settled(call, outcome)[0]

    def settled(self, call: Call, outcome: Outcome) -> tuple[Ring, bool]:
        """With the result in the oldest open slot of *call*, and whether that pair stood before it.

        The result is masked when this call brought another one before: only then does it matter what
        of it is volatile.
        """
        print_ = packed(call.fingerprint)
        back = self.slot(print_)
        if back is None:
            return self, False
        at = len(self.pairs) - (back + 1) * PAIR
        earlier = self.pairs[:at]
        digest = packed(outcome.digest)
        known = find(earlier, print_ + digest) >= 0
        if not known and find(earlier, print_) >= 0:
            digest = packed(outcome.like)
            known = find(earlier, print_ + digest) >= 0
        pairs = self.pairs[: at + HALF] + digest + self.pairs[at + PAIR :]
        return Ring(pairs, self.open & ~(1 << back)), known

    def dropped(self, call: Call) -> Ring:
        """With the oldest open slot of *call* closed as it is: nobody will fill it."""
        back = self.slot(packed(call.fingerprint))
        return self if back is None else Ring(self.pairs, self.open & ~(1 << back))

    def slot(self, print_: bytes) -> int | None:
        """How far from the end the oldest open slot of a call is; None when it has none."""
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
        return bytes(HALF)


def find(pairs: bytes, start: bytes) -> int:
    """Where a pair that begins with *start* stands in *pairs*; -1 when there is none."""
    at = -1
    while (at := pairs.find(start, at + 1)) >= 0:
        if at % PAIR == 0:
            return at
    return -1


def packed(digest: str) -> bytes:
    """A digest's 16 hex characters as 8 bytes."""
    return bytes.fromhex(digest)
