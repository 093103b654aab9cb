"""Names of arrays and of findings, the same in every module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Indices = Integers  # places in other arrays
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]  # by name, of any type
Notify = Callable[[str], object]  # takes a sentence for a person
Level = str | int | float | bool  # of a factor in a table


class Finding(NamedTuple):
    """One thing that a check looked at."""

    fine: bool
    sentence: str
    open: bool = False
    """Whether it could not be looked at: nothing is known to be wrong, and nothing to be right."""
