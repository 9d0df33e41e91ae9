"""A name for what a request authenticates with: a short hash, never the secret."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

HEADERS = ("authorization", "api-key", "x-api-key", "apikey", "x-goog-api-key", "x-auth-token")

LENGTH = 8
"""Bytes of the hash, as of fingerprints: enough to tell keys of one service apart, and too few to find one by."""


def credential_of(headers: Mapping[str, str]) -> str | None:
    """Sixteen hex characters for what is in the first of `HEADERS` that is there; None without any. Equal
    in all workers, so that they share a breaker."""
    for name in HEADERS:
        secret = headers.get(name)
        if secret:
            said = f"{name}\0{secret}" if isinstance(secret, str) else repr(secret)
            return blake2b(said.encode(), digest_size=LENGTH, person=b"lastcall").hexdigest()
    return None
