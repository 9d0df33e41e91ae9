"""What a store raises when it cannot be used now, or holds what cannot be read."""

from __future__ import annotations


class StoreError(Exception):
    """The store did not do what it was asked: no connection, no answer in time, read-only, full, locked,
    damaged. The policy says what becomes of the call (`on_store`); a later call tries again."""


class UnreadableRecordError(StoreError):
    """A record that this version cannot read: damaged, or written by a newer one. It is never taken for
    an absent one, since that would begin every count anew."""
