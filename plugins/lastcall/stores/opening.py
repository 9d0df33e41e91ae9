"""A store by its URL."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from lastcall.contracts import Store

NUMBERS = frozenset({"timeout", "ttl", "keep"})
WORDS = frozenset({"prefix"})
"""What a URL may say behind its question mark to us; the rest is the library's."""


def open_store(url: str, **options: Any) -> Store:
    """The store that *url* names: `memory://`, `sqlite:///FILE`, `redis://HOST:PORT/DB`, `rediss://...`.

    As elsewhere, `sqlite:///lastcall.db` is a path from here and `sqlite:////var/lib/lastcall.db` one from
    the root. *options* are those of the store's class; `?timeout=0.5&prefix=acme` in the URL says the same.
    Raises ValueError for a URL that names no store and ImportError, with its cure, for a missing extra.
    """
    scheme, colon, _ = url.partition(":") if isinstance(url, str) else ("", "", "")
    known = installed()
    if not colon or scheme not in known:
        raise ValueError(
            f"no store {url!r}; a store is named by a URL that begins with one of"
            f" {', '.join(f'{name}:' for name in sorted(known))}"
        )
    made: Store = known[scheme].load().from_url(url, **options)
    return made


@cache
def installed() -> dict[str, EntryPoint]:
    """The stores that are installed, by the scheme of their URLs; ours register like anyone else's."""
    return {point.name: point for point in entry_points(group="lastcall.stores")}


def said(query: str) -> tuple[dict[str, Any], str]:
    """What a URL's *query* says to us, and the rest of it. Raises ValueError."""
    ours: dict[str, Any] = {}
    rest: list[tuple[str, str]] = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in NUMBERS:
            try:
                ours[name] = float(value)
            except ValueError:
                raise ValueError(f"{name}={value} in the store's URL must be seconds") from None
        elif name in WORDS:
            ours[name] = value
        else:
            rest.append((name, value))
    return ours, urlencode(rest)


def server_of(url: str) -> tuple[str, dict[str, Any]]:
    """*url* without what it says to us, and that. Raises ValueError."""
    parts = urlsplit(url)
    ours, rest = said(parts.query)
    return parts._replace(query=rest).geturl(), ours


def file_of(url: str) -> tuple[str, dict[str, Any]]:
    """The path in `sqlite:///PATH`, and what it says to us. Raises ValueError."""
    parts = urlsplit(url)
    ours, rest = said(parts.query)
    path = unquote(parts.path[1:])
    if parts.netloc or rest or not path or not parts.path.startswith("/"):
        raise ValueError(
            f"{url!r} names no file: write sqlite:///lastcall.db, or sqlite:////var/lib/lastcall.db for a"
            " path from the root"
        )
    return path, ours
