"""HTTP libraries are optional; who asks for one that is not there is told how to get it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

KNOWN = ("httpx2", "httpx")


def loaded(name: str) -> Any:
    """The module *name*, one of httpx2, httpx and requests. Raises ImportError with the cure."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f'{name} is not installed; pip install "lastcall[http]" brings it', name=name
        ) from error


def library_of(thing: Any) -> Any:
    """The library that an object of httpx2 or httpx comes from, or its class was made from."""
    roots = [kind.__module__.partition(".")[0] for kind in type(thing).__mro__]
    return loaded(next((root for root in roots if root in KNOWN), roots[0]))
