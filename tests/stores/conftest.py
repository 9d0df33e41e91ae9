from __future__ import annotations

import asyncio
import importlib.util
import itertools
import sys
import threading
from pathlib import Path

import pytest

from lastcall import MemoryStore
from lastcall.stores.redis import RedisStore
from lastcall.stores.sqlite import SQLiteStore

# The contract's records are tuples, which JSON has none of: a store outside the process is told.
TYPES = {"a": tuple, "b": tuple, "n": "counter", "m": "counter", "places": "counter"}

NUMBERS = itertools.count()


def beside(name, known_as):
    """A module of helpers in the folder above, under a name that tests can import."""
    if known_as not in sys.modules:
        path = Path(__file__).parents[1] / f"{name}.py"
        spec = importlib.util.spec_from_file_location(known_as, path)
        sys.modules[known_as] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known_as])
    return sys.modules[known_as]


RedisServer = beside("redis_server", "conftest_redis").RedisServer


class AsAsync:
    """The same store, driven through its async face: an event loop for each thread that comes."""

    def __init__(self, store):
        self._store = store
        self._local = threading.local()
        self._runners = []

    def update(self, keys, step, now):
        runner = getattr(self._local, "runner", None)
        if runner is None:
            runner = self._local.runner = asyncio.Runner()
            self._runners.append(runner)
        return runner.run(self._store.aupdate(keys, step, now))

    def close(self):
        for runner in self._runners:
            runner.run(self._store.aclose())
            runner.close()
        self._store.close()

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.fixture(scope="session")
def redis_server():
    server = RedisServer().start()
    yield server
    server.stop()


def memory(request):
    return MemoryStore()


def sqlite(request):
    store = SQLiteStore(request.getfixturevalue("tmp_path") / "lastcall.db", timeout=20)
    store.learn(TYPES)
    return store


def redis(request):
    url = request.getfixturevalue("redis_server").url
    store = RedisStore(url, prefix=f"test{next(NUMBERS)}", timeout=20)
    store.learn(TYPES)
    return store


STORES = {"memory": memory, "sqlite": sqlite, "redis": redis}


@pytest.fixture(
    params=[(name, face) for name in STORES for face in ("sync", "async")], ids="-".join
)
def store(request):
    """Every store passes the contract, through both of its faces."""
    name, face = request.param
    made = STORES[name](request)
    made = made if face == "sync" else AsAsync(made)
    yield made
    made.close()
