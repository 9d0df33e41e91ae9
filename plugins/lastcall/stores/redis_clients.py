"""Clients of redis-py: every wait is bounded, and nothing is tried again behind our back."""

from __future__ import annotations

import asyncio
import threading
import weakref
from contextlib import suppress
from importlib import import_module
from typing import Any

from lastcall.contracts import Shard

CONNECTIONS = 64
"""Connections of one event loop; further decisions wait for one."""

THREADS = 1024
"""Connections of threads, of which each needs one: waiting for one would cost every decision some time."""


def connected(url: str, timeout: float, options: dict[str, Any]) -> Any:
    """A client for threads. Raises ValueError for options that redis-py does not know."""
    redis = library()
    settings = settings_of("redis", timeout, options)
    pool = redis.ConnectionPool.from_url(url, max_connections=THREADS, **settings)
    try:
        # Not connected; it says which setting it does not know.
        pool.connection_class(**pool.connection_kwargs)
    except TypeError as error:
        raise ValueError(f"redis-py takes no such setting: {error}") from None
    return redis.Redis(connection_pool=pool)


def aconnected(url: str, timeout: float, options: dict[str, Any]) -> Any:
    """A client for one event loop."""
    redis = library("redis.asyncio")
    settings = settings_of("redis.asyncio", timeout, options)
    pool = redis.BlockingConnectionPool.from_url(
        url, max_connections=CONNECTIONS, timeout=timeout, **settings
    )
    return redis.Redis(connection_pool=pool)


def settings_of(module: str, timeout: float, options: dict[str, Any]) -> dict[str, Any]:
    """How connections are made."""
    retry = library(f"{module}.retry").Retry(library("redis.backoff").NoBackoff(), 0)
    return {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": retry,
        **driver(),
        **options,
    }


class Turnstile:
    """A lock that is gone when nobody holds it."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Loop:
    """What belongs to one event loop: its client, and whose turn it is."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._turns: weakref.WeakValueDictionary[Shard, asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )

    def turn(self, shard: Shard) -> asyncio.Lock:
        """Held by one decision about *shard* at a time."""
        lock = self._turns.get(shard)
        if lock is None:
            lock = self._turns[shard] = asyncio.Lock()
        return lock


def clustered(*clients: Any) -> bool:
    """Whether one of *clients* speaks to a cluster."""
    return any("Cluster" in each.__name__ for client in clients for each in type(client).__mro__)


def sound(client: Any) -> Any:
    """*client*, when it gives bytes. Raises ValueError."""
    pool = getattr(client, "connection_pool", None)
    if getattr(pool, "connection_kwargs", {}).get("decode_responses"):
        raise ValueError("the client must have decode_responses=False: records are bytes")
    return client


def read_only(error: Exception) -> bool:
    """Whether it was a replica that was asked; from within a script that is a text like any other."""
    return "READONLY" in str(error) or type(error).__name__ == "ReadOnlyError"


def errors() -> Any:
    """redis-py's exceptions."""
    return library("redis.exceptions")


def driver() -> dict[str, Any]:
    """Who we are to the server. redis-py would look its own version up on the disk for every connection,
    in the event loop too."""
    with suppress(ImportError):
        made = import_module("redis.driver_info").DriverInfo(lib_version=library().__version__)
        return {"driver_info": made}
    return {}


def library(name: str = "redis") -> Any:
    """A module of redis-py. Raises ImportError that names the cure."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            'a store in Redis needs redis-py: pip install "lastcall[redis]"', name="redis"
        ) from error
