"""SQLite files in which frameworks keep their runs, opened to be read alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from lastcall.transcripts.recorded import Document

DAMAGED = (sqlite3.Error, UnicodeDecodeError, MemoryError)
"""What reading a damaged database raises: its errors may quote a name that is no UTF-8, and its pages may ask
for more memory than there is."""


def damage(error: BaseException) -> str:
    """What is wrong, of one of DAMAGED."""
    return f"a damaged database: {str(error) or 'it asks for more memory than there is'}"


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write. It, and what is asked of it, raises DAMAGED."""
    # A database that is written ahead leaves files beside it for whoever reads it, and cannot be read from
    # a folder that takes none; where nothing waits to be written, the file alone is enough.
    ahead = path.with_name(f"{path.name}-wal")
    alone = "" if ahead.exists() and ahead.stat().st_size else "&immutable=1"
    address = f"{path.absolute().as_uri()}?mode=ro{alone}"
    with closing(sqlite3.connect(address, uri=True)) as database:
        database.text_factory = lambda content: content.decode(errors="replace")
        yield database


def columns(document: Document, table: str) -> frozenset[str]:
    """The columns of *table*; none where there is no such table, or no database."""
    if not document.database:
        return frozenset()
    try:
        with reading(document.path) as database:
            found = database.execute("select name from pragma_table_info(?)", (table,))
            return frozenset(str(name) for (name,) in found)
    except DAMAGED:
        return frozenset()


def table(document: Document, wanted: frozenset[str]) -> str | None:
    """The first table with the *wanted* columns, quoted for SQL; None where there is none, or no database."""
    if not document.database:
        return None
    try:
        with reading(document.path) as database:
            found = database.execute(
                "select name from sqlite_master where type = 'table'"
            ).fetchall()
    except DAMAGED:
        return None
    named = (str(name) for (name,) in found)
    return next(
        (
            '"{}"'.format(name.replace('"', '""'))
            for name in named
            if wanted <= columns(document, name)
        ),
        None,
    )
