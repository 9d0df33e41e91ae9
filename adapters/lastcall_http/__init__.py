"""Lastcall on the wire: transports for httpx2 and httpx, an adapter for requests.

Nothing is imported before it is asked for; who asks without the library is told how to get it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastcall_http.adapter import GuardAdapter
    from lastcall_http.clients import async_client, client, session
    from lastcall_http.transports import AsyncGuardTransport, GuardTransport

__all__ = [
    "AsyncGuardTransport",
    "GuardAdapter",
    "GuardTransport",
    "async_client",
    "client",
    "session",
]

ROOMS = {
    "AsyncGuardTransport": "transports",
    "GuardAdapter": "adapter",
    "GuardTransport": "transports",
    "async_client": "clients",
    "client": "clients",
    "session": "clients",
}


def __getattr__(name: str) -> Any:
    if name not in ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return __all__
