"""A cached property without a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property

    computed_once = cached_property
else:

    class computed_once:
        """A property that is computed when first asked for, as ``functools.cached_property`` of Python 3.12.

        The one of Python 3.11 holds a lock, one for all objects of the class, while it computes. Threads that ask each
        other for what they need, as the processes of a group do, would then wait for each other for ever.
        """

        def __init__(self, compute: Any) -> None:
            self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

        def __get__(self, owner: Any, kind: type) -> Any:
            if owner is None:
                return self
            value = vars(owner)[self.name] = self.compute(owner)
            return value
