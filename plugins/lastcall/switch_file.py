"""A kill switch in a plain file: JSON that an operator can read, and write by hand.

`{"version": 1, "kills": [{"agent": "clerk", "by": "ann", "why": "books the same invoice twice"}]}`
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from lastcall.kills import NONE, Kills

try:
    import fcntl
except ImportError:
    # Windows: two operators who set something in the same instant may lose one of both entries.
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

VERSION = 1


class DamagedError(ValueError):
    """The file is there and does not say what is set: half written, or by a newer version."""


class SwitchFile:
    """The file *path*. One that does not exist says that nothing is set; its folder has to exist, since a
    missing one is a mount that failed, or a typing error."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def read(self) -> Kills:
        """All that is set. Raises OSError, and DamagedError."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            if not self.path.parent.is_dir():
                raise FileNotFoundError(
                    f"{self.path.parent} is no folder; make it, or name another file"
                ) from None
            return NONE
        try:
            kills = msgspec.json.decode(text, type=Kills)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DamagedError(f"{self.path} is damaged: {error}") from None
        if kills.version != VERSION:
            raise DamagedError(
                f"{self.path} is of version {kills.version}; this one reads {VERSION}"
            )
        return kills

    async def aread(self) -> Kills:
        """The same, without blocking the event loop."""
        return await beside(self.read)

    def change(self, by: Callable[[Kills], Kills]) -> tuple[Kills, Kills]:
        """Let *by* change what is set; gives what was set before, and what is now. Whoever reads sees one
        or the other. Raises OSError, and DamagedError, and then nothing has changed."""
        # What a link leads to is written; the link stays.
        path = Path(os.path.realpath(self.path))
        with alone(path):
            before = self.read()
            after = by(before)
            if after != before:
                replace(path, text_of(after))
        return before, after

    async def achange(self, by: Callable[[Kills], Kills]) -> tuple[Kills, Kills]:
        """The same, without blocking the event loop."""
        return await beside(lambda: self.change(by))


def text_of(kills: Kills) -> bytes:
    """The content of the file."""
    return msgspec.json.format(msgspec.json.encode(kills), indent=2) + b"\n"


def replace(path: Path, text: bytes) -> None:
    """Put *text* in the place of *path* at once, with the rights that it had. What a link leads to is
    written, the link stays; and so does a pipe or a device, which is written to. Raises OSError."""
    if path.exists() and not path.is_file():
        with path.open("wb") as other:
            other.write(text)
        return
    path = Path(os.path.realpath(path))
    beside_it = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    try:
        # Not by `tempfile`: what that makes is closed to guards that run as somebody else.
        with beside_it.open("wb") as file:
            with suppress(FileNotFoundError):
                beside_it.chmod(path.stat().st_mode & 0o7777)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside_it.replace(path)
    except OSError as error:
        # Nobody has heard of the file beside it.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        beside_it.unlink(missing_ok=True)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Nobody else changes *path* inside; the system lets go of the lock of a process that dies."""
    if not path.parent.is_dir() or fcntl is None:
        yield
        return
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # Whoever may put files into the folder may lock; of others it is not theirs to say.
        with suppress(PermissionError):
            os.fchmod(lock, path.parent.stat().st_mode & 0o666)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


async def beside(work: Callable[[], T]) -> T:
    """The result of *work*, done by a thread of its own.

    The loop's executor may be full of tools that run for minutes, and a kill switch does not queue
    behind what it is to stop.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settled(result: T | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)  # type: ignore[arg-type]
        else:
            done.set_exception(error)

    def run() -> None:
        result: T | None = None
        failed: Exception | None = None
        try:
            result = work()
        except Exception as error:
            failed = error
        # A loop that was closed meanwhile waits for nothing.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settled, result, failed)

    threading.Thread(target=run, name="lastcall-switch", daemon=True).start()
    return await done
