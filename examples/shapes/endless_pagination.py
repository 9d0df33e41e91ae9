"""Endless pagination: a program reads pages until there is no cursor, and there always is one.

Four services: one is well, one goes on with the cursor it was just sent, one begins again after its last page, and
one hands out a new cursor with an empty page for ever. Governed, `same` refuses the fourth equal call with an equal
result, `cycle` the fourth round, and a ceiling for this tool ends what brings something new each time. Here the
cursor is the result, so a page without items looks like progress; a rule that knows pages is not here yet.

Run: python examples/shapes/endless_pagination.py
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from story import line

from lastcall import Guard, Stopped
from lastcall.testing import FakeClock

NIGHT = 1000
"""Pages until somebody wakes up."""

PAGES = 5

MOST = 50
"""Pages that one turn may read; nobody needs more of this list."""

Service = Callable[[int], dict[str, Any]]


def page(number: int, following: int | None) -> dict[str, Any]:
    """Three items, and where to go on; `None` is the end."""
    return {"items": [f"item {number}-{n}" for n in range(3)], "next": following}


def well(cursor: int) -> dict[str, Any]:
    return page(cursor, cursor + 1 if cursor < PAGES - 1 else None)


def stuck(cursor: int) -> dict[str, Any]:
    return page(cursor, min(cursor + 1, PAGES - 1))


def circling(cursor: int) -> dict[str, Any]:
    return page(cursor, (cursor + 1) % PAGES)


def empty(cursor: int) -> dict[str, Any]:
    return page(cursor, cursor + 1) if cursor < PAGES else {"items": [], "next": cursor + 1}


def read(service: Service, guard: Guard | None) -> tuple[int, int, str]:
    """Pages that were read, different items in them, and how it ended."""
    if guard:
        service = guard.wrap(name="list_items", reads=True, max_calls=MOST)(service)
    pages, items = 0, set[str]()
    cursor: int | None = 0
    with guard.within(run="r1") if guard else nullcontext():
        while cursor is not None and pages < NIGHT:
            try:
                answer = service(cursor)
            except Stopped as stopped:
                return pages, len(items), f"stopped by {stopped.stop.reason}"
            pages += 1
            items.update(answer["items"])
            cursor = answer["next"]
    return pages, len(items), "somebody woke up" if pages == NIGHT else "read to the end"


def main() -> None:
    """Each service, ungoverned beside governed; each has 15 items."""
    for what, service in (
        ("A service that is well", well),
        ("The last page points to itself", stuck),
        ("The last page points to the first", circling),
        ("Empty pages, each with a cursor of its own", empty),
    ):
        print(what)
        for who in ("ungoverned", "governed"):
            guard = Guard(clock=FakeClock()) if who == "governed" else None
            pages, items, ending = read(service, guard)
            line(who, f"{pages:>4} pages", f"{items} items; {ending}")


if __name__ == "__main__":
    main()
