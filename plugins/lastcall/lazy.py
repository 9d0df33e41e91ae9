"""A value worked out when it is first asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - it is read as a decorator
    """`functools.cached_property` without its lock, which costs more than most of what is kept here.

    Two threads may work the value out twice; it is the same.
    """

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work = work
        self._name = work.__name__
        self.__doc__ = work.__doc__

    @overload
    def __get__(self, owner: None, of: type[Any]) -> Self: ...
    @overload
    def __get__(self, owner: object, of: type[Any]) -> T: ...
    def __get__(self, owner: object | None, of: type[Any]) -> Self | T:
        if owner is None:
            return self
        value = owner.__dict__[self._name] = self._work(owner)
        return value
