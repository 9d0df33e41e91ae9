"""Proxies that the environment names. A client that is given a transport does not look for them itself."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.request import getproxies


def proxies() -> dict[str, str | None]:
    """Their URLs, by the pattern of the URLs that they are for, as the `mounts` of a client are; None: those
    go without one (`NO_PROXY`)."""
    known = getproxies()
    direct = [each.strip() for each in known.get("no", "").split(",")]
    named = {f"{kind}://": known.get(kind) for kind in ("http", "https", "all")}
    found: dict[str, str | None] = {
        pattern: url if "://" in url else f"http://{url}" for pattern, url in named.items() if url
    }
    if not found or "*" in direct:
        return {}
    # A net (10.0.0.0/8) is nothing that a pattern can say.
    hosts = [each for each in direct if each and ("://" in each or "/" not in each)]
    return found | {pattern_of(each): None for each in hosts}


def pattern_of(host: str) -> str:
    """The pattern of one entry of `NO_PROXY`: a name stands for all that ends in it."""
    if "://" in host:
        return host
    try:
        return f"all://[{host}]" if ip_address(host).version == 6 else f"all://{host}"  # noqa: PLR2004
    except ValueError:
        exact = host == "localhost" or host.startswith(("*", "["))
        return f"all://{host}" if exact else f"all://*{host}"
