"""Whether an exception says that a service was not reached, or did not answer in time (requirement D2).

Libraries are known by the names of their classes, so that none has to be loaded.
"""

from __future__ import annotations

import errno
from typing import Any

UNREACHED = frozenset(
    {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ETIMEDOUT}
)

NAMES: dict[str, frozenset[str]] = {
    "socket": frozenset({"gaierror", "herror", "timeout"}),
    "ssl": frozenset({"SSLEOFError", "SSLZeroReturnError"}),
    "http": frozenset({"RemoteDisconnected", "IncompleteRead"}),
    "urllib": frozenset({"URLError"}),
    "urllib3": frozenset(
        {"TimeoutError", "NewConnectionError", "ProtocolError", "MaxRetryError", "ProxyError"}
    ),
    "requests": frozenset({"ConnectionError", "Timeout", "ChunkedEncodingError"}),
    "httpx": frozenset({"TimeoutException", "NetworkError", "RemoteProtocolError", "ProxyError"}),
    "aiohttp": frozenset({"ClientConnectionError", "ClientPayloadError"}),
    "botocore": frozenset({"ConnectionError", "HTTPClientError"}),
    "openai": frozenset({"APIConnectionError"}),
    "redis": frozenset({"ConnectionError", "TimeoutError"}),
    "anyio": frozenset({"BrokenResourceError", "ConnectionFailed"}),
}
"""The classes of failed connections and time-outs, by the package that they come from. What a client says
of its own requests (a URL of an unknown scheme, say) is none."""

NAMES |= {
    "_socket": NAMES["socket"],
    "_ssl": NAMES["ssl"],
    "httpx2": NAMES["httpx"],
    "httpcore": NAMES["httpx"],
    "httpcore2": NAMES["httpx"],
    "anthropic": NAMES["openai"],
}


def unreached(error: BaseException) -> bool:
    """Whether *error* is a failed connection or a time-out. Its causes are not looked at."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    if isinstance(error, OSError) and error.errno in UNREACHED:
        return True
    return any(_named(each) for each in type(error).__mro__)


def _named(kind: type[Any]) -> bool:
    module: Any = kind.__module__
    return kind.__name__ in NAMES.get(str(module).partition(".")[0], frozenset())
