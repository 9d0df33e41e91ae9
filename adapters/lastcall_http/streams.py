"""Listens to the body of an answer while it arrives: a connection may break after the status was good."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from lastcall_http.missing import loaded
from lastcall_http.passage import Passage

ENOUGH = 65536
"""Bytes of an answer that are waited for to hear what a 429 says: an account that is used up never recovers."""


@cache
def streams(library: str) -> tuple[type[Any], type[Any]]:
    """The classes of such streams for httpx2 or httpx, sync and async: clients look at what they are."""
    module = loaded(library)

    class Heard(module.SyncByteStream):  # type: ignore[misc,name-defined]  # known at run time
        """A stream that tells its passage when it breaks."""

        def __init__(self, inner: Any, passage: Passage) -> None:
            self._inner = inner
            self._passage = passage
            self._parts: Iterator[bytes] | None = None
            self._ahead: list[bytes] = []
            self._broke: Exception | None = None

        def ahead(self) -> list[bytes]:
            """The first parts, which come once more to whoever reads all of it."""
            self._parts = iter(self._inner)
            try:
                for part in self._parts:
                    self._ahead.append(part)
                    if sum(map(len, self._ahead)) > ENOUGH:
                        break
            except Exception as error:
                self._broke = error
            return self._ahead

        def __iter__(self) -> Iterator[bytes]:
            yield from self._ahead
            if self._broke is not None:
                self._passage.failed(self._broke)
                raise self._broke
            try:
                yield from self._inner if self._parts is None else self._parts
            except Exception as error:
                self._passage.failed(error)
                raise

        def close(self) -> None:
            self._inner.close()

    class AHeard(module.AsyncByteStream):  # type: ignore[misc,name-defined]
        """The same for an event loop."""

        def __init__(self, inner: Any, passage: Passage) -> None:
            self._inner = inner
            self._passage = passage
            self._parts: AsyncIterator[bytes] | None = None
            self._ahead: list[bytes] = []
            self._broke: Exception | None = None

        async def ahead(self) -> list[bytes]:
            self._parts = aiter(self._inner)
            try:
                async for part in self._parts:
                    self._ahead.append(part)
                    if sum(map(len, self._ahead)) > ENOUGH:
                        break
            except Exception as error:
                self._broke = error
            return self._ahead

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for part in self._ahead:
                yield part
            if self._broke is not None:
                self._passage.failed(self._broke)
                raise self._broke
            try:
                async for part in self._inner if self._parts is None else self._parts:
                    yield part
            except Exception as error:
                self._passage.failed(error)
                raise

        async def aclose(self) -> None:
            await self._inner.aclose()

    return Heard, AHeard


def arrived(response: Any, parts: Sequence[bytes]) -> Any:
    """*response* as far as these *parts* of its body go, to be looked at; itself where they cannot be read."""
    with suppress(Exception):
        return type(response)(
            response.status_code, headers=response.headers, content=b"".join(parts)
        )
    return response
