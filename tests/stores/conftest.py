from __future__ import annotations

import asyncio

import pytest

from lastcall import MemoryStore


class AsAsync:
    """The same store, driven through its async face."""

    def __init__(self, store):
        self._store = store

    def update(self, keys, step, now):
        return asyncio.run(self._store.aupdate(keys, step, now))

    def __getattr__(self, name):
        return getattr(self._store, name)


STORES = {"memory": MemoryStore}


@pytest.fixture(
    params=[(name, face) for name in STORES for face in ("sync", "async")], ids="-".join
)
def store(request):
    """Every store passes the contract, through both of its faces."""
    name, face = request.param
    made = STORES[name]()
    yield made if face == "sync" else AsAsync(made)
    made.close()
