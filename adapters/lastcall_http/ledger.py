"""What the body of one call has sent so far, as far as later requests are judged by it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from lastcall.body import Body
from lastcall_http.sending import Sending
from lastcall_http.standing import Standing

KEPT = 256
"""Failed requests of one body that are remembered; the oldest of more is forgotten."""

LONGEST = 255
"""Characters of an idempotency key."""

_LOCK = threading.Lock()


class Ledger:
    """The failures, the writes and the retrying layers of one body. *whole* is that of the call, where the
    body is a further attempt of it."""

    def __init__(self, whole: Ledger | None, home: int | None = None) -> None:
        self.whole = self if whole is None else whole
        self.standing = Standing(home)
        self.layers: list[str] = []
        """The layers that were seen to send a request of the call again."""
        self.replayed = 0
        """Answers of the call that the service had kept under a key."""
        self.failed: OrderedDict[Hashable, None] = OrderedDict()
        self.busy: OrderedDict[Hashable, None] = OrderedDict()
        self._keys: dict[Hashable, str] = {}
        self._refused: dict[Hashable, Hashable] = {}
        """The last write of each place that was refused, and not made since."""
        self._made: set[tuple[Hashable, str]] = set()
        """Places, and keys under which something may have been carried out there."""
        self._writes: dict[Hashable, int] = {}
        """How many writes of each place there were."""

    def further(self, sending: Sending) -> bool:
        """Whether it is a further attempt: an equal request failed in this body, whatever the answer was, or
        one to the same place failed in passing, and none went well since."""
        if not self.failed and not self.busy:
            return False
        return sending.equal in self.failed or sending.place in self.busy

    def repeats(self, sending: Sending) -> bool:
        """Whether an equal one failed anywhere in the call."""
        return bool(self.whole.failed) and sending.equal in self.whole.failed

    def answered(self, sending: Sending, *, failed: bool, passing: bool) -> None:
        """How it was answered, as far as that matters to later ones."""
        for ledger in (self,) if self.whole is self else (self, self.whole):
            if not failed and not ledger.failed and not ledger.busy:
                continue
            put(ledger.failed, sending.equal, there=failed)
            put(ledger.busy, sending.place, there=failed and passing)

    def key(self, sending: Sending, key: str, *, by_what_it_says: bool = False) -> str:
        """The key of a write of the body, whose own is *key*. A second write to one place has one of its own,
        unless it is the first once more: equal, corrected after a refusal, or redirected.

        By their order at one place, and nowhere else: whoever repeats the call may leave out other requests.
        Or, in any order, *by_what_it_says*: method, URL and body, where that can be looked at.
        """
        with _LOCK:
            for known in (sending.equal, sending.moved):
                if known in self._keys:
                    return self._keys.setdefault(sending.equal, self._keys[known])
            mark = self._mark(sending, by_what_it_says=by_what_it_says)
            if mark is None:
                # What was refused is asked for no more, or is a write of its own from now on.
                taken = self._keys.pop(self._refused.pop(sending.place))
            else:
                taken = key[: LONGEST - len(mark)] + mark
            self._keys[sending.equal] = taken
            return taken

    def _mark(self, sending: Sending, *, by_what_it_says: bool) -> str | None:
        """What is put to its key; None: it has the one of what was refused at its place."""
        if by_what_it_says and sending.body is not None:
            return sending.said
        if sending.place in self._refused and not by_what_it_says:
            return None
        number = self._writes[sending.place] = self._writes.get(sending.place, 0) + 1
        return "" if number == 1 else f":{number}"

    def wrote(self, sending: Sending, key: str, *, refused: bool, redirected: bool) -> None:
        """A write under *key* was answered: it may be corrected under it when it was *refused*, and goes on
        elsewhere under it when it was *redirected*."""
        with _LOCK:
            if not (refused or redirected):
                self._made.add((sending.place, key))
            # A correction may have taken its key while an equal one was on its way.
            its_own = self._keys.get(sending.equal) == key
            if refused and its_own and (sending.place, key) not in self._made:
                self._refused[sending.place] = sending.equal
            elif self._refused.get(sending.place) == sending.equal:
                del self._refused[sending.place]
            if redirected:
                self._keys[sending.moved] = key
            elif self._keys.get(sending.moved) == key:
                del self._keys[sending.moved]

    def retried_by(self, layers: list[str]) -> tuple[str, str] | None:
        """*layers* sent a request of the call again; the first two of it, once there are two."""
        known = self.whole.layers
        known += [layer for layer in layers if layer not in known]
        return (known[0], known[1]) if len(known) > 1 else None


def put(kept: OrderedDict[Hashable, None], name: Hashable, *, there: bool) -> None:
    """Have *name* in *kept*, or not."""
    if there:
        kept[name] = None
        if len(kept) > KEPT:
            kept.popitem(last=False)
    elif kept:
        kept.pop(name, None)


def ledger_of(body: Body) -> Ledger:
    """The ledger of *body*, begun when there is none."""
    if body.requests is None:
        whole = None if body.of is None else ledger_of(body.of)
        with _LOCK:
            body.requests = body.requests or Ledger(whole, body.home)
    found: Ledger = body.requests
    return found
