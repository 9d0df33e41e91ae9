"""One request as the wire sees it, whatever library makes it. What nobody asks for is not worked out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit
from weakref import ref

from lastcall_http.missing import library_of

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that change nothing (RFC 9110, section 9.2.1)."""

IDEMPOTENT = SAFE | {"PUT", "DELETE"}
"""Methods that may be sent twice (RFC 9110, section 9.2.2)."""

PORTS = {"http": ":80", "https": ":443"}


class Sending(ABC):
    """A request that is about to be sent."""

    def __init__(self, request: Any) -> None:
        self.request = request
        """As its library has it."""
        self.method: str = request.method.upper()
        self.headers: Mapping[str, str] = request.headers
        """By name, in any case."""

    @cached_property
    def url(self) -> str:
        """All of it."""
        return str(self.request.url)

    @cached_property
    @abstractmethod
    def host(self) -> str:
        """With the port, where that is not the scheme's own."""

    @cached_property
    @abstractmethod
    def path(self) -> str:
        """Without the query."""

    @cached_property
    @abstractmethod
    def body(self) -> bytes | None:
        """None where it is a stream, which nobody can look at."""

    @cached_property
    def place(self) -> tuple[str, str, str]:
        """What a service that is busy refuses: without the query and the body."""
        return (self.method, self.host, self.path)

    @cached_property
    def told(self) -> Hashable:
        """What tells the body from others; a stream equals itself alone."""
        # Not its id, which a later request may be given: that would be sent under the key of this one.
        return (
            ref(self.request) if self.body is None else blake2b(self.body, digest_size=16).digest()
        )

    @cached_property
    def equal(self) -> tuple[str, str, Hashable]:
        """The same for equal requests: method, URL and body."""
        return (self.method, self.url, self.told)

    @property
    def mark(self) -> str:
        """What is put to the key of a write, where each endpoint is to have one of its own."""
        return f":{blake2b(' '.join(self.place).encode(), digest_size=4).hexdigest()}"

    @property
    def said(self) -> str:
        """What is put to the key of a write, where each is to have one by what it says."""
        told = blake2b(f"{self.method} {self.url} ".encode(), digest_size=8)
        told.update(self.body or b"")
        return f":{told.hexdigest()}"

    @property
    def moved(self) -> tuple[str, Hashable]:
        """The same for a request and for what a redirect with 307 or 308 makes of it."""
        return (self.method, self.told)

    @property
    def writes(self) -> bool:
        """Whether its method may change something."""
        return self.method not in SAFE


class OfHttpx(Sending):
    """One of httpx2 or httpx."""

    @cached_property
    def host(self) -> str:
        """See `Sending`."""
        return str(self.request.url.netloc.decode("ascii"))

    @cached_property
    def path(self) -> str:
        """See `Sending`."""
        return str(self.request.url.path)

    @cached_property
    def body(self) -> bytes | None:
        """See `Sending`."""
        try:
            content: bytes = self.request.content
        except RuntimeError:
            # A stream that was not read, and is the transport's to read, unless it is bytes: a redirect's.
            stream = self.request.stream
            kind = getattr(library_of(self.request), "ByteStream", ())
            return b"".join(stream) if isinstance(stream, kind) else None
        return content


class OfRequests(Sending):
    """A prepared one of requests."""

    @cached_property
    def host(self) -> str:
        """See `Sending`."""
        parts = urlsplit(self.url)
        name = parts.netloc.rpartition("@")[2].lower()
        return name.removesuffix(PORTS.get(parts.scheme, "\0"))

    @cached_property
    def path(self) -> str:
        """See `Sending`."""
        return urlsplit(self.url).path

    @cached_property
    def body(self) -> bytes | None:
        """See `Sending`."""
        body = self.request.body
        if isinstance(body, str) or body is None:
            return (body or "").encode()
        return body if isinstance(body, bytes) else None
