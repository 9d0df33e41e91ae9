"""Clients with the guard beneath them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lastcall import Guard
from lastcall_http.missing import KNOWN, loaded
from lastcall_http.proxies import proxies
from lastcall_http.transports import AsyncGuardTransport, GuardTransport

if TYPE_CHECKING:
    import requests

OURS = ("retries", "keyed", "per_endpoint", "per_request", "credential", "dependency")
"""Settings of the transport."""

INNER = ("verify", "cert", "trust_env", "http1", "http2", "limits", "proxy")
"""Settings of a client that are really those of the transports which it would make."""


def client(guard: Guard, *, library: str | None = None, **settings: Any) -> Any:
    """A client of httpx2, or where that is not installed of httpx (*library* says which), with
    a `GuardTransport`. *settings* are those of it and of the client; its `mounts`, and the proxies that the
    environment names, are guarded as well."""
    module, ours, inner = parts(library, settings)
    made = partial(GuardTransport, guard, **ours)
    return module.Client(**guarded(made, module.HTTPTransport, inner, settings))


def async_client(guard: Guard, *, library: str | None = None, **settings: Any) -> Any:
    """`client` for an event loop."""
    module, ours, inner = parts(library, settings)
    made = partial(AsyncGuardTransport, guard, **ours)
    return module.AsyncClient(**guarded(made, module.AsyncHTTPTransport, inner, settings))


def session(guard: Guard, **settings: Any) -> requests.Session:
    """A session of requests with a `GuardAdapter` for all URLs; *settings* are the adapter's."""
    made: requests.Session = loaded("requests").Session()
    from lastcall_http.adapter import GuardAdapter  # noqa: PLC0415 - requests is optional

    for scheme in ("http://", "https://"):
        made.mount(scheme, GuardAdapter(guard, **settings))
    return made


def parts(
    library: str | None, settings: dict[str, Any]
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The library, the settings of our transport and those of the one inside; they are taken out of
    *settings*."""
    if library is None:
        library = "httpx2" if find_spec("httpx2") else "httpx"
    elif library not in KNOWN:
        raise ValueError(f"library is one of {', '.join(KNOWN)}, not {library!r}")
    ours = {name: settings.pop(name) for name in OURS if name in settings}
    inner = {name: settings.pop(name) for name in INNER if name in settings}
    return loaded(library), ours, inner


def guarded(
    made: Callable[[Any], Any],
    kind: Callable[..., Any],
    inner: dict[str, Any],
    settings: dict[str, Any],
) -> dict[str, Any]:
    """*settings* of a client with its transports: what *made* makes of those of a *kind*, which are set by
    *inner*."""
    trusted = inner.get("trust_env", True)
    mounts: dict[str, Any] = {}
    if trusted and inner.get("proxy") is None:
        for pattern, url in proxies().items():
            mounts[pattern] = None if url is None else made(kind(**{**inner, "proxy": url}))
    for pattern, mounted in (settings.get("mounts") or {}).items():
        mounts[pattern] = None if mounted is None else made(mounted)
    return {
        **settings,
        "trust_env": trusted,
        "transport": made(kind(**inner)),
        "mounts": mounts,
    }
