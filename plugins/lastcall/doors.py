"""The names of a package, each loaded from its room when somebody first asks for it.

A package that loads its own rooms at once cannot be imported by several threads: one holds Python's lock of the
package and wants that of a room, another began with the room and wants the package's, and Python ends that by
an error in one of them. Behind doors, locks are always taken in one direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def doors(
    namespace: dict[str, Any], rooms: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the package whose globals are *namespace*: by room (the name of a
    module in it) the names that are to be found there. Rooms are attributes, too, as after an import of each.
    """
    package = namespace["__name__"]
    room_of = {name: room for room, names in rooms.items() for name in names}

    def found(name: str) -> Any:
        room = room_of.get(name)
        if room is not None:
            # From now on it is a name like any other, and this function is not asked again.
            value = namespace[name] = getattr(import_module(f"{package}.{room}"), name)
            return value
        if name.isidentifier() and not name.startswith("_"):
            try:
                return import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)

    def names() -> list[str]:
        return sorted({*namespace, *room_of})

    return found, names
