"""A cached property without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class computed_once(Generic[T]):
    """A property that is computed when first asked for, as ``functools.cached_property`` of Python 3.12.

    The one of Python 3.11 holds a lock, one for all objects of the class, while it computes. Threads that ask each
    other for what they need, as the processes of a group do, would then wait for each other for ever.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> computed_once[T]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> T: ...

    def __get__(self, owner: object | None, kind: type) -> computed_once[T] | T:
        if owner is None:
            return self
        value = vars(owner)[self.name] = self.compute(owner)
        return value
