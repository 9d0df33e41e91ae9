"""Where a command finds the switch and the records: `--store URL`, `--file PATH`, or the environment."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lastcall.commands.codes import CommandError, OutOfReachError
from lastcall.commands.printed import say
from lastcall.stores import StoreError, open_store
from lastcall.switch import Switch
from lastcall.switch_file import DamagedError

STORE, FILE = "LASTCALL_STORE", "LASTCALL_SWITCH"


def add_store(one: ArgumentParser) -> None:
    """The option for the store."""
    one.add_argument(
        "--store",
        metavar="URL",
        help=f"the store of the guards: sqlite:///path, redis://host (default: ${STORE})",
    )


def add_switch(one: ArgumentParser) -> None:
    """The options for the switch: in the store, or in a file of its own."""
    add_store(one)
    one.add_argument(
        "--file",
        type=Path,
        metavar="PATH",
        help=f"the file of the kill switch, where it is not in the store (default: ${FILE})",
    )


def store_url(options: Namespace) -> str | None:
    """The store that is named; None when none is."""
    return options.store or os.environ.get(STORE) or None


def switch_file(options: Namespace) -> Path | None:
    """The switch's file, where it has one. A store named in the command beats a file of the environment."""
    if options.file is not None:
        return Path(options.file)
    named = os.environ.get(FILE)
    return Path(named) if named and not options.store else None


@contextmanager
def store(options: Namespace) -> Iterator[Any]:
    """The store, open inside. Raises CommandError."""
    url = store_url(options)
    if url is None:
        raise CommandError(f"which store? Say --store URL, or set {STORE}")
    try:
        made = open_store(url)
    except (ValueError, ImportError) as error:
        raise CommandError(f"--store {shown(url)}: {error}") from None
    if not getattr(made, "shared", False):
        raise CommandError(
            f"--store {shown(url)}: that belongs to one process; nobody would see it"
        )
    path = getattr(made, "path", None)
    if path is not None and not path.exists():
        # Perhaps it is mistyped, and nobody else will ever look there.
        say(f"lastcall: {path} is not there yet; it is made", error=True)
    with explained(shown(url)):
        try:
            yield made
        finally:
            made.close()


@contextmanager
def switch(options: Namespace) -> Iterator[Switch]:
    """The kill switch, open inside. Raises CommandError."""
    path = switch_file(options)
    if path is not None:
        with explained(str(path)):
            yield Switch(path, clock=options.clock)
        return
    if store_url(options) is None:
        raise CommandError(
            f"where is the kill switch? Say --store URL or --file PATH, or set {STORE} or {FILE}"
        )
    with store(options) as made:
        yield Switch(made, clock=options.clock)


def switch_name(options: Namespace) -> str:
    """Where the switch is, for people."""
    return str(switch_file(options) or shown(store_url(options) or ""))


@contextmanager
def explained(where: str) -> Iterator[None]:
    """What goes wrong inside, said of *where*."""
    try:
        yield
    except CommandError:
        raise
    except DamagedError as error:
        raise OutOfReachError(f"{error}. Correct it by hand, or move it away") from None
    except PermissionError as error:
        said = f"{where}: {error.strerror}; use the account that the agents run as"
        raise OutOfReachError(said) from None
    except (OSError, StoreError) as error:
        raise OutOfReachError(f"{where}: {error}") from None


def shown(url: str) -> str:
    """*url* without a password."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return url
    return url.replace(f":{password}@", ":***@") if password else url
